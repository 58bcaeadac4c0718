// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <memory>

#include "checksum.hpp"
#include "shallow_water/voronoi_model.hpp"
#include "workloads.hpp"

workloads::Run workloads::voronoi(MPI_Comm comm, int parts) {
  const int level  = 5 + static_cast<int>(std::lround(std::log2(parts) / 2));
  const auto model = std::make_shared<Voronoi>(comm, ::voronoi::Mesh(level));
  model->start(flow_named("2"));
  const auto step = [model, dt = 900 * std::pow(2.0, 4 - level)] {
    model->step(dt);
    Kokkos::fence("benchmark");
  };
  const auto checksum = [model, comm] {
    std::uint64_t sum = 0, place = 0;
    for (const auto& values : {model->by_id(model->h), model->by_id(model->u)})
      for (const double value : values) sum += hash_at(place++, value);
    MPI_Bcast(&sum, 1, MPI_UINT64_T, 0, comm);  // the others have no values
    return sum;
  };
  return {step, checksum};
}
