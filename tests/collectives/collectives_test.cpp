// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plain_views.hpp"
#include "shard/collectives/collectives.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace collectives_test {

using namespace plain_views;
using namespace shard::testing;
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
/// Sum over all ranks and values of a product.
template <class A, class B>
double dot(const A& a, const B& b) {
  return over_ranks(own_dot(a, b));
}

/// <Ax, y> = <x, A'y>, in whole numbers; the tangent is the operation.
template <class Operation, class View>
void expect_transpose(const Operation& operation, const View& y, const View& x, const Grid& mesh) {
  const Space space;
  const int me = mesh.rank();
  const View ay("A'y", x.layout()), ax("Ax", y.layout()), tangent("tangent", y.layout());
  fill(x, me, 0);
  fill(y, me, 1);
  fill(ay, me, 2);  // what was there is overwritten
  operation.apply(space, ax, x, mesh);
  operation.pushforward(space, tangent, x, mesh);
  operation.pullback(space, ay, y, mesh);
  EXPECT_EQ(dot(ax, y), dot(x, ay));
  EXPECT_EQ(dot(ax, y), dot(tangent, y));
}

/// All collectives but sums, on Views of one kind, along each dimension, against what each value is
/// by definition.
template <class T, int Rank, class Layout>
void check_moves(const Grid& mesh) {
  const Space space;
  const int ranks = mesh.size<Line>(), me = mesh.coordinate<Line>();
  const auto value = [](int rank, const Index& i) { return Values<T>::at(rank, i, 0); };
  for (int dim = 0; dim < Rank; ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    const Index n{2, 3, 1, 2};
    Index many = n;
    many[d] *= ranks;
    SCOPED_TRACE("dimension " + std::to_string(dim));
    const auto shard = make_view<T, Rank, Layout>(n), full = make_view<T, Rank, Layout>(many);
    fill(shard, me, 0);
    all_gather<Line>(space, full, shard, mesh, dim);
    expect_values(full, [&](Index i) {
      const auto from = static_cast<int>(i[d] / n[d]);
      i[d] %= n[d];
      return value(from, i);
    });
    all_gather<Line>(space, full, shard, mesh, dim - Rank);  // counted from the last
    expect_values(full, [&](Index i) {
      const auto from = static_cast<int>(i[d] / n[d]);
      i[d] %= n[d];
      return value(from, i);
    });

    fill(full, me, 0);
    all_to_all<Line>(space, full, full, mesh, dim, dim);  // in place
    expect_values(full, [&](Index i) {
      const auto from = static_cast<int>(i[d] / n[d]);
      i[d]            = i[d] % n[d] + me * n[d];
      return value(from, i);
    });
    for (int other = 0; other < Rank; ++other) {
      if (other == dim) continue;
      const auto o = static_cast<std::size_t>(other);
      Index there  = n;
      there[o] *= ranks;
      const auto moved = make_view<T, Rank, Layout>(there);
      fill(full, me, 0);
      all_to_all<Line>(space, moved, full, mesh, dim, other);
      expect_values(moved, [&](Index i) {
        const auto from = static_cast<int>(i[o] / n[o]);
        i[o] %= n[o];
        i[d] += me * n[d];
        return value(from, i);
      });
    }
  }
  const auto from = make_view<T, Rank, Layout>({2, 3, 1, 2});
  const auto to   = make_view<T, Rank, Layout>({2, 3, 1, 2});
  for (int root = 0; root < ranks; ++root) {
    fill(from, me, 0);
    broadcast<Line>(space, to, from, mesh, root);
    expect_values(to, [&](const Index& i) { return value(root, i); });
    broadcast<Line>(space, from, from, mesh, root);
    expect_values(from, [&](const Index& i) { return value(root, i); });
  }
}

/// Reductions: of whole numbers, so that any type has the oracle's value.
template <class T, int Rank, class Layout, class Op>
void check_reductions(const Grid& mesh) {
  const Space space;
  const int ranks = mesh.size<Line>(), me = mesh.coordinate<Line>();
  const auto reduced = [&](const Index& i) {
    int all = Values<int>::at(0, i, 0);
    for (int r = 1; r < ranks; ++r) {
      const int v = Values<int>::at(r, i, 0);
      if constexpr (std::is_same_v<Op, shard::Sum>) all += v;
      if constexpr (std::is_same_v<Op, shard::Max>) all = std::max(all, v);
      if constexpr (std::is_same_v<Op, shard::Min>) all = std::min(all, v);
    }
    return static_cast<T>(all);
  };
  const Index n{2, 3, 1, 2};
  const auto from = make_view<T, Rank, Layout>(n), to = make_view<T, Rank, Layout>(n);
  fill(from, me, 0);
  shard::all_reduce<Line, Op>(space, to, from, mesh);
  expect_values(to, reduced);
  for (int dim = 0; dim < Rank; ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    SCOPED_TRACE("dimension " + std::to_string(dim));
    Index many = n;
    many[d] *= ranks;
    const auto full = make_view<T, Rank, Layout>(many);
    fill(full, me, 0);
    shard::reduce_scatter<Line, Op>(space, to, full, mesh, dim);
    expect_values(to, [&](Index i) {
      i[d] += me * n[d];
      return reduced(i);
    });
  }
}

template <class T, class Layout>
void check_types(const Grid& mesh) {
  check_moves<T, 1, Layout>(mesh);
  check_moves<T, 2, Layout>(mesh);
  check_moves<T, 3, Layout>(mesh);
  check_moves<T, 4, Layout>(mesh);
}

TEST(collectives, move_values_along_each_dimension) {
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    check_types<double, Kokkos::LayoutRight>(mesh);
    check_types<float, Kokkos::LayoutLeft>(mesh);
    check_types<double, Kokkos::LayoutStride>(mesh);
  }
  const Grid mesh = make_mesh();
  check_moves<std::int8_t, 3, Kokkos::LayoutRight>(mesh);
  check_moves<Pair, 3, Kokkos::LayoutRight>(mesh);
  check_moves<Pair, 2, Kokkos::LayoutLeft>(mesh);
  check_moves<Kokkos::complex<double>, 2, Kokkos::LayoutRight>(mesh);
}

template <class T, class Layout>
void check_all_reductions(const Grid& mesh) {
  check_reductions<T, 1, Layout, shard::Sum>(mesh);
  check_reductions<T, 3, Layout, shard::Sum>(mesh);
  check_reductions<T, 3, Layout, shard::Max>(mesh);
  check_reductions<T, 2, Layout, shard::Min>(mesh);
}

TEST(collectives, reduce_along_each_dimension) {
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    check_all_reductions<double, Kokkos::LayoutRight>(mesh);
    check_all_reductions<float, Kokkos::LayoutLeft>(mesh);
    check_all_reductions<std::int32_t, Kokkos::LayoutStride>(mesh);
  }
  const Grid mesh = make_mesh();
  check_all_reductions<std::uint8_t, Kokkos::LayoutRight>(mesh);
  check_reductions<double, 4, Kokkos::LayoutLeft, shard::Sum>(mesh);
  check_reductions<Kokkos::complex<float>, 2, Kokkos::LayoutRight, shard::Sum>(mesh);
}

TEST(collectives, between_views_of_different_layouts) {
  const Grid mesh = make_mesh();
  const Space space;
  const int ranks = mesh.size();
  const auto from = make_view<float, 3, Kokkos::LayoutLeft>({2, 3, 4, 0});
  const auto to   = make_view<float, 3, Kokkos::LayoutRight>({2, 3 * ranks, 4, 0});
  fill(from, mesh.rank(), 0);
  all_gather<Line>(space, to, from, mesh, 1);
  expect_values(to, [](Index i) {
    const auto rank = static_cast<int>(i[1] / 3);
    i[1] %= 3;
    return Values<float>::at(rank, i, 0);
  });
}

// 3.10 of the original's description: ones(8, 8) on each of n ranks.
TEST(collectives, values_of_manual_mode) {
  const Grid mesh  = make_mesh();
  const int ranks  = mesh.size();
  const index_t n  = ranks == 3 ? 9 : ranks == 6 ? 6 : 8;
  const auto sized = [](index_t rows, index_t columns) {
    return make_view<float, 2, Kokkos::LayoutRight>({rows, columns, 0, 0});
  };
  const Space space;
  const auto ones = sized(n, n), all = sized(n, n), rows = sized(n / ranks, n),
             columns = sized(n, n / ranks);
  Kokkos::deep_copy(ones, 1.0f);
  const auto everywhere = [](double value) {
    return [value](const Index&) { return static_cast<float>(value); };
  };
  reduce_scatter<Line>(space, rows, ones, mesh, 0);
  expect_values(rows, everywhere(ranks));
  reduce_scatter<Line>(space, columns, ones, mesh, -1);
  expect_values(columns, everywhere(ranks));
  reduce_scatter<Line>(space, columns, ones, mesh, -1, 0.25);
  expect_values(columns, everywhere(0.25 * ranks));
  all_reduce<Line>(space, all, ones, mesh);
  expect_values(all, everywhere(ranks));
  all_reduce<Line>(space, all, ones, mesh, 0.25);
  expect_values(all, everywhere(0.25 * ranks));
}

TEST(collectives, transposes) {
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    const int ranks = mesh.size<Line>();
    const auto view = [](index_t a, index_t b, index_t c) {
      return make_view<double, 3, Kokkos::LayoutRight>({a, b, c, 0});
    };
    for (int dim = 0; dim < 3; ++dim) {
      SCOPED_TRACE("dimension " + std::to_string(dim));
      const auto times = [&](int d) { return d == dim ? ranks : 1; };
      const auto small = view(2, 3, 4);
      const auto full  = view(2 * times(0), 3 * times(1), 4 * times(2));
      expect_transpose(shard::AllGather<Line>{dim}, full, small, mesh);
      expect_transpose(shard::ReduceScatter<Line>{dim, 0.5}, small, full, mesh);
      expect_transpose(shard::AllToAll<Line>{dim, dim}, full, full, mesh);
      const int other = (dim + 1) % 3;
      const auto wide = [&](int d) { return d == other ? ranks : 1; };
      expect_transpose(shard::AllToAll<Line>{dim, other},
                       view(2 * wide(0), 3 * wide(1), 4 * wide(2)), full, mesh);
    }
    expect_transpose(shard::AllReduce<Line>{0.25}, view(2, 3, 4), view(2, 3, 4), mesh);
    for (int root = 0; root < ranks; ++root)
      expect_transpose(shard::Broadcast<Line>{root}, view(2, 3, 1), view(2, 3, 1), mesh);
  }
}

TEST(collectives, pullback_of_a_sum_whose_consumer_is_replicated) {
  const Grid mesh   = make_mesh();
  const auto d_to   = make_view<double, 2, Kokkos::LayoutRight>({3, 5, 0, 0});
  const auto d_from = make_view<double, 2, Kokkos::LayoutLeft>({3, 5, 0, 0});
  fill(d_to, 0, 0);  // the same on every rank
  shard::AllReduce<Line>{0.5}.pullback_replicated(Space(), d_from, d_to, mesh);
  expect_values(d_from, [](const Index& i) { return 0.5 * Values<double>::at(0, i, 0); });
}

/// Numbers of very different sizes, of which another order has another sum.
double rough(int rank, const Index& i) {
  return std::ldexp(1.0 + 0.1 * rank + 0.01 * static_cast<double>(i[0]), (rank * 29 + 7) % 53);
}

TEST(collectives, sums_are_made_in_the_order_of_ranks) {
  const Grid mesh = make_mesh();
  const auto from = make_view<double, 1, Kokkos::LayoutRight>({10007, 0, 0, 0});
  const auto to   = make_view<double, 1, Kokkos::LayoutRight>({10007, 0, 0, 0});
  on_values(from, [&](double& v, const Index& i) { v = rough(mesh.rank(), i); });
  all_reduce<Line>(Space(), to, from, mesh);
  expect_values(to, [&](const Index& i) {
    double sum = rough(0, i);
    for (int r = 1; r < mesh.size(); ++r) sum += rough(r, i);
    return sum;
  });
}

TEST(collectives, extremes_keep_a_nan) {
  const Grid mesh = make_mesh();
  const auto x    = make_view<double, 1, Kokkos::LayoutRight>({3, 0, 0, 0});
  const auto y    = make_view<double, 1, Kokkos::LayoutRight>({3, 0, 0, 0});
  for (int rank = 0; rank < mesh.size(); ++rank) {
    on_values(x, [&](double& v, const Index& i) {
      v = rank == mesh.rank() && i[0] == 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    });
    shard::all_reduce<Line, shard::Max>(Space(), y, x, mesh);
    on_values(y, [](double& v, const Index& i) { EXPECT_EQ(std::isnan(v), i[0] == 1); });
    shard::all_reduce<Line, shard::Min>(Space(), y, x, mesh);
    on_values(y, [](double& v, const Index& i) { EXPECT_EQ(std::isnan(v), i[0] == 1); });
  }
}

TEST(collectives, messages_in_steps) {
  const ScopedVariable limit("SHARD_MESSAGE_LIMIT", "7");
  const Grid mesh = make_mesh();
  check_moves<double, 2, Kokkos::LayoutRight>(mesh);
  check_all_reductions<float, Kokkos::LayoutRight>(mesh);
}

struct SumOfBytes {
  Kokkos::View<const std::uint8_t*, Space> bytes;
  KOKKOS_FUNCTION void operator()(index_t i, index_t& sum) const { sum += bytes(i); }
};
index_t sum_of(const Kokkos::View<const std::uint8_t*, Space>& bytes) {
  index_t sum = 0;
  Kokkos::parallel_reduce(
      "sum",
      Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(0, static_cast<index_t>(bytes.size())),
      SumOfBytes{bytes}, sum);
  return sum;
}

// More than MPI's counts hold, and more than one step of a block: 13 GB of memory on 2 ranks.
TEST(collectives, more_than_two_to_the_31_bytes) {
  const Grid mesh = make_mesh();
  if (!shard::testing::thorough() || mesh.size() != 2) GTEST_SKIP() << "SHARD_THOROUGH=1, 2 ranks";
  const index_t n = (index_t{5} << 28U) + 3;
  const Kokkos::View<std::uint8_t*, Space> all(
      Kokkos::view_alloc(Kokkos::WithoutInitializing, "all"), static_cast<std::size_t>(2 * n));
  const auto shard_of = [&](int rank) {
    return Kokkos::subview(all, Kokkos::pair<index_t, index_t>(rank * n, (rank + 1) * n));
  };
  const auto last_of = [&](int rank) { return Kokkos::subview(all, (rank + 1) * n - 1); };
  const int me       = mesh.rank();
  Kokkos::deep_copy(all, std::uint8_t{0});
  Kokkos::deep_copy(shard_of(me), static_cast<std::uint8_t>(me + 1));
  Kokkos::deep_copy(last_of(me), static_cast<std::uint8_t>(me + 11));
  all_gather<Line>(Space(), all, shard_of(me), mesh, 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::uint8_t last = 0;
    Kokkos::deep_copy(last, last_of(rank));
    EXPECT_EQ(last, rank + 11);
    Kokkos::deep_copy(last_of(rank), static_cast<std::uint8_t>(rank + 1));
    EXPECT_EQ(sum_of(shard_of(rank)), n * (rank + 1));
  }
}

TEST(collectives, views_without_values) {
  const Grid mesh = make_mesh();
  const auto none = make_view<double, 2, Kokkos::LayoutRight>({0, 3, 0, 0});
  const auto full = make_view<double, 2, Kokkos::LayoutRight>({0, 3 * mesh.size(), 0, 0});
  const Space space;
  all_reduce<Line>(space, none, none, mesh);
  all_gather<Line>(space, full, none, mesh, 1);
  reduce_scatter<Line>(space, none, full, mesh, 1);
  all_to_all<Line>(space, full, full, mesh, 1, 1);
  broadcast<Line>(space, none, none, mesh);
}

TEST(collectives, errors_are_thrown_on_every_rank_with_the_numbers) {
  const Grid mesh = make_mesh();
  const Space space;
  const int ranks = mesh.size();
  const auto view = [](index_t a, index_t b) {
    return make_view<float, 2, Kokkos::LayoutRight>({a, b, 0, 0});
  };
  const auto thrown = [](const auto& call) {
    return message_thrown_by<shard::ArgumentError>(call);
  };
  const auto number = [](index_t n) { return std::to_string(n); };
  expect_parts(thrown([&] { all_gather<Line>(space, view(2, 50), view(2, 3), mesh, 1); }),
               {"all_gather", "dimension 1", "50", number(3 * ranks).c_str()});
  expect_parts(thrown([&] { all_gather<Line>(space, view(3, 3 * ranks), view(2, 3), mesh, 1); }),
               {"all_gather", "dimension 0", "extent 3", "2"});
  if (ranks > 1) {
    const index_t odd = 5 * ranks + 1;
    expect_parts(thrown([&] { reduce_scatter<Line>(space, view(5, 2), view(odd, 2), mesh, 0); }),
                 {"reduce_scatter", number(odd).c_str(), number(ranks).c_str()});
    expect_parts(thrown([&] { all_to_all<Line>(space, view(5, 2), view(odd, 2), mesh, 0, 1); }),
                 {"all_to_all", number(odd).c_str(), number(ranks).c_str()});
    const index_t mine = mesh.coordinate<Line>() == 0 ? 6 : 5;  // shares that differ by rank
    expect_parts(thrown([&] { reduce_scatter<Line>(space, view(mine, 2), view(odd, 2), mesh, 0); }),
                 {"reduce_scatter", number(odd).c_str(), "don't divide"});
    expect_parts(
        thrown([&] { all_to_all<Line>(space, view(mine, 2 * ranks), view(odd, 2), mesh, 0, 1); }),
        {"all_to_all", number(odd).c_str(), "don't divide"});
  }
  expect_parts(thrown([&] { all_reduce<Line>(space, view(2, 3), view(2, 4), mesh); }),
               {"all_reduce", "dimension 1", "3", "4"});
  expect_parts(thrown([&] { all_gather<Line>(space, view(2, 3), view(2, 3), mesh, 2); }),
               {"all_gather", "is 2", "0 to 1"});
  expect_parts(thrown([&] { broadcast<Line>(space, view(2, 3), view(2, 3), mesh, ranks); }),
               {"broadcast", "root", number(ranks).c_str()});
  const auto whole = make_view<int, 1, Kokkos::LayoutRight>({4, 0, 0, 0});
  expect_parts(thrown([&] { all_reduce<Line>(space, whole, whole, mesh, 0.25); }),
               {"all_reduce", "0.25", "integers"});
  const ScopedVariable limit("SHARD_MESSAGE_LIMIT", "many");
  expect_parts(thrown([&] { all_reduce<Line>(space, whole, whole, mesh); }),
               {"SHARD_MESSAGE_LIMIT", "many"});
}

TEST(collectives, ranks_that_disagree) {
  const Grid mesh = make_mesh();
  if (mesh.size() == 1) return;
  const Space space;
  const bool last   = mesh.rank() == mesh.size() - 1;
  const auto small  = make_view<float, 1, Kokkos::LayoutRight>({last ? 5 : 4, 0, 0, 0});
  const auto same   = make_view<float, 2, Kokkos::LayoutRight>({4, 4, 0, 0});
  const auto thrown = [](const auto& call) {
    return message_thrown_by<shard::AgreementError>(call);
  };
  expect_parts(thrown([&] { all_reduce<Line>(space, small, small, mesh); }),
               {"[4]", "[5]", "rank 0"});
  expect_parts(thrown([&] { all_reduce<Line>(space, same, same, mesh, last ? 0.5 : 0.25); }),
               {"scale 0.5", "scale 0.25"});
  expect_parts(thrown([&] { broadcast<Line>(space, same, same, mesh, last ? 1 : 0); }),
               {"root 0", "root 1"});
  expect_parts(thrown([&] { all_to_all<Line>(space, same, same, mesh, last ? 1 : 0, 0); }),
               {"split dimension 0", "split dimension 1"});
  if (last) {
    const auto wrong = make_view<double, 2, Kokkos::LayoutRight>({4, 4, 0, 0});
    expect_parts(thrown([&] { all_reduce<Line>(space, wrong, wrong, mesh); }),
                 {"float32", "float64"});
  } else {
    expect_parts(thrown([&] { all_reduce<Line>(space, same, same, mesh); }),
                 {"float32", "float64"});
  }
}

}  // namespace collectives_test
