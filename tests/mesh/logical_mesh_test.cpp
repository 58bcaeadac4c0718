// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/logical_mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Ints = std::vector<int>;

// what is no axis doesn't compile: float, bool, a character, a null pointer
static_assert(!std::is_convertible_v<double, SpecEntry>);
static_assert(!std::is_convertible_v<bool, SpecEntry>);
static_assert(!std::is_convertible_v<char, SpecEntry>);
static_assert(!std::is_convertible_v<std::nullptr_t, SpecEntry>);
static_assert(std::is_convertible_v<unsigned long, SpecEntry>);

template <class Function>
void expect_message(const Function& function, std::initializer_list<const char*> parts) {
  expect_parts(message_thrown_by<ArgumentError>(function), parts);
}

TEST(LogicalMesh, KnowsItsShape) {
  const LogicalMesh mesh({7, 6, 5, 4, 3, 2, 1, 0}, {2, 4}, {"data", "lat"});
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.rank(), 2);
  EXPECT_EQ(mesh.mesh_shape(), (Ints{2, 4}));
  EXPECT_EQ(mesh.device_ids(), (Ints{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(mesh.shape(), (std::vector<std::pair<std::string, int>>{{"data", 2}, {"lat", 4}}));
  EXPECT_EQ(LogicalMesh::of_shape({3}).shape(),
            (std::vector<std::pair<std::string, int>>{{"0", 3}}));
  const DeviceArray devices = mesh.get_logical_mesh();
  EXPECT_EQ(devices.text(), "[[7, 6, 5, 4], [3, 2, 1, 0]]");
  EXPECT_EQ(devices.at({1, 2}), 1);
  expect_message([&] { (void)devices.at({2, 0}); }, {"(2, 0)", "(2, 4)"});
  expect_message([&] { (void)devices.at({1}); }, {"(1,)", "(2, 4)"});
  EXPECT_EQ(mesh.get_axis_name_idx("lat"), 1);
  EXPECT_EQ(mesh.get_axis_name_idx("lon"), std::nullopt);
  expect_message([] { (void)LogicalMesh::of_shape({2}).get_axis_name_idx("lat"); }, {"no names"});
}

TEST(LogicalMesh, OfOneAxis) {
  EXPECT_EQ(shard::one_axis_mesh(4), LogicalMesh({0, 1, 2, 3}, {4}));
  EXPECT_EQ(shard::one_axis_mesh(4, "data"), LogicalMesh({0, 1, 2, 3}, {4}, {"data"}));
  EXPECT_FALSE(shard::one_axis_mesh(4) == shard::one_axis_mesh(4, "data"));
  expect_message([] { shard::one_axis_mesh(0); }, {"(0,)", "below 1"});
}

TEST(LogicalMesh, TheGlobalOne) {
  EXPECT_EQ(shard::get_global_mesh(), std::nullopt);
  shard::set_global_mesh(LogicalMesh::of_shape({2, 2}));
  EXPECT_EQ(shard::get_global_mesh(), LogicalMesh::of_shape({2, 2}));
  shard::set_global_mesh(LogicalMesh::of_shape({4}));
  EXPECT_EQ(shard::get_global_mesh()->mesh_shape(), Ints{4});
  shard::set_global_mesh(std::nullopt);
  EXPECT_EQ(shard::get_global_mesh(), std::nullopt);
}

TEST(LogicalMesh, WhatCanNotBeThrows) {
  expect_message([] { LogicalMesh({0, 1}, {2, 1}, {"x"}); }, {"axis names (1)", "dimensions (2)"});
  expect_message([] { LogicalMesh({0, 1}, {2, 1}, {"x", "x"}); }, {"unique", "x appears twice"});
  expect_message([] { LogicalMesh({0, 1, 2}, {2, 2}); }, {"device ids (3)", "4", "(2, 2)"});
  expect_message([] { LogicalMesh({0, 1, 1, 2}, {2, 2}); }, {"unique", "1 appears twice"});
  expect_message([] { LogicalMesh({0, 1, 2, 4}, {2, 2}); }, {"less than the mesh size 4", "got 4"});
  expect_message([] { LogicalMesh({0, 1, 2, -1}, {2, 2}); }, {"not negative", "got -1"});
  expect_message([] { LogicalMesh({}, {0, 2}); }, {"(0, 2)", "below 1"});
  expect_message([] { LogicalMesh::of_shape({65536, 65536}); }, {"(65536, 65536)", "2147483647"});
  // the checks' order: names before ids
  expect_message([] { LogicalMesh({0, 0}, {2, 2}, {"x"}); }, {"axis names"});
  expect_message([] { LogicalMesh({0, 0}, {2, 2}); }, {"device ids (2)"});
  expect_message([] { LogicalMesh({5, 5}, {2}); }, {"unique"});
}

TEST(LogicalMesh, IsCheckedAgainstTheMachineWhenAsked) {
  const LogicalMesh mesh = LogicalMesh::of_shape({64, 64});  // no such machine is here
  mesh.require_devices(4096);
  expect_message([&] { mesh.require_devices(0); }, {"needs devices", "0"});
  expect_message([&] { mesh.require_devices(8); }, {"device ids (4096)", "devices (8)"});
}

TEST(LogicalMesh, TextAndBack) {
  const LogicalMesh meshes[] = {LogicalMesh({1, 0}, {2}), LogicalMesh({1, 0}, {2}, {"x"}),
                                LogicalMesh({3, 1, 0, 2}, {2, 2}, {"it's", "a \"name\" \\ 'b"}),
                                LogicalMesh::of_shape({1, 2, 4, 1}, {"a", "b", "c", "d"})};
  for (const LogicalMesh& mesh : meshes) {
    EXPECT_EQ(LogicalMesh::from_text(mesh.text()), mesh) << mesh.text();
  }
  EXPECT_EQ(meshes[0].text(), "{'device_ids': [1, 0], 'mesh_shape': (2,), 'axis_names': None}");
  EXPECT_EQ(meshes[1].text(), "{'device_ids': [1, 0], 'mesh_shape': (2,), 'axis_names': ('x',)}");
  EXPECT_EQ(LogicalMesh::from_text("{\"mesh_shape\": [2, 1], \"device_ids\": [0,1]}"),
            LogicalMesh::of_shape({2, 1}));
  for (const char* words :
       {"", "mesh", "[0, 1]", "{", "{'device_ids': [0, 1]}", "{'mesh_shape': (2,)}",
        "{'device_ids': [0, 1], 'mesh_shape': (2,), 'axis_names': None",
        "{'device_ids': [0, 1], 'mesh_shape': (2,), 'colour': None}",
        "{'device_ids': [0, 'a'], 'mesh_shape': (2,)}",
        "{'device_ids': [0, 99999999999], 'mesh_shape': (2,)}",
        "{'device_ids': [0, 0], 'mesh_shape': (2,)}",
        "{'device_ids': [0, 1], 'mesh_shape': (2,), 'axis_names': (1,)}",
        "{'device_ids': [0, 1] 'mesh_shape': (2,)}", "((((((((((((((((((((1"}) {
    EXPECT_EQ(LogicalMesh::from_text(words), std::nullopt) << words;
  }
}

TEST(PartitionSpec, TextAndBack) {
  const PartitionSpec specs[] = {
      {}, {none}, {0}, {"lat", none, {0, 1}}, {{"lat", 2}, {}, 1u}, {std::string("a 'b'")}};
  for (const PartitionSpec& spec : specs) EXPECT_EQ(PartitionSpec::from_text(spec.text()), spec);
  EXPECT_EQ(specs[0].text(), "()");
  EXPECT_EQ(specs[1].text(), "(None,)");
  EXPECT_EQ(specs[3].text(), "('lat', None, (0, 1))");
  EXPECT_EQ(specs[4].text(), "(('lat', 2), None, 1)");
  // as on a command line, and as in JSON
  EXPECT_EQ(PartitionSpec::from_text("lat, none, (0, 1)"), specs[3]);
  EXPECT_EQ(PartitionSpec::from_text("[\"lat\", null, [0, 1]]"), specs[3]);
  EXPECT_EQ(PartitionSpec::from_text("0"), specs[2]);
  EXPECT_EQ(PartitionSpec::from_text("((0, 1),)"), (PartitionSpec{{0, 1}}));
  EXPECT_EQ(PartitionSpec::from_text("(0, 1)"), (PartitionSpec{0, 1}));
  EXPECT_EQ(PartitionSpec::from_text("(0, (2,))"), (PartitionSpec{0, 2}));
}

TEST(PartitionSpec, WhatCanNotBeThrows) {
  const auto text = [](const char* words) {
    return message_thrown_by<ArgumentError>([&] { (void)PartitionSpec::from_text(words); });
  };
  expect_parts(text("((0, (1, 2)),)"), {"nested tuples", "((0, (1, 2)),)"});
  expect_parts(text("(0.5,)"), {"spec type float", "0.5", "not supported in a partition spec"});
  expect_parts(text("(True,)"), {"spec type bool", "True"});
  expect_parts(text("({'a': 1},)"), {"spec type dict"});
  expect_parts(text("((0, None),)"), {"None within a tuple"});
  expect_parts(text("(0"), {"isn't a partition spec"});
  expect_parts(text("0 1"), {"isn't a partition spec"});

  const LogicalMesh mesh = LogicalMesh::of_shape({2, 4}, {"x", "y"});
  const auto ask         = [&](const PartitionSpec& spec) {
    return message_thrown_by<ArgumentError>([&] { (void)mesh.get_op_sharding(spec); });
  };
  expect_parts(ask({"z"}), {"axis name z is not defined in the given mesh", "x, y"});
  expect_parts(ask({2}), {"out of bound index into mesh_shape", "(2,)", "0 to 1"});
  expect_parts(ask({-1, 0}), {"out of bound index", "(-1, 0)"});
  expect_parts(ask({1ull << 40}), {"out of bound index"});
  expect_parts(ask({0, 0}), {"at most once", "(0, 0)"});
  expect_parts(ask({{0, 1}, 0}), {"at most once", "((0, 1), 0)"});
  expect_parts(ask({{"x", 0}}), {"at most once"});
  expect_message([] { (void)LogicalMesh::of_shape({2}).get_op_sharding({"x"}); },
                 {"no axis names"});
}

TEST(OpSharding, IsKeptPerSpec) {
  const LogicalMesh mesh = LogicalMesh::of_shape({4, 2}, {"x", "y"});
  EXPECT_EQ(mesh.op_shardings_made(), 0);
  const OpSharding first = mesh.get_op_sharding({0, none});
  EXPECT_EQ(mesh.op_shardings_made(), 1);
  EXPECT_TRUE(first.same_object(mesh.get_op_sharding({0, none})));
  EXPECT_EQ(mesh.op_shardings_made(), 1);
  EXPECT_FALSE(first.same_object(mesh.get_op_sharding({none, 0})));
  EXPECT_EQ(mesh.op_shardings_made(), 2);
  // a name is its position, a copy the same mesh
  const LogicalMesh copy = mesh;
  EXPECT_TRUE(first.same_object(copy.get_op_sharding({"x", none})));
  EXPECT_TRUE(first.same_object(mesh.get_op_sharding({{0}, {}})));
  EXPECT_EQ(mesh.op_shardings_made(), 2);
  // equal and not the same
  const OpSharding other = LogicalMesh::of_shape({4, 2}).get_op_sharding({0, none});
  EXPECT_TRUE(other == first);
  EXPECT_FALSE(other.same_object(first));
  EXPECT_FALSE(other == LogicalMesh::of_shape({4, 2}).get_op_sharding({1, none}));
}

TEST(OpSharding, OfATensorOfRankZero) {
  const OpSharding sharding = LogicalMesh::of_shape({4, 2}).get_op_sharding({});
  EXPECT_EQ(sharding.type(), ShardingType::replicated);
  EXPECT_EQ(sharding.tile_assignment(), DeviceArray());
  EXPECT_EQ(sharding.group_assignment(), DeviceArray());
  EXPECT_EQ(sharding.text(), "{replicated}");
  EXPECT_EQ(sharding.tile_assignment().text(), "[]");
}

TEST(OpSharding, TilesOfDevicesAndReplicas) {
  const LogicalMesh mesh({0, 2, 4, 6, 1, 3, 5, 7}, {2, 4});
  const OpSharding partial = mesh.get_op_sharding({none, 1});
  for (int device = 0; device < 8; ++device) {
    EXPECT_EQ(partial.tile_of(device), (Ints{0, device / 2}));
    EXPECT_EQ(partial.replica_id(device), device % 2);
  }
  EXPECT_EQ(mesh.get_op_sharding({0, 1}).replica_id(5), 0);
  EXPECT_EQ(mesh.get_op_sharding({none, none}).replica_id(5), 5);
  EXPECT_EQ(partial.tiles(), (Ints{1, 4}));
  EXPECT_EQ(partial.tiles(1), 4);
  expect_message([&] { (void)partial.tiles(2); }, {"dimension 2", "rank 2"});
  expect_message([&] { (void)partial.tile_of(8); }, {"device 8", "8 devices"});
  expect_message([&] { (void)partial.replica_id(-1); }, {"device -1"});
}

/// The tile of a device straight from the definition: along a dimension the mixed-radix number of
/// the device's mesh coordinates along the entry's axes, the first the slowest.
TEST(OpSharding, RandomSpecsOnRandomMeshes) {
  std::mt19937_64 random(shard::testing::seed());
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 2000; ++trial) {
    Ints shape(static_cast<std::size_t>(1 + below(5)));
    int size = 1;
    for (int& extent : shape) size *= extent = 1 + below(4);
    Ints ids(static_cast<std::size_t>(size)), axes(shape.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::iota(axes.begin(), axes.end(), 0);
    if (trial % 2 == 0) std::shuffle(ids.begin(), ids.end(), random);
    std::shuffle(axes.begin(), axes.end(), random);
    std::vector<std::vector<shard::SpecAxis>> entries(static_cast<std::size_t>(1 + below(4)));
    for (std::size_t i = 0, n = static_cast<std::size_t>(below(static_cast<int>(axes.size()) + 1));
         i < n; ++i)
      entries[static_cast<std::size_t>(below(static_cast<int>(entries.size())))].emplace_back(
          axes[i]);
    std::vector<SpecEntry> spec_entries;
    for (const auto& entry : entries) spec_entries.emplace_back(entry);
    const PartitionSpec spec(spec_entries);
    const LogicalMesh mesh(ids, shape);
    SCOPED_TRACE(mesh.text() + " " + spec.text());
    const OpSharding sharding = mesh.get_op_sharding(spec);

    std::vector<Ints> members(static_cast<std::size_t>(size / sharding.replicas()));
    for (int place = 0; place < size; ++place) {
      Ints coordinate(shape.size());
      int rest = place;
      for (std::size_t a = shape.size(); a-- > 0; rest /= shape[a]) coordinate[a] = rest % shape[a];
      Ints tile;
      int group = 0;
      for (std::size_t d = 0; d < entries.size(); ++d) {
        int t = 0, tiles = 1;
        for (const auto& axis : entries[d]) {
          const auto a = static_cast<std::size_t>(axis.index());
          t            = t * shape[a] + coordinate[a];
          tiles *= shape[a];
        }
        EXPECT_EQ(sharding.tiles(static_cast<int>(d)), tiles);
        tile.push_back(t);
        group = group * tiles + t;
      }
      const int device = ids[static_cast<std::size_t>(place)];
      ASSERT_EQ(sharding.tile_of(device), tile);
      members[static_cast<std::size_t>(group)].push_back(device);
    }
    // who shares a tile is one replication group, numbered in the group assignment's order
    for (Ints& group : members) {
      std::sort(group.begin(), group.end());
      ASSERT_EQ(group.size(), static_cast<std::size_t>(sharding.replicas()));
      Ints replicas;
      for (const int device : group) replicas.push_back(sharding.replica_id(device));
      if (sharding.type() == ShardingType::partial) {
        std::sort(replicas.begin(), replicas.end());
        for (std::size_t i = 0; i < replicas.size(); ++i)
          ASSERT_EQ(replicas[i], static_cast<int>(i));
        const Ints& all = sharding.replication_groups().ids;
        const auto from = all.begin() + (&group - members.data()) * sharding.replicas();
        Ints theirs(from, from + sharding.replicas());
        std::sort(theirs.begin(), theirs.end());
        ASSERT_EQ(theirs, group);
      } else {
        ASSERT_TRUE(sharding.replication_groups().ids.empty());
      }
    }
    // the iota form gives the same devices, in the mesh's own order too
    ASSERT_EQ(sharding.iota().devices(), sharding.tile_assignment().ids);
  }
}

TEST(OpSharding, B15_a_mesh_of_higher_rank_replicates) {
  // the original's ShardingSpec says TILED, REPLICATED and MAXIMAL
  EXPECT_EQ(LogicalMesh::of_shape({4, 2}).get_op_sharding({0}).type(), ShardingType::partial);
  EXPECT_EQ(LogicalMesh::of_shape({4, 2}).get_op_sharding({none}).type(), ShardingType::partial);
  EXPECT_EQ(LogicalMesh::of_shape({1, 1}).get_op_sharding({0}).type(), ShardingType::partial);
  EXPECT_EQ(LogicalMesh::of_shape({4, 2}).get_op_sharding({0}).tiles(), Ints{4});
}

TEST(OpSharding, B16_the_iota_form_carries_the_device_order) {
  const LogicalMesh reversed({7, 6, 5, 4, 3, 2, 1, 0}, {2, 4});
  const shard::IotaSharding iota = reversed.get_op_sharding({0, 1}).iota();
  EXPECT_EQ(iota.order, reversed.device_ids());
  EXPECT_EQ(iota.devices(), (Ints{7, 6, 5, 4, 3, 2, 1, 0}));  // the original: 0, 1, 2, ...
  EXPECT_EQ(iota.text(), "{devices=[2,4]7,6,5,4,3,2,1,0}");   // the original: <=[8]
  const LogicalMesh straight = LogicalMesh::of_shape({2, 4});
  EXPECT_EQ(straight.get_op_sharding({0, 1}).iota().text(), "{devices=[2,4]<=[8]}");
  EXPECT_EQ(straight.get_op_sharding({1, none}).iota().text(),
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  EXPECT_TRUE(straight.get_op_sharding({0, 1}).iota().order.empty());
}

}  // namespace
