// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tests of operations on plain Views over a mesh axis have in common.
#ifndef SHARD_TESTS_REDISTRIBUTE_PLAIN_VIEWS_HPP
#define SHARD_TESTS_REDISTRIBUTE_PLAIN_VIEWS_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/layers/parameters.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/copy.hpp"

namespace plain_views {

using shard::index_t;
struct Row;
struct Line;
using Space = Kokkos::DefaultExecutionSpace;
using Grid  = shard::Mesh<Row, Line>;
using Index = std::array<index_t, 5>;  // what a View's rank has no use for is 0

/// All ranks along Line, or a square, of which other rows do the same with other values.
inline Grid make_mesh(bool square = false) {
  return square ? Grid(MPI_COMM_WORLD, {0, 0}) : Grid(MPI_COMM_WORLD, {1, 0});
}

/// A View of these extents; of LayoutStride one that leaves gaps everywhere.
template <class T, int Rank, class Layout = Kokkos::LayoutRight>
auto make_view(const Index& n) {
  using Data = typename shard::impl::Pointers<T, Rank>::type;
  if constexpr (std::is_same_v<Layout, Kokkos::LayoutStride>) {
    Kokkos::LayoutStride layout;
    std::size_t stride = 2;
    for (int d = 0; d < Rank; ++d) {  // the first dimension the fastest, with gaps
      const auto at        = static_cast<std::size_t>(d);
      layout.dimension[at] = static_cast<std::size_t>(n[at]);
      layout.stride[at]    = stride;
      stride *= static_cast<std::size_t>(n[at]) + 1;
    }
    return Kokkos::View<Data, Kokkos::LayoutStride, Space>("strided", layout);
  } else {
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return Kokkos::View<Data, Layout, Space>("view", static_cast<std::size_t>(n[D])...);
    }
    (std::make_index_sequence<Rank>{});
  }
}

/// Visits each value on the host with its indices, and copies them back.
template <class View, class Visit>
void on_values(const View& view, const Visit& visit) {
  const Space space;
  const auto near = Kokkos::create_mirror_view(view);
  shard::impl::copy_views(space, near, view);
  space.fence();
  Index n = {1, 1, 1, 1, 1}, i = {};
  for (std::size_t d = 0; d < View::rank(); ++d) n[d] = static_cast<index_t>(view.extent(d));
  for (i[0] = 0; i[0] < n[0]; ++i[0])
    for (i[1] = 0; i[1] < n[1]; ++i[1])
      for (i[2] = 0; i[2] < n[2]; ++i[2])
        for (i[3] = 0; i[3] < n[3]; ++i[3])
          for (i[4] = 0; i[4] < n[4]; ++i[4]) {
            if constexpr (View::rank() == 1) visit(near(i[0]), i);
            if constexpr (View::rank() == 2) visit(near(i[0], i[1]), i);
            if constexpr (View::rank() == 3) visit(near(i[0], i[1], i[2]), i);
            if constexpr (View::rank() == 4) visit(near(i[0], i[1], i[2], i[3]), i);
            if constexpr (View::rank() == 5) visit(near(i[0], i[1], i[2], i[3], i[4]), i);
          }
  shard::impl::copy_views(space, view, near);
  space.fence();
}

/// Compares all values with those that the oracle says.
template <class View, class Oracle>
void expect_values(const View& view, const Oracle& oracle) {
  using T    = typename View::value_type;
  long wrong = 0;
  on_values(view, [&](T& v, const Index& i) { wrong += v == oracle(i) ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

/// Sum over this rank's values of a product.
template <class A, class B>
double own_dot(const A& a, const B& b) {
  std::vector<double> of_a;
  on_values(a, [&](double& v, const Index&) { of_a.push_back(v); });
  double mine    = 0;
  std::size_t at = 0;
  on_values(b, [&](double& v, const Index&) { mine += v * of_a[at++]; });
  return mine;
}
/// The same over all ranks.
inline double over_ranks(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

}  // namespace plain_views

#endif
