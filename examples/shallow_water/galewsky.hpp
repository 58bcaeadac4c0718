// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The jet of Galewsky, Scott and Polvani 2004 (Tellus 56A, 429-440): balanced, so the start is the
// answer, or with a perturbation that makes it roll up within six days.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_GALEWSKY_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_GALEWSKY_HPP

#include "williamson.hpp"

class Galewsky {
 public:
  explicit Galewsky(bool perturbed)
      : perturbation_(perturbed ? 120 : 0), rest_(10000 + integral<true>(end) / (2 * gravity)) {}

  /// Whether the answer at any time is known, and the answer.
  bool has_answer() const { return perturbation_ == 0; }
  const Galewsky& at(double) const { return *this; }

  KOKKOS_FUNCTION double coriolis(double lat, double) const { return 2 * omega * Kokkos::sin(lat); }
  KOKKOS_FUNCTION double relief(double, double) const { return 0; }
  KOKKOS_FUNCTION double east(double lat, double) const {
    return lat <= begin || lat >= end ? 0
                                      : 80 * Kokkos::exp(1 / ((lat - begin) * (lat - end)) +
                                                         4 / ((end - begin) * (end - begin)));
  }
  KOKKOS_FUNCTION double north(double, double) const { return 0; }
  KOKKOS_FUNCTION double depth(double lat, double lon) const {
    const double x = 3 * (lon > pi ? lon - 2 * pi : lon), y = 15 * (pi / 4 - lat);
    return rest_ - integral<false>(Kokkos::fmin(lat, end)) / gravity +
           perturbation_ * Kokkos::cos(lat) * Kokkos::exp(-x * x - y * y);
  }

 private:
  static constexpr double begin = pi / 7, end = pi / 2 - begin;

  /// By Simpson's rule: the integral of the balanced slope up to a latitude; `mean`: twice its mean
  /// over the sphere.
  template <bool mean>
  KOKKOS_FUNCTION double integral(double to) const {
    constexpr int n   = 256;
    const double step = (to - begin) / n;
    double sum        = 0;
    for (int k = 0; step > 0 && k <= n; ++k) {
      const double lat = begin + k * step, u = east(lat, 0);
      const double slope = u * (radius * coriolis(lat, 0) + Kokkos::tan(lat) * u);
      sum += (k == 0 || k == n ? 1
              : k % 2 == 1     ? 4
                               : 2) *
             slope * (mean ? 1 - Kokkos::sin(lat) : 1);
    }
    return step > 0 ? sum * step / 3 : 0;
  }

  double perturbation_, rest_;
};

#endif
