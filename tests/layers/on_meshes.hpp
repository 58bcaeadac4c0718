// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_ON_MESHES_HPP
#define SHARD_TESTS_LAYERS_ON_MESHES_HPP

#include "layers/layer_support.hpp"

namespace shard::testing {

/// Calls body(mesh, partitions) for every mesh of this number of ranks: balanced shards, and twice
/// random ones, some of them empty.
template <std::size_t Rank, class Body>
void on_meshes(const std::array<index_t, Rank>& n, const Body& body) {
  Random random(seed());
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    for (int which = 0; which < (world_size() > 1 ? 3 : 1); ++which) {
      SCOPED_TRACE("mesh " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   ", partition " + std::to_string(which));
      body(mesh, some_partitions(n, shape, which, random));
    }
  }
}

}  // namespace shard::testing

#endif
