// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/waves.hpp"

#include "emulator/random.hpp"

#include <shard/io/grid.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace emulator {
namespace {

constexpr double radian = std::numbers::pi / 180.0;

/// Degree n, order m from the sectoral value \p seed of order m (P[m] of degree m, or that over the
/// cosine: the recursion is linear in it).
double climb(int n, int m, double seed, double sine) {
  double before = 0.0, now = seed;
  for (int l = m + 1; l <= n; ++l) {
    const double l2 = static_cast<double>(l) * l, m2 = static_cast<double>(m) * m;
    const double k = l - 1.0, k2 = k * k;
    const double a    = std::sqrt((4.0 * l2 - 1.0) / (l2 - m2));
    const double b    = std::sqrt((2.0 * l + 1.0) * (k2 - m2) / ((2.0 * l - 3.0) * (l2 - m2)));
    const double next = a * sine * now - (l - 1 > m ? b * before : 0.0);
    before            = now;
    now               = next;
  }
  return now;
}

/// P of degree m and order m is this times cos(latitude)^m.
double sectoral_factor(int m) {
  double factor = m > 0 ? std::sqrt(2.0) : 1.0;
  for (int k = 1; k <= m; ++k) factor *= std::sqrt((2.0 * k + 1.0) / (2.0 * k));
  return factor;
}

void require_degree(int n) {
  if (n < 0) {
    throw std::invalid_argument("emulator::legendre: degree " + std::to_string(n) +
                                " given, 0 is the least");
  }
}

bool is_wave_only(WaveField field) {
  return field == WaveField::wave_vorticity || field == WaveField::wave_streamfunction;
}

}  // namespace

std::vector<double> legendre(int n, double latitude) {
  require_degree(n);
  const double sine = std::sin(latitude), cosine = std::cos(latitude);
  std::vector<double> p(static_cast<std::size_t>(n) + 1);
  for (int m = 0; m <= n; ++m) {
    p[static_cast<std::size_t>(m)] = climb(n, m, sectoral_factor(m) * std::pow(cosine, m), sine);
  }
  return p;
}

std::vector<double> legendre_over_cosine(int n, double latitude) {
  require_degree(n);
  const double sine = std::sin(latitude), cosine = std::cos(latitude);
  std::vector<double> p(static_cast<std::size_t>(n) + 1, 0.0);
  for (int m = 1; m <= n; ++m) {
    p[static_cast<std::size_t>(m)] =
        climb(n, m, sectoral_factor(m) * std::pow(cosine, m - 1), sine);
  }
  return p;
}

std::vector<double> legendre_derivative(int n, double latitude) {
  // In the degree's own orders, without dividing by the cosine: raising minus lowering operator.
  const std::vector<double> p = legendre(n, latitude);
  std::vector<double> d(p.size(), 0.0);
  for (int m = 0; m <= n; ++m) {
    const auto k       = static_cast<std::size_t>(m);
    const double raise = std::sqrt((n - m) * (n + m + 1.0)) * (m == 0 ? std::sqrt(0.5) : 1.0);
    const double lower = std::sqrt((n + m) * (n - m + 1.0)) * (m == 1 ? std::sqrt(2.0) : 1.0);
    const double above = m < n ? raise * p[k + 1] : 0.0;
    d[k]               = m == 0 ? above : 0.5 * (above - lower * p[k - 1]);
  }
  return d;
}

WaveFieldName describe(WaveField field) {
  switch (field) {
    case WaveField::vorticity: return {"vorticity", "s-1"};
    case WaveField::streamfunction: return {"streamfunction", "m2 s-1"};
    case WaveField::wave_vorticity: return {"wave vorticity", "s-1"};
    case WaveField::wave_streamfunction: return {"wave streamfunction", "m2 s-1"};
    case WaveField::zonal_wind: return {"zonal wind", "m s-1"};
    case WaveField::meridional_wind: return {"meridional wind", "m s-1"};
    case WaveField::angular_momentum: return {"angular momentum", "m s-1"};
  }
  throw std::invalid_argument("emulator::describe: no such field");
}

WaveSample::WaveSample(std::uint64_t seed, std::uint64_t index, const WaveOptions& options) {
  if (options.lowest_degree < 1 || options.highest_degree < options.lowest_degree ||
      !(options.slowest_wind <= options.fastest_wind) || !(options.wave_wind >= 0.0)) {
    throw std::invalid_argument(
        "emulator::WaveSample: degrees " + std::to_string(options.lowest_degree) + " to " +
        std::to_string(options.highest_degree) + ", winds " + std::to_string(options.slowest_wind) +
        " to " + std::to_string(options.fastest_wind) + " m/s and waves of " +
        std::to_string(options.wave_wind) +
        " m/s asked for; degrees begin at 1, ranges go upward and speeds are not negative");
  }
  RandomStream random(seed, index);
  degree_ = random.integer(options.lowest_degree, options.highest_degree);
  omega_ =
      (options.slowest_wind + (options.fastest_wind - options.slowest_wind) * random.uniform()) /
      earth_radius;
  // 2n + 1 coefficients of equal variance s^2 give a streamfunction of variance (2n + 1) s^2
  // everywhere (addition theorem) and winds of mean square n(n+1) / a^2 times that.
  const double n = degree_;
  const double deviation =
      options.wave_wind * earth_radius / std::sqrt(n * (n + 1.0) * (2.0 * n + 1.0));
  for (int m = 0; m <= degree_; ++m) {
    cosine_.push_back(deviation * random.normal());
    sine_.push_back(m == 0 ? 0.0 : deviation * random.normal());
  }
}

WaveSample::WaveSample(int degree, double solid_rotation, std::vector<double> cosine,
                       std::vector<double> sine)
    : degree_(degree), omega_(solid_rotation), cosine_(std::move(cosine)), sine_(std::move(sine)) {
  if (degree < 1 || cosine_.size() != static_cast<std::size_t>(degree) + 1 ||
      sine_.size() != cosine_.size()) {
    throw std::invalid_argument("emulator::WaveSample: degree " + std::to_string(degree) +
                                " has orders 0 to " + std::to_string(degree) + ", but " +
                                std::to_string(cosine_.size()) + " cosine and " +
                                std::to_string(sine_.size()) + " sine coefficients were given");
  }
}

double WaveSample::pattern_velocity() const {
  return omega_ - 2.0 * (earth_rotation + omega_) / (degree_ * (degree_ + 1.0));
}

/// The field along a latitude is mean + sum over m of cosine[m] cos(m lon) + sine[m] sin(m lon).
struct WaveSample::Row {
  double mean = 0.0;
  std::vector<double> cosine, sine;

  /// \p waves: cos(m lon), sin(m lon) for m = 0, 1, ...; the order of the sum is part of the
  /// result.
  [[nodiscard]] double sum(const double* waves) const {
    double total = mean;
    for (std::size_t m = 0; m < cosine.size(); ++m) {
      total += cosine[m] * waves[2 * m] + sine[m] * waves[2 * m + 1];
    }
    return total;
  }
};

WaveSample::Row WaveSample::row(WaveField field, double latitude, double time) const {
  const double phi = latitude * radian;
  const double a   = earth_radius;
  Row result;
  result.cosine.resize(cosine_.size());
  result.sine.resize(cosine_.size());

  double factor = 1.0;
  std::vector<double> p;
  bool along = false;  // a derivative in longitude swaps cosine and sine
  switch (field) {
    case WaveField::streamfunction:
    case WaveField::wave_streamfunction:
      p           = legendre(degree_, phi);
      result.mean = -omega_ * a * a * std::sin(phi);
      break;
    case WaveField::vorticity:
    case WaveField::wave_vorticity:
      p           = legendre(degree_, phi);
      factor      = -degree_ * (degree_ + 1.0) / (a * a);
      result.mean = 2.0 * omega_ * std::sin(phi);
      break;
    case WaveField::zonal_wind:
      p           = legendre_derivative(degree_, phi);
      factor      = -1.0 / a;
      result.mean = omega_ * a * std::cos(phi);
      break;
    case WaveField::angular_momentum:
      p           = legendre_derivative(degree_, phi);
      factor      = -std::cos(phi) / a;
      result.mean = omega_ * a * std::cos(phi) * std::cos(phi);
      break;
    case WaveField::meridional_wind:
      p      = legendre_over_cosine(degree_, phi);
      factor = 1.0 / a;
      along  = true;
      break;
  }
  if (is_wave_only(field)) result.mean = 0.0;

  const double turned = pattern_velocity() * time;
  for (std::size_t m = 0; m < cosine_.size(); ++m) {
    const double order = static_cast<double>(m);
    const double c = std::cos(order * turned), s = std::sin(order * turned);
    const double on_cosine = cosine_[m] * c - sine_[m] * s;
    const double on_sine   = cosine_[m] * s + sine_[m] * c;
    const double scale     = factor * p[m];
    result.cosine[m]       = along ? scale * order * on_sine : scale * on_cosine;
    result.sine[m]         = along ? -scale * order * on_cosine : scale * on_sine;
  }
  return result;
}

namespace {

/// cos and sin of m times the longitude, m = 0..n.
void waves_at(double longitude, std::size_t orders, double* waves) {
  for (std::size_t m = 0; m < orders; ++m) {
    const double angle = static_cast<double>(m) * (longitude * radian);
    waves[2 * m]       = std::cos(angle);
    waves[2 * m + 1]   = std::sin(angle);
  }
}

}  // namespace

double WaveSample::value(WaveField field, double latitude, double longitude, double time) const {
  double result = 0.0;
  fill(field, {&latitude, 1}, {&longitude, 1}, time, {&result, 1});
  return result;
}

void WaveSample::fill(WaveField field, std::span<const double> latitudes,
                      std::span<const double> longitudes, double time,
                      std::span<double> values) const {
  if (values.size() != latitudes.size() * longitudes.size()) {
    throw std::invalid_argument("emulator::WaveSample::fill: " + std::to_string(latitudes.size()) +
                                " x " + std::to_string(longitudes.size()) +
                                " cells, but room for " + std::to_string(values.size()) +
                                " values");
  }
  const std::size_t stride = 2 * cosine_.size();
  std::vector<double> waves(stride * longitudes.size());
  for (std::size_t j = 0; j < longitudes.size(); ++j) {
    waves_at(longitudes[j], cosine_.size(), &waves[j * stride]);
  }
  std::size_t k = 0;
  for (const double latitude : latitudes) {
    const Row along = row(field, latitude, time);
    for (std::size_t j = 0; j < longitudes.size(); ++j) values[k++] = along.sum(&waves[j * stride]);
  }
}

WaveStatistics wave_statistics(std::uint64_t seed, const WaveOptions& options, WaveField field,
                               double step_seconds, int samples, int rows, int columns) {
  const std::vector<double> latitudes  = shard::latitudes_with_poles(rows);
  const std::vector<double> longitudes = shard::global_longitudes(columns);
  const std::vector<double> weights    = shard::area_weights(latitudes);
  const auto width                     = static_cast<std::size_t>(columns);
  std::vector<double> now(latitudes.size() * width), later(now.size());
  double sum = 0.0, squares = 0.0, changes = 0.0;
  for (int s = 0; s < samples; ++s) {
    const WaveSample sample(seed, static_cast<std::uint64_t>(s), options);
    sample.fill(field, latitudes, longitudes, 0.0, now);
    sample.fill(field, latitudes, longitudes, step_seconds, later);
    for (std::size_t k = 0; k < now.size(); ++k) {
      const double weight = weights[k / width] / columns / samples;
      sum += weight * now[k];
      squares += weight * now[k] * now[k];
      changes += weight * (later[k] - now[k]) * (later[k] - now[k]);
    }
  }
  return {sum, std::sqrt(std::max(0.0, squares - sum * sum)), std::sqrt(changes)};
}

}  // namespace emulator
