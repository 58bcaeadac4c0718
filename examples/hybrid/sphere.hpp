// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The latitude-longitude C-grid of the core: fields, cosines, and Rossby-Haurwitz waves as states.
#ifndef SHARD_EXAMPLES_HYBRID_SPHERE_HPP
#define SHARD_EXAMPLES_HYBRID_SPHERE_HPP

#include <shard/shard.hpp>

#include <cstddef>
#include <string_view>
#include <tuple>

namespace hybrid {

struct Lat;  // the mesh axes
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;
using Mesh  = shard::Mesh<Lat, Lon>;
using shard::index_t;

constexpr double pi = 3.14159265358979323846, radius = 6371220, gravity = 9.80616, omega = 7.292e-5,
                 day = 86400, hour = 3600;

template <class T, shard::Pole Where, shard::Parity Sign>
using Points =
    shard::ShardedView<T**, Kokkos::LayoutRight,
                       shard::ShardDim<0, Lat, shard::Halo<1>, shard::PoleFold<1, Where, Sign>>,
                       shard::ShardDim<1, Lon, shard::Halo<1>, shard::Periodic>>;
template <class T>
using Centres = Points<T, shard::Pole::between_rows, shard::Parity::even>;  // (j, i): cells
template <class T>
using Wests = Points<T, shard::Pole::between_rows, shard::Parity::odd>;  // western edges of cells
template <class T>
using Souths = Points<T, shard::Pole::on_row, shard::Parity::odd>;  // southern edges; one row more
template <class T>
using Corners = Points<T, shard::Pole::on_row, shard::Parity::even>;  // south-western corners
template <class T>
using Circles =  // whole circles of latitude
    shard::ShardedView<T**, Kokkos::LayoutRight, shard::ShardDim<0, shard::Axes<Lat, Lon>>>;

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

/// Distances, cosines of latitude and the Coriolis parameter by global row.
struct Metric {
  explicit Metric(index_t rows)
      : step(pi / static_cast<double>(rows)),
        centre("cosines of centres", static_cast<std::size_t>(rows)),
        edge("cosines of edges", static_cast<std::size_t>(rows) + 1),
        coriolis("Coriolis", static_cast<std::size_t>(rows) + 1) {
    const auto at_centre = Kokkos::create_mirror_view(centre);
    const auto at_edge = Kokkos::create_mirror_view(edge), f = Kokkos::create_mirror_view(coriolis);
    for (index_t j = 0; j < rows; ++j)
      at_centre(j) = Kokkos::sin((static_cast<double>(j) + 0.5) * step);
    for (index_t j = 0; j <= rows; ++j) {
      const double angle = static_cast<double>(j) * step;
      at_edge(j)         = j > 0 && j < rows ? Kokkos::sin(angle) : 0.0;
      f(j)               = -2 * omega * Kokkos::cos(angle);
    }
    Kokkos::deep_copy(centre, at_centre);
    Kokkos::deep_copy(edge, at_edge);
    Kokkos::deep_copy(coriolis, f);
  }
  template <class Field>
  KOKKOS_FUNCTION double cos_centre(const Field& f, int j) const {
    return centre(f.to_global(0, j));
  }
  template <class Field>
  KOKKOS_FUNCTION double cos_edge(const Field& f, int j) const {
    return edge(f.to_global(0, j));
  }
  /// Whether a row of edges is neither pole.
  template <class Field>
  KOKKOS_FUNCTION bool inside(const Field& f, int j) const {
    return f.to_global(0, j) > 0 && f.to_global(0, j) + 1 < f.global_extent(0);
  }

  double step;  // between rows and between columns, in radians
  Kokkos::View<double*, Space::memory_space> centre, edge, coriolis;
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
/// A function of a wave at points that are `row` and `column` steps from the pole and Greenwich.
template <double (Wave::*value)(double, double) const>
struct AtPoints {
  Wave of;
  double step, row, column;
  KOKKOS_FUNCTION double operator()(index_t j, index_t i) const {
    return (of.*value)((static_cast<double>(j) + row) * step - pi / 2,
                       (static_cast<double>(i) + column) * step);
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
