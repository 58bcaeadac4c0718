// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the model that shard replaces: ghost cells and sums over the ranks.
#include "model.hpp"

#include <cstddef>
#include <vector>

namespace host {

void Model::fill_x(const State& q) {
  Space().fence("the columns are written");
  int rank = 0, ranks = 1;
  MPI_Comm_rank(grid_.comm, &rank);
  MPI_Comm_size(grid_.comm, &ranks);
  const int west = (rank + ranks - 1) % ranks, east = (rank + 1) % ranks;
  const int count = variables * grid_.levels * ghosts;
  std::vector<double> out(static_cast<std::size_t>(count)), in(out.size());
  for (const bool eastwards : {true, false}) {
    const int from = eastwards ? grid_.nx : ghosts, to = eastwards ? 0 : grid_.nx + ghosts;
    std::size_t n = 0;
    for (int v = 0; v < variables; ++v)
      for (int k = 0; k < grid_.levels; ++k)
        for (int g = 0; g < ghosts; ++g) out[n++] = q(v, k + ghosts, from + g);
    MPI_Sendrecv(out.data(), count, MPI_DOUBLE, eastwards ? east : west, 0, in.data(), count,
                 MPI_DOUBLE, eastwards ? west : east, 0, grid_.comm, MPI_STATUS_IGNORE);
    n = 0;
    for (int v = 0; v < variables; ++v)
      for (int k = 0; k < grid_.levels; ++k)
        for (int g = 0; g < ghosts; ++g) q(v, k + ghosts, to + g) = in[n++];
  }
}

void Model::fill_z(const State& q) {
  Space().fence("the levels are written");
  const Profile& rho = at_rest_.density;
  const int low = ghosts, high = grid_.levels + ghosts - 1;  // the edge levels
  for (int x = ghosts; x < grid_.nx + ghosts; ++x)
    for (int g = 1; g <= ghosts; ++g) {
      for (const int v : {density, density_theta}) {
        q(v, low - g, x)  = q(v, low + g - 1, x);
        q(v, high + g, x) = q(v, high - g + 1, x);
      }
      q(momentum_x, low - g, x)  = q(momentum_x, low, x) / rho(low) * rho(low - g);
      q(momentum_x, high + g, x) = q(momentum_x, high, x) / rho(high) * rho(high + g);
      q(momentum_z, low - g, x)  = q(momentum_x, low, x) * at_rest_.slope(x);
      q(momentum_z, high + g, x) = -q(momentum_z, high - g + 1, x);
    }
}

std::array<double, 2> Model::totals() const {
  Space().fence("the state is written");
  const CellTotals cell{state_, at_rest_};
  double here[2] = {}, all[2];
  for (int k = 0; k < grid_.levels; ++k)
    for (int i = 0; i < grid_.nx; ++i) {
      const auto of_cell = cell(k, i);
      here[0] += of_cell[0];
      here[1] += of_cell[1];
    }
  MPI_Allreduce(here, all, 2, MPI_DOUBLE, MPI_SUM, grid_.comm);
  return {all[0], all[1]};
}

}  // namespace host
