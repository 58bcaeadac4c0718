// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shard/redistribute/collectives.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace collectives_test {

using shard::index_t;
using shard::testing::expect_parts;
using shard::testing::message_thrown_by;
using shard::testing::ScopedVariable;
struct Row;
struct Line;
using Space = Kokkos::DefaultExecutionSpace;
using Grid  = shard::Mesh<Row, Line>;
using Index = std::array<index_t, 4>;  // what a View's rank has no use for is 0

Grid make_mesh(bool square = false) {
  return square ? Grid(MPI_COMM_WORLD, {0, 0}) : Grid(MPI_COMM_WORLD, {1, 0});
}

/// Visits each value on the host with its indices, and copies them back.
template <class View, class Visit>
void on_values(const View& view, const Visit& visit) {
  Kokkos::View<typename View::non_const_data_type, Kokkos::LayoutRight, Kokkos::HostSpace> host(
      "host", view.layout().dimension[0], View::rank() > 1 ? view.extent(1) : KOKKOS_INVALID_INDEX,
      View::rank() > 2 ? view.extent(2) : KOKKOS_INVALID_INDEX,
      View::rank() > 3 ? view.extent(3) : KOKKOS_INVALID_INDEX);
  const Space space;
  const auto near = Kokkos::create_mirror_view(view);
  Kokkos::deep_copy(space, near, view);
  space.fence();
  Index n = {1, 1, 1, 1};
  for (std::size_t d = 0; d < View::rank(); ++d) n[d] = static_cast<index_t>(view.extent(d));
  Index i = {};
  for (i[0] = 0; i[0] < n[0]; ++i[0])
    for (i[1] = 0; i[1] < n[1]; ++i[1])
      for (i[2] = 0; i[2] < n[2]; ++i[2])
        for (i[3] = 0; i[3] < n[3]; ++i[3]) {
          if constexpr (View::rank() == 1) visit(near(i[0]), i);
          if constexpr (View::rank() == 2) visit(near(i[0], i[1]), i);
          if constexpr (View::rank() == 3) visit(near(i[0], i[1], i[2]), i);
          if constexpr (View::rank() == 4) visit(near(i[0], i[1], i[2], i[3]), i);
        }
  Kokkos::deep_copy(space, view, near);
  space.fence();
}

/// A value of the rank at a place along the axis: small whole numbers, which all types hold.
template <class T>
struct Values {
  static T at(int rank, const Index& i, int which) {
    return static_cast<T>(static_cast<int>(
        (rank * 5 + i[0] * 3 + i[1] * 7 + i[2] * 2 + i[3] * 11 + which * 13) % 7 + 1));
  }
};
struct Pair {  // no arithmetic, no power of two in size
  std::int16_t a, b, c;
  friend bool operator==(const Pair&, const Pair&) = default;
};
template <>
struct Values<Pair> {
  static Pair at(int rank, const Index& i, int which) {
    const int v = Values<int>::at(rank, i, which);
    return {static_cast<std::int16_t>(v), static_cast<std::int16_t>(rank),
            static_cast<std::int16_t>(i[0] - i[1])};
  }
};

template <class View>
void fill(const View& view, int rank, int which) {
  using T = typename View::value_type;
  on_values(view, [&](T& v, const Index& i) { v = Values<T>::at(rank, i, which); });
}
/// Compares all values with those that the oracle says.
template <class View, class Oracle>
void expect_values(const View& view, const Oracle& oracle) {
  using T    = typename View::value_type;
  long wrong = 0;
  on_values(view, [&](T& v, const Index& i) { wrong += v == oracle(i) ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

template <class T, int Rank>
struct DataType {
  using type = typename DataType<T, Rank - 1>::type*;
};
template <class T>
struct DataType<T, 0> {
  using type = T;
};

/// A View of these extents; of LayoutStride one that leaves gaps everywhere.
template <class T, int Rank, class Layout>
auto make_view(const std::array<index_t, 4>& n) {
  using Data = typename DataType<T, Rank>::type;
  if constexpr (std::is_same_v<Layout, Kokkos::LayoutStride>) {
    std::array<std::size_t, 4> wide{};
    for (std::size_t d = 0; d < Rank; ++d) wide[d] = 2 * static_cast<std::size_t>(n[d]) + 1;
    const auto all = [&]<std::size_t... D>(std::index_sequence<D...>) {
      return Kokkos::View<Data, Kokkos::LayoutRight, Space>("wide", wide[D]...);
    }
    (std::make_index_sequence<Rank>{});
    Kokkos::LayoutStride layout;
    for (std::size_t d = 0; d < Rank; ++d) {
      layout.dimension[d] = static_cast<std::size_t>(n[d]);
      layout.stride[d]    = 2 * static_cast<std::size_t>(all.stride(d));
    }
    // the wide View owns the memory: kept until the end of the program's tests
    static std::vector<decltype(all)> kept;
    kept.clear();
    kept.push_back(all);
    return std::pair(Kokkos::View<Data, Kokkos::LayoutStride, Space>(all.data(), layout), all);
  } else {
    const auto view = [&]<std::size_t... D>(std::index_sequence<D...>) {
      return Kokkos::View<Data, Layout, Space>("view", static_cast<std::size_t>(n[D])...);
    }
    (std::make_index_sequence<Rank>{});
    return std::pair(view, view);
  }
}
