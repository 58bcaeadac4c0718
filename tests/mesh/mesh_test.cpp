// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/mesh.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <random>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/mesh/hybrid_mesh.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

struct X;
struct Y;
struct Z;
struct V;
struct W;

using namespace shard;
using namespace shard::testing;

TEST(Mesh, OneAxis) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {ranks()});
  EXPECT_EQ(mesh.size(), ranks());
  EXPECT_EQ(mesh.size<X>(), ranks());
  EXPECT_EQ(mesh.coordinate<X>(), rank());
  EXPECT_EQ(mesh.neighbour<X>(-1).value_or(-7), rank() > 0 ? rank() - 1 : -7);
  EXPECT_EQ(mesh.neighbour<X>(1).value_or(-7), rank() + 1 < ranks() ? rank() + 1 : -7);
  EXPECT_EQ(mesh.periodic_neighbour<X>(-1), (rank() + ranks() - 1) % ranks());
  EXPECT_EQ(mesh.periodic_neighbour<X>(3 * ranks() + 1), (rank() + 1) % ranks());
}

/// The ranks in MPI_COMM_WORLD of a communicator's members, in its order.
std::vector<int> members(MPI_Comm comm) {
  int n = 0;
  MPI_Comm_size(comm, &n);
  std::vector<int> all(static_cast<std::size_t>(n));
  const int mine = rank();
  MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
  return all;
}

/// Coordinates, neighbours and axis communicators of a two-dimensional mesh, from the definition.
void check(const Mesh<Y, X>& mesh, const std::vector<int>& order) {
  const int nx = mesh.size<X>(), ny = mesh.size<Y>();
  ASSERT_EQ(nx * ny, ranks());
  const auto place =
      static_cast<int>(std::find(order.begin(), order.end(), mesh.rank()) - order.begin());
  EXPECT_EQ(mesh.coordinate<Y>(), place / nx);
  EXPECT_EQ(mesh.coordinate<X>(), place % nx);
  for (int y = 0; y < ny; ++y)
    for (int x = 0; x < nx; ++x)
      EXPECT_EQ(mesh.rank_at({y, x}), order[static_cast<std::size_t>(y * nx + x)]);
  for (int offset = -ny - 1; offset <= ny + 1; ++offset) {
    const int y = place / nx + offset, x = place % nx;
    const auto found = mesh.neighbour<Y>(offset);
    EXPECT_EQ(found.has_value(), y >= 0 && y < ny);
    if (found) {
      EXPECT_EQ(*found, mesh.rank_at({y, x}));
    }
    EXPECT_EQ(mesh.periodic_neighbour<Y>(offset), mesh.rank_at({((y % ny) + ny) % ny, x}));
  }
  // along each axis: who is in the communicator, in which order
  std::vector<int> row, column;
  for (int x = 0; x < nx; ++x) row.push_back(mesh.rank_at({place / nx, x}));
  for (int y = 0; y < ny; ++y) column.push_back(mesh.rank_at({y, place % nx}));
  EXPECT_EQ(members(mesh.communicator<X>()), row);
  EXPECT_EQ(members(mesh.communicator<Y>()), column);
}

TEST(Mesh, TwoAxesOfAnyShape) {
  std::vector<int> order(static_cast<std::size_t>(ranks()));
  std::iota(order.begin(), order.end(), 0);
  for (int y = 1; y <= ranks(); ++y)
    if (ranks() % y == 0) check(Mesh<Y, X>(MPI_COMM_WORLD, {y, ranks() / y}), order);
}

TEST(Mesh, AnyOrderOfRanks) {
  std::mt19937_64 random(shard::testing::seed());
  std::vector<int> order(static_cast<std::size_t>(ranks()));
  std::iota(order.begin(), order.end(), 0);
  for (int trial = 0; trial < 4; ++trial) {
    std::shuffle(order.begin(), order.end(), random);
    check(Mesh<Y, X>(MPI_COMM_WORLD, {0, trial % 2}, {.order = order, .grid = {}}), order);
  }
}

TEST(Mesh, FiveAxes) {
  const Mesh<V, W, X, Y, Z> mesh(MPI_COMM_WORLD, {1, 0, 1, 0, 1});
  EXPECT_EQ(mesh.size<W>() * mesh.size<Y>(), ranks());
  EXPECT_EQ(mesh.size<V>() * mesh.size<X>() * mesh.size<Z>(), 1);
  EXPECT_EQ(mesh.rank_at({0, mesh.coordinate<W>(), 0, mesh.coordinate<Y>(), 0}), mesh.rank());
}

TEST(Mesh, ShapesAreChosenAsMpiDoes) {
  for (int n = 1; n <= 200; ++n) {
    for (int axes = 1; axes <= 4; ++axes) {
      std::vector<int> wanted(static_cast<std::size_t>(axes), 0);
      MPI_Dims_create(n, axes, wanted.data());
      const std::vector<int> chosen =
          shard::impl::choose_shape(n, std::vector<int>(static_cast<std::size_t>(axes), 0), {});
      ASSERT_EQ(std::accumulate(chosen.begin(), chosen.end(), 1, std::multiplies<>()), n);
      // as even as MPI's or more so, and falling
      EXPECT_TRUE(std::is_sorted(chosen.rbegin(), chosen.rend()));
      EXPECT_LE(std::accumulate(chosen.begin(), chosen.end(), 0),
                std::accumulate(wanted.begin(), wanted.end(), 0))
          << n << " ranks over " << axes << " axes";
    }
  }
  EXPECT_EQ(shard::impl::choose_shape(6, {0, 0}, {}), (std::vector<int>{3, 2}));
  EXPECT_EQ(shard::impl::choose_shape(12, {0, 2, 0}, {}), (std::vector<int>{3, 2, 2}));
}

TEST(Mesh, ShapesAreWeighedByTheGrid) {
  EXPECT_EQ(shard::impl::choose_shape(4, {0, 0}, {1000, 10}), (std::vector<int>{4, 1}));
  EXPECT_EQ(shard::impl::choose_shape(4, {0, 0}, {10, 1000}), (std::vector<int>{1, 4}));
  EXPECT_EQ(shard::impl::choose_shape(8, {0, 0}, {721, 1440}), (std::vector<int>{2, 4}));
  EXPECT_EQ(shard::impl::choose_shape(6, {0, 0}, {100, 200}), (std::vector<int>{1, 6}));
  EXPECT_EQ(shard::impl::choose_shape(6, {0, 0}, {200, 250}), (std::vector<int>{2, 3}));
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0}, {.order = {}, .grid = {4, 100000}});
  EXPECT_EQ(mesh.size<X>(), ranks());
}

TEST(Mesh, AShapeThatDoesNotMatchThrowsOnEveryRank) {
  const std::string wrong = message_thrown_by<ArgumentError>([] {
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {ranks() + 1, 3});
  });
  expect_parts(wrong, {std::to_string(3 * (ranks() + 1)).c_str(),
                       (std::to_string(ranks()) + " ranks").c_str()});
  message_thrown_by<ArgumentError>([] { const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, ranks() + 1}); });
  message_thrown_by<ArgumentError>([] { const Mesh<Y, X> mesh(MPI_COMM_WORLD, {-1, -ranks()}); });
}

TEST(Mesh, AnOrderThatIsNoPermutationThrowsOnEveryRank) {
  const std::vector<int> order(static_cast<std::size_t>(ranks()) + 1, 0);
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { const Mesh<X> mesh(MPI_COMM_WORLD, {0}, {.order = order, .grid = {}}); }),
               {"permutation"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Mesh<X> mesh(MPI_COMM_WORLD, {0}, {.order = {}, .grid = {3, 4}});
               }),
               {"2 extents", "1 axes"});
}

TEST(Mesh, DifferentArgumentsThrowOnEveryRank) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const int last = ranks() - 1;
  // both shapes fit, so that only a comparison can tell
  const std::string shapes = message_thrown_by<AgreementError>([&] {
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, rank() == last ? shard::Extents<2>(1, ranks())
                                                         : shard::Extents<2>(ranks(), 1));
  });
  const std::string n      = std::to_string(ranks());
  expect_parts(shapes, {("[" + n + ", 1]").c_str(), ("[1, " + n + "]").c_str(), "rank 0",
                        ("rank " + std::to_string(last)).c_str()});
  message_thrown_by<AgreementError>([&] {
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0}, {.order = {}, .grid = {10, rank() == 0 ? 3 : 4}});
  });
}

/// An array, a vector or a list for the shape, where a braced list can't be deduced.
TEST(Mesh, ShapesFromArraysAndLists) {
  const std::initializer_list<int> list = {0, 1};
  const std::vector<int> vector         = list;
  const auto expect                     = [](const Mesh<Y, X>& mesh) {
    EXPECT_EQ(mesh.size<Y>(), ranks());
    EXPECT_EQ(mesh.size<X>(), 1);
  };
  expect(*std::make_unique<Mesh<Y, X>>(MPI_COMM_WORLD, std::array<int, 2>{0, 1}));
  expect(*std::make_unique<Mesh<Y, X>>(MPI_COMM_WORLD, vector));
  expect(*std::make_unique<Mesh<Y, X>>(MPI_COMM_WORLD, list));
  std::optional<Mesh<Y, X>> later;
  later.emplace(MPI_COMM_WORLD, std::array<long, 2>{0, 1});
  expect(*later);
  later.emplace(MPI_COMM_WORLD, vector, shard::MeshOptions{.grid = {8, 8}});
  expect(*later);
  later.emplace(MPI_COMM_WORLD, std::span<const int>(vector));
  expect(*later);
  later.emplace(MPI_COMM_WORLD, std::span<const int>(vector), shard::MeshOptions{});
  expect(*later);
  const int plain[] = {0, 1};
  expect(Mesh<Y, X>(MPI_COMM_WORLD, plain));
  expect(Mesh<Y, X>::of_domains(MPI_COMM_WORLD, std::array<int, 1>{1}));
  EXPECT_EQ(std::make_unique<Mesh<X>>(MPI_COMM_WORLD, 0)->size(), ranks());
  for (const auto& wrong : {std::vector<int>{}, {ranks()}, {ranks(), 1, 1}})
    expect_parts(message_thrown_by<ArgumentError>([&] { Mesh<Y, X>(MPI_COMM_WORLD, wrong); }),
                 {"Mesh", std::to_string(wrong.size()).c_str(), "2 axes"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 std::make_unique<Mesh<Y, X>>(MPI_COMM_WORLD, std::array<int, 3>{ranks(), 1, 1});
               }),
               {"Mesh", "3 numbers", "2 axes"});
}

TEST(Mesh, IsAHandle) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Mesh<X> copy = mesh, other(MPI_COMM_WORLD, {0});
  EXPECT_TRUE(copy == mesh);
  EXPECT_FALSE(other == mesh);
}

TEST(Mesh, T21_the_communicator_is_a_duplicate) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  int same = MPI_IDENT;
  MPI_Comm_compare(MPI_COMM_WORLD, mesh.communicator(), &same);
  EXPECT_EQ(same, MPI_CONGRUENT);
  // a message in the user's communicator, same peer and any tag, isn't seen in the mesh's
  int out = 41, in = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&out, 1, MPI_INT, rank(), 3, MPI_COMM_WORLD, &request);
  int seen = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mesh.communicator(), &seen, MPI_STATUS_IGNORE);
  EXPECT_EQ(seen, 0);
  MPI_Recv(&in, 1, MPI_INT, rank(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(in, 41);
}

/// Spec 1.2, for 8 ranks: groups, coordinates and neighbours of every rank, several meshes at once.
TEST(MeshOfDomains, GoldenTableOfTheManager) {
  if (ranks() != 8) GTEST_SKIP() << "the table is for 8 ranks";
  using Data = W;
  using Lat  = Y;
  struct Line {
    int size;
    std::vector<std::vector<int>> domains, copies;
    int domain_rank, dp_rank;  // of rank 5
    std::optional<int> previous, following;
  };
  const Line lines[] = {
      {2, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, {{0, 2, 4, 6}, {1, 3, 5, 7}}, 1, 2, 4, std::nullopt},
      {4, {{0, 1, 2, 3}, {4, 5, 6, 7}}, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, 1, 1, 4, 6},
      {8, {{0, 1, 2, 3, 4, 5, 6, 7}}, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, 5, 0, 4, 6},
      {1, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, {{0, 1, 2, 3, 4, 5, 6, 7}}, 0, 5, {}, {}}};
  std::vector<Mesh<Data, Lat>> meshes;  // no singleton: all of them live together
  for (const Line& line : lines)
    meshes.push_back(Mesh<Data, Lat>::of_domains(MPI_COMM_WORLD, {line.size}));
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    const Mesh<Data, Lat>& mesh = meshes[i];
    const Line& line            = lines[i];
    const auto group            = [&](const std::vector<std::vector<int>>& groups) {
      for (const auto& one : groups)
        if (std::count(one.begin(), one.end(), rank()) > 0) return one;
      return std::vector<int>{};
    };
    EXPECT_EQ(members(mesh.communicator<Lat>()), group(line.domains));
    EXPECT_EQ(members(mesh.communicator<Data>()), group(line.copies));
    EXPECT_EQ(mesh.size<Lat>(), line.size);
    EXPECT_EQ(mesh.size<Data>(), 8 / line.size);
    EXPECT_EQ(mesh.coordinate<Lat>(), rank() % line.size);
    EXPECT_EQ(mesh.coordinate<Data>(), rank() / line.size);
    if (rank() == 5) {
      EXPECT_EQ(mesh.coordinate<Lat>(), line.domain_rank);
      EXPECT_EQ(mesh.coordinate<Data>(), line.dp_rank);
      EXPECT_EQ(mesh.neighbour<Lat>(-1), line.previous);
      EXPECT_EQ(mesh.neighbour<Lat>(1), line.following);
    }
    EXPECT_EQ(!mesh.neighbour<Lat>(-1), rank() % line.size == 0);
    EXPECT_EQ(!mesh.neighbour<Lat>(1), (rank() + 1) % line.size == 0);
  }
}

TEST(MeshOfDomains, ADomainThatDoesNotDivideThrowsOnEveryRank) {
  const std::string world = "world size (" + std::to_string(ranks()) + ")";
  for (const int size : {ranks() + 1, 0, -1, 5, 7}) {
    if (size > 0 && ranks() % size == 0) continue;
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { (void)Mesh<W, Y>::of_domains(MPI_COMM_WORLD, {size}); }),
                 {world.c_str(), "divisible", ("(" + std::to_string(size) + ")").c_str()});
  }
  const Mesh<W, Y, X> mesh = Mesh<W, Y, X>::of_domains(MPI_COMM_WORLD, {1, ranks()});
  EXPECT_EQ(mesh.size<W>(), 1);
  EXPECT_EQ(mesh.size<X>(), ranks());
  expect_parts(message_thrown_by<ArgumentError>([] {
                 (void)Mesh<W, Y, X>::of_domains(MPI_COMM_WORLD, {1 << 20, 1 << 20});
               }),
               {"[1048576, 1048576]"});
  if (ranks() > 1)
    message_thrown_by<AgreementError>(
        [] { (void)Mesh<W, Y>::of_domains(MPI_COMM_WORLD, {rank() == 0 ? 1 : ranks()}); });
}

TEST(Mesh, BindsALogicalMesh) {
  std::vector<int> reversed(static_cast<std::size_t>(ranks()));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const LogicalMesh value(reversed, {1, ranks()}, {"lat", "lon"});
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, value);
  EXPECT_EQ(mesh.coordinate<X>(), ranks() - 1 - rank());
  EXPECT_EQ(mesh.rank_at({0, 0}), ranks() - 1);
  EXPECT_EQ(mesh.logical(), LogicalMesh(reversed, {1, ranks()}));
  check(mesh, reversed);
  EXPECT_EQ((Mesh<X>(MPI_COMM_WORLD, {ranks()}).logical()), shard::one_axis_mesh(ranks()));

  expect_parts(
      message_thrown_by<ArgumentError>([&] { const Mesh<X> wrong(MPI_COMM_WORLD, value); }),
      {"has 2 axes", "type 1"});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { const Mesh<X> wrong(MPI_COMM_WORLD, shard::one_axis_mesh(ranks() + 1)); }),
               {("device ids (" + std::to_string(ranks() + 1) + ")").c_str(),
                ("devices (" + std::to_string(ranks()) + ")").c_str()});
  if (ranks() > 1)
    message_thrown_by<AgreementError>([&] {
      const Mesh<Y, X> wrong(MPI_COMM_WORLD,
                             rank() == 0 ? value : LogicalMesh::of_shape({1, ranks()}));
    });
}

TEST(Mesh, FindsItsNodes) {
  const auto devices = shard::devices_of(MPI_COMM_WORLD);
  ASSERT_EQ(devices.size(), static_cast<std::size_t>(ranks()));
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  const std::vector<int> here = members(node);
  MPI_Comm_free(&node);
  for (int r = 0; r < ranks(); ++r) {
    const auto& device = devices[static_cast<std::size_t>(r)];
    EXPECT_EQ(device.id, r);
    EXPECT_EQ(device.granule.has_value(), static_cast<int>(here.size()) < ranks());
    const auto& mine = devices[static_cast<std::size_t>(rank())];
    EXPECT_EQ(device.granule == mine.granule, std::count(here.begin(), here.end(), r) > 0);
  }
  // on one node, or with a rank on each, nothing is to be gained
  std::vector<int> order(static_cast<std::size_t>(ranks()));
  std::iota(order.begin(), order.end(), 0);
  check(Mesh<Y, X>(MPI_COMM_WORLD, {0, 0}, {.placement = shard::RankPlacement::by_node}), order);
}

/// Two granules of equal halves of the ranks, over the second axis.
TEST(Mesh, BindsAHybridMesh) {
  if (ranks() % 2 != 0) GTEST_SKIP() << "for an even number of ranks";
  const int half = ranks() / 2;
  std::vector<shard::DeviceAttributes> devices;
  for (int r = 0; r < ranks(); ++r) devices.push_back({.id = r, .granule = r / half});
  const shard::HybridMesh value({.inner = {half, 1}, .outer = {1, 2}, .devices = devices});
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, value);
  EXPECT_EQ(mesh.coordinate<X>(), rank() / half);
  EXPECT_EQ(mesh.coordinate<Y>(), rank() % half);
  // the nodes that MPI finds: one, or with each rank on its own as many as there are ranks
  const auto found = shard::devices_of(MPI_COMM_WORLD);
  if (!found[0].granule) {
    EXPECT_EQ(shard::HybridMesh({.inner = {ranks()}, .devices = found}),
              shard::one_axis_mesh(ranks()));
  }
}

/// 8 ranks on 2 nodes, every other rank on the same: 4 x 2 places, so that each node takes half.
TEST(Mesh, PlacesRanksByNode) {
  if (ranks() != 8) GTEST_SKIP() << "for 8 ranks";
  shard::MeshOptions options{.placement = shard::RankPlacement::by_node};
  for (int r = 7; r >= 0; --r) options.devices.push_back({.id = r, .granule = r % 2});
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {4, 2}, options);
  const std::vector<int> order = mesh.logical().device_ids();
  check(mesh, order);
  for (int place = 0; place < 8; ++place)
    EXPECT_EQ(order[static_cast<std::size_t>(place)] % 2, place / 4 == order[0] % 2 ? 0 : 1);
}

/// A torus of 2 x 2 x 2 whose ranks are numbered along its first axis first.
TEST(Mesh, PlacesRanksByTorus) {
  if (ranks() != 8) GTEST_SKIP() << "for 8 ranks";
  shard::MeshOptions options{.placement = shard::RankPlacement::by_torus};
  for (int r = 0; r < 8; ++r)
    options.devices.push_back({.id = r, .coordinates = {r % 2, r / 2 % 2, r / 4}});
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {2, 4}, options);
  // assign_torus gives X the first two torus axes, Y the third
  check(mesh, {0, 2, 1, 3, 4, 6, 5, 7});
}

TEST(Mesh, APlacementThatLacksSomethingThrowsOnEveryRank) {
  const auto message = [](const shard::MeshOptions& options) {
    return message_thrown_by<ArgumentError>(
        [&] { const Mesh<X> mesh(MPI_COMM_WORLD, {0}, options); });
  };
  std::vector<int> order(static_cast<std::size_t>(ranks()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<shard::DeviceAttributes> devices(order.size());
  for (std::size_t r = 0; r < devices.size(); ++r) devices[r].id = static_cast<int>(r);
  using shard::RankPlacement;
  expect_parts(message({.order = order, .placement = RankPlacement::by_node}),
               {"an order is given"});
  expect_parts(message({.placement = RankPlacement::by_torus}), {"coordinates"});
  expect_parts(message({.placement = RankPlacement::by_node, .devices = devices}),
               {"device 0", "granule"});
  expect_parts(message({.placement = RankPlacement::by_node, .periodic = {true, false}}),
               {"2 axes", "has 1"});
  devices[0].id = ranks();
  expect_parts(message({.placement = RankPlacement::by_torus, .devices = devices}),
               {"the devices' ids"});
  if (ranks() > 1)
    message_thrown_by<AgreementError>([] {
      const Mesh<X> mesh(MPI_COMM_WORLD, {0},
                         {.placement = RankPlacement::by_node, .periodic = {rank() == 0}});
    });
}

}  // namespace
