// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cf_files FOLDER: writes the files of the pages' snippets there, for the test cf_tools.
#include <shard/io/netcdf_output.hpp>
#include <shard/io/tile_cells.hpp>
#include <shard/shard.hpp>

#include <cmath>
#include <filesystem>
#include <vector>

namespace {

struct Lat;
struct Lon;

void write_latitudes_and_longitudes(const shard::Mesh<Lat, Lon>& mesh) {
#include "fields_output.hpp"
}

void extend(const shard::Mesh<Lat, Lon>& mesh) {
#include "fields_extended.hpp"
}

struct Ranks;
struct Sphere;
using T = shard::ShardedView<double****, Kokkos::LayoutRight,
                             shard::ShardDim<0, Ranks, shard::Blocks<Sphere>>,
                             shard::ShardDim<2, shard::Unsharded, shard::Halo<2>, shard::LinkedY>,
                             shard::ShardDim<3, shard::Unsharded, shard::Halo<2>, shard::LinkedX>>;

void write_sphere(const Kokkos::DefaultExecutionSpace& space) {
  const shard::Mesh<Ranks> line(MPI_COMM_WORLD, {0});
  const shard::BlockGrid<Sphere, Ranks> sphere(line, shard::cubed_sphere(48), {.block = {24, 12}});
  const T h("h", line, {sphere, shard::Partition::whole(32), sphere.y(), sphere.x()});
  // the third coordinate of each cell's centre: what a tool has remapped can be compared with it
  const auto host = shard::create_mirror_view(h);
  for (int b = 0; b < host.extent(0); ++b)
    for (int k = 0; k < 32; ++k)
      for (int j = 0; j < 24; ++j)
        for (int i = 0; i < 12; ++i) {
          const auto& block = sphere.block(b);
          host(b, k, j, i) =
              shard::cubed_sphere_point(48, block.tile, static_cast<double>(2 * (block.y + j) + 1),
                                        static_cast<double>(2 * (block.x + i) + 1))[2];
        }
  shard::deep_copy(space, h, host);
#include "tiles_cells.hpp"
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  if (argc != 2) return 2;
  if (environment.rank() == 0) {
    std::filesystem::remove_all(argv[1]);
    std::filesystem::create_directories(argv[1]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::filesystem::current_path(argv[1]);
  const shard::Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  write_latitudes_and_longitudes(mesh);
  extend(mesh);
  extend(mesh);
  write_sphere({});
  return 0;
}
