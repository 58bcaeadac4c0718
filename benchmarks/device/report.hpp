// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_DEVICE_REPORT_HPP
#define SHARD_BENCHMARKS_DEVICE_REPORT_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "shard/layers/product_precision.hpp"

using Space = Kokkos::DefaultExecutionSpace;

inline std::string filter;
inline double most = 0.4;  // seconds for a case

/// Times a call and prints it. `bytes` is what it must read and write at least.
inline void report(const std::string& name, double flops, double bytes,
                   const std::function<void()>& call) {
  using clock    = std::chrono::steady_clock;
  const auto run = [&](int n) {
    Kokkos::fence();
    const auto begin = clock::now();
    for (int i = 0; i < n; ++i) call();
    Kokkos::fence();
    return std::chrono::duration<double>(clock::now() - begin).count() / n;
  };
  run(1);  // plans and memory are made
  std::vector<double> times{run(1)};
  const int n = std::clamp(static_cast<int>(most / 5 / times[0]), 1, 100);
  for (int k = 0; k < 5 && times[0] * n * k < most; ++k) times.push_back(run(n));
  if (times.size() > 1) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  const double s = times[times.size() / 2];
  std::printf("{\"name\": \"%s\", \"seconds\": %.4e, \"tflops\": %.3f, \"gbytes_per_s\": %.1f}\n",
              name.c_str(), s, flops / s * 1e-12, bytes / s * 1e-9);
  std::fflush(stdout);
}

/// The same for a layer whose products may be in TF32: a line for each precision.
inline void report_products(const std::string& name, double flops, double bytes,
                            const std::function<void()>& call) {
  report(name, flops, bytes, call);
  shard::set_product_precision(shard::ProductPrecision::tf32);
  report(name + " tf32", flops, bytes, call);
  shard::set_product_precision(shard::ProductPrecision::float32);
}

inline bool wanted(const std::string& name) { return name.find(filter) != std::string::npos; }

template <class View>
void fill(const View& view) {
  const auto host     = Kokkos::create_mirror_view(view);
  std::uint64_t state = 88172645463325252ULL;
  for (std::size_t i = 0; i < host.span(); ++i) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    host.data()[i] =
        static_cast<typename View::value_type>(static_cast<double>(state >> 11U) * 0x1.0p-52 - 1.0);
  }
  Kokkos::deep_copy(view, host);
}

/// The cases of solvers.cpp and training.cpp.
void time_solvers();
void time_training();

#endif
