// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <memory>

#include "shallow_water/galewsky.hpp"
#include "shallow_water/latlon_model.hpp"
#include "workloads.hpp"

workloads::Step workloads::shallow_water(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  const int rows   = 4 * static_cast<int>(std::lround(16 * std::sqrt(ranks)));
  const auto model = std::make_shared<LatLon>(comm, Galewsky(true), rows);
  return [model, dt = 240.0 * 64 / rows] {
    model->step(dt);
    Kokkos::fence("benchmark");
  };
}
