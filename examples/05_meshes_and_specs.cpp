// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meshes and specs as values, drawn as text: which devices have which elements of an array, for any
// mesh. Then a mesh is bound to the ranks of this job, and a field on it is drawn.
#include <shard/shard.hpp>

#include <cstdio>

struct Lat;
struct Lon;

void draw(const shard::LogicalMesh& mesh, const shard::PartitionSpec& spec) {
  const shard::ShardingSpec sharding(mesh, spec);
  std::printf("\n%s, in XLA's words %s\n%s", spec.text().c_str(),
              sharding.sharding().text().c_str(),
              describe(sharding.apply(std::vector<shard::index_t>{9, 6})).c_str());
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (environment.rank() == 0) {
    const auto mesh = shard::LogicalMesh::of_shape({4, 2}, {"lat", "lon"});
    std::printf("8 devices: %s\n", mesh.get_logical_mesh().text().c_str());
    draw(mesh, {"lat", "lon"});
    draw(mesh, {"lat", shard::none});           // an axis that isn't named replicates
    draw(mesh, {{"lat", "lon"}, shard::none});  // both shard the rows, lat the slower one
    draw(mesh, shard::PartitionSpec::from_text("(None, lat)"));  // as from a command line

    // 2 nodes of 2 x 2 devices: columns run over the nodes
    std::vector<shard::DeviceAttributes> devices(8);
    for (int i = 0; i < 8; ++i) devices[static_cast<std::size_t>(i)] = {.id = i, .granule = i / 4};
    const shard::HybridMesh hybrid({.inner = {2, 2}, .outer = {1, 2}, .devices = devices});
    std::printf("\n2 nodes: %s\n", hybrid.get_logical_mesh().text().c_str());
  }

  // The ranks of this job, placed so that neighbours share nodes, and a field with halos on them.
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0},
                                   {.placement = shard::RankPlacement::by_node});
  const shard::ShardedView<float**, Kokkos::LayoutRight,
                           shard::ShardDim<0, Lat, shard::Halo<1>, shard::Reflect>,
                           shard::ShardDim<1, Lon, shard::Halo<2, 1>, shard::Periodic>>
      field("temperature", mesh, {721, 1440});
  if (mesh.rank() == 0) std::printf("\n%s", describe(field).c_str());
}
