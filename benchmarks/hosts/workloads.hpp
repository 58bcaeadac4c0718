// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HOSTS_WORKLOADS_HPP
#define SHARD_BENCHMARKS_HOSTS_WORKLOADS_HPP

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

/// Programs whose time on several hosts is measured, and predicted where ranks can be imagined.
/// Their work is given in parts: with as many parts as ranks each rank has one.
namespace workloads {

struct Run {
  std::function<void()> step;               ///< it ends when its result is there
  std::function<std::uint64_t()> checksum;  ///< of the result's bits, on every rank; collective
};

struct Workload {
  const char* name;
  Run (*make)(MPI_Comm comm, int parts);  ///< collective
  int axes;  ///< of the mesh; 0 where making it takes answers of other ranks, which can't be
             ///< imagined
};

/// The 7-point stencil of a periodic field of 64^3 points a part, with the exchange of two fields.
Run exchange(MPI_Comm comm, int parts);
/// A training step of a U-Net: 16 channels, 32 x 64 points a part.
Run unet(MPI_Comm comm, int parts);
/// A step of the latitude-longitude shallow-water model, about 64 x 128 points a part.
Run shallow_water(MPI_Comm comm, int parts);
/// Four iterations of conjugate gradients with multigrid, 48^3 cells a part.
Run multigrid(MPI_Comm comm, int parts);
/// The four transposes of a transform of a field of 48^3 doubles a part in pencils, and back.
Run transposes(MPI_Comm comm, int parts);

/// Those of this program: these five, or one on a Voronoi mesh.
const std::vector<Workload>& all();
/// Of a mesh of two axes.
std::vector<int> shape_of(int parts);

}  // namespace workloads

#endif
