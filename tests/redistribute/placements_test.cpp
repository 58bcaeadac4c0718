// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every placement to every other.
#include "placed.hpp"

namespace placed_test {

template <class... F>
struct List {};

// one axis and two: with one of them of size 1 these are all placements over the other alone
using Values = List<Plane<>, Plane<ShardDim<0, A>>, Plane<ShardDim<1, A, Halo<1>, shard::Periodic>>,
                    Plane<ShardDim<0, B, Halo<2, 0>>>, Plane<ShardDim<0, A>, ShardDim<1, B>>,
                    Plane<ShardDim<0, B>, ShardDim<1, A>>, Plane<ShardDim<0, Axes<A, B>>>,
                    Plane<ShardDim<0, Axes<B, A>>>, Plane<ShardDim<1, Axes<A, B>>>,
                    shard::ShardedView<double**, Kokkos::LayoutLeft, ShardDim<1, B>>>;
using Parts =
    List<Plane<Partial<A, Sum>>, Plane<ShardDim<0, A>, Partial<B, Sum>>,
         Plane<ShardDim<1, B, Halo<1>>, Partial<A, Sum>>, Plane<Partial<B, Sum>, Partial<A, Sum>>,
         Plane<ShardDim<0, B>, Partial<A, Max>>, Plane<Partial<B, Min>>>;

using shard::testing::ScopedVariable;

struct Case {
  const Grid& mesh;
  std::array<index_t, 2> extents;
  Cut how;
  std::mt19937_64& engine;
};

int case_number = 0;

template <class From, class To>
void redistribute_one(const Case& c) {
  ++case_number;
  const auto from = make<From>("from", c.mesh, c.extents, c.how, c.engine);
  const auto to   = make<To>("to", c.mesh, c.extents, c.how, c.engine);
  fill(from, c.mesh);
  {
    const ScopedVariable unchecked("SHARD_CHECK", "0");  // which would mark the halo
    shard::redistribute(Space(), to, from);
  }
  Space().fence();
  EXPECT_EQ(wrong_cells(to, c.mesh, [](index_t i, index_t j) { return value(i, j); }), 0)
      << "case " << case_number;
  EXPECT_EQ(touched(to), 0) << "case " << case_number;

  constexpr bool adds =
      (std::is_void_v<typename From::reduction> || std::is_same_v<typename From::reduction, Sum>)&&(
          std::is_void_v<typename To::reduction> || std::is_same_v<typename To::reduction, Sum>);
  if constexpr (adds) {
    fill(to, c.mesh, 1);
    shard::redistribute_adjoint(Space(), from, to);
    Space().fence();
    EXPECT_EQ(wrong_cells(from, c.mesh,
                          [](index_t i, index_t j) { return value(i, j) + value(i, j, 1); }),
              0)
        << "transpose of case " << case_number;
    EXPECT_EQ(wrong_cells(to, c.mesh, [](index_t i, index_t j) { return value(i, j, 1); }), 0);
    EXPECT_EQ(touched(from), 0) << "transpose of case " << case_number;
  }
}

template <class From, class... To>
void from_one(const Case& c, List<To...>) {
  (redistribute_one<From, To>(c), ...);
}
template <class... From, class To>
void all_pairs(const Case& c, List<From...>, To to) {
  (from_one<From>(c, to), ...);
}

template <class From, class To>
void on_meshes(From from, To to) {
  case_number = 0;
  std::mt19937_64 engine(shard::testing::seed());
  const int size = shard::testing::ranks();
  for (const shard::Extents<2>& shape : {shard::Extents<2>{size, 1}, shard::Extents<2>{0, 0}}) {
    for (const Cut how : {Cut::balanced, Cut::random, Cut::at_one_rank}) {
      if (how == Cut::at_one_rank && shape[0] != 0) continue;
      // many ranks share few cores, each call of theirs takes long
      const bool few = shape[0] == 0 && (how == Cut::random || (size == 4 && how == Cut::balanced));
      if (size > 2 && !few && !shard::testing::thorough()) continue;
      const Grid mesh(MPI_COMM_WORLD, shape);
      SCOPED_TRACE("mesh " + std::to_string(mesh.size<A>()) + " x " +
                   std::to_string(mesh.size<B>()) + ", cut " +
                   std::to_string(static_cast<int>(how)));
      all_pairs({mesh, {7, 10}, how, engine}, from, to);
    }
  }
}

TEST(placed, values_to_values) { on_meshes(Values{}, Values{}); }
TEST(placed, contributions_to_values) { on_meshes(Parts{}, Values{}); }
TEST(placed, values_to_contributions) { on_meshes(Values{}, Parts{}); }
TEST(placed, contributions_to_contributions) { on_meshes(Parts{}, Parts{}); }

}  // namespace placed_test
