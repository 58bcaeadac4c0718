// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meshes and specs as values, drawn as text: which devices hold which cells of an array of 8 x 6,
// for meshes that needn't be here. Then such a mesh is bound to the ranks that are.
#include <shard/shard.hpp>

#include <cstdio>
#include <string>

struct Lat;
struct Lon;

void draw(const shard::LogicalMesh& mesh, const shard::PartitionSpec& spec) {
  const shard::ShardingSpec sharding(mesh, spec);
  const shard::ShardLayout layout = sharding.apply(std::vector<shard::index_t>{8, 6});
  std::printf("\n%s: %s, in XLA's words %s\n", spec.text().c_str(),
              name_of(sharding.sharding().type()), sharding.sharding().text().c_str());
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 6; ++j) {
      std::string devices;
      for (int device = 0; device < mesh.size(); ++device) {
        const shard::DeviceShard held = layout.shard(device);
        if (held.begin[0] <= i && i < held.end[0] && held.begin[1] <= j && j < held.end[1])
          devices += std::to_string(device);
      }
      std::printf(" %3s", devices.c_str());
    }
    std::printf("\n");
  }
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (environment.rank() == 0) {
    const auto mesh = shard::LogicalMesh::of_shape({4, 2}, {"lat", "lon"});
    std::printf("8 devices: %s\n", mesh.get_logical_mesh().text().c_str());
    draw(mesh, {"lat", "lon"});
    draw(mesh, {"lat", shard::none});           // an axis that isn't named replicates
    draw(mesh, {{"lat", "lon"}, shard::none});  // both cut the rows, lat the slower one
    draw(mesh, shard::PartitionSpec::from_text("(None, lat)"));  // as from a command line

    // 2 nodes of 2 x 2 devices: columns run over the nodes
    std::vector<shard::DeviceAttributes> devices(8);
    for (int i = 0; i < 8; ++i) devices[static_cast<std::size_t>(i)] = {.id = i, .granule = i / 4};
    const shard::HybridMesh hybrid({.inner = {2, 2}, .outer = {1, 2}, .devices = devices});
    std::printf("\n2 nodes: %s\n", hybrid.get_logical_mesh().text().c_str());
  }

  // The ranks that are here, so placed that neighbours share nodes.
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0},
                                   {.placement = shard::Placement::by_node});
  if (mesh.rank() == 0)
    std::printf("\n%d ranks: %s\n", mesh.size(), mesh.logical().get_logical_mesh().text().c_str());
}
