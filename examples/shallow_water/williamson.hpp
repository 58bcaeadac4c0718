// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases 1, 2, 5 and 6 of Williamson et al. 1992 (J. Comput. Phys. 102, 211-224) as functions of
// latitude and longitude, in radians.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_WILLIAMSON_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_WILLIAMSON_HPP

#include <Kokkos_Core.hpp>

constexpr double pi = 3.14159265358979323846, radius = 6371220, gravity = 9.80616, omega = 7.292e-5,
                 day = 86400;

struct Williamson {
  int number;        // 1: a bell in a given wind; 2: steady rotation; 5: flow over a mountain; 6:
                     // Rossby-Haurwitz wave
  double alpha = 0;  // of cases 1 and 2: the angle between the flow's axis and the earth's
  double time  = 0;  // in seconds; only the bell depends on it

  /// Whether the answer at any time is known, and the answer.
  bool has_answer() const { return number <= 2; }
  Williamson at(double seconds) const { return {number, alpha, seconds}; }

  /// The speed of the rotation of cases 1, 2 and 5.
  KOKKOS_FUNCTION double speed() const { return number == 5 ? 20 : 2 * pi * radius / (12 * day); }
  /// The sine of the latitude about the flow's axis.
  KOKKOS_FUNCTION double height_on_axis(double lat, double lon) const {
    return Kokkos::sin(lat) * Kokkos::cos(alpha) -
           Kokkos::cos(lon) * Kokkos::cos(lat) * Kokkos::sin(alpha);
  }
  KOKKOS_FUNCTION double coriolis(double lat, double lon) const {
    return 2 * omega * height_on_axis(lat, lon);
  }
  /// The ground.
  KOKKOS_FUNCTION double relief(double lat, double lon) const {
    if (number != 5) return 0;
    const double x = lon - 1.5 * pi, y = lat - pi / 6;
    return 2000 * (1 - Kokkos::fmin(1.0, Kokkos::sqrt(x * x + y * y) / (pi / 9)));
  }
  /// The depth of the water.
  KOKKOS_FUNCTION double depth(double lat, double lon) const {
    if (number == 1) return bell(lat, lon);
    if (number == 6) return wave_depth(lat, lon);
    const double rest = number == 5 ? 5960 : 2.94e4 / gravity, s = height_on_axis(lat, lon);
    return rest - (radius * omega * speed() + speed() * speed() / 2) * s * s / gravity -
           relief(lat, lon);
  }
  /// The velocity towards the east.
  KOKKOS_FUNCTION double east(double lat, double lon) const {
    const double c = Kokkos::cos(lat), s = Kokkos::sin(lat);
    if (number == 6)
      return radius * wave * (c + c * c * c * (4 * s * s - c * c) * Kokkos::cos(4 * lon));
    return speed() * (c * Kokkos::cos(alpha) + s * Kokkos::cos(lon) * Kokkos::sin(alpha));
  }
  /// The velocity towards the north.
  KOKKOS_FUNCTION double north(double lat, double lon) const {
    const double c = Kokkos::cos(lat);
    if (number == 6)
      return -4 * radius * wave * c * c * c * Kokkos::sin(lat) * Kokkos::sin(4 * lon);
    return -speed() * Kokkos::sin(lon) * Kokkos::sin(alpha);
  }

 private:
  static constexpr double wave = 7.848e-6;  // omega and K of the paper, per second
  /// The cosine bell, which begins at 90 degrees west on the equator and turns about the flow's
  /// axis.
  KOKKOS_FUNCTION double bell(double lat, double lon) const {
    const double turned = speed() * time / radius, c = Kokkos::cos(turned), s = Kokkos::sin(turned);
    const double along =
        Kokkos::cos(lat) * (s * Kokkos::cos(alpha) * Kokkos::cos(lon) - c * Kokkos::sin(lon)) +
        s * Kokkos::sin(alpha) * Kokkos::sin(lat);
    const double distance = 3 * Kokkos::acos(Kokkos::fmax(-1.0, Kokkos::fmin(1.0, along)));
    return distance < 1 ? 500 * (1 + Kokkos::cos(pi * distance)) : 0;
  }
  /// Equations 146 to 149, of wave number 4.
  KOKKOS_FUNCTION double wave_depth(double lat, double lon) const {
    const double c2 = Kokkos::cos(lat) * Kokkos::cos(lat), c4 = c2 * c2, c8 = c4 * c4;
    const double a = wave / 2 * (2 * omega + wave) * c2 +
                     wave * wave / 4 * (5 * c8 * c2 + 26 * c8 - 32 * c4 * c2);
    const double b = (omega + wave) * wave / 15 * c4 * (26 - 25 * c2);
    const double c = wave * wave / 4 * c8 * (5 * c2 - 6);
    return 8000 +
           radius * radius / gravity * (a + b * Kokkos::cos(4 * lon) + c * Kokkos::cos(8 * lon));
  }
};

#endif
