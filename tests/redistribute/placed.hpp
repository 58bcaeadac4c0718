// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_REDISTRIBUTE_PLACED_HPP
#define SHARD_TESTS_REDISTRIBUTE_PLACED_HPP

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/redistribute/distribute.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/placements.hpp"
#include "support/support.hpp"

namespace placed_test {

using namespace shard;
struct A;
struct B;
using Grid  = shard::Mesh<A, B>;
using Space = Kokkos::DefaultExecutionSpace;
using Right = Kokkos::LayoutRight;

template <class... Options>
using Plane = shard::ShardedView<double**, Right, Options...>;

inline constexpr double untouched = -77;

/// What the world's cell holds: whole numbers, so that sums of any order are exact.
inline double value(index_t i, index_t j, int which = 0) {
  return static_cast<double>((i * 31 + j * 7 + which * 5) % 23 - 11);
}

enum class Cut { balanced, random, at_one_rank };

/// The same on every rank.
inline shard::Partition cut(index_t n, int parts, Cut how, std::mt19937_64& engine) {
  if (how == Cut::balanced) return shard::Partition::balanced(n, parts);
  std::vector<index_t> begins{0, n};
  const index_t all = static_cast<index_t>(engine() % 2) * n;
  for (int p = 1; p < parts; ++p)
    begins.push_back(how == Cut::at_one_rank
                         ? all
                         : static_cast<index_t>(engine() % static_cast<std::uint64_t>(n + 1)));
  std::sort(begins.begin(), begins.end());
  return shard::Partition::explicit_begins(begins);
}

template <class... X>
int parts_of(const Grid& mesh, shard::impl::AxisList<X...>) {
  return (mesh.size<X>() * ... * 1);
}

template <class Field>
Field make(const char* label, const Grid& mesh, std::array<index_t, 2> extents, Cut how,
           std::mt19937_64& engine) {
  const auto partition = [&](auto axes, index_t n) {
    return cut(n, parts_of(mesh, axes), how, engine);
  };
  const auto first =
      partition(typename shard::impl::AxesOf<typename Field::template axis<0>>::type{}, extents[0]);
  const auto second =
      partition(typename shard::impl::AxesOf<typename Field::template axis<1>>::type{}, extents[1]);
  const Field field(label, mesh, {first, second});
  Kokkos::deep_copy(Space(), field.view(), untouched);
  return field;
}

/// Calls visit(cell, i, j) with the world's indices of the owned cells, and copies them back.
template <class Field, class Visit>
void on_cells(const Field& field, const Visit& visit) {
  const Space space;
  const auto host = create_mirror_view(field);
  shard::deep_copy(space, host, field);
  space.fence();
  for (index_t i = 0; i < field.extent(0); ++i)
    for (index_t j = 0; j < field.extent(1); ++j)
      visit(host(i, j), field.to_global(0, i), field.to_global(1, j));
  shard::deep_copy(space, field, host);
  space.fence();
}

/// Cells of the halo that are not as they were made.
template <class Field>
int touched(const Field& field) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), field.view());
  int count       = 0;
  for (std::size_t i = 0; i < host.extent(0); ++i)
    for (std::size_t j = 0; j < host.extent(1); ++j) count += host(i, j) == untouched ? 0 : 1;
  return count - static_cast<int>(field.extent(0) * field.extent(1));
}

template <class Field, class Axis>
inline constexpr bool is_partial_v =
    shard::impl::position_in<Axis>(typename Field::partial_axes{}) >= 0;
template <class Field, class Axis>
inline constexpr bool is_replicated_v =
    std::is_same_v<shard::placement_along<Field, Axis>, shard::Replicate>;

/// Which of a cell's contributions a rank has, and of how many.
template <class Field>
std::array<int, 2> contribution(const Grid& mesh) {
  const int a = is_partial_v<Field, A> ? mesh.size<A>() : 1;
  const int b = is_partial_v<Field, B> ? mesh.size<B>() : 1;
  return {(a > 1 ? mesh.coordinate<A>() : 0) * b + (b > 1 ? mesh.coordinate<B>() : 0), a * b};
}

/// Contributions that make `whole`; the one that is it, or has the rest, differs from cell to cell.
template <class Op>
double part_of(double whole, index_t i, index_t j, int mine, int all) {
  const int chosen = static_cast<int>((i + 3 * j) % all);
  const auto other = static_cast<double>((i + j + mine) % 5);
  if constexpr (std::is_same_v<Op, Max>) {
    return mine == chosen ? whole : whole - 1 - other;
  } else if constexpr (std::is_same_v<Op, Min>) {
    return mine == chosen ? whole : whole + 1 + other;
  } else {
    double rest = whole;
    for (int p = 0; p < all; ++p)
      if (p != chosen) rest -= static_cast<double>((i + j + p) % 5);
    return mine == chosen ? rest : other;
  }
}

template <class Field>
void fill(const Field& field, const Grid& mesh, int which = 0) {
  const auto [mine, all] = contribution<Field>(mesh);
  on_cells(field, [&, m = mine, n = all](double& cell, index_t i, index_t j) {
    cell = part_of<typename Field::reduction>(value(i, j, which), i, j, m, n);
  });
}

/// The world's cells that a field stands for, on every rank: contributions combined by MPI alone.
template <class Field>
std::vector<double> world_of(const Field& field, const Grid& mesh) {
  using Op              = typename Field::reduction;
  constexpr bool is_max = std::is_same_v<Op, Max>, is_min = std::is_same_v<Op, Min>;
  constexpr double nothing = is_max ? -1e30 : is_min ? 1e30 : 0;
  const index_t columns    = field.global_extent(1);
  std::vector<double> world(static_cast<std::size_t>(field.global_extent(0) * columns), nothing);
  on_cells(field, [&](double& cell, index_t i, index_t j) {
    world[static_cast<std::size_t>(i * columns + j)] = cell;
  });
  MPI_Allreduce(MPI_IN_PLACE, world.data(), static_cast<int>(world.size()), MPI_DOUBLE,
                is_max   ? MPI_MAX
                : is_min ? MPI_MIN
                         : MPI_SUM,
                MPI_COMM_WORLD);
  const double replicas = (is_replicated_v<Field, A> ? mesh.size<A>() : 1) *
                          (is_replicated_v<Field, B> ? mesh.size<B>() : 1);
  if (!is_max && !is_min)
    for (double& cell : world) cell /= replicas;
  return world;
}

/// Cells of the world, and of this rank where it holds values, that aren't `wanted(i, j)`.
template <class Field, class Wanted>
int wrong_cells(const Field& field, const Grid& mesh, const Wanted& wanted) {
  int wrong             = 0;
  const auto world      = world_of(field, mesh);
  const index_t columns = field.global_extent(1);
  for (index_t c = 0; c < static_cast<index_t>(world.size()); ++c)
    wrong += world[static_cast<std::size_t>(c)] == wanted(c / columns, c % columns) ? 0 : 1;
  if constexpr (Field::partial_axes::count == 0)
    on_cells(field,
             [&](double& cell, index_t i, index_t j) { wrong += cell == wanted(i, j) ? 0 : 1; });
  return wrong;
}

inline double over_ranks(double mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}

/// The inner product of a value and its cotangent, as redistribute_adjoint tells: where a mesh axis
/// replicates both, one of its ranks counts; else all do.
template <class X, class DX>
double inner_product(const X& x, const DX& dx, const Grid& mesh) {
  constexpr bool shared_a = is_replicated_v<X, A> && is_replicated_v<DX, A>;
  constexpr bool shared_b = is_replicated_v<X, B> && is_replicated_v<DX, B>;
  const bool counts =
      (!shared_a || mesh.coordinate<A>() == 0) && (!shared_b || mesh.coordinate<B>() == 0);
  std::vector<double> cells;
  on_cells(x, [&](double& cell, index_t, index_t) { cells.push_back(cell); });
  double sum    = 0;
  std::size_t n = 0;
  on_cells(dx, [&](double& cell, index_t, index_t) { sum += counts ? cell * cells[n] : 0, ++n; });
  return over_ranks(sum);
}

}  // namespace placed_test

#endif
