// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The unsteady solution of Laeuter, Handorf and Dethloff 2005 (J. Comput. Phys. 210, 535-553,
// example 3): a rotation about an axis that is fixed in space, over a ground that makes the surface
// of water at rest a sphere. Nothing in it is zonal or steady.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_LAEUTER_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_LAEUTER_HPP

#include "williamson.hpp"

struct Laeuter {
  double time = 0;  // in seconds

  /// Whether the answer at any time is known, and the answer.
  bool has_answer() const { return true; }
  Laeuter at(double seconds) const { return {seconds}; }

  KOKKOS_FUNCTION double coriolis(double lat, double) const { return 2 * omega * Kokkos::sin(lat); }
  KOKKOS_FUNCTION double relief(double lat, double) const {
    const double earth = omega * radius * Kokkos::sin(lat);
    return earth * earth / (2 * gravity);
  }
  KOKKOS_FUNCTION double east(double lat, double lon) const {
    return speed *
           (slope * Kokkos::sin(lat) * Kokkos::cos(lon + omega * time) + slope * Kokkos::cos(lat));
  }
  KOKKOS_FUNCTION double north(double, double lon) const {
    return -speed * slope * Kokkos::sin(lon + omega * time);
  }
  KOKKOS_FUNCTION double depth(double lat, double lon) const {
    const double s       = Kokkos::sin(lat);
    const double on_axis = slope * (s - Kokkos::cos(lat) * Kokkos::cos(lon + omega * time));
    const double moving  = speed * on_axis + omega * radius * s;
    return (133681 - moving * moving / 2) / gravity;
  }

 private:
  static constexpr double speed = 2 * pi * radius / (12 * day),
                          slope = 0.70710678118654752440;  // the sine and cosine of 45 degrees
};

#endif
