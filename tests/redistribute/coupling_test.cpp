// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Couplings between two meshes: of the same ranks, of other ranks, of some in common; random
// shapes, partitions and layouts, against the values of the global indices.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "shard/redistribute/coupling.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace coupling_test {

struct A;
struct B;
struct C;
struct D;

using namespace shard;
using shard::testing::expect_parts;
using shard::testing::message_thrown_by;
using shard::testing::ranks;
using Space = Kokkos::DefaultHostExecutionSpace;

template <class Layout, class... Dims>
using Field      = ShardedView<double**, Layout, Dims..., Kokkos::HostSpace>;
using From       = Field<Kokkos::LayoutLeft, ShardDim<0, A, Halo<1>>, ShardDim<1, B>>;
using To         = Field<Kokkos::LayoutRight, ShardDim<1, C, Halo<2, 1>>, ShardDim<0, D>>;
using Replicated = Field<Kokkos::LayoutRight, ShardDim<0, A>>;

/// The world's ranks for which `in` holds, as a communicator; MPI_COMM_NULL on the others.
class Group {
 public:
  Group(bool in, int key) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, key, &comm_);
  }
  Group(const Group&)            = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

/// The same on all ranks.
Partition random_partition(std::mt19937_64& random, index_t n, int parts) {
  std::vector<index_t> begins{0};
  for (int r = 1; r < parts; ++r)
    begins.push_back(static_cast<index_t>(random() % static_cast<std::uint64_t>(n + 1)));
  begins.push_back(n);
  std::sort(begins.begin(), begins.end());
  return Partition::explicit_begins(begins);
}

/// A field of this extent on a mesh of the group's ranks, with random partitions; none on other
/// ranks.
template <class F, class X, class Y>
std::optional<F> field_of(std::mt19937_64& random, const Group& group, index_t rows,
                          index_t columns) {
  const std::uint64_t seed = random();
  if (group.comm() == MPI_COMM_NULL) return std::nullopt;
  std::mt19937_64 same(seed);
  const Mesh<X, Y> mesh(group.comm(), {0, 0});
  const index_t extents[] = {rows, columns};
  std::array<Partition, 2> partitions;
  for (int d = 0; d < 2; ++d) {
    int parts = 1;
    if (d == 0)
      parts = std::is_same_v<typename F::template axis<0>, X>   ? mesh.template size<X>()
              : std::is_same_v<typename F::template axis<0>, Y> ? mesh.template size<Y>()
                                                                : 1;
    else
      parts = std::is_same_v<typename F::template axis<1>, X>   ? mesh.template size<X>()
              : std::is_same_v<typename F::template axis<1>, Y> ? mesh.template size<Y>()
                                                                : 1;
    partitions[static_cast<std::size_t>(d)] = random_partition(same, extents[d], parts);
  }
  return F("field", mesh, partitions);
}

template <class F, class Use>
void each(const F& f, const Use& use) {
  for (index_t i = 0; i < f.extent(0); ++i)
    for (index_t j = 0; j < f.extent(1); ++j) use(f(i, j), f.to_global(0, i), f.to_global(1, j));
}
double value_of(index_t i, index_t j, int salt = 0) {
  return static_cast<double>(1000 * i + j + 7 * salt);
}

template <class F>
const F* pointer(const std::optional<F>& field) {
  return field ? &*field : nullptr;
}

/// Couples fields of these groups and checks values and transpose.
template <class ToType, class FromType>
void check(std::mt19937_64& random, const Group& to_ranks, const Group& from_ranks,
           bool is_replicated) {
  const auto n       = [&] { return static_cast<index_t>(random() % 9); };
  const index_t rows = n(), columns = n();
  const auto from = field_of<FromType, A, B>(random, from_ranks, rows, columns);
  const auto to   = field_of<ToType, C, D>(random, to_ranks, rows, columns);
  Coupling<ToType, FromType> coupling(MPI_COMM_WORLD, pointer(to), pointer(from));
  for (int step = 0; step < 3; ++step) {
    if (from) {
      each(*from, [&](double& v, index_t i, index_t j) { v = value_of(i, j, step); });
      coupling.send(Space());
      if (!to) each(*from, [](double& v, index_t, index_t) { v = -1; });  // it has been packed
    }
    if (to) {
      coupling.receive(Space());
      each(*to, [&](double& v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j, step)); });
    }
  }
  // <to, coupling(from)> = <adjoint(to), from>, of whole numbers
  std::mt19937_64 own(random() + 31U * static_cast<unsigned>(rank()));
  const auto number = [&] { return static_cast<double>(own() % 17) - 8; };
  double sums[2]    = {};
  std::optional<FromType> x, dx;
  if (from) {
    each(*from, [](double& v, index_t i, index_t j) { v = static_cast<double>((3 * i + j) % 11); });
    x.emplace(from->like("x"));
    Kokkos::deep_copy(x->view(), from->view());
  }
  coupling(Space());
  if (to)
    each(*to, [&](double& v, index_t, index_t) {
      const double dy = number();
      sums[0] += v * dy;
      v = dy;
    });
  if (from) Kokkos::deep_copy(from->view(), 0);
  coupling.adjoint(Space());
  if (from)
    each(*from, [&](double& v, index_t i, index_t j) {
      sums[1] += v * static_cast<double>((3 * i + j) % 11);
    });
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sums[0], sums[1]) << (is_replicated ? "replicated" : "sharded")
                              << ", SHARD_SEED=" << shard::testing::seed();
}

TEST(Coupling, AnyRanksOnEitherSide) {
  std::mt19937_64 random(shard::testing::seed());
  for (int trial = 0; trial < 12; ++trial) {
    // the same ranks in another order; some in common; none
    const auto bits = random();
    const auto in   = [&](unsigned side) {
      if (trial % 3 == 0) return true;
      if (trial % 3 == 1)
        return ranks() == 1 || rank() == 0 ||
               (bits >> (2U * static_cast<unsigned>(rank()) + side) & 1U) != 0;
      const int first =
          1 + static_cast<int>(bits % static_cast<unsigned>(std::max(ranks() - 1, 1)));
      return ranks() == 1 || (rank() < first) == (side == 0);
    };
    const Group to(in(0), ranks() - rank()), from(in(1), rank());
    check<To, From>(random, to, from, false);
    check<To, Replicated>(random, to, from, true);
  }
}

TEST(Coupling, SetsGoInOneMessage) {
  std::mt19937_64 random(shard::testing::seed() + 1);
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 0});
  const Mesh<C, D> there(MPI_COMM_WORLD, {1, ranks()});
  std::vector<From> from;
  std::vector<To> to;
  for (int f = 0; f < 5; ++f) {
    from.emplace_back("from", here, std::array<index_t, 2>{8, 6 + f});
    to.emplace_back("to", there, std::array<index_t, 2>{8, 6 + f});
    each(from.back(), [&](double& v, index_t i, index_t j) { v = value_of(i, j, f); });
  }
  Coupling<std::vector<To>, std::vector<From>> set(MPI_COMM_WORLD, &to, &from);
  const Coupling<To, From> one(MPI_COMM_WORLD, &to.front(), &from.front());
  EXPECT_EQ(set.sends(), one.sends());
  EXPECT_EQ(set.receives(), one.receives());
  set(Space());
  for (int f = 0; f < 5; ++f)
    each(to[static_cast<std::size_t>(f)],
         [&](double& v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j, f)); });
}

TEST(Coupling, SidesThatDontFitAreErrorsOnEveryRank) {
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 0});
  const Mesh<C, D> there(MPI_COMM_WORLD, {0, 0});
  const From x("x", here, {8, 6});
  const To y("y", there, {8, 7}), z("z", there, {8, 6});
  using Made = Coupling<To, From>;
  expect_parts(message_thrown_by<ArgumentError>([&] { const Made c(MPI_COMM_WORLD, &y, &x); }),
               {"7 points in dimension 1", "`from` 6"});
  expect_parts(message_thrown_by<ArgumentError>([&] { const Made c(MPI_COMM_WORLD, nullptr, &x); }),
               {"no rank is on the side `to`"});
  const std::vector<To> two{z, z};
  const std::vector<From> three{x, x, x};
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Coupling<std::vector<To>, std::vector<From>> c(MPI_COMM_WORLD, &two, &three);
               }),
               {"`to` has 2 fields and `from` 3"});
  if (ranks() > 1) {
    const From other("x", here,
                     {Partition::explicit_begins([&] {
                        std::vector<index_t> begins(static_cast<std::size_t>(here.size<A>()) + 1,
                                                    8);
                        begins[0] = 0;
                        return begins;
                      }()),
                      Partition::balanced(6, here.size<B>())});
    const bool differ = !(other.partition(0) == x.partition(0));
    if (differ)
      expect_parts(message_thrown_by<ArgumentError>(
                       [&] { const Made c(MPI_COMM_WORLD, &z, rank() == 0 ? &x : &other); }),
                   {"the side `from` give different fields"});
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { const Made c(MPI_COMM_WORLD, rank() == 0 ? nullptr : &z, &x); }),
                 {"lacks rank 0 of the mesh"});
  }
  Made none;
  expect_parts(message_thrown_by<ArgumentError>([&] { none(Space()); }), {"made by default"});
  Made good(MPI_COMM_WORLD, &z, &x);
  expect_parts(message_thrown_by<ArgumentError>([&] { good.receive(Space()); }), {"send first"});
}

}  // namespace coupling_test
