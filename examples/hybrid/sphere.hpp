// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The latitude-longitude C-grid of the core: fields, cosines, and Rossby-Haurwitz waves as states.
#ifndef SHARD_EXAMPLES_HYBRID_SPHERE_HPP
#define SHARD_EXAMPLES_HYBRID_SPHERE_HPP

#include <cstddef>
#include <string_view>
#include <tuple>

#include "../latlon_grid.hpp"

namespace hybrid {

using latlon::AtPoints;
using latlon::Centres;
using latlon::Corners;
using latlon::index_t;
using latlon::Lat;
using latlon::Lon;
using latlon::Mesh;
using latlon::Souths;
using latlon::Space;
using latlon::Wests;

constexpr double hour = 3600;

/// Depth, velocity towards the east, velocity towards the north.
template <class T = double>
using State = std::tuple<Centres<T>, Wests<T>, Souths<T>>;

/// A grid of `rows` x 2 `rows` cells on a mesh.
struct Grid {
  Grid(const Mesh& on, index_t row_count)
      : mesh(on),
        rows(row_count),
        lat(shard::Partition::balanced(rows, on.size<Lat>())),
        lon(shard::Partition::balanced(2 * rows, on.size<Lon>())) {}
  /// Each cell divided into `ratio` x `ratio`, on the same rank.
  Grid refined(index_t ratio) const {
    Grid fine = *this;
    fine.rows = rows * ratio;
    fine.lat  = lat.refined(ratio, fine.rows);
    fine.lon  = lon.refined(ratio, 2 * fine.rows);
    return fine;
  }
  template <class Field>
  Field cells(std::string_view label) const {
    return Field(label, mesh, {lat, lon});
  }
  /// Fields with a row of points at each pole.
  template <class Field>
  Field staggered(std::string_view label) const {
    return Field(label, mesh, {lat.staggered(), lon});
  }
  template <class T = double>
  State<T> state() const {
    return {cells<Centres<T>>("h"), cells<Wests<T>>("u"), staggered<Souths<T>>("v")};
  }

  Mesh mesh;
  index_t rows;
  shard::Partition lat, lon;
};

/// The Coriolis parameter by global row, too.
struct Metric : latlon::Metric {
  explicit Metric(index_t rows)
      : latlon::Metric(rows), coriolis(latlon::numbers(rows + 1, [&](double j) {
          return -2 * omega * Kokkos::cos(j * step);
        })) {}
  latlon::Numbers coriolis;
};

/// to = a x + b y.
template <class F>
struct CombineKernel {
  F to, x, y;
  double a, b;
  KOKKOS_FUNCTION void operator()(int j, int i) const { to(j, i) = a * x(j, i) + b * y(j, i); }
};
template <class T>
void combine(const Space& space, const State<T>& to, double a, const State<T>& x, double b,
             const State<T>& y) {
  const auto part = [&](const auto& t, const auto& p, const auto& q) {
    using F = std::remove_cvref_t<decltype(t)>;
    shard::parallel_for("combine", space, shard::owned_region(t), CombineKernel<F>{t, p, q, a, b});
  };
  part(std::get<0>(to), std::get<0>(x), std::get<0>(y));
  part(std::get<1>(to), std::get<1>(x), std::get<1>(y));
  part(std::get<2>(to), std::get<2>(x), std::get<2>(y));
}

/// Copies a state, or sets all of it to zero.
template <class T, class From>
void fill(const Space& space, const State<T>& to, const From& from) {
  if constexpr (std::is_same_v<From, State<T>>) {
    shard::deep_copy(space, std::get<0>(to), std::get<0>(from));
    shard::deep_copy(space, std::get<1>(to), std::get<1>(from));
    shard::deep_copy(space, std::get<2>(to), std::get<2>(from));
  } else {
    shard::deep_copy(space, std::get<0>(to), from);
    shard::deep_copy(space, std::get<1>(to), from);
    shard::deep_copy(space, std::get<2>(to), from);
  }
}

/// A Rossby-Haurwitz wave of any number (Williamson et al. 1992, equations 143 to 149; case 6 has
/// number 4 and 7.848e-6 per second for both rates), and a hill of water on it, which breaks its
/// symmetry.
struct Wave {
  int number   = 4;
  double zonal = 7.848e-6, amplitude = 7.848e-6;  // omega and K of the paper, per second
  double phase = 0;                               // radians to the east
  double hill = 0, hill_lat = 0, hill_lon = 0;    // metres, radians

  KOKKOS_FUNCTION double depth(double lat, double lon) const {
    const double n = number, c = Kokkos::cos(lat), c2 = c * c, cn = Kokkos::pow(c, n);
    const double k2 = amplitude * amplitude / 4 * cn * cn;
    const double a  = zonal / 2 * (2 * omega + zonal) * c2 +
                     k2 * ((n + 1) * c2 + 2 * n * n - n - 2 - 2 * n * n / c2);
    const double b = 2 * (omega + zonal) * amplitude / ((n + 1) * (n + 2)) * cn *
                     (n * n + 2 * n + 2 - (n + 1) * (n + 1) * c2);
    const double twice  = k2 * ((n + 1) * c2 - n - 2);
    const double turned = n * (lon - phase);
    const double cosine = Kokkos::sin(lat) * Kokkos::sin(hill_lat) +
                          c * Kokkos::cos(hill_lat) * Kokkos::cos(lon - hill_lon);
    return 8000 +
           radius * radius / gravity *
               (a + b * Kokkos::cos(turned) + twice * Kokkos::cos(2 * turned)) +
           hill * Kokkos::exp(20 * (cosine - 1));
  }
  KOKKOS_FUNCTION double east(double lat, double lon) const {
    const double n = number, c = Kokkos::cos(lat), s = Kokkos::sin(lat);
    return radius * (zonal * c + amplitude * Kokkos::pow(c, n - 1) * (n * s * s - c * c) *
                                     Kokkos::cos(n * (lon - phase)));
  }
  KOKKOS_FUNCTION double north(double lat, double lon) const {
    const double n = number;
    return -radius * amplitude * n * Kokkos::pow(Kokkos::cos(lat), n - 1) * Kokkos::sin(lat) *
           Kokkos::sin(n * (lon - phase));
  }
};
/// The state of a wave on a grid.
inline State<> wave_state(const Space& space, const Grid& grid, const Wave& wave) {
  const State<> x   = grid.state();
  const double step = pi / static_cast<double>(grid.rows);
  shard::distribute(space, std::get<0>(x), AtPoints<&Wave::depth>{wave, step, 0.5, 0.5});
  shard::distribute(space, std::get<1>(x), AtPoints<&Wave::east>{wave, step, 0.5, 0});
  shard::distribute(space, std::get<2>(x), AtPoints<&Wave::north>{wave, step, 0, 0.5});
  return x;
}

/// Mass and energy of a cell, in units of its area at the equator.
struct BudgetKernel {
  Metric m;
  Centres<double> h;
  Wests<double> u;
  Souths<double> v;
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int j, int i) const {
    const double x = (h(j, i - 1) + h(j, i)) * u(j, i) * u(j, i);
    const double y = (h(j - 1, i) + h(j, i)) * v(j, i) * v(j, i);
    const double c = m.cos_centre(h, j);
    return {c * h(j, i),
            0.5 * c * gravity * h(j, i) * h(j, i) + 0.25 * c * x + 0.25 * m.cos_edge(h, j) * y};
  }
};
/// Mass and energy; the same on any number of ranks.
inline auto budget(const Space& space, const Metric& m, const State<>& x) {
  const auto& [h, u, v] = x;
  shard::exchange(space, h, u, v);
  return shard::reduce<shard::Determinism::ordered>(space, h, BudgetKernel{m, h, u, v});
}

}  // namespace hybrid

#endif
