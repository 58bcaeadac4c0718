// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "peak.hpp"

#include <algorithm>
#include <ctime>

namespace {

#if defined(__AVX512F__)
constexpr int bytes = 64, sums = 24;
#elif defined(__AVX__)
constexpr int bytes = 32, sums = 12;
#else
constexpr int bytes = 16, sums = 12;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
};

template <class Vector>
void keep(Vector& in_register) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(in_register));
#else
  asm volatile("" : "+w"(in_register));
#endif
}

/// `sums` chains of multiply-adds. No inlining: each try computes the same anew.
template <class T>
[[gnu::noinline]] T multiply_adds(long steps, T factor, T summand) {
  using Vector   = typename VectorOf<T>::type;
  const Vector a = factor - Vector{}, b = summand - Vector{};
  Vector s[sums];
  for (int i = 0; i < sums; ++i) s[i] = b + static_cast<T>(i);
  for (long step = 0; step < steps; ++step) {
#pragma GCC unroll 32
    for (int i = 0; i < sums; ++i) s[i] = s[i] * a + b;
      // Nothing is summed up in advance, and the sums stay where they are: in registers.
#pragma GCC unroll 32
    for (int i = 0; i < sums; ++i) keep(s[i]);
  }
  T all = 0;
  for (int i = 0; i < sums; ++i)
    for (int l = 0; l < bytes / static_cast<int>(sizeof(T)); ++l) all += s[i][l];
  return all;
}

}  // namespace

template <class T>
double register_peak(int tries) {
  constexpr long steps   = 400000;
  constexpr double flops = 2.0 * sums * (bytes / sizeof(T)) * steps;
  double best            = 0.0;
  volatile T keep        = 0;
  for (int i = 0; i < tries; ++i) {
    const std::clock_t begin = std::clock();
    keep              = multiply_adds<T>(steps, T(0.5), T(1));
    const double time = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best              = std::max(best, flops / time * 1e-9);
  }
  static_cast<void>(keep);
  return best;
}

template double register_peak<float>(int tries);
template double register_peak<double>(int tries);
