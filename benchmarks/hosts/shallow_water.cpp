// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <memory>

#include "checksum.hpp"
#include "shallow_water/galewsky.hpp"
#include "shallow_water/latlon_model.hpp"
#include "workloads.hpp"

workloads::Run workloads::shallow_water(MPI_Comm comm, int parts) {
  const int rows   = 4 * static_cast<int>(std::lround(16 * std::sqrt(parts)));
  const auto model = std::make_shared<LatLon>(comm, Galewsky(true), rows);
  const auto step  = [model, dt = 240.0 * 64 / rows] {
    model->step(dt);
    Kokkos::fence("benchmark");
  };
  return {step, [model, comm] {
            return checksum(comm, model->h) + 3 * checksum(comm, model->u) +
                   5 * checksum(comm, model->v);
          }};
}
