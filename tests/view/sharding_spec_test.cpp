// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/sharding_spec.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/sharded_view.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

struct Lat;

using namespace shard;
using namespace shard::testing;
using Extents = std::vector<index_t>;

ShardLayout layout(const LogicalMesh& mesh, const PartitionSpec& spec, const Extents& extents) {
  return ShardingSpec(mesh, spec).apply(extents);
}

TEST(ShardLayout, EveryRowOfTheOriginalsTests) {
  const LogicalMesh two = LogicalMesh::of_shape({2, 2});
  ShardLayout a         = layout(two, {0, 1}, {8, 7});
  EXPECT_EQ(a.shard_shape(), (Extents{4, 4}));
  EXPECT_EQ(a.shard(0).text(), "[0:4, 0:4]");
  EXPECT_EQ(a.shard(1).text(), "[0:4, 4:7]");
  EXPECT_EQ(a.shard(2).text(), "[4:8, 0:4]");
  EXPECT_EQ(a.shard(3).text(), "[4:8, 4:7]");
  EXPECT_EQ(a.shard(3).padding(), (Extents{0, 1}));

  a = layout(two, {none, none}, {8, 7});
  for (int device = 0; device < 4; ++device) {
    EXPECT_EQ(a.shard(device).text(), "...");
    EXPECT_EQ(a.shard(device).extent(), (Extents{8, 7}));
    EXPECT_EQ(a.shard(device).replica_id, device);
  }

  a = layout(shard::one_axis_mesh(8), {0}, {8});
  for (const DeviceShard& s : a.shards({0, 1, 2, 3, 4, 5, 6, 7})) EXPECT_EQ(s.extent(), Extents{1});

  a = layout(LogicalMesh::of_shape({2, 4}), {0, 1, none}, {8, 7, 4});
  EXPECT_EQ(a.shard(0).extent(), (Extents{4, 2, 4}));
  EXPECT_EQ(a.shard(7).extent(), (Extents{4, 1, 4}));
  a = layout(LogicalMesh::of_shape({1, 4, 2}), {0, 1, 2}, {8, 7, 4});
  EXPECT_EQ(a.shard(0).extent(), (Extents{8, 2, 2}));
  EXPECT_EQ(a.shard(7).extent(), (Extents{8, 1, 2}));
  a = layout(LogicalMesh::of_shape({1, 1, 4, 2}), {0, 1, 2, 3}, {1, 8, 7, 4});
  EXPECT_EQ(a.shard(7).extent(), (Extents{1, 8, 1, 2}));
  EXPECT_EQ(a.shard(7).padded_extent, (Extents{1, 8, 2, 2}));
  a = layout(LogicalMesh::of_shape({1, 1, 2, 2, 2}), {0, 1, 2, 3, 4}, {10, 1, 8, 7, 4});
  EXPECT_EQ(a.shard(0).extent(), (Extents{10, 1, 4, 4, 2}));
  EXPECT_EQ(a.shard(7).extent(), (Extents{10, 1, 4, 3, 2}));
  EXPECT_EQ(a.shard(7).padded_extent, a.shard(0).padded_extent);

  // a host with devices 4 to 7, in other places of the mesh
  a = layout(LogicalMesh({4, 5, 0, 1, 6, 7, 2, 3}, {2, 4}), {0, 1, none}, {8, 7, 4});
  EXPECT_EQ(a.shards({4, 5, 6, 7}).back().extent(), (Extents{4, 2, 4}));
  a = layout(LogicalMesh({0, 1, 4, 5, 2, 3, 6, 7}, {2, 4}), {0, 1, none}, {8, 7, 4});
  EXPECT_EQ(a.shards({4, 5, 6, 7}).back().extent(), (Extents{4, 1, 4}));

  // one element more than devices: two each, the last ones padding
  a = layout(shard::one_axis_mesh(8), {0}, {9});
  EXPECT_EQ(a.shard_shape(), Extents{2});
  EXPECT_EQ(a.shard(4).text(), "[8:9]");
  EXPECT_EQ(a.shard(5).text(), "[9:9]");
  EXPECT_EQ(a.shard(7).padding(), Extents{2});

  a = layout(LogicalMesh::of_shape({4, 2}), {none, 1}, {16, 16});
  for (int device = 0; device < 8; ++device) {
    EXPECT_EQ(a.shard(device).begin, (Extents{0, device % 2 * 8}));
    EXPECT_EQ(a.shard(device).replica_id, device / 2);
    EXPECT_FALSE(a.shard(device).whole);
  }
}

TEST(ShardingSpec, Minibatch) {
  // two hosts, four of eight devices each: the batch of both is cut over all
  const ShardingSpec spec(LogicalMesh::of_shape({8, 1, 1}), {0, 1, 2},
                          {.minibatch = true, .local_devices = 4});
  const ShardLayout a = spec.apply(Extents{8, 7, 4});
  EXPECT_EQ(a.extents(), (Extents{16, 7, 4}));
  EXPECT_EQ(a.shard(5).extent(), (Extents{2, 7, 4}));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 (void)spec.apply(Extents{6, 7, 4});
               }),
               {"minibatch", "per-host batch size must be divisible by the local device count",
                "batch is 6", "4 local devices"});
  const ShardingSpec alone(LogicalMesh::of_shape({8}), {0}, {.minibatch = true});
  EXPECT_EQ(alone.apply(Extents{16}).extents(), Extents{16});
  expect_parts(message_thrown_by<ArgumentError>([] {
                 const ShardingSpec wrong(LogicalMesh::of_shape({8}), {0}, {.local_devices = 9});
               }),
               {"9 local devices", "the mesh has 8"});
}

TEST(ShardingSpec, FitsByRank) {
  const ShardingSpec spec(LogicalMesh::of_shape({4, 2}), {1, none});
  const Kokkos::View<float**, Kokkos::HostSpace> two("two", 5, 3);
  const Kokkos::View<float***, Kokkos::HostSpace> three("three", 5, 3, 2);
  EXPECT_TRUE(spec.can_apply(two));
  EXPECT_FALSE(spec.can_apply(three));
  EXPECT_EQ(spec.sharding_for(two), spec.sharding());
  EXPECT_EQ(spec.sharding_for(three), std::nullopt);
  EXPECT_EQ(spec.apply(two).shard_shape(), (Extents{3, 3}));
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)spec.apply(three); }),
               {"length (2) should be equal to the tensor's rank (3)"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 (void)spec.apply(Extents{-1, 2});
               }),
               {"not negative", "[-1, 2]"});
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)spec.apply(two).partition(2); }),
               {"dimension 2", "rank 2"});
}

TEST(ShardingSpec, OfAFieldCountsTheWholeWorld) {
  using Field =
      shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Lat, shard::Halo<1>>>;
  const shard::Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const Field t("t", mesh, {10, 3});
  EXPECT_EQ(ShardingSpec(shard::one_axis_mesh(4), {0, none}).apply(t).extents(), (Extents{10, 3}));
}

TEST(ShardingSpec, TakesTheGlobalMeshUnlessGivenOne) {
  expect_parts(message_thrown_by<ArgumentError>([] { const ShardingSpec spec(PartitionSpec{0}); }),
               {"no global mesh", "set_global_mesh"});
  shard::set_global_mesh(shard::one_axis_mesh(5));
  EXPECT_EQ(ShardingSpec(PartitionSpec{0}).apply(Extents{12}).shard_shape(), Extents{3});
  shard::set_global_mesh(std::nullopt);
}

TEST(ShardingSpec, B15_agrees_with_the_mesh) {
  const LogicalMesh mesh = LogicalMesh::of_shape({4, 2});
  EXPECT_EQ(ShardingSpec(mesh, {0}).sharding().type(), shard::ShardingType::partial);
  EXPECT_TRUE(ShardingSpec(mesh, {0}).sharding().same_object(mesh.get_op_sharding({0})));
  EXPECT_EQ(ShardingSpec(mesh, {0}).apply(Extents{8}).shard_shape(), Extents{2});
}

/// All shards together hold every cell, each as often as there are replicas, for both rules.
TEST(ShardLayout, RandomExtents) {
  std::mt19937_64 random(shard::testing::seed());
  const LogicalMesh mesh      = LogicalMesh::of_shape({3, 2, 2});
  const PartitionSpec specs[] = {{{0, 2}, none}, {1, {2, 0}}, {none, 1}, {none, none}, {2, 0}};
  for (int trial = 0; trial < 200; ++trial) {
    const Extents n     = {static_cast<index_t>(random() % 9), static_cast<index_t>(random() % 9)};
    const auto rule     = trial % 2 == 0 ? ShardRule::ceil : ShardRule::balanced;
    const ShardLayout a = ShardingSpec(mesh, specs[trial % 5], {.rule = rule}).apply(n);
    std::vector<int> found(static_cast<std::size_t>(n[0] * n[1]), 0);
    for (int device = 0; device < 12; ++device) {
      const DeviceShard s = a.shard(device);
      for (std::size_t d = 0; d < 2; ++d) {
        EXPECT_LE(s.extent()[d], a.shard_shape()[d]);
        const index_t tiles = a.sharding().tiles(static_cast<int>(d));
        EXPECT_EQ(s.padded_extent[d], (n[d] + tiles - 1) / tiles);
        if (rule == ShardRule::balanced) {
          EXPECT_LE(s.padding()[d], 1);
        }
      }
      for (index_t i = s.begin[0]; i < s.end[0]; ++i)
        for (index_t j = s.begin[1]; j < s.end[1]; ++j)
          ++found[static_cast<std::size_t>(i * n[1] + j)];
    }
    for (const int count : found) EXPECT_EQ(count, a.sharding().replicas());
  }
}

}  // namespace
