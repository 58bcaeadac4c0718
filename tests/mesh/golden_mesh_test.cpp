// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/mesh/hybrid_mesh.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/torus.hpp"
#include "shard/collectives/zigzag_partition.hpp"

namespace {

using Json = nlohmann::json;
using Ints = std::vector<int>;

using namespace shard;

/// The reference values: tests/data/mesh.json, or the file that SHARD_GOLDEN_MESH names.
const Json& golden_file() {
  static const Json file = [] {
    const char* other = std::getenv("SHARD_GOLDEN_MESH");
    std::ifstream stream(other != nullptr && *other != '\0' ? other : SHARD_TEST_DATA "/mesh.json");
    return Json::parse(stream);
  }();
  return file;
}

bool has(const Json& one, const char* field) {
  return one.contains(field) && !one[field].is_null();
}

/// The cases of one part of the file, each in a trace of its own; a case with `error` must throw.
template <class Check>
void for_each_case(const char* part, const Check& check) {
  if (!has(golden_file(), part)) GTEST_SKIP() << "the file has no " << part;
  EXPECT_GT(golden_file()[part].size(), 0u);
  for (const Json& one : golden_file()[part]) {
    SCOPED_TRACE(one.dump().substr(0, 400));
    if (has(one, "error")) {
      EXPECT_THROW(check(one), shard::ArgumentError);
    } else {
      EXPECT_NO_THROW(check(one));
    }
  }
}

/// Numbers of an array, nested or not, in order.
Ints flat(const Json& array) {
  if (!array.is_array()) return {array.get<int>()};
  Ints all;
  for (const Json& item : array) {
    const Ints inner = flat(item);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

/// Expects what the case says of a field, if it says anything.
void expect(const Json& one, const char* field, const Ints& ours) {
  if (has(one, field)) {
    EXPECT_EQ(ours, flat(one[field])) << field;
  }
}
void expect(const Json& one, const char* field, const std::string& ours) {
  if (has(one, field)) {
    EXPECT_EQ(ours, one[field].get<std::string>()) << field;
  }
}

/// JSON's words are those that a spec is read from, what is no spec included.
PartitionSpec spec_of(const Json& one) { return PartitionSpec::from_text(one["spec"].dump()); }

LogicalMesh mesh_of(const Json& one) {
  std::vector<std::string> names;
  if (has(one, "axis_names")) names = one["axis_names"].get<std::vector<std::string>>();
  if (!has(one, "device_ids")) return LogicalMesh::of_shape(one["mesh_shape"].get<Ints>(), names);
  return {one["device_ids"].get<Ints>(), one["mesh_shape"].get<Ints>(), names};
}

TEST(GoldenMesh, Tiles) {
  for_each_case("tile", [](const Json& one) {
    const OpSharding sharding = mesh_of(one).get_op_sharding(spec_of(one));
    expect(one, "type", std::string(name_of(sharding.type())));
    expect(one, "type_id", Ints{static_cast<int>(sharding.type())});
    expect(one, "tile_dims", sharding.tile_assignment().shape);
    expect(one, "tile", sharding.tile_assignment().ids);
    expect(one, "group_dims", sharding.group_assignment().shape);
    expect(one, "groups", sharding.group_assignment().ids);
    expect(one, "effective", sharding.text());
    if (has(one, "replication_groups")) {
      // as many groups, each with as many members
      DeviceArray groups;
      for (const Json& group : one["replication_groups"]) {
        const Ints members = flat(group);
        groups.shape       = {static_cast<int>(one["replication_groups"].size()),
                              static_cast<int>(members.size())};
        groups.ids.insert(groups.ids.end(), members.begin(), members.end());
      }
      EXPECT_EQ(sharding.replication_groups(), groups);
    }
    if (has(one, "v2")) {
      const shard::IotaSharding iota = sharding.iota();
      Ints subgroups;
      for (const auto type : iota.subgroups) subgroups.push_back(static_cast<int>(type));
      expect(one["v2"], "dims", iota.dims);
      expect(one["v2"], "reshape", iota.reshape);
      expect(one["v2"], "perm", iota.permutation);
      expect(one["v2"], "subgroup", subgroups);
    }
  });
}

/// The golden v2 of a mesh with its own device order leaves the order out, which is B16: ours has
/// the same dims, reshape and permutation (see Tiles), and the order besides.
TEST(GoldenMesh, B16_the_v2_form_of_a_mesh_with_its_own_device_order_carries_the_order) {
  for_each_case("tile", [](const Json& one) {
    const LogicalMesh mesh    = mesh_of(one);
    const OpSharding sharding = mesh.get_op_sharding(spec_of(one));
    const bool own_order =
        mesh.device_ids() != LogicalMesh::of_shape(mesh.mesh_shape()).device_ids();
    EXPECT_EQ(sharding.iota().order, own_order ? mesh.device_ids() : Ints{});
    expect(one, "tile", sharding.iota().devices());
  });
}

void check_torus(const Json& one, shard::SplitAxes split) {
  const auto assignment =
      shard::assign_torus(one["physical"].get<Ints>(), one["logical"].get<Ints>(), split);
  expect(one, "assignment", assignment.sizes);
  expect(one, "mesh", assignment.place().ids);
}

TEST(GoldenMesh, Torus) {
  for_each_case("nd_torus", [](const Json& one) { check_torus(one, shard::SplitAxes::never); });
}

TEST(GoldenMesh, TorusWithSplitAxes) {
  for_each_case("nd_torus_split",
                [](const Json& one) { check_torus(one, shard::SplitAxes::if_needed); });
}

/// Devices in the order of the numbers in their names, by which they are counted from 0.
std::vector<shard::DeviceAttributes> devices_of(const Json& one) {
  std::map<int, Json> by_number;
  for (const Json& device : one) {
    const std::string name                                = device["name"];
    by_number[std::stoi(name.substr(name.find(':') + 1))] = device;
  }
  std::vector<shard::DeviceAttributes> devices;
  for (const auto& [number, device] : by_number) {
    shard::DeviceAttributes d;
    d.id = static_cast<int>(devices.size());
    if (has(device, "coords")) d.coordinates = device["coords"].get<Ints>();
    if (has(device, "slice_index")) d.granule = device["slice_index"].get<int>();
    if (has(device, "core_on_chip")) d.core = device["core_on_chip"];
    devices.push_back(d);
  }
  return devices;
}

TEST(GoldenMesh, Hybrid) {
  for_each_case("hybrid", [](const Json& one) {
    shard::HybridMeshArguments arguments{.inner = one["ici"].get<Ints>()};
    if (has(one, "dcn")) arguments.outer = one["dcn"].get<Ints>();
    if (has(one, "axis_names"))
      arguments.axis_names = one["axis_names"].get<std::vector<std::string>>();
    arguments.devices = devices_of(one["devices"]);
    const shard::HybridMesh mesh(arguments);
    expect(one, "shape", mesh.mesh_shape());
    expect(one, "mesh", mesh.device_ids());
  });
}

TEST(GoldenMesh, Zigzag) {
  for_each_case("zigzag", [](const Json& one) {
    const int chunks = one["chunks"];
    if (has(one, "ranks") && !has(one, "error")) {
      EXPECT_EQ(chunks, 2 * one["ranks"].get<int>());
    }
    expect(one, "zigzag", shard::zigzag_order(chunks));
    if (has(one, "inverse") || has(one, "error"))
      expect(one, "inverse", shard::zigzag_inverse(chunks));
  });
}

}  // namespace
