// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// \file
/// Rossby-Haurwitz waves: weather on a sphere of which the future is known exactly.
///
/// The barotropic vorticity equation  d(zeta)/dt + J(psi, zeta + 2 Omega sin(latitude)) = 0,
/// zeta = laplacian(psi), is solved exactly by a solid rotation of the air with angular velocity
/// omega and on it any sum of spherical harmonics of ONE total degree n: as a whole the pattern
/// turns eastward, without changing its form, by
///     omega - 2 (Omega + omega) / (n (n + 1))      radians a second.
/// For then the wave's vorticity is -n(n+1)/a^2 times its streamfunction, and so nothing is left of
/// the waves' advection of themselves; what is left is linear. Harmonics of two degrees interact.
///
/// * B. Haurwitz, "The motion of atmospheric disturbances on the spherical earth", Journal of
/// Marine
///   Research 3 (1940), 254-267.
/// * R. A. Craig, "A solution of the nonlinear vorticity equation for atmospheric motion", Journal
/// of
///   Meteorology 2 (1945), 175-178.
/// * S. M. Neamtan, "The motion of harmonic waves in the atmosphere", Journal of Meteorology 3
///   (1946), 53-56.

namespace emulator {

inline constexpr double earth_radius   = 6.371e6;   ///< a, in m
inline constexpr double earth_rotation = 7.292e-5;  ///< Omega, in radians a second

/// Fully normalised associated Legendre functions of degree \p n at \p latitude (radians), orders
/// m = 0..n: P[m] cos(m longitude) and P[m] sin(m longitude) have mean square 1 over the sphere,
/// and no sign (-1)^m. By recursion in the degree at constant order, which is stable (S. Holmes and
/// W. Featherstone, Journal of Geodesy 76 (2002), 279-299, section 2.1); for n up to several
/// hundred.
std::vector<double> legendre(int n, double latitude);

/// P[m] / cos(latitude) for m = 1..n (entry 0 is 0), finite at the poles.
std::vector<double> legendre_over_cosine(int n, double latitude);

/// The derivatives of P[m] in latitude, m = 0..n, finite at the poles.
std::vector<double> legendre_derivative(int n, double latitude);

/// What can be asked of the flow. Scalars fold over a pole as they are, the two wind components
/// with a change of sign.
enum class WaveField {
  vorticity,            ///< relative vorticity zeta, of waves and solid rotation, 1/s
  streamfunction,       ///< psi, of both, m2/s
  wave_vorticity,       ///< of the waves alone, 1/s
  wave_streamfunction,  ///< of the waves alone, m2/s
  zonal_wind,           ///< u, m/s; a vector's component
  meridional_wind,      ///< v, m/s; a vector's component
  angular_momentum      ///< u cos(latitude), m/s: a scalar that tells omega by its global mean
};

/// The field's name as in a table, and its units.
struct WaveFieldName {
  std::string name, units;
};
WaveFieldName describe(WaveField field);

/// What the emulator is fed with. Of waves on a known solid rotation these two are all that counts,
/// and they make the forecast easy to learn: the pattern's velocity belongs to the degree, and the
/// degree to the ratio of the two. Their tendency is linear,
///     d(zeta)/dt = -omega d(zeta)/d(lon) - 2 (Omega + omega) / a^2 d(psi)/d(lon),
/// and so, to 4 % of the field, is the state 12 h later: filters along longitude.
/// Both are scalars, and fold over the poles alike.
inline constexpr std::array<WaveField, 2> wave_state{WaveField::wave_vorticity,
                                                     WaveField::wave_streamfunction};

/// What the samples are drawn from. By default all flows have the same solid rotation, that of a
/// strong jet, under which no degree stands still. Where it is drawn from a range the state must
/// tell it: add angular_momentum to its fields.
struct WaveOptions {
  int lowest_degree   = 3;  ///< n is drawn evenly from lowest to highest degree
  int highest_degree  = 8;
  double slowest_wind = 40.0;  ///< omega a, m/s: the solid rotation's wind at the equator is drawn
  double fastest_wind = 40.0;  ///< evenly from slowest to fastest
  double wave_wind    = 10.0;  ///< m/s, root mean square of the waves' wind speed (its expectation)
};

/// One flow. Everything follows from (seed, index), on any number of ranks.
class WaveSample {
 public:
  /// Draws sample \p index. Throws std::invalid_argument for options that make no sense.
  WaveSample(std::uint64_t seed, std::uint64_t index, const WaveOptions& options = {});

  /// A flow of given degree, solid rotation (radians a second) and coefficients of the
  /// streamfunction in m2/s: \p cosine and \p sine have n + 1 entries, for orders 0..n.
  WaveSample(int degree, double solid_rotation, std::vector<double> cosine,
             std::vector<double> sine);

  [[nodiscard]] int degree() const { return degree_; }
  /// omega, radians a second.
  [[nodiscard]] double solid_rotation() const { return omega_; }
  /// The pattern's angular velocity, eastward, radians a second.
  [[nodiscard]] double pattern_velocity() const;

  /// The field at a point (degrees) and time (seconds).
  [[nodiscard]] double value(WaveField field, double latitude, double longitude, double time) const;

  /// The field on a box of a grid, row by row: bitwise what value() gives for each cell, whatever
  /// the box. \p values has latitudes.size() x longitudes.size() entries.
  void fill(WaveField field, std::span<const double> latitudes, std::span<const double> longitudes,
            double time, std::span<double> values) const;

 private:
  struct Row;  // what the points of a latitude have in common
  [[nodiscard]] Row row(WaveField field, double latitude, double time) const;

  int degree_   = 0;
  double omega_ = 0.0;
  std::vector<double> cosine_, sine_;
};

/// Root mean square of a field over samples and the globe, and of what persistence ("no change")
/// gets wrong about it after some time: the yardstick of every forecast.
struct WaveStatistics {
  double mean        = 0.0;  ///< over samples and area
  double deviation   = 0.0;  ///< root mean square about the mean
  double persistence = 0.0;  ///< root mean square of state(t + step) - state(t)
};

/// These over samples 0..samples-1, on a grid of \p rows x \p columns with the poles on rows.
WaveStatistics wave_statistics(std::uint64_t seed, const WaveOptions& options, WaveField field,
                               double step_seconds, int samples, int rows = 61, int columns = 120);

}  // namespace emulator
