// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of functors, against long double sums over the whole field.
#include "shard/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "layers/layer_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

template <class Layout>
using Haloed = ShardedView<double***, Layout, ShardDim<1, Lat, Halo<2>, Clamp>,
                           ShardDim<2, Lon, Halo<1, 2>, Periodic>>;
constexpr std::array<index_t, 3> size = {3, 13, 37};

double value(index_t g) { return std::sin(1.0 + 0.37 * static_cast<double>(g)) * 1e3; }

template <class Field>
struct BudgetTerm {
  Field a, b;
  KOKKOS_FUNCTION Kokkos::Array<double, 4> operator()(int i, int j, int k) const {
    const double x = a(i, j, k), y = static_cast<double>(b(i, j, k));
    return {x, x * y, x - y, static_cast<double>(a.to_global(1, j) + a.to_global(2, k))};
  }
};
template <class Field>
struct FirstTerm {
  Field a;
  KOKKOS_FUNCTION float operator()(int i, int j, int k) const {
    return static_cast<float>(a(i, j, k));
  }
};

template <class Field>
struct FieldTerm {
  Field a;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    return a(i...);
  }
};
struct SumAndMaxTerm {
  template <class Field, class... I>
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(const Field& f, I... i) const {
    return {f(i...), f(i...)};
  }
};

template <class Layout>
void check_terms() {
  using Field = Haloed<Layout>;
  const Space space;
  Random random(seed() + 7);
  std::array<long double, 4> wanted = {0, 0, -1e30L, 1e30L};
  long double floats                = 0.0L;
  for (index_t g = 0; g < size[0] * size[1] * size[2]; ++g) {
    const double x = value(g), y = value(g + 1);
    wanted[0] += x;
    wanted[1] += x * y;
    wanted[2] = std::max<long double>(wanted[2], x - y);
    wanted[3] = 0;
    floats += static_cast<float>(x);
  }
  on_shapes(2, [&](const Grid& mesh, const auto& shape, int which) {
    const Field a(
        "a", mesh,
        {Partition::balanced(size[0], 1), some_partition(size[1], shape[0], which, random),
         some_partition(size[2], shape[1], which, random)});
    const Field b = a.like("b");
    for (const auto& [field, ahead] : {std::pair(a, 0), std::pair(b, 1)}) {
      const auto host = create_mirror_view(field);
      Kokkos::deep_copy(host.view(), std::nan(""));
      for_owned(host, [&, plus = ahead](const auto& i, auto& v) {
        v = value((i[0] * size[1] + i[1]) * size[2] + i[2] + plus);
      });
      deep_copy(space, field, host);
      space.fence();
    }
    const BudgetTerm<Field> term{a, b};
    const auto on_mesh = reduce<Sum, Sum, Max, Min>(space, a, term);
    const auto exact   = reduce<Determinism::ordered, Sum, Sum, Max, Min>(space, a, term);
    for (std::size_t n = 0; n < 4; ++n)
      EXPECT_NEAR(on_mesh[n], static_cast<double>(wanted[n]), 1e-6) << n;
    // long double is exact enough for the correctly rounded sum
    EXPECT_EQ(exact[0], static_cast<double>(wanted[0]));
    EXPECT_EQ(exact[1], static_cast<double>(wanted[1]));
    EXPECT_EQ(exact[2], static_cast<double>(wanted[2]));
    EXPECT_EQ(exact[3], 0.0);
    const auto expect_set = [&](const auto& results) {
      for (const auto& [n, field] : {std::pair(0U, a), std::pair(1U, b)}) {
        EXPECT_EQ(results[n][0],
                  (reduce<Determinism::ordered>(space, field, FieldTerm<Field>{field})));
        EXPECT_EQ(results[n][1], (reduce<Max>(space, field, FieldTerm<Field>{field})));
      }
    };
    const std::vector<Field> set{a, b};
    expect_set(reduce<Determinism::ordered, Sum, Max>(space, set, SumAndMaxTerm()));
    EXPECT_TRUE((reduce<Sum, Max>(space, std::vector<Field>(), SumAndMaxTerm()).empty()));
    // two at once, finished in the other order
    auto first  = start_reduce<Determinism::ordered>(space, a, FirstTerm<Field>{a});
    auto second = start_reduce(space, a, FirstTerm<Field>{b});
    { const auto dropped = start_reduce<Max>(space, a, FirstTerm<Field>{b}); }
    const double other = second.finish();
    EXPECT_EQ(first.finish(), static_cast<double>(floats));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(other),
              std::bit_cast<std::uint64_t>(reduce(space, a, FirstTerm<Field>{b})));
  });
  using Bare = ShardedView<double***, Layout, ShardDim<1, Lat>>;
  const Bare none("none", Grid(MPI_COMM_WORLD, {0, 0}), {3, 0, 37});
  const auto nothing = reduce<Sum, Sum, Max, Min>(space, none, BudgetTerm<Bare>{none, none});
  EXPECT_EQ(nothing[0], 0.0);
  EXPECT_TRUE(std::isinf(nothing[2]) && nothing[2] < 0 && std::isinf(nothing[3]) && nothing[3] > 0);
}

TEST(reduce, functors_of_several_values) {
  check_terms<Kokkos::LayoutRight>();
  check_terms<Kokkos::LayoutLeft>();
}

TEST(reduce, sets_of_different_length) {
  if (world_size() == 1) return;
  using Bare = ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  const Space space;
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const Bare a("a", mesh, {37});
  std::vector<Bare> set{a, a, a};
  if (mesh.rank() == 0) set.pop_back();
  expect_parts(message_thrown_by<AgreementError>(
                   [&] { (void)reduce<Sum, Max>(space, set, SumAndMaxTerm()); }),
               {"a set of 3 fields", "a set of 2 fields"});
  // nothing is left under way
  set.resize(2, a);
  Kokkos::deep_copy(space, a.view(), 1.0);
  for (const auto& result : reduce<Sum, Max>(space, set, SumAndMaxTerm())) {
    EXPECT_EQ(result[0], 37.0);
    EXPECT_EQ(result[1], 1.0);
  }
}

/// A functor whose other members have the names of those that `reduce` calls of the library's own.
template <class Field>
struct TermWithMembers {
  Field a;
  index_t* prefetches;
  template <class... I>
  void prefetch(I...) const {
    ++*prefetches;
  }
  template <class... I>
  KOKKOS_FUNCTION void write_first(I... i) const {
    a(i...) = 0.0;
  }
  KOKKOS_FUNCTION double operator()(int i, int j) const { return a(i, j); }
};

TEST(reduce, calls_no_other_member_of_a_functor) {
  using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  const Space space;
  const Field a("a", Mesh<Lat>(MPI_COMM_WORLD, {0}), {13, 300});
  Kokkos::deep_copy(space, a.view(), 1.0);
  index_t prefetches = 0;
  const TermWithMembers<Field> term{a, &prefetches};
  EXPECT_EQ(reduce(space, a, term), 3900.0);
  EXPECT_EQ(reduce<Determinism::ordered>(space, a, term), 3900.0);
  EXPECT_EQ(reduce(space, a, FieldTerm<Field>{a}), 3900.0);  // nothing was written
  EXPECT_EQ(prefetches, 0);
}

struct ByteTerm {
  ShardedView<const char*, Kokkos::LayoutRight, ShardDim<0, Lat>> bytes;
  KOKKOS_FUNCTION double operator()(int i) const { return bytes(i); }
};

// Every rank throws if one rank has too many points; a pointer to one byte stands for them here.
TEST(reduce, more_points_than_ints) {
  using Bytes = decltype(ByteTerm::bytes);
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  std::vector<index_t> counts(static_cast<std::size_t>(mesh.size()), 1);
  counts.back()      = index_t{1} << 31;
  const index_t mine = counts[static_cast<std::size_t>(mesh.rank())];
  static char one    = 0;
  const Bytes::view_type view(&one, static_cast<std::size_t>(mine));
  const Bytes bytes(mesh, view, {Partition::explicit_counts(counts)});
  const auto reduces = [&] { (void)reduce(Space(), bytes, ByteTerm{bytes}); };
  expect_parts(message_thrown_by<ArgumentError>(reduces),
               {"shard::reduce", "dimension 0", "2147483648 points", "more ranks"});
  expect_parts(message_thrown_by<ArgumentError>(reduces), {"2147483648"});  // and again
}

}  // namespace
}  // namespace shard::testing
