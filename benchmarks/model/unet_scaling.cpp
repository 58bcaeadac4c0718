// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weak scaling of a U-Net's training step: forward, loss, all gradients, their sum, AdamW. Each
// rank has `rows` rows. In turn: the model of one rank alone while the other ranks sleep; such a
// model on every rank at once, which shows what they take from each other's memory and caches; and
// one model cut over all ranks. Prints a line of JSON for each round, and the medians.
//
//   mpirun -n 2 unet_scaling [rounds [width [rows [columns]]]]
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "model/unet_training.hpp"
#include "shard/base/environment.hpp"
#include "support/arguments.hpp"
#include "support/asleep.hpp"
#include "support/turns.hpp"

namespace {

using support::meet_asleep;
using unet::Training;

double seconds_of_step(Training& training) {
  const double begin = MPI_Wtime();
  training.step();
  return MPI_Wtime() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  int rounds = 20, width = 64, rows = 180, columns = 360;
  support::Arguments given(argc, argv, "[ROUNDS [WIDTH [ROWS [COLUMNS]]]]");
  given.next("ROUNDS", rounds, 1);
  given.next("WIDTH", width, 1);
  given.next("ROWS", rows, 1);
  given.next("COLUMNS", columns, 1);
  if (!given.understood()) return 2;
  const MPI_Comm world = environment.world();
  Training own(MPI_COMM_SELF, width, rows, columns),
      all(world, width, shard::index_t{rows} * environment.size(), columns);
  std::vector<double> alone, beside, together;
  for (int round = -2; round < rounds; ++round) {
    double times[3] = {};
    meet_asleep(world);
    if (environment.rank() == 0) times[0] = seconds_of_step(own);
    meet_asleep(world);
    MPI_Barrier(world);
    times[1] = seconds_of_step(own);
    MPI_Barrier(world);
    times[2] = seconds_of_step(all);
    MPI_Allreduce(MPI_IN_PLACE, times, 3, MPI_DOUBLE, MPI_MAX, world);
    if (!std::isfinite(all.value())) {
      if (environment.rank() == 0)
        std::fprintf(stderr, "unet_scaling: the loss of step %d is %g\n", round + 3, all.value());
      return 1;
    }
    if (round < 0) continue;
    alone.push_back(times[0]);
    beside.push_back(times[1]);
    together.push_back(times[2]);
    if (environment.rank() == 0)
      std::printf("{\"alone\": %.5f, \"beside\": %.5f, \"together\": %.5f}\n", times[0], times[1],
                  times[2]);
  }
  if (environment.rank() == 0)
    std::printf(
        "{\"ranks\": %d, \"width\": %d, \"alone\": %.5f, \"beside\": %.5f, \"together\": %.5f, "
        "\"efficiency\": %.3f, "
        "\"communication_share\": %.3f, \"loss\": %.6f}\n",
        environment.size(), width, support::median(alone), support::median(beside),
        support::median(together), support::median(alone) / support::median(together),
        1 - support::median(beside) / support::median(together), all.value());
}
