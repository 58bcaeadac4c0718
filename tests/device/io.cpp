// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel of fields over tiles that go into a file, for the device.
#include "shard/io/tile_cells.hpp"

namespace device_io {

using namespace shard;

struct Ranks;
struct Sphere;
using Tiled =
    ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Ranks, Blocks<Sphere>>,
                ShardDim<2, Unsharded, Halo<1>, LinkedY>, ShardDim<3, Unsharded, Halo<1>, LinkedX>>;

index_t use(const Mesh<Ranks>& mesh, const Tiled& field) {
  const BlockGrid<Sphere, Ranks> sphere(mesh, cubed_sphere(8));
  return TileCells(mesh, sphere)(Kokkos::DefaultExecutionSpace(), field).extent(1);
}

}  // namespace device_io
