// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program of its own: its model and the latitude-longitude one name their kernels alike.
#include <cmath>
#include <memory>

#include "checksum.hpp"
#include "shallow_water/voronoi_model.hpp"
#include "workloads.hpp"

namespace {

struct OnMesh {
  voronoi::Mesh mesh;  // the model refers to it
  Voronoi model;
  OnMesh(MPI_Comm comm, int level) : mesh(level), model(comm, mesh) {
    model.start(flow_named("2"));
  }
};

/// A step of the shallow-water model on a Voronoi mesh of 10 * 4^n + 2 cells, about 10 000 a part.
workloads::Run voronoi_run(MPI_Comm comm, int parts) {
  const int level = 5 + static_cast<int>(std::lround(std::log2(parts) / 2));
  const auto on   = std::make_shared<OnMesh>(comm, level);
  const auto step = [on, dt = 900 * std::pow(2.0, 4 - level)] {
    on->model.step(dt);
    Kokkos::fence("benchmark");
  };
  const auto checksum = [on, comm] {
    std::uint64_t sum = 0, place = 0;
    for (const auto& values : {on->model.by_id(on->model.h), on->model.by_id(on->model.u)})
      for (const double value : values) sum += workloads::hash_at(place++, value);
    MPI_Bcast(&sum, 1, MPI_UINT64_T, 0, comm);  // the others have no values
    return sum;
  };
  return {step, checksum};
}

}  // namespace

const std::vector<workloads::Workload>& workloads::all() {
  static const std::vector<Workload> one{{"voronoi", voronoi_run, 0}};
  return one;
}
