// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index spaces: each place of a halo gets the value of its global id, for any ids, owners, layers,
// types and layouts; the adjoint is the transpose.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../../src/view/index_directory.hpp"
#include "io/scratch_file.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace index_space_test {

struct Ranks;
struct Lat;
struct Cell;
struct Edge;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
using Id    = std::int64_t;

template <class Type, class Layout, class... Dims>
using Field = ShardedView<Type, Layout, Dims..., Kokkos::HostSpace>;
using Cells = ShardDim<0, Ranks, Indices<Cell>>;
using Edges = ShardDim<0, Ranks, Indices<Edge>>;

int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

/// A random index space that all ranks know: the ids of each rank's places.
struct Imagined {
  std::vector<std::vector<Id>> ids;
  std::vector<index_t> owned;
  std::vector<std::vector<int>> layers;

  /// `elements` ids over `parts` ranks, some of which own none; `spread`: distance between ids.
  Imagined(std::mt19937_64& random, int parts, int elements, Id spread, int most_halo)
      : ids(static_cast<std::size_t>(parts)), owned(ids.size()), layers(ids.size()) {
    const auto below = [&](auto n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    std::vector<Id> all(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = (static_cast<Id>(i) - elements / 3) * spread;
    std::shuffle(all.begin(), all.end(), random);
    const int owners = 1 + below(parts);  // the first of them
    for (const Id id : all) ids[static_cast<std::size_t>(below(owners))].push_back(id);
    for (std::size_t r = 0; r < ids.size(); ++r) {
      owned[r]       = static_cast<index_t>(ids[r].size());
      const int halo = elements == 0 ? 0 : below(most_halo + 1);
      for (int h = 0; h < halo; ++h) {  // in runs, own ones and repeated ones among them
        const auto first = static_cast<std::size_t>(below(elements));
        for (std::size_t i = first; i < std::min(first + 3, all.size()); ++i)
          ids[r].push_back(all[i]);
      }
      const std::size_t places = ids[r].size() - static_cast<std::size_t>(owned[r]);
      for (std::size_t h = 0; h < places; ++h) layers[r].push_back(1 + below(3));
      std::sort(layers[r].begin(), layers[r].end());
    }
  }
  std::size_t me(int coordinate) const { return static_cast<std::size_t>(coordinate); }
};

template <class T>
T value_of(Id id, index_t k) {
  return static_cast<T>(id * 7 + 3 * k);
}

/// A field of elements by levels, whichever dimension is the index space's.
template <class F>
auto& at(const F& f, index_t place, index_t k) {
  if constexpr (impl::index_dim<F>() == 0)
    return f(place, k);
  else
    return f(k, place);
}

template <class F>
void fill(const F& f, const std::vector<Id>& ids, index_t owned, index_t levels) {
  using T = typename F::value_type;
  for (index_t i = 0; i < static_cast<index_t>(ids.size()); ++i)
    for (index_t k = 0; k < levels; ++k)
      at(f, i, k) = i < owned ? value_of<T>(ids[static_cast<std::size_t>(i)], k) : T(-1);
}

template <class F>
int wrong_values(const F& f, const std::vector<Id>& ids, index_t levels, index_t places,
                 index_t owned) {
  using T   = typename F::value_type;
  int wrong = 0;
  for (index_t i = 0; i < static_cast<index_t>(ids.size()); ++i)
    for (index_t k = 0; k < levels; ++k) {
      const T expected =
          i < places || i < owned ? value_of<T>(ids[static_cast<std::size_t>(i)], k) : T(-1);
      wrong += at(f, i, k) == expected ? 0 : 1;
    }
  return wrong;
}

TEST(IndexSpace, HalosOf200RandomSpacesHaveTheValuesOfTheirIds) {
  std::mt19937_64 random(shard::testing::seed());
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (int trial = 0; trial < 100; ++trial) {
    const Imagined c(random, ranks(), static_cast<int>(random() % 60), trial % 3 == 0 ? 1000003 : 1,
                     12);
    const Imagined e(random, ranks(), static_cast<int>(random() % 90), 1, 20);
    const auto me = static_cast<std::size_t>(rank());
    const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids(c.ids[me], c.owned[me], c.layers[me]));
    const IndexSpace<Edge, Ranks> edges(mesh, by_global_ids(e.ids[me], e.owned[me], e.layers[me]));
    EXPECT_EQ(cells.owned(), c.owned[me]);
    EXPECT_EQ(cells.places(), static_cast<index_t>(c.ids[me].size()));
    const auto three = Partition::whole(3), five = Partition::whole(5);
    const Field<double**, Kokkos::LayoutRight, Cells> t("t", mesh, {cells, three});
    const Field<float**, Kokkos::LayoutLeft, Cells> u("u", mesh, {cells, five});
    const Field<std::int16_t**, Kokkos::LayoutRight, ShardDim<1, Ranks, Indices<Edge>>> v(
        "v", mesh, {three, edges});
    const auto refill = [&] {
      fill(t, c.ids[me], c.owned[me], 3);
      fill(u, c.ids[me], c.owned[me], 5);
      fill(v, e.ids[me], e.owned[me], 3);
    };
    refill();
    const Exchange halos(t, u, v);
    halos(Space());
    EXPECT_EQ(wrong_values(t, c.ids[me], 3, cells.places(), 0), 0)
        << "SHARD_SEED=" << shard::testing::seed();
    EXPECT_EQ(wrong_values(u, c.ids[me], 5, cells.places(), 0), 0)
        << "SHARD_SEED=" << shard::testing::seed();
    EXPECT_EQ(wrong_values(v, e.ids[me], 3, edges.places(), 0), 0)
        << "SHARD_SEED=" << shard::testing::seed();
    refill();
    const auto near = halos.layers<1>();
    near(Space());
    EXPECT_EQ(wrong_values(t, c.ids[me], 3, cells.layers() > 0 ? cells.places(1) : cells.owned(),
                           cells.owned()),
              0);
    EXPECT_LE(near.sends(), halos.sends());
  }
}

/// Sums of whole numbers, so that each order of additions gives the same.
TEST(IndexSpace, TheAdjointIsTheTranspose) {
  std::mt19937_64 random(shard::testing::seed() + 1);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (int trial = 0; trial < 20; ++trial) {
    const Imagined c(random, ranks(), static_cast<int>(random() % 60), 1, 15);
    const auto me = static_cast<std::size_t>(rank());
    const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids(c.ids[me], c.owned[me], c.layers[me]));
    using F = Field<double**, Kokkos::LayoutRight, Cells>;
    const F x("x", mesh, {cells, Partition::whole(2)}), y = x.like("y"), ex = x.like("ex");
    std::mt19937_64 own(random() + 17 * me);
    const auto number = [&] { return static_cast<double>(own() % 19) - 9; };
    for (index_t i = 0; i < cells.places(); ++i)
      for (index_t k = 0; k < 2; ++k) {
        x(i, k) = ex(i, k) = i < cells.owned() ? number() : 0;
        y(i, k)            = number();
      }
    exchange(Space(), ex);
    double sums[2] = {};
    for (index_t i = 0; i < cells.places(); ++i)
      for (index_t k = 0; k < 2; ++k) sums[0] += ex(i, k) * y(i, k);
    exchange_adjoint(Space(), y);
    for (index_t i = 0; i < cells.places(); ++i)
      for (index_t k = 0; k < 2; ++k) {
        if (i < cells.owned())
          sums[1] += x(i, k) * y(i, k);
        else
          EXPECT_EQ(y(i, k), 0);
      }
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sums[0], sums[1]) << "SHARD_SEED=" << shard::testing::seed();
  }
}

// A ring of eight ids, ten places of halo on each side (GHEX's periodic planes, Atlas' ghosts).
TEST(IndexSpace, IdsThatAreSeveralTimesInAHalo) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const auto part     = Partition::balanced(8, ranks());
  const index_t first = part.begin(rank()), last = part.end(rank());
  std::vector<Id> ids;
  for (index_t g = first; g < last; ++g) ids.push_back(g);
  for (index_t h = -10; h < 0; ++h) ids.push_back(((first + h) % 8 + 8) % 8);
  for (index_t h = 0; h < 10; ++h) ids.push_back((last + h) % 8);
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids(ids, last - first));
  const Field<double*, Kokkos::LayoutRight, Cells> t("t", mesh, {cells});
  for (index_t i = 0; i < cells.owned(); ++i) t(i) = static_cast<double>(first + i);
  exchange(Space(), t);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(t(i), static_cast<double>(ids[i])) << i;
  for (std::size_t i = 0; i < ids.size(); ++i) t(i) = 1;
  exchange_adjoint(Space(), t);
  double sum = 0;
  for (index_t i = 0; i < cells.owned(); ++i) {
    sum += t(i);
    const index_t g = first + i;
    if (ranks() == 1) {
      EXPECT_EQ(t(i), g < 2 || g > 5 ? 4 : 3) << "id " << g;
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, 8 + 20 * ranks());
}

// Tpetra #1752: two rows a rank, the second is the next rank's first.
TEST(IndexSpace, RowsSharedWithTheNeighbour) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const bool last = rank() + 1 == ranks();
  std::vector<int> owner;
  std::vector<index_t> place;
  if (!last) {
    owner = {rank() + 1};
    place = {0};
  }
  const IndexSpace<Cell, Ranks> rows(mesh, by_owner(owner, place, 1));
  const Field<double*, Kokkos::LayoutRight, Cells> x("x", mesh, {rows});
  for (index_t i = 0; i < rows.places(); ++i) x(i) = 1;
  exchange(Space(), x);
  for (index_t i = 0; i < rows.places(); ++i) EXPECT_EQ(x(i), 1);
  exchange_adjoint(Space(), x);
  EXPECT_EQ(x(0), rank() == 0 ? 1 : 2);
}

// MPAS #1134: models have a dummy element behind the halo, which missing neighbours name.
TEST(IndexSpace, ElementsBehindTheHaloStayAsTheyAre) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids({rank(), (rank() + 1) % ranks()}, 1));
  const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> mine("mine", 4, 3);
  Kokkos::deep_copy(mine, -7.5);
  const Field<double**, Kokkos::LayoutRight, Cells> t(mesh, mine, {cells, Partition::whole(3)});
  for (index_t k = 0; k < 3; ++k) t(0, k) = 10.0 * rank() + static_cast<double>(k);
  exchange(Space(), t);
  for (index_t k = 0; k < 3; ++k)
    EXPECT_EQ(mine(1, k), 10.0 * ((rank() + 1) % ranks()) + static_cast<double>(k));
  exchange_adjoint(Space(), t);
  for (std::size_t i : {2, 3})
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(mine(i, k), -7.5);
  const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> little("little", 1, 3);
  using F = Field<double**, Kokkos::LayoutRight, Cells>;
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const F f(mesh, little, {cells, Partition::whole(3)});
               }),
               {"little", "extent 1", "make 2"});
}

// Cells beyond a coast, which no rank keeps.
TEST(IndexSpace, PlacesThatNoRankOwnsAreZero) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = rank(), next = (me + 1) % ranks();
  const auto by_ids    = by_global_ids({me, 1000, next, -5, 1001, next}, 1, {1, 1, 1, 2, 2});
  const auto by_places = by_owner({-1, static_cast<int>(next), -1, -1, static_cast<int>(next)},
                                  {0, 0, 0, 0, 0}, 1, {1, 1, 1, 2, 2});
  using F = Field<float**, Kokkos::LayoutRight, Cells, ShardDim<1, Unsharded, Halo<1>, Periodic>>;
  for (const auto& description : {by_ids, by_places}) {
    const IndexSpace<Cell, Ranks> cells(mesh, description.zero_where_unowned());
    const F t("t", mesh, {cells, Partition::whole(3)});
    const auto value = [&](index_t place, index_t k) {
      const bool owned_by_me = place == 0, owned_by_next = place == 2 || place == 5;
      return owned_by_me || owned_by_next
                 ? static_cast<float>((owned_by_me ? me : next) + 10 * k + 1)
                 : 0.0F;
    };
    const auto reset = [&] {
      Kokkos::deep_copy(t.view(), -1.0F);
      for (index_t k = 0; k < 3; ++k) t(0, k) = value(0, k);
    };
    reset();
    const Exchange halos(t);
    halos(Space());
    for (index_t i = 0; i < 6; ++i)
      for (index_t k = -1; k < 4; ++k) EXPECT_EQ(t(i, k), value(i, (k + 3) % 3)) << i << ", " << k;
    reset();
    halos.layers<1>()(Space());
    for (index_t i = 0; i < 4; ++i) EXPECT_EQ(t(i, 1), value(i, 1)) << i;
    for (index_t i : {4, 5}) EXPECT_EQ(t(i, 1), -1.0F) << i;
    Kokkos::deep_copy(t.view(), 1.0F);
    halos.adjoint(Space());
    EXPECT_EQ(t(0, 1), 3.0F) << "itself and two copies";
    for (index_t i = 1; i < 6; ++i) EXPECT_EQ(t(i, 1), 0.0F) << i;
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { const IndexSpace<Cell, Ranks> strict(mesh, description); }),
                 {"IndexSpace"});
  }
}

// Elements over one axis of the mesh, a structured dimension with a halo over the other.
TEST(IndexSpace, BesideAStructuredDimensionWithAHalo) {
  const Mesh<Ranks, Lat> mesh(MPI_COMM_WORLD, {0, 0});
  std::mt19937_64 random(shard::testing::seed() + 2);
  const Imagined c(random, mesh.size<Ranks>(), 40, 1, 9);
  const auto me = static_cast<std::size_t>(mesh.coordinate<Ranks>());
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids(c.ids[me], c.owned[me], c.layers[me]));
  const Field<double**, Kokkos::LayoutRight, Cells, ShardDim<1, Lat, Halo<1>, Periodic>> t(
      "t", mesh, {cells, Partition::balanced(9, mesh.size<Lat>())});
  const auto expected = [&](index_t i, index_t j) {
    return static_cast<double>(100 * c.ids[me][static_cast<std::size_t>(i)] +
                               (t.to_global(1, j) + 9) % 9);
  };
  Kokkos::deep_copy(t.view(), -1);
  for (index_t i = 0; i < cells.owned(); ++i)
    for (index_t j = 0; j < t.extent(1); ++j) t(i, j) = expected(i, j);
  exchange(Space(), t);
  for (index_t i = 0; i < cells.places(); ++i)
    for (index_t j = -1; j <= t.extent(1); ++j)
      EXPECT_EQ(t(i, j), expected(i, j)) << i << ", " << j;
}

struct CountKernel {
  Field<double*, Kokkos::LayoutRight, Cells> t;
  KOKKOS_FUNCTION void operator()(int i) const { t(i) += 1; }
};

TEST(IndexSpace, RegionsRunOverLayers) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id next = (rank() + 1) % ranks(), after = (rank() + 2) % ranks();
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids({rank(), next, after}, 1, {1, 2}));
  const Field<double*, Kokkos::LayoutRight, Cells> t("t", mesh, {cells});
  for (const int layer : {0, 1, 2})
    parallel_for("count", Space(), layer_region(t, layer), CountKernel{t});
  Space().fence();
  EXPECT_EQ(t(0), 3);
  EXPECT_EQ(t(1), 2);
  EXPECT_EQ(t(2), 1);
  EXPECT_EQ(cells.layers(), 2);
  expect_parts(message_thrown_by<ArgumentError>([&] { layer_region(t, 3); }),
               {"layer 3", "0 and 2"});
  exchange(Space(), t);
  EXPECT_EQ(t(1), 3);
  EXPECT_EQ(t(2), 3);
}

struct SumKernel {  // of an element and the next one's, which is in the halo at the end
  Field<double*, Kokkos::LayoutRight, Cells> t, sum;
  KOKKOS_FUNCTION void operator()(int i) const { sum(i) = t(i) + t(i + 1); }
};

TEST(IndexSpace, OverlapComputesTheInteriorBeforeTheHaloIsThere) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  for (Id i = 0; i < 4; ++i) ids.push_back(4 * rank() + i);
  ids.push_back(4 * ((rank() + 1) % ranks()));
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids(ids, 4).interior(3));
  const Field<double*, Kokkos::LayoutRight, Cells> t("t", mesh, {cells}), sum = t.like("sum");
  for (int i = 0; i < 4; ++i) t(i) = static_cast<double>(ids[static_cast<std::size_t>(i)]);
  t(4) = -1;
  EXPECT_EQ(interior(t).cells(), 3);
  EXPECT_EQ(rim(t).cells(), 1);
  const Exchange halos(t);
  overlapped("sum", Space(), halos, t, SumKernel{t, sum});
  Space().fence();
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(sum(i), static_cast<double>(ids[i] + ids[i + 1])) << i;
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const IndexSpace<Cell, Ranks> wrong(mesh, by_global_ids({rank()}, 1).interior(2));
               }),
               {"the interior has 2 places of 1"});
}

// Of two spaces of one type, with as many places each, only the identity tells which is meant.
TEST(IndexSpace, APlanRefusesFieldsOverAnotherSpace) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = rank(), all = ranks();
  using F = Field<double*, Kokkos::LayoutRight, Cells>;
  const IndexSpace<Cell, Ranks> east(mesh, by_global_ids({me, (me + 1) % all}, 1)),
      west(mesh, by_global_ids({me, (me + all - 1) % all}, 1));
  const F f("f", mesh, {east}), g("g", mesh, {west});
  const Exchange plan(f);
  expect_parts(message_thrown_by<ArgumentError>([&] { plan(Space(), g); }),
               {"\"g\"", "another index space", "\"f\""});
  g(0) = static_cast<double>(me);
  exchange(Space(), g);
  EXPECT_EQ(g(1), static_cast<double>((me + all - 1) % all));
}

TEST(IndexSpace, IsMadeByDefaultAndFindsPlaces) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  IndexSpace<Cell, Ranks> cells;
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)cells.owned(); }), {"by default"});
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)cells.partition(); }), {"by default"});
  const Id me = rank(), all = ranks();
  cells = IndexSpace<Cell, Ranks>(mesh,
                                  by_global_ids({2 * me + 1, 2 * me, (2 * me + 2) % (2 * all)}, 2));
  EXPECT_EQ(cells.places_of({2 * me, 2 * me + 1, -3, (2 * me + 2) % (2 * all)}),
            (std::vector<index_t>{1, 0, -1, all == 1 ? 1 : 2}));
}

TEST(IndexSpace, WithoutAHaloEachLayerIsTheOwnedElements) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids({2 * rank(), 2 * rank() + 1}, 2));
  const Field<double*, Kokkos::LayoutRight, Cells> t("t", mesh, {cells});
  EXPECT_EQ(cells.layers(), 0);
  EXPECT_EQ(cells.places(3), 2);
  EXPECT_EQ(layer_region(t, 1).cells(), 2);
  EXPECT_THROW((void)cells.places(-1), ArgumentError);
}

// The same ids over other ranks: a new partition, or an order for files.
TEST(IndexSpace, RedistributeMovesByIds) {
  std::mt19937_64 random(shard::testing::seed() + 3);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const auto me = static_cast<std::size_t>(rank());
  for (int trial = 0; trial < 10; ++trial) {
    const int elements = static_cast<int>(random() % 60);
    const Imagined a(random, ranks(), elements, 5, 6), b(random, ranks(), elements, 5, 6);
    const IndexSpace<Cell, Ranks> from(mesh, by_global_ids(a.ids[me], a.owned[me], a.layers[me]));
    const IndexSpace<Cell, Ranks> to(mesh, by_global_ids(b.ids[me], b.owned[me], b.layers[me]));
    const Field<double**, Kokkos::LayoutRight, Cells> x("x", mesh, {from, Partition::whole(3)}),
        y("y", mesh, {to, Partition::whole(3)});
    fill(x, a.ids[me], a.owned[me], 3);
    const std::vector<Id> owned_ids(b.ids[me].begin(), b.ids[me].begin() + b.owned[me]);
    for (int again = 0; again < 2; ++again) {
      Kokkos::deep_copy(y.view(), -1);
      redistribute(Space(), y, x);
      EXPECT_EQ(wrong_values(y, owned_ids, 3, to.owned(), 0), 0)
          << "SHARD_SEED=" << shard::testing::seed();
    }
    redistribute_adjoint(Space(), x, y);  // adds the values to themselves
    for (index_t i = 0; i < from.owned(); ++i)
      EXPECT_EQ(x(i, 1), 2 * value_of<double>(a.ids[me][static_cast<std::size_t>(i)], 1));
  }
  const IndexSpace<Cell, Ranks> some(mesh, by_global_ids({rank()}, 1)),
      others(mesh, by_global_ids({rank() + 1}, 1)), unknown(mesh, by_owner({}, {}, 1));
  const Field<double*, Kokkos::LayoutRight, Cells> x("x", mesh, {some}), y("y", mesh, {others}),
      z("z", mesh, {unknown});
  expect_parts(message_thrown_by<ArgumentError>([&] { redistribute(Space(), y, x); }),
               {"shard::redistribute: ", "needs the id", "no rank owns it"});
  expect_parts(message_thrown_by<ArgumentError>([&] { redistribute(Space(), z, x); }),
               {"described by owners"});
}

// Two spaces of the same elements whose halos are the next element and the one before.
TEST(IndexSpace, SpacesOfOtherHalosHaveOtherPlans) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = rank(), n = ranks();
  const IndexSpace<Cell, Ranks> next(mesh, by_global_ids({me, (me + 1) % n}, 1)),
      before(mesh, by_global_ids({me, (me + n - 1) % n}, 1));
  const Field<double*, Kokkos::LayoutRight, Cells> x("x", mesh, {next}), y("y", mesh, {before});
  x(0) = y(0) = static_cast<double>(me);
  exchange(Space(), x);
  exchange(Space(), y);
  EXPECT_EQ(x(1), static_cast<double>((me + 1) % n));
  EXPECT_EQ(y(1), static_cast<double>((me + n - 1) % n));
}

/// The neighbours of elements of a torus of points, `side` by `side`.
Neighbours on_torus(const std::vector<Id>& ids, Id side) {
  Neighbours near;
  for (const Id id : ids) {
    const Id i = id / side, j = id % side;
    near.add({(i + 1) % side * side + j, (i + side - 1) % side * side + j,
              i * side + (j + 1) % side, i * side + (j + side - 1) % side});
  }
  return near;
}
Id apart(Id a, Id b, Id side) { return std::min((a - b + side) % side, (b - a + side) % side); }

TEST(IndexSpace, FloodedLayersAreDistances) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr Id side = 12;
  std::vector<MeshPoint> points;
  for (Id id = 0; id < side * side; ++id)
    points.push_back({static_cast<double>(id / side), static_cast<double>(id % side), 0});
  auto part = bisection(points, ranks());
  std::mt19937_64 random(shard::testing::seed() + 4);
  for (int islands = 0; islands < 8; ++islands)
    part[random() % part.size()] = static_cast<int>(random() % static_cast<std::uint64_t>(ranks()));
  std::vector<Id> own;
  for (Id id = 0; id < side * side; ++id)
    if (part[static_cast<std::size_t>(id)] == rank()) own.push_back(id);
  const auto order = locality_order(own, on_torus(own, side));
  std::vector<Id> ids;
  for (const index_t i : order.order) ids.push_back(own[static_cast<std::size_t>(i)]);
  EXPECT_TRUE(std::is_permutation(ids.begin(), ids.end(), own.begin(), own.end()));
  const FloodedIds all = flood<Ranks>(mesh, ids, on_torus(ids, side), 3);
  const auto distance  = [&](Id id) {
    Id least = 3 * side;
    for (const Id o : own)
      least = std::min(least, apart(id / side, o / side, side) + apart(id % side, o % side, side));
    return least;
  };
  std::size_t within = 0;
  for (Id id = 0; id < side * side; ++id) within += !own.empty() && distance(id) <= 3 ? 1 : 0;
  EXPECT_EQ(all.ids.size(), within);
  for (std::size_t h = 0; h < all.layers.size(); ++h)
    EXPECT_EQ(distance(all.ids[h + own.size()]), all.layers[h]);
  for (std::size_t i = 0; i < ids.size(); ++i) {  // the interior is those that read no halo
    bool reads_halo = false;
    for (const Id n : on_torus({ids[i]}, side).id)
      reads_halo = reads_halo || part[static_cast<std::size_t>(n)] != rank();
    EXPECT_EQ(reads_halo, static_cast<index_t>(i) >= order.interior);
  }
  const IndexSpace<Cell, Ranks> cells(mesh, all.description().interior(order.interior));
  const Field<double*, Kokkos::LayoutRight, Cells> t("t", mesh, {cells});
  for (index_t i = 0; i < cells.owned(); ++i)
    t(i) = static_cast<double>(ids[static_cast<std::size_t>(i)]);
  exchange(Space(), t);
  for (std::size_t i = 0; i < all.ids.size(); ++i) EXPECT_EQ(t(i), static_cast<double>(all.ids[i]));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 Neighbours none;
                 none.add({1000});
                 flood<Ranks>(mesh, {rank()}, none, 1);
               }),
               {"needs the id 1000"});
}

// Edge 2 c is east of cell c of a torus, edge 2 c + 1 south of it. Edges have other owners than
// their cells, at random.
TEST(IndexSpace, FloodedEdgesAreThoseOfTheCells) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr Id side   = 10;
  const auto edges_of = [](const std::vector<Id>& cells) {
    Neighbours edges;
    for (const Id c : cells) {
      const Id i = c / side, j = c % side;
      edges.add({2 * c, 2 * c + 1, 2 * (i * side + (j + side - 1) % side),
                 2 * ((i + side - 1) % side * side + j) + 1});
    }
    return edges;
  };
  std::mt19937_64 random(shard::testing::seed() + 9);
  const auto own_of = [&](Id n, Id block) {
    std::vector<Id> own;
    for (Id id = 0; id < n; id += block) {
      const bool mine = static_cast<int>(random() % static_cast<std::uint64_t>(ranks())) == rank();
      for (Id k = id; mine && k < id + block; ++k) own.push_back(k);
    }
    return own;
  };
  const auto own_cells = own_of(side * side, 5), own_edges = own_of(2 * side * side, 20);
  const FloodedIds cells = flood<Ranks>(mesh, own_cells, on_torus(own_cells, side), 2);
  const FloodedIds edges = flood<Ranks>(mesh, own_edges, cells, edges_of(own_cells));
  EXPECT_EQ(edges.owned, static_cast<index_t>(own_edges.size()));
  std::map<Id, int> layer;  // of each edge that this rank needs
  for (std::size_t c = 0; c < cells.ids.size(); ++c) {
    const int of_cell = c < own_cells.size() ? 0 : cells.layers[c - own_cells.size()];
    for (const Id e : edges_of({cells.ids[c]}).id)
      if (std::find(own_edges.begin(), own_edges.end(), e) == own_edges.end())
        layer.emplace(e, of_cell + 1);  // cells are in the order of layers
  }
  EXPECT_EQ(edges.ids.size(), own_edges.size() + layer.size());
  for (std::size_t h = 0; h < edges.layers.size(); ++h)
    EXPECT_EQ(layer[edges.ids[h + own_edges.size()]], edges.layers[h]);
  const IndexSpace<Cell, Ranks> space(mesh, edges.description());
  const Field<double*, Kokkos::LayoutRight, Cells> u("u", mesh, {space});
  for (index_t i = 0; i < space.owned(); ++i)
    u(i) = static_cast<double>(own_edges[static_cast<std::size_t>(i)]);
  exchange(Space(), u);
  for (std::size_t i = 0; i < edges.ids.size(); ++i)
    EXPECT_EQ(u(i), static_cast<double>(edges.ids[i]));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 flood<Ranks>(mesh, own_edges, cells, edges_of({0, 0, 0, 0, 0, 0, 0}));
               }),
               {"flood", "neighbours of 7 elements"});
}

TEST(IndexSpace, PartitionsAreBalancedAndNear) {
  std::vector<MeshPoint> points;
  std::vector<double> weights;
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j) {
      points.push_back({0.1 * i, 0.1 * j, 0});
      weights.push_back(i < 16 ? 3 : 1);
    }
  for (const int parts : {1, 3, 7, 16})
    for (const bool curve : {false, true})
      for (const bool weighted : {false, true}) {
        const auto given = weighted ? weights : std::vector<double>();
        const auto part =
            curve ? curve_partition(points, parts, given) : bisection(points, parts, given);
        std::vector<double> sums(static_cast<std::size_t>(parts));
        int cut = 0;
        for (std::size_t p = 0; p < part.size(); ++p) {
          sums[static_cast<std::size_t>(part[p])] += weighted ? weights[p] : 1;
          if (p % 32 < 31) cut += part[p] != part[p + 1] ? 1 : 0;
          if (p < 31 * 32) cut += part[p] != part[p + 32] ? 1 : 0;
        }
        const double mean = (weighted ? 2048.0 : 1024.0) / parts;
        for (const double sum : sums) EXPECT_NEAR(sum, mean, 10) << parts << curve << weighted;
        EXPECT_LT(cut, 5 * 32 * std::sqrt(parts) - 100) << parts << curve << weighted;
      }
  std::vector<index_t> order = curve_order(points);
  double length              = 0;
  for (std::size_t p = 1; p < order.size(); ++p) {
    const auto &a = points[static_cast<std::size_t>(order[p - 1])],
               &b = points[static_cast<std::size_t>(order[p])];
    length += std::hypot(a[0] - b[0], a[1] - b[1]);
  }
  EXPECT_LT(length, 0.1 * 1024 * 2);  // most steps are to a neighbour
  // along a line that is numbered at random, the order of Cuthill and McKee is that of the line
  std::vector<Id> line(40);
  std::iota(line.begin(), line.end(), 0);
  std::mt19937_64 random(7);
  std::shuffle(line.begin(), line.end(), random);
  Neighbours near;
  for (const Id id : line)
    near.add(id == 0    ? std::vector<Id>{1}
             : id == 39 ? std::vector<Id>{38}
                        : std::vector<Id>{id - 1, id + 1});
  const auto rcm = locality_order(line, near);
  EXPECT_EQ(rcm.interior, 40);
  // reversed: the end that is first in the list, where it begins, is last
  const auto end = std::find_if(line.begin(), line.end(), [](Id id) { return id % 39 == 0; });
  EXPECT_EQ(rcm.order.back(), end - line.begin());
  for (std::size_t i = 1; i < 40; ++i)
    EXPECT_EQ(std::abs(line[static_cast<std::size_t>(rcm.order[i])] -
                       line[static_cast<std::size_t>(rcm.order[i - 1])]),
              1);
  expect_parts(message_thrown_by<ArgumentError>([&] { bisection(points, 0); }), {"0 parts"});
  expect_parts(message_thrown_by<ArgumentError>([&] { curve_partition(points, 2, {1.0}); }),
               {"1024 points and 1 weights"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 locality_order({1, 1}, near);
               }),
               {"2 ids", "40 elements"});
}

TEST(IndexSpace, OrderedSumsHaveTheBitsOfOneRank) {
  std::mt19937_64 random(shard::testing::seed() + 5);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0}), alone(MPI_COMM_SELF, {0});
  const Imagined c(random, ranks(), 200, 1, 9);
  const auto me = static_cast<std::size_t>(rank());
  const IndexSpace<Cell, Ranks> cells(mesh, by_global_ids(c.ids[me], c.owned[me], c.layers[me]));
  std::vector<Id> every;
  for (std::size_t r = 0; r < c.ids.size(); ++r)
    every.insert(every.end(), c.ids[r].begin(), c.ids[r].begin() + c.owned[r]);
  std::sort(every.begin(), every.end());
  const IndexSpace<Cell, Ranks> all(alone, by_global_ids(every, 200));
  using F = Field<double*, Kokkos::LayoutRight, Cells>;
  const F x("x", mesh, {cells}), y("y", alone, {all});
  const auto value = [](Id id) {
    return std::sin(static_cast<double>(id)) * std::pow(10.0, static_cast<double>(id % 13));
  };
  for (index_t i = 0; i < cells.places(); ++i) x(i) = value(c.ids[me][static_cast<std::size_t>(i)]);
  for (index_t i = 0; i < 200; ++i) y(i) = value(every[static_cast<std::size_t>(i)]);
  EXPECT_EQ(sum<Determinism::ordered>(Space(), x), sum<Determinism::ordered>(Space(), y));
  const double mine = dot<Determinism::ordered>(Space(), x, x);
  EXPECT_EQ(mine, dot<Determinism::ordered>(Space(), y, y));
}

// The file has the elements in the order of their ids: any ranks and partition read it.
TEST(IndexSpace, CheckpointsAreInTheOrderOfIds) {
  std::mt19937_64 random(shard::testing::seed() + 6);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const auto me = static_cast<std::size_t>(rank());
  const shard::testing::ScratchFile file("index_space.checkpoint");
  for (const Id spread : {Id(1), Id(1000003)}) {
    const Imagined a(random, ranks(), 57, spread, 6), b(random, ranks(), 57, spread, 6);
    const IndexSpace<Cell, Ranks> from(mesh, by_global_ids(a.ids[me], a.owned[me], a.layers[me]));
    const IndexSpace<Cell, Ranks> to(mesh, by_global_ids(b.ids[me], b.owned[me], b.layers[me]));
    using Line   = Field<float*, Kokkos::LayoutRight, Cells>;
    using Levels = Field<double**, Kokkos::LayoutRight, Cells>;
    using Last   = Field<std::int16_t**, Kokkos::LayoutRight, ShardDim<1, Ranks, Indices<Cell>>>;
    const auto three = Partition::whole(3);
    const Line x("x", mesh, {from}), rx("rx", mesh, {to});
    const Levels y("y", mesh, {from, three}), ry("ry", mesh, {to, three});
    const Last z("z", mesh, {three, from}), rz("rz", mesh, {three, to});
    fill(y, a.ids[me], a.owned[me], 3);
    fill(z, a.ids[me], a.owned[me], 3);
    for (index_t i = 0; i < from.owned(); ++i)
      x(i) = static_cast<float>(a.ids[me][static_cast<std::size_t>(i)]);
    Checkpoint saved(mesh.communicator()), loaded(mesh.communicator());
    saved.add("x", x), saved.add("y", y), saved.add("z", z);
    saved.save(file.path());
    loaded.add("x", rx), loaded.add("y", ry), loaded.add("z", rz);
    loaded.load(file.path());
    const std::vector<Id> owned_ids(b.ids[me].begin(), b.ids[me].begin() + b.owned[me]);
    EXPECT_EQ(wrong_values(ry, owned_ids, 3, to.owned(), 0), 0);
    EXPECT_EQ(wrong_values(rz, owned_ids, 3, to.owned(), 0), 0);
    for (index_t i = 0; i < to.owned(); ++i)
      EXPECT_EQ(rx(i), static_cast<float>(owned_ids[static_cast<std::size_t>(i)]));
  }
  const IndexSpace<Cell, Ranks> unknown(mesh, by_owner({}, {}, 1));
  const Field<double*, Kokkos::LayoutRight, Cells> x("x", mesh, {unknown});
  Checkpoint state(mesh.communicator());
  expect_parts(message_thrown_by<ArgumentError>([&] { state.add("x", x); }),
               {"described by owners"});
}

// MPI counts in ints, so what is longer goes in parts; here they are short.
TEST(IndexSpace, LongMessagesGoInParts) {
  impl::SparseExchange exchange(MPI_COMM_WORLD, 40);
  const auto sent_by = [](int from, int to) {
    std::vector<Id> values(static_cast<std::size_t>((3 * from + 5 * to) % 19));
    std::iota(values.begin(), values.end(), Id{100} * from + to);
    return values;
  };
  for (int round = 0; round < 3; ++round) {
    std::map<int, std::vector<Id>> sent;
    for (int to = 0; to < ranks(); ++to)
      if ((rank() + to + round) % 3 != 0) sent[to] = sent_by(rank(), to);
    const auto received = exchange(sent);
    for (int from = 0; from < ranks(); ++from) {
      const auto found = received.find(from);
      ASSERT_EQ(found != received.end(), (rank() + from + round) % 3 != 0) << "rank " << from;
      if (found != received.end()) {
        EXPECT_EQ(found->second, sent_by(from, rank()));
      }
    }
  }
}

TEST(IndexSpace, WrongSpacesAreErrorsOnEveryRank) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  using Made         = IndexSpace<Cell, Ranks>;
  const auto message = [&](const IndexDescription& description) {
    return message_thrown_by<ArgumentError>([&] { const Made made(mesh, description); });
  };
  if (ranks() > 1) {
    const Id same = rank() == ranks() - 1 ? 0 : rank();
    expect_parts(message(by_global_ids({same}, 1)), {"the id 0 is owned by rank 0", "rank "});
  }
  expect_parts(message(by_global_ids({rank(), 1000}, 1)), {"needs the id 1000", "no rank owns it"});
  expect_parts(message(by_global_ids({rank()}, 2)), {"2 of 1 places"});
  expect_parts(message(by_global_ids({rank(), 0, 0}, 1, {2, 1})),
               {"layer of place 1", "don't fall"});
  expect_parts(message(by_global_ids({rank(), 0}, 1, {1, 1})), {"1 places and 2 layers"});
  expect_parts(message(by_owner({ranks()}, {0}, 1)), {"an owner is", "ranks"});
  expect_parts(message(by_owner({0}, {5}, 1)), {"place 5", "owns 1 elements"});
  expect_parts(message(by_owner({0}, {}, 1)), {"1 owners and 0 places"});
  const Made cells(mesh, by_global_ids({rank()}, 1));
  const IndexSpace<Edge, Ranks> edges(mesh, by_global_ids({rank()}, 1));
  using F = Field<double*, Kokkos::LayoutRight, Cells>;
  expect_parts(message_thrown_by<ArgumentError>([&] { const F f("f", mesh, {edges}); }),
               {"Cell", "Edge"});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { const F f("f", mesh, {Partition::balanced(9, ranks())}); }),
               {"Cell", "none"});
}

}  // namespace index_space_test
