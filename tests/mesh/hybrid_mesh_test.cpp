// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/hybrid_mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

// B21: the original's documentation calls by position what takes names only
static_assert(!std::is_constructible_v<HybridMesh, Ints, Ints>);

/// Granules of nx x ny devices, numbered within a granule along y first, then granule by granule.
std::vector<DeviceAttributes> granules(int count, int nx, int ny, Ints origin = {0, 0}) {
  std::vector<DeviceAttributes> all;
  for (int g = 0; g < count; ++g)
    for (int x = 0; x < nx; ++x)
      for (int y = 0; y < ny; ++y) {
        DeviceAttributes one;
        one.id          = static_cast<int>(all.size());
        one.coordinates = {origin[0] + x, origin[1] + y};
        if (count > 1) one.granule = 10 * g;  // ascending numbers, with gaps
        all.push_back(one);
      }
  return all;
}

std::string message(const shard::HybridMeshArguments& arguments) {
  return message_thrown_by<ArgumentError>([&] { HybridMesh mesh(arguments); });
}

TEST(HybridMesh, IsTheProductOfBothShapes) {
  const HybridMesh mesh(
      {.inner = {2, 2}, .outer = {1, 3}, .axis_names = {"x", "y"}, .devices = granules(3, 2, 2)});
  EXPECT_EQ(mesh.mesh_shape(), (Ints{2, 6}));
  EXPECT_EQ(mesh.inner_shape(), (Ints{2, 2}));
  EXPECT_EQ(mesh.outer_shape(), (Ints{1, 3}));
  EXPECT_EQ(mesh.get_axis_name_idx("y"), 1);
  EXPECT_EQ(mesh.get_logical_mesh().text(), "[[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]");
  // and a LogicalMesh in every other way
  EXPECT_EQ(mesh.get_op_sharding({"y", shard::none}).tiles(), (Ints{6, 1}));
}

TEST(HybridMesh, OuterIsOnesUnlessGiven) {
  const HybridMesh mesh({.inner = {4, 1}, .devices = granules(1, 2, 2)});
  EXPECT_EQ(mesh.outer_shape(), (Ints{1, 1}));
  EXPECT_EQ(mesh.mesh_shape(), (Ints{4, 1}));
}

TEST(HybridMesh, DevicesInAnyOrderAndWithoutCoordinates) {
  std::vector<DeviceAttributes> devices(6);
  for (int i = 0; i < 6; ++i) {
    devices[static_cast<std::size_t>(i)].id      = 5 - i;
    devices[static_cast<std::size_t>(i)].granule = (5 - i) % 2;
  }
  const HybridMesh mesh({.inner = {3, 1}, .outer = {1, 2}, .devices = devices});
  EXPECT_EQ(mesh.get_logical_mesh().text(), "[[0, 1], [2, 3], [4, 5]]");
}

TEST(HybridMesh, InnerAxesMaySplitTheTorus) {
  const HybridMesh mesh({.inner = {2, 8}, .devices = granules(1, 4, 4)});
  EXPECT_EQ(mesh.device_ids(), (Ints{0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15}));
  expect_parts(
      message({.inner = {2, 8}, .devices = granules(1, 4, 4), .split = shard::SplitAxes::never}),
      {"failed to find an assignment"});
}

TEST(HybridMesh, B18_origin_extents_and_cores) {
  // the original takes the granule to begin at coordinate 0 and leaves the cores out
  const DeviceArray shifted = shard::physical_mesh(granules(1, 2, 3, {5, -4}));
  EXPECT_EQ(shifted.text(), "[[0, 1, 2], [3, 4, 5]]");
  // two cores at each coordinate are an axis more
  std::vector<DeviceAttributes> cores;
  for (int i = 0; i < 8; ++i) {
    DeviceAttributes one;
    one.id          = i;
    one.coordinates = {i / 2 % 2, i / 4};
    one.core        = i % 2;
    cores.push_back(one);
  }
  EXPECT_EQ(shard::physical_mesh(cores).text(), "[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]");
  EXPECT_EQ(HybridMesh({.inner = {2, 2, 2}, .devices = cores}).size(), 8);
}

TEST(HybridMesh, B18_a_hole_is_found) {
  std::vector<DeviceAttributes> devices = granules(1, 2, 2);
  devices[3].coordinates                = {2, 1};
  expect_parts(message({.inner = {2, 2}, .devices = devices}),
               {"not a contiguous cuboid", "(3, 2)", "6", "4 devices"});
  devices[3].coordinates = {0, 0};
  expect_parts(message({.inner = {2, 2}, .devices = devices}),
               {"devices 0 and 3", "same coordinates (0, 0)", "hole"});
  devices[3].coordinates = {2000000000, -2000000000};
  expect_parts(message({.inner = {2, 2}, .devices = devices}), {"not a contiguous cuboid"});
  devices[3].coordinates = {1};
  expect_parts(message({.inner = {2, 2}, .devices = devices}), {"device 3 has 1 coordinates"});
}

TEST(HybridMesh, WhatCanNotBeThrows) {
  expect_parts(message({.inner = {2, 2}, .outer = {2}, .devices = granules(2, 2, 2)}),
               {"(2, 2)", "(2,)", "same length"});
  expect_parts(message({.inner = {2, 2}, .devices = granules(2, 2, 2)}),
               {"provide the outer shape"});
  expect_parts(message({.inner = {2, 2}, .outer = {2, 1}, .devices = granules(1, 2, 4)}),
               {"invalid outer shape (2, 1)", "no granules"});
  expect_parts(message({.inner = {2, 2}, .outer = {3, 1}, .devices = granules(2, 2, 2)}),
               {"number of granules 2", "(3, 1), 3"});
  expect_parts(message({.inner = {2, 4}, .outer = {2, 1}, .devices = granules(2, 2, 2)}),
               {"number of devices 4 of granule 0", "inner shape (2, 4), 8"});
  expect_parts(message({.inner = {2, 0}, .devices = granules(1, 2, 2)}), {"below 1"});
  expect_parts(message({.inner = {65536, 65536}, .devices = granules(1, 2, 2)}), {"2147483647"});
  expect_parts(message({.inner = {2, 2}}), {"no devices"});
  std::vector<DeviceAttributes> some = granules(2, 2, 2);
  some[1].granule.reset();
  expect_parts(message({.inner = {2, 2}, .outer = {2, 1}, .devices = some}), {"7 of 8 devices"});
  some       = granules(1, 2, 2);
  some[1].id = 9;
  expect_parts(message({.inner = {2, 2}, .devices = some}), {"less than the mesh size 4", "9"});
  some[1].id = 0;
  expect_parts(message({.inner = {2, 2}, .devices = some}), {"unique"});
  expect_parts(message({.inner = {2, 2}, .axis_names = {"x", "x"}, .devices = granules(1, 2, 2)}),
               {"axis names must be unique"});
}

/// JAX's: two pods of 4 x 4 x 4; the devices at the blocks' origins have the same coordinates, in
/// different pods.
TEST(HybridMesh, BlocksBeginAtTheSamePlaceOfEveryGranule) {
  std::vector<DeviceAttributes> devices;
  for (int i = 0; i < 128; ++i)
    devices.push_back({.id = i, .coordinates = {i % 4, i / 4 % 4, i / 16 % 4}, .granule = i / 64});
  const HybridMesh a({.inner = {1, 16, 4}, .outer = {2, 1, 1}, .devices = devices});
  EXPECT_EQ(a.mesh_shape(), (Ints{2, 16, 4}));
  EXPECT_EQ(a.get_logical_mesh().at({1, 0, 0}), a.get_logical_mesh().at({0, 0, 0}) + 64);
  const HybridMesh b({.inner = {1, 4, 16}, .outer = {1, 2, 1}, .devices = devices});
  EXPECT_EQ(b.mesh_shape(), (Ints{1, 8, 16}));
  EXPECT_EQ(b.get_logical_mesh().at({0, 4, 0}), b.get_logical_mesh().at({0, 0, 0}) + 64);
}

/// Along axis a the granule changes every inner[a] places: from the definition, for random shapes.
TEST(HybridMesh, RandomShapes) {
  std::mt19937_64 random(shard::testing::seed());
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t axes = static_cast<std::size_t>(1 + below(3));
    Ints inner(axes), outer(axes);
    int per_granule = 1, count = 1;
    for (std::size_t a = 0; a < axes; ++a) {
      per_granule *= inner[a] = 1 + below(3);
      count *= outer[a]       = 1 + below(3);
    }
    std::vector<DeviceAttributes> devices;
    for (int i = 0; i < per_granule * count; ++i) {
      DeviceAttributes one;
      one.id = i;
      if (count > 1) one.granule = i / per_granule;
      devices.push_back(one);
    }
    std::shuffle(devices.begin(), devices.end(), random);
    const HybridMesh mesh({.inner = inner, .outer = outer, .devices = devices});
    for (int place = 0; place < mesh.size(); ++place) {
      int rest = place, granule = 0, within = 0;
      Ints c(axes);
      for (std::size_t a = axes; a-- > 0;) {
        c[a] = rest % (inner[a] * outer[a]);
        rest /= inner[a] * outer[a];
      }
      for (std::size_t a = 0; a < axes; ++a) {
        granule = granule * outer[a] + c[a] / inner[a];
        within  = within * inner[a] + c[a] % inner[a];
      }
      ASSERT_EQ(mesh.device_ids()[static_cast<std::size_t>(place)], granule * per_granule + within);
    }
  }
}

}  // namespace
