// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_REDISTRIBUTE_ZIGZAG_SUPPORT_HPP
#define SHARD_TESTS_REDISTRIBUTE_ZIGZAG_SUPPORT_HPP

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shard/redistribute/zigzag.hpp"
#include "shard/redistribute/zigzag_contexts.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace zigzag_test {

using shard::index_t;
using shard::testing::expect_parts;
using shard::testing::message_thrown_by;
struct Row;
struct Line;
using Space = Kokkos::DefaultExecutionSpace;
using Grid  = shard::Mesh<Row, Line>;
using Index = std::array<index_t, 5>;  // what a View's rank has no use for is 0

/// All ranks along Line, or a square, of which other rows do the same with other values.
inline Grid make_mesh(bool square = false) {
  return square ? Grid(MPI_COMM_WORLD, {0, 0}) : Grid(MPI_COMM_WORLD, {1, 0});
}

template <class T, int Rank>
struct DataType {
  using type = typename DataType<T, Rank - 1>::type*;
};
template <class T>
struct DataType<T, 0> {
  using type = T;
};

template <class T, int Rank, class Layout = Kokkos::LayoutRight>
auto make_view(const Index& n) {
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return Kokkos::View<typename DataType<T, Rank>::type, Layout, Space>(
        "view", static_cast<std::size_t>(n[D])...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(Rank)>{});
}

/// Visits each value on the host with its indices, and copies them back.
template <class View, class Visit>
void on_values(const View& view, const Visit& visit) {
  const Space space;
  const auto near = Kokkos::create_mirror_view(view);
  Kokkos::deep_copy(space, near, view);
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
  Kokkos::deep_copy(space, view, near);
  space.fence();
}

/// A value without arithmetic, of a size that is no power of two.
struct Odd {
  std::int16_t a, b, c;
  friend bool operator==(const Odd&, const Odd&) = default;
};

/// The value at a place of the whole array, each place's own.
template <class T>
T value(const Index& i, int which) {
  const auto number =
      static_cast<int>(((((i[0] * 11 + i[1]) * 97 + i[2]) * 5 + i[3]) * 3 + i[4]) * 2 + which);
  if constexpr (std::is_same_v<T, Odd>)
    return {static_cast<std::int16_t>(number % 30000), static_cast<std::int16_t>(which),
            static_cast<std::int16_t>(number / 30000)};
  else if constexpr (std::is_same_v<T, Kokkos::complex<double>>)
    return {static_cast<double>(number), static_cast<double>(which + 1)};
  else
    return static_cast<T>(number);
}

template <class View, class Oracle>
void fill(const View& view, const Oracle& oracle) {
  using T = typename View::value_type;
  on_values(view, [&](T& v, const Index& i) { v = oracle(i); });
}
template <class View, class Oracle>
void expect_values(const View& view, const Oracle& oracle) {
  using T    = typename View::value_type;
  long wrong = 0;
  on_values(view, [&](T& v, const Index& i) { wrong += v == oracle(i) ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

/// Small whole numbers, other ones on each rank: sums of products are exact.
template <class View>
void fill_random(const View& view, int rank, int which) {
  std::mt19937_64 random(shard::testing::seed() + static_cast<std::uint64_t>(rank * 16 + which));
  fill(view, [&](const Index&) { return static_cast<double>(random() % 15) - 7.0; });
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

/// <Ax, y> = <x, A'y>, in whole numbers; the tangent is the operation.
template <class Operation, class View>
void expect_transpose(const Operation& operation, const View& y, const View& x, const Grid& mesh) {
  const Space space;
  const View ay("A'y", x.layout()), ax("Ax", y.layout()), tangent("tangent", y.layout());
  fill_random(x, mesh.rank(), 0);
  fill_random(y, mesh.rank(), 1);
  fill_random(ay, mesh.rank(), 2);  // what was there is overwritten
  operation.apply(space, ax, x, mesh);
  operation.pushforward(space, tangent, x, mesh);
  operation.pullback(space, ay, y, mesh);
  EXPECT_EQ(over_ranks(own_dot(ax, y)), over_ranks(own_dot(x, ay)));
  EXPECT_EQ(own_dot(ax, y), own_dot(tangent, y));
}

}  // namespace zigzag_test

#endif
