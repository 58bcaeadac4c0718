// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HOSTS_WORKLOADS_HPP
#define SHARD_BENCHMARKS_HOSTS_WORKLOADS_HPP

#include <mpi.h>

#include <functional>
#include <vector>

/// Five programs whose time on several hosts is measured and predicted. The work of a rank is the
/// same on any number of ranks.
namespace workloads {

/// A step. It ends when its result is there.
using Step = std::function<void()>;

struct Workload {
  const char* name;
  const char* what;
  Step (*make)(MPI_Comm comm);  ///< collective
  bool one_axis;                ///< the mesh has one; else two
};

/// The 7-point stencil of a periodic field of 64^3 points a rank, with the exchange of two fields.
Step exchange(MPI_Comm comm);
/// A training step of a U-Net: 16 channels, 32 x 64 points a rank.
Step unet(MPI_Comm comm);
/// A step of the latitude-longitude shallow-water model, about 64 x 128 points a rank.
Step shallow_water(MPI_Comm comm);
/// Four iterations of conjugate gradients with multigrid, 48^3 cells a rank.
Step multigrid(MPI_Comm comm);
/// The four transposes of a transform of a field of 48^3 doubles a rank in pencils, and back.
Step transposes(MPI_Comm comm);

const std::vector<Workload>& all();
/// The shape of a workload's mesh.
std::vector<int> mesh_of(const Workload& workload, int ranks);

}  // namespace workloads

#endif
