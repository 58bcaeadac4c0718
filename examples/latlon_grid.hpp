// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The latitude-longitude C-grid of examples/shallow_water and examples/hybrid: its fields and
// distances.
#ifndef SHARD_EXAMPLES_LATLON_GRID_HPP
#define SHARD_EXAMPLES_LATLON_GRID_HPP

#include <shard/shard.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

#include "shallow_water/williamson.hpp"

namespace latlon {

struct Lat;  // the mesh axes
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;
using Mesh  = shard::Mesh<Lat, Lon>;
using shard::index_t;
using Numbers = Kokkos::View<double*, Space::memory_space>;

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

/// value(0), value(1), ... in the kernels' memory.
template <class Value>
Numbers numbers(index_t count, const Value& value) {
  const Numbers all("numbers", static_cast<std::size_t>(count));
  const auto host = Kokkos::create_mirror_view(all);
  for (index_t j = 0; j < count; ++j) host(j) = value(static_cast<double>(j));
  Kokkos::deep_copy(all, host);
  return all;
}

/// Distances, and the cosines of latitude by global row.
struct Metric {
  explicit Metric(index_t rows)
      : step(pi / static_cast<double>(rows)),
        centre(numbers(rows, [&](double j) { return Kokkos::sin((j + 0.5) * step); })),
        edge(numbers(rows + 1, [&](double j) {
          return j > 0 && j < static_cast<double>(rows) ? Kokkos::sin(j * step) : 0.0;
        })) {}
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
  Numbers centre, edge;
};

/// This rank's points in ranges [begin, end) of global rows.
template <class F>
auto global_rows(const F& f, std::initializer_list<std::array<index_t, 2>> ranges) {
  auto region    = shard::owned_region(f);
  const auto all = region.boxes[0];
  region.count   = 0;
  for (const auto& [begin, end] : ranges) {
    auto& box    = region.boxes[region.count++];
    box          = all;
    box.begin[0] = std::clamp<index_t>(f.to_local(0, begin), 0, f.extent(0));
    box.end[0]   = std::clamp<index_t>(f.to_local(0, end), 0, f.extent(0));
  }
  return region;
}

/// The points of a region that are in neither the first nor the last global row.
template <class F, class Region>
Region between_poles(const F& f, Region region) {
  for (auto& box : region.boxes) {
    box.begin[0] = std::max(box.begin[0], f.to_local(0, 1));
    box.end[0]   = std::min(box.end[0], f.to_local(0, f.global_extent(0) - 1));
  }
  return region;
}

template <class Case>
Case case_of(double (Case::*)(double, double) const);
/// A function of the case at points that are `row` and `column` steps from the pole and Greenwich.
template <auto value>
struct AtPoints {
  decltype(case_of(value)) of;
  double step, row, column;
  KOKKOS_FUNCTION double operator()(index_t j, index_t i) const {
    return (of.*value)((static_cast<double>(j) + row) * step - pi / 2,
                       (static_cast<double>(i) + column) * step);
  }
};

}  // namespace latlon

#endif
