// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/random.hpp"
#include "emulator/waves.hpp"

#include <shard/io/grid.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace {

using emulator::earth_radius;
using emulator::earth_rotation;
using emulator::WaveField;
using emulator::WaveOptions;
using emulator::WaveSample;

constexpr double pi       = std::numbers::pi;
constexpr double degree   = pi / 180.0;
constexpr double half_day = 43200.0;

/// Nodes (sines of latitude) and weights of Gauss-Legendre quadrature on [-1, 1].
struct Quadrature {
  std::vector<double> nodes, weights;
};
Quadrature gauss(int n) {
  Quadrature q;
  for (int k = 0; k < n; ++k) {
    double x = std::cos(pi * (k + 0.75) / (n + 0.5)), slope = 1.0;
    for (int newton = 0; newton < 50; ++newton) {
      double p = 1.0, before = 0.0;
      for (int l = 1; l <= n; ++l) {
        const double next = ((2.0 * l - 1.0) * x * p - (l - 1.0) * before) / l;
        before            = p;
        p                 = next;
      }
      slope = n * (x * p - before) / (x * x - 1.0);
      x -= p / slope;
    }
    q.nodes.push_back(x);
    q.weights.push_back(2.0 / ((1.0 - x * x) * slope * slope));
  }
  return q;
}

TEST(Random, PhiloxGivesItsPublishedValues) {
  // Known answers of the Random123 distribution.
  EXPECT_EQ(emulator::philox({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      emulator::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Random, StreamsHaveTheRightMoments) {
  emulator::RandomStream random(7, 3);
  double mean = 0.0, square = 0.0, fourth = 0.0;
  const int count = 100000;
  for (int k = 0; k < count; ++k) {
    const double x = random.normal();
    mean += x / count;
    square += x * x / count;
    fourth += x * x * x * x / count;
  }
  EXPECT_NEAR(mean, 0.0, 0.015);
  EXPECT_NEAR(square, 1.0, 0.02);
  EXPECT_NEAR(fourth, 3.0, 0.15);
  std::array<int, 6> counts{};
  for (int k = 0; k < 6000; ++k) ++counts[static_cast<std::size_t>(random.integer(3, 8) - 3)];
  for (const int c : counts) EXPECT_NEAR(c, 1000, 130);
}

TEST(Harmonics, AreOrthonormal) {
  // Over longitude different orders are orthogonal by themselves; over latitude degrees of one
  // order must be, with mean square 1 (1/2 for what the cosine or sine brings).
  const Quadrature q = gauss(40);
  const int most     = 30;
  std::vector<std::vector<std::vector<double>>> p;  // [degree][node][order]
  for (int n = 0; n <= most; ++n) {
    p.emplace_back();
    for (const double sine : q.nodes) p.back().push_back(emulator::legendre(n, std::asin(sine)));
  }
  double worst = 0.0;
  for (int n = 0; n <= most; ++n) {
    for (int l = 0; l <= n; ++l) {
      for (int m = 0; m <= l; ++m) {
        const auto k   = static_cast<std::size_t>(m);
        double product = 0.0;
        for (std::size_t i = 0; i < q.nodes.size(); ++i) {
          product += 0.5 * q.weights[i] * p[static_cast<std::size_t>(n)][i][k] *
                     p[static_cast<std::size_t>(l)][i][k] * (m == 0 ? 1.0 : 0.5);
        }
        worst = std::max(worst, std::abs(product - (n == l ? 1.0 : 0.0)));
      }
    }
  }
  EXPECT_LT(worst, 1e-12);
}

TEST(Harmonics, ObeyTheAdditionTheorem) {
  // sum over m of Y(x) Y(y) = (2n + 1) P_n(cosine of the angle between x and y)
  for (const int n : {1, 3, 8, 40, 200}) {
    for (const double a : {-1.2, 0.0, 0.4, 1.5}) {
      for (const double b : {-0.9, 0.4}) {
        const double turn = 0.7;
        const auto pa = emulator::legendre(n, a), pb = emulator::legendre(n, b);
        double sum = 0.0;
        for (int m = 0; m <= n; ++m) {
          const auto k = static_cast<std::size_t>(m);
          sum += pa[k] * pb[k] * std::cos(m * turn);
        }
        const double x = std::sin(a) * std::sin(b) + std::cos(a) * std::cos(b) * std::cos(turn);
        double p = 1.0, before = 0.0;
        for (int l = 1; l <= n; ++l) {
          const double next = ((2.0 * l - 1.0) * x * p - (l - 1.0) * before) / l;
          before            = p;
          p                 = next;
        }
        EXPECT_NEAR(sum / (2.0 * n + 1.0), p, 1e-11) << n;
      }
    }
  }
}

TEST(Harmonics, DerivativeAndQuotientAreRightAndFiniteAtThePoles) {
  for (const int n : {1, 2, 5, 8, 20}) {
    for (const double latitude : {-1.3, -0.2, 0.0, 0.8, 1.4}) {
      const double h   = 1e-5;
      const auto above = emulator::legendre(n, latitude + h);
      const auto below = emulator::legendre(n, latitude - h);
      const auto p     = emulator::legendre(n, latitude);
      const auto d     = emulator::legendre_derivative(n, latitude);
      const auto q     = emulator::legendre_over_cosine(n, latitude);
      for (std::size_t m = 0; m <= static_cast<std::size_t>(n); ++m) {
        EXPECT_NEAR(d[m], (above[m] - below[m]) / (2.0 * h), 1e-6) << n << " " << m;
        if (m > 0) {
          EXPECT_NEAR(q[m] * std::cos(latitude), p[m], 1e-12) << n << " " << m;
        }
      }
    }
    const auto d = emulator::legendre_derivative(n, pi / 2.0);
    const auto q = emulator::legendre_over_cosine(n, pi / 2.0);
    EXPECT_NEAR(std::abs(d[1]), std::abs(q[1]), 1e-12);  // wind at the pole has one speed
    EXPECT_NEAR(d[0], 0.0, 1e-12);
  }
}

TEST(Waves, FollowFromSeedAndIndexAlone) {
  const WaveSample a(1, 5), b(1, 5), c(1, 6), d(2, 5);
  const auto at = [](const WaveSample& s) {
    return s.value(WaveField::vorticity, 33.0, 120.0, 0.0);
  };
  EXPECT_EQ(at(a), at(b));
  EXPECT_NE(at(a), at(c));
  EXPECT_NE(at(a), at(d));
  for (std::uint64_t k = 0; k < 200; ++k) {
    const WaveSample s(9, k);
    EXPECT_GE(s.degree(), 3);
    EXPECT_LE(s.degree(), 8);
    EXPECT_NEAR(s.solid_rotation() * earth_radius, 40.0, 1e-12);
  }
  WaveOptions options;
  options.slowest_wind = 10.0;
  options.fastest_wind = 40.0;
  double low = 1e9, high = 0.0;
  for (std::uint64_t k = 0; k < 200; ++k) {
    const double wind = WaveSample(9, k, options).solid_rotation() * earth_radius;
    low               = std::min(low, wind);
    high              = std::max(high, wind);
  }
  EXPECT_GE(low, 10.0);
  EXPECT_LT(low, 11.0);
  EXPECT_GT(high, 39.0);
  EXPECT_LE(high, 40.0);
}

TEST(Waves, AnyBoxHasTheValuesOfTheWhole) {
  const auto latitudes  = shard::latitudes_with_poles(13);
  const auto longitudes = shard::global_longitudes(16);
  const WaveSample sample(3, 1);
  for (const WaveField field :
       {WaveField::vorticity, WaveField::streamfunction, WaveField::wave_vorticity,
        WaveField::wave_streamfunction, WaveField::zonal_wind, WaveField::meridional_wind,
        WaveField::angular_momentum}) {
    std::vector<double> whole(13 * 16), part(3 * 5);
    sample.fill(field, latitudes, longitudes, half_day, whole);
    sample.fill(field, std::span(latitudes).subspan(10, 3), std::span(longitudes).subspan(7, 5),
                half_day, part);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_EQ(part[i * 5 + j], whole[(10 + i) * 16 + 7 + j]);
        EXPECT_EQ(part[i * 5 + j],
                  sample.value(field, latitudes[10 + i], longitudes[7 + j], half_day));
      }
    }
  }
}

TEST(Waves, TurnAsAWhole) {
  for (std::uint64_t k = 0; k < 10; ++k) {
    const WaveSample sample(4, k);
    const double n = sample.degree(), omega = sample.solid_rotation();
    EXPECT_NEAR(sample.pattern_velocity(), omega - 2.0 * (earth_rotation + omega) / (n * (n + 1)),
                1e-20);
    const double turned = sample.pattern_velocity() * half_day / degree;
    for (const WaveField field : {WaveField::vorticity, WaveField::zonal_wind,
                                  WaveField::meridional_wind, WaveField::streamfunction}) {
      const double scale = std::abs(sample.value(field, 20.0, 1.0, 0.0)) + 1e-30;
      EXPECT_NEAR(sample.value(field, 51.0, 77.0, half_day) / scale,
                  sample.value(field, 51.0, 77.0 - turned, 0.0) / scale, 1e-10);
    }
  }
}

TEST(Waves, FieldsBelongTogether) {
  // Winds and vorticity against finite differences of the streamfunction.
  const WaveSample sample(5, 2);
  const double h = 0.01, a = earth_radius, time = half_day;
  const auto psi = [&](double lat, double lon) {
    return sample.value(WaveField::streamfunction, lat, lon, time);
  };
  for (const double lat : {-70.0, -20.0, 5.0, 66.0}) {
    for (const double lon : {10.0, 200.0}) {
      const double cosine = std::cos(lat * degree);
      const double u      = -(psi(lat + h, lon) - psi(lat - h, lon)) / (2.0 * h * degree * a);
      const double v = (psi(lat, lon + h) - psi(lat, lon - h)) / (2.0 * h * degree * a * cosine);
      EXPECT_NEAR(sample.value(WaveField::zonal_wind, lat, lon, time), u, 1e-4);
      EXPECT_NEAR(sample.value(WaveField::meridional_wind, lat, lon, time), v, 1e-4);
      EXPECT_NEAR(sample.value(WaveField::angular_momentum, lat, lon, time), u * cosine, 1e-4);
      const double solid = sample.solid_rotation();
      EXPECT_NEAR(sample.value(WaveField::vorticity, lat, lon, time) -
                      sample.value(WaveField::wave_vorticity, lat, lon, time),
                  2.0 * solid * std::sin(lat * degree), 1e-18);
      EXPECT_NEAR(sample.value(WaveField::streamfunction, lat, lon, time) -
                      sample.value(WaveField::wave_streamfunction, lat, lon, time),
                  -solid * a * a * std::sin(lat * degree), 1e-5);
    }
  }
}

TEST(Waves, FoldOverThePole) {
  // Half the globe away beyond the pole: scalars go on as they are, the winds with their sign
  // turned.
  const WaveSample sample(6, 0);
  const double h = 1e-4;
  for (const double pole : {90.0, -90.0}) {
    const double inside = pole - std::copysign(h, pole);
    for (const WaveField field :
         {WaveField::vorticity, WaveField::streamfunction, WaveField::angular_momentum}) {
      const double scale = std::abs(sample.value(field, 10.0, 5.0, 0.0));
      EXPECT_NEAR(sample.value(field, inside, 40.0, 0.0) / scale,
                  sample.value(field, inside, 220.0, 0.0) / scale, 1e-4);
    }
    for (const WaveField field : {WaveField::zonal_wind, WaveField::meridional_wind}) {
      EXPECT_NEAR(sample.value(field, inside, 40.0, 0.0), -sample.value(field, inside, 220.0, 0.0),
                  1e-3);
    }
  }
}

/// Root mean square, relative to that of the tendency, of what is left of the barotropic vorticity
/// equation when all its derivatives are central differences of the streamfunction alone.
double residual(const WaveSample& sample, double step, double planet_rotation) {
  const double h = step * degree, a = earth_radius, dt = step * 3600.0;
  const auto psi = [&](double lat, double lon, double t) {
    return sample.value(WaveField::streamfunction, lat, lon, t);
  };
  const auto zeta = [&](double lat, double lon, double t) {
    const double c = std::cos(lat * degree), here = psi(lat, lon, t);
    const double north = psi(lat + step, lon, t), south = psi(lat - step, lon, t);
    const double east = psi(lat, lon + step, t), west = psi(lat, lon - step, t);
    return ((north - 2.0 * here + south) / (h * h) -
            std::tan(lat * degree) * (north - south) / (2.0 * h) +
            (east - 2.0 * here + west) / (h * h * c * c)) /
           (a * a);
  };
  const auto absolute = [&](double lat, double lon, double t) {
    return zeta(lat, lon, t) + 2.0 * planet_rotation * std::sin(lat * degree);
  };
  double left = 0.0, tendencies = 0.0;
  for (double lat = -65.0; lat <= 66.0; lat += 26.0) {
    for (double lon = 0.0; lon < 360.0; lon += 45.0) {
      const double t        = 7200.0;
      const double tendency = (zeta(lat, lon, t + dt) - zeta(lat, lon, t - dt)) / (2.0 * dt);
      const double psi_lon  = (psi(lat, lon + step, t) - psi(lat, lon - step, t)) / (2.0 * h);
      const double psi_lat  = (psi(lat + step, lon, t) - psi(lat - step, lon, t)) / (2.0 * h);
      const double q_lon =
          (absolute(lat, lon + step, t) - absolute(lat, lon - step, t)) / (2.0 * h);
      const double q_lat =
          (absolute(lat + step, lon, t) - absolute(lat - step, lon, t)) / (2.0 * h);
      const double jacobian =
          (psi_lon * q_lat - psi_lat * q_lon) / (a * a * std::cos(lat * degree));
      left += std::pow(tendency + jacobian, 2);
      tendencies += tendency * tendency;
    }
  }
  return std::sqrt(left / tendencies);
}

TEST(Waves, SolveTheBarotropicVorticityEquation) {
  for (std::uint64_t k = 0; k < 6; ++k) {
    const WaveSample sample(11, k);
    const double coarse = residual(sample, 1.0, earth_rotation);
    const double middle = residual(sample, 0.5, earth_rotation);
    const double fine   = residual(sample, 0.25, earth_rotation);
    EXPECT_NEAR(coarse / middle, 4.0, 0.3) << "degree " << sample.degree();
    EXPECT_NEAR(middle / fine, 4.0, 0.3) << "degree " << sample.degree();
    EXPECT_LT(fine, 0.02) << "degree " << sample.degree();
    // On a planet that turns otherwise it is no solution, and the differences show it.
    EXPECT_GT(residual(sample, 0.25, 1.2 * earth_rotation), 0.05);
  }
}

TEST(Waves, HaveTheSpeedAskedFor) {
  const auto latitudes  = shard::latitudes_with_poles(61);
  const auto longitudes = shard::global_longitudes(120);
  const auto weights    = shard::area_weights(latitudes);
  WaveOptions options;
  options.slowest_wind = options.fastest_wind = 0.0;  // the waves alone
  double square                               = 0.0;
  const int samples                           = 200;
  std::vector<double> u(61 * 120), v(61 * 120);
  for (int s = 0; s < samples; ++s) {
    const WaveSample sample(12, static_cast<std::uint64_t>(s), options);
    sample.fill(WaveField::zonal_wind, latitudes, longitudes, 0.0, u);
    sample.fill(WaveField::meridional_wind, latitudes, longitudes, 0.0, v);
    for (std::size_t k = 0; k < u.size(); ++k) {
      square += weights[k / 120] / 120.0 / samples * (u[k] * u[k] + v[k] * v[k]);
    }
  }
  EXPECT_NEAR(std::sqrt(square), 10.0, 0.3);
}

TEST(Waves, PersistenceIsABadForecastOfThem) {
  const auto vorticity = emulator::wave_statistics(1, {}, WaveField::wave_vorticity, half_day, 100);
  EXPECT_NEAR(vorticity.mean, 0.0, 1e-2 * vorticity.deviation);
  EXPECT_GT(vorticity.persistence, 0.55 * vorticity.deviation);
  const auto streamfunction =
      emulator::wave_statistics(1, {}, WaveField::wave_streamfunction, half_day, 100);
  EXPECT_GT(streamfunction.persistence, 0.4 * streamfunction.deviation);
  const auto twice = emulator::wave_statistics(1, {}, WaveField::wave_vorticity, 0.0, 5);
  EXPECT_EQ(twice.persistence, 0.0);
}

TEST(Waves, RefuseWhatMakesNoSense) {
  WaveOptions options;
  options.lowest_degree = 9;
  EXPECT_THROW(WaveSample(1, 1, options), std::invalid_argument);
  EXPECT_THROW(WaveSample(3, 1e-6, {1.0, 2.0}, {0.0, 1.0}), std::invalid_argument);
  std::vector<double> values(3);
  const std::vector<double> one{0.0};
  EXPECT_THROW(WaveSample(1, 1).fill(WaveField::vorticity, one, one, 0.0, values),
               std::invalid_argument);
}

}  // namespace
