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

/// Sums that the compiler keeps in registers: members, not an array.
template <class Vector, int Count>
struct Chains {
  Vector sum;
  Chains<Vector, Count - 1> others;

  void begin(Vector with) {
    sum = with + static_cast<float>(Count);
    others.begin(with);
  }
  void step(Vector factor, Vector summand) {
    sum = sum * factor + summand;
    others.step(factor, summand);
  }
  Vector total() const { return sum + others.total(); }
};
template <class Vector>
struct Chains<Vector, 0> {
  void begin(Vector) {}
  void step(Vector, Vector) {}
  Vector total() const { return Vector{}; }
};

/// `sums` chains of multiply-adds. No inlining: each try computes the same anew.
template <class T>
[[gnu::noinline]] T multiply_adds(long steps, T factor, T summand) {
  using Vector   = typename VectorOf<T>::type;
  const Vector a = factor - Vector{}, b = summand - Vector{};
  Chains<Vector, sums> chains;
  chains.begin(b);
  for (long step = 0; step < steps; ++step) chains.step(a, b);
  const Vector total = chains.total();
  T all              = 0;
  for (int l = 0; l < bytes / static_cast<int>(sizeof(T)); ++l) all += total[l];
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
    keep                     = multiply_adds<T>(steps, T(0.5), T(1));
    const double time        = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best                     = std::max(best, flops / time * 1e-9);
  }
  static_cast<void>(keep);
  return best;
}

template double register_peak<float>(int tries);
template double register_peak<double>(int tries);
