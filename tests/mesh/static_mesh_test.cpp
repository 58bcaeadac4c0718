// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The golden table of meshes and specs, checked by the compiler: a line that is wrong doesn't
// compile.
#include "shard/mesh/static_mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using enum shard::ShardingType;

/// Shape of the tile assignment, its devices, tiles per dimension of the tensor, devices with the
/// same tile, the iota form's permutation.
template <int... Shape, std::size_t Rank, std::size_t Tiled>
constexpr bool line(
    const StaticMesh<Shape...>& mesh, const StaticEntry (&spec)[Rank], shard::ShardingType type,
    const int (&tile_shape)[Tiled],
    const std::array<int, static_cast<std::size_t>(StaticMesh<Shape...>::size)>& tile,
    const std::array<int, Rank>& tiles, int replicas,
    const std::array<int, sizeof...(Shape)>& permutation) {
  StaticSharding<StaticMesh<Shape...>::size, StaticMesh<Shape...>::axes, static_cast<int>(Rank)>
      golden;
  golden.type      = type;
  golden.tile_rank = static_cast<int>(Tiled);
  for (std::size_t i = 0; i < Tiled; ++i) golden.tile_shape[i] = tile_shape[i];
  golden.tile        = tile;
  golden.tiles       = tiles;
  golden.replicas    = replicas;
  golden.permutation = permutation;
  return mesh.op_sharding(spec) == golden;
}

static_assert(line(StaticMesh<8>(), {{0}}, tiled, {8}, {0, 1, 2, 3, 4, 5, 6, 7}, {8}, 1, {0}));
static_assert(line(StaticMesh<8>(), {{}}, replicated, {8}, {0, 1, 2, 3, 4, 5, 6, 7}, {1}, 8, {0}));
static_assert(line(StaticMesh<8>(), {{0}, {}}, partial, {8}, {0, 1, 2, 3, 4, 5, 6, 7}, {8, 1}, 1,
                   {0}));
static_assert(line(StaticMesh<8>(), {{}, {0}}, partial, {8}, {0, 1, 2, 3, 4, 5, 6, 7}, {1, 8}, 1,
                   {0}));
static_assert(line(StaticMesh<4, 2>(), {{0}, {1}}, tiled, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2},
                   1, {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{1}, {0}}, tiled, {2, 4}, {0, 2, 4, 6, 1, 3, 5, 7}, {2, 4},
                   1, {1, 0}));
static_assert(line(StaticMesh<4, 2>(), {{0}, {}}, partial, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {4, 1},
                   2, {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{}, {0}}, partial, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {1, 4},
                   2, {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{1}, {}}, partial, {2, 4}, {0, 2, 4, 6, 1, 3, 5, 7}, {2, 1},
                   4, {1, 0}));
static_assert(line(StaticMesh<4, 2>(), {{}, {1}}, partial, {2, 4}, {0, 2, 4, 6, 1, 3, 5, 7}, {1, 2},
                   4, {1, 0}));
static_assert(line(StaticMesh<4, 2>(), {{}, {}}, replicated, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {1, 1}, 8, {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{}}, partial, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {1}, 8,
                   {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{0}}, partial, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {4}, 2,
                   {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{1}}, partial, {2, 4}, {0, 2, 4, 6, 1, 3, 5, 7}, {2}, 4,
                   {1, 0}));
static_assert(line(StaticMesh<4, 2>(), {{0, 1}}, tiled, {8}, {0, 1, 2, 3, 4, 5, 6, 7}, {8}, 1,
                   {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{1, 0}}, tiled, {8}, {0, 2, 4, 6, 1, 3, 5, 7}, {8}, 1,
                   {1, 0}));
static_assert(line(StaticMesh<4, 2>(), {{0, 1}, {}}, partial, {8}, {0, 1, 2, 3, 4, 5, 6, 7}, {8, 1},
                   1, {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{}, {1, 0}}, partial, {8}, {0, 2, 4, 6, 1, 3, 5, 7}, {1, 8},
                   1, {1, 0}));
static_assert(line(StaticMesh<4, 2>(), {{}, {0}, {1}}, partial, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {1, 4, 2}, 1, {0, 1}));
static_assert(line(StaticMesh<4, 2>(), {{}, {}, {1}}, partial, {2, 4}, {0, 2, 4, 6, 1, 3, 5, 7},
                   {1, 1, 2}, 4, {1, 0}));
static_assert(line(StaticMesh<2, 4>(), {{0}, {1}}, tiled, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 4},
                   1, {0, 1}));
static_assert(line(StaticMesh<2, 4>(), {{1}, {}}, partial, {4, 2}, {0, 4, 1, 5, 2, 6, 3, 7}, {4, 1},
                   2, {1, 0}));
static_assert(line(StaticMesh<2, 2>(), {{0}, {1}}, tiled, {2, 2}, {0, 1, 2, 3}, {2, 2}, 1, {0, 1}));
static_assert(line(StaticMesh<2, 2>(), {{0}, {}}, partial, {2, 2}, {0, 1, 2, 3}, {2, 1}, 2,
                   {0, 1}));
static_assert(line(StaticMesh<2, 2>(), {{}, {1}}, partial, {2, 2}, {0, 2, 1, 3}, {1, 2}, 2,
                   {1, 0}));
static_assert(line(StaticMesh<2, 3>(), {{0}, {1}}, tiled, {2, 3}, {0, 1, 2, 3, 4, 5}, {2, 3}, 1,
                   {0, 1}));
static_assert(line(StaticMesh<2, 3>(), {{}, {1}}, partial, {3, 2}, {0, 3, 1, 4, 2, 5}, {1, 3}, 2,
                   {1, 0}));
static_assert(line(StaticMesh<2, 2, 2>(), {{0}, {1}, {2}}, tiled, {2, 2, 2},
                   {0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 2}, 1, {0, 1, 2}));
static_assert(line(StaticMesh<2, 2, 2>(), {{2}, {0}, {1}}, tiled, {2, 2, 2},
                   {0, 2, 4, 6, 1, 3, 5, 7}, {2, 2, 2}, 1, {2, 0, 1}));
static_assert(line(StaticMesh<2, 2, 2>(), {{0}, {}, {}}, partial, {2, 2, 2},
                   {0, 1, 2, 3, 4, 5, 6, 7}, {2, 1, 1}, 4, {0, 1, 2}));
static_assert(line(StaticMesh<2, 2, 2>(), {{1}, {}, {0}}, partial, {2, 2, 2},
                   {0, 1, 4, 5, 2, 3, 6, 7}, {2, 1, 2}, 2, {1, 0, 2}));
static_assert(line(StaticMesh<2, 2, 2>(), {{0, 2}, {1}}, tiled, {4, 2}, {0, 2, 1, 3, 4, 6, 5, 7},
                   {4, 2}, 1, {0, 2, 1}));
static_assert(line(StaticMesh<2, 2, 2>(), {{2, 0}, {1}}, tiled, {4, 2}, {0, 2, 4, 6, 1, 3, 5, 7},
                   {4, 2}, 1, {2, 0, 1}));
static_assert(line(StaticMesh<2, 2, 2>(), {{0, 1}, {2}}, tiled, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {4, 2}, 1, {0, 1, 2}));
static_assert(line(StaticMesh<2, 2, 2>(), {{0}, {1}}, partial, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {2, 2}, 2, {0, 1, 2}));
static_assert(line(StaticMesh<2, 2, 2>(), {{2}, {1}}, partial, {2, 2, 2}, {0, 4, 2, 6, 1, 5, 3, 7},
                   {2, 2}, 2, {2, 1, 0}));
static_assert(line(StaticMesh<2, 2, 2>(), {{0}, {}}, partial, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {2, 1}, 4, {0, 1, 2}));
static_assert(line(StaticMesh<2, 2, 2>(), {{}, {}}, partial, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {1, 1}, 8, {0, 1, 2}));
static_assert(line(StaticMesh<2, 4, 1>(), {{2}, {1}}, partial, {1, 4, 2}, {0, 4, 1, 5, 2, 6, 3, 7},
                   {1, 4}, 2, {2, 1, 0}));
static_assert(line(StaticMesh<2, 1, 4>(), {{1}, {}, {0}}, partial, {1, 2, 4},
                   {0, 1, 2, 3, 4, 5, 6, 7}, {1, 1, 2}, 4, {1, 0, 2}));
static_assert(line(StaticMesh<1, 8>(), {{0}, {1}}, tiled, {1, 8}, {0, 1, 2, 3, 4, 5, 6, 7}, {1, 8},
                   1, {0, 1}));
static_assert(line(StaticMesh<8, 1>(), {{0}, {1}}, tiled, {8, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, {8, 1},
                   1, {0, 1}));
static_assert(line(StaticMesh<1>(), {{0}}, maximal, {1}, {0}, {1}, 1, {0}));
static_assert(line(StaticMesh<1, 1>(), {{}, {}}, maximal, {1, 1}, {0}, {1, 1}, 1, {0, 1}));
static_assert(line(StaticMesh<1, 1>(), {{0}}, partial, {1, 1}, {0}, {1}, 1, {0, 1}));
static_assert(line(StaticMesh<1, 2, 4>(), {{0, 1}, {}}, partial, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {2, 1}, 4, {0, 1, 2}));
static_assert(line(StaticMesh<1, 2, 4>(), {{}, {1, 2}}, partial, {8, 1}, {0, 1, 2, 3, 4, 5, 6, 7},
                   {1, 8}, 1, {1, 2, 0}));
static_assert(line(StaticMesh<1, 2, 4>(), {{}, {0, 2}}, partial, {4, 2}, {0, 4, 1, 5, 2, 6, 3, 7},
                   {1, 4}, 2, {0, 2, 1}));
static_assert(line(StaticMesh<1, 2, 4>(), {{}, {2, 1}}, partial, {8, 1}, {0, 4, 1, 5, 2, 6, 3, 7},
                   {1, 8}, 1, {2, 1, 0}));
static_assert(line(StaticMesh<1, 2, 4, 1>(), {{0, 1}, {2, 3}}, tiled, {2, 4},
                   {0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}, 1, {0, 1, 2, 3}));
static_assert(line(StaticMesh<2, 4>(), {{1}, {0}}, tiled, {4, 2}, {0, 4, 1, 5, 2, 6, 3, 7}, {4, 2},
                   1, {1, 0}));
static_assert(line(StaticMesh<2, 4>({7, 6, 5, 4, 3, 2, 1, 0}), {{0}, {1}}, tiled, {2, 4},
                   {7, 6, 5, 4, 3, 2, 1, 0}, {2, 4}, 1, {0, 1}));
static_assert(line(StaticMesh<2, 4>({0, 2, 4, 6, 1, 3, 5, 7}), {{}, {1}}, partial, {4, 2},
                   {0, 1, 2, 3, 4, 5, 6, 7}, {1, 4}, 2, {1, 0}));

/// One line of the users' own, and its groups.
constexpr auto rows = StaticMesh<4, 2>().op_sharding({{0}, {}});
static_assert(rows.type == partial && rows.replicas == 2 && rows.groups() == 4);
static_assert(!rows.replicated() && StaticMesh<4, 2>().op_sharding({{}, {}}).replicated());
static_assert(StaticMesh<4, 2>().op_sharding({{0}, {1}}).groups() == 0);

/// Both forms are one algorithm; here that they are called with the same things.
template <int... Shape, std::size_t Rank>
void expect_same(const StaticMesh<Shape...>& mesh, const StaticEntry (&spec)[Rank]) {
  const auto at_compile_time = mesh.op_sharding(spec);
  std::vector<shard::SpecEntry> entries;
  for (const StaticEntry& entry : spec)
    entries.emplace_back(
        std::vector<shard::SpecAxis>(entry.axes.begin(), entry.axes.begin() + entry.count));
  const shard::OpSharding at_run_time =
      shard::LogicalMesh({mesh.device_ids.begin(), mesh.device_ids.end()},
                         {mesh.mesh_shape.begin(), mesh.mesh_shape.end()})
          .get_op_sharding(shard::PartitionSpec(entries));
  EXPECT_EQ(at_run_time.type(), at_compile_time.type);
  EXPECT_TRUE(std::equal(at_compile_time.tile.begin(), at_compile_time.tile.end(),
                         at_run_time.tile_assignment().ids.begin()));
  EXPECT_TRUE(std::equal(at_compile_time.tiles.begin(), at_compile_time.tiles.end(),
                         at_run_time.tiles().begin()));
  EXPECT_EQ(at_run_time.replicas(), at_compile_time.replicas);
}

TEST(StaticMesh, IsTheRunTimeOne) {
  expect_same(StaticMesh<3, 2, 4>(), {{2}, {}, {1, 0}});
  expect_same(StaticMesh<3, 2, 4>(), {{1}});
  expect_same(StaticMesh<2, 4>({0, 2, 4, 6, 1, 3, 5, 7}), {{}, {1}});
  expect_same(StaticMesh<1, 1>(), {{0}, {1}});
}

TEST(StaticMesh, WhatCanNotBeThrows) {
  // where a constant is wanted these do not compile
  const StaticMesh<2, 2> mesh;
  const auto refused = [](const auto& function, const char* part) {
    shard::testing::expect_parts(shard::testing::message_thrown_by<shard::ArgumentError>(function),
                                 {"StaticMesh", part});
  };
  refused([&] { mesh.op_sharding({{0}, {0}}); }, "at most once");
  refused([&] { mesh.op_sharding({{2}}); }, "number of axes - 1");
  refused([&] { mesh.op_sharding({{-1}}); }, "number of axes - 1");
  refused([&] { mesh.op_sharding({{0, 1, 0, 1, 0, 1, 0, 1, 0}}); }, "at most eight");
  refused([] { StaticMesh<2, 2>({0, 1, 2, 2}); }, "unique");
  refused([] { StaticMesh<2, 2>({0, 1, 2, 4}); }, "less than the mesh size");
}

}  // namespace
