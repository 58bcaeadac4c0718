// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "timing.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

#include "peak.hpp"
#include "shard/base/impl/host_space.hpp"
#include "support/turns.hpp"

namespace {

constexpr bool is_host = shard::impl::is_host_space_v<Space>;
clockid_t used_clock   = is_host ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;

/// Seconds of this process, all threads together, or of the clock.
double now() {
  timespec time{};
  clock_gettime(used_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// GB/s of a copy of `bytes`, half of them read, half written.
double copy_rate(double bytes) {
  const Kokkos::View<char*> from("from", static_cast<std::size_t>(bytes / 2)),
      to("to", from.extent(0));
  const Space space;
  return bytes * 1e-9 / seconds_of(0.02, [&] { Kokkos::deep_copy(space, to, from); });
}

/// What one call does by Kokkos. A library's own kernels (cuBLAS) aren't counted.
struct Counts {
  int kernels, copies, fences;
} counts;

void count_kernel(const char*, std::uint32_t, std::uint64_t*) { ++counts.kernels; }
void count_copy(Kokkos::Tools::SpaceHandle, const char*, const void*, Kokkos::Tools::SpaceHandle,
                const char*, const void*, std::uint64_t) {
  ++counts.copies;
}
void count_fence(const char* label, std::uint32_t, std::uint64_t*) {
  // Kokkos fences before each callback
  if (std::string_view(label).find("Profile Tool Fence") == std::string_view::npos) ++counts.fences;
}

void set_callbacks(bool on) {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(on ? count_kernel : nullptr);
  tools::set_begin_parallel_reduce_callback(on ? count_kernel : nullptr);
  tools::set_begin_parallel_scan_callback(on ? count_kernel : nullptr);
  tools::set_begin_deep_copy_callback(on ? count_copy : nullptr);
  tools::set_begin_fence_callback(on ? count_fence : nullptr);
}

Counts counts_of(const std::function<void()>& call) {
  set_callbacks(true);
  counts = {};
  call();
  const Counts of_call = counts;
  set_callbacks(false);
  return of_call;
}

}  // namespace

void use_wall_clock() { used_clock = CLOCK_MONOTONIC; }

double seconds_of(double least, const std::function<void()>& call) {
  const auto batch = [&](int count) {
    const double begin = now();
    for (int i = 0; i < count; ++i) call();
    Kokkos::fence();
    return (now() - begin) / count;
  };
  batch(1);  // plans and memory are made
  std::vector<double> times;
  if constexpr (is_host) {
    const double begin = now();
    while (times.size() < 3 || now() - begin < least) times.push_back(batch(1));
    return *std::min_element(times.begin(), times.end());
  }
  const int count = std::clamp(static_cast<int>(least / 5 / batch(1)), 1, 100);
  for (int i = 0; i < 5; ++i) times.push_back(batch(count));
  return support::median(times);
}

template <class T>
void answer(double least, const Work& work, const Calls& calls) {
  const bool computes = work.flops > 0;
  const auto limit    = [&](double bytes) {
    if (!computes) return bytes > 0 ? copy_rate(bytes) : 0.0;
    return is_host ? register_peak<T>(3) : 0.0;  // a device's isn't measured
  };
  std::printf("{\"flops\": %.6e, \"forward_bytes\": %.6e, \"backward_bytes\": %.6e", work.flops,
              work.forward_bytes, work.backward_bytes);
  const auto time = [&](const char* name, const std::function<void()>& call) {
    if (call) std::printf(", \"%s\": %.6e", name, seconds_of(least, call));
  };
  const auto time_whole = [&](const std::string& name, const std::function<void()>& call,
                              double bytes) {
    if (!call) return;
    time(name.c_str(), call);
    const Counts once = counts_of(call);
    std::printf(", \"%s_limit\": %.1f, \"%s_counts\": [%d, %d, %d]", name.c_str(), limit(bytes),
                name.c_str(), once.kernels, once.copies, once.fences);
  };
  time_whole("forward", calls.forward, work.forward_bytes);
  time_whole("backward", calls.backward, work.backward_bytes);
  time("of_input", calls.of_input);
  time("of_parameters", calls.of_parameters);
  std::printf("}\n");
}

template void answer<float>(double, const Work&, const Calls&);
template void answer<double>(double, const Work&, const Calls&);
