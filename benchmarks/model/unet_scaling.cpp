// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weak scaling of a U-Net's training step: forward, loss, all gradients, their sum, AdamW. Each
// rank has `rows` rows. In turn: the model of one rank alone while the other ranks sleep; such a
// model on every rank at once, which shows what they take from each other's memory and caches; and
// one model cut over all ranks. Prints a line of JSON for each round, and the medians.
//
//   mpirun -n 2 unet_scaling [rounds [width [rows [columns]]]]
#include <shard/model/domain_parallel.hpp>
#include <shard/train/optimisers.hpp>
#include <shard/model/parameter_arena.hpp>
#include <shard/model/sequential.hpp>
#include <shard/shard.hpp>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "support/arguments.hpp"
#include "support/turns.hpp"

namespace {

using namespace shard;

struct Lat;
using Space = Kokkos::DefaultExecutionSpace;

template <int S>
auto unit(index_t in, index_t out) {
  return block(Conv<Kernel<3, 3>, Stride<S, S>, Padding<1, 1>>{in, out}, GroupNorm{4, out}, SiLU{});
}

/// Of w, 2 w and 4 w channels.
auto unet(index_t w) {
  const ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>> up1{4 * w, 2 * w}, up0{2 * w, w};
  const auto low = concat(unit<2>(2 * w, 4 * w), unit<1>(4 * w, 4 * w), up1);
  return sequential<float>(unit<1>(4, w),
                           concat(unit<2>(w, 2 * w), low, unit<1>(4 * w, 2 * w), up0),
                           unit<1>(2 * w, w), Conv<Kernel<1, 1>>{w, 4});
}

/// A model with what a step needs, on the ranks of a communicator.
class Training {
 public:
  Training(MPI_Comm comm, index_t width, index_t rows, index_t columns)
      : mesh_(comm, {0}),
        model_(unet(width)),
        sharded_(domain_parallel<Lat>(model_, mesh_)),
        x_(sharded_.input("x", {1, 4, rows, columns})),
        y_(sharded_.output(x_)),
        dy_(y_.like("dy")),
        target_(y_.like("target")),
        loss_(target_, {}),
        sum_(y_, static_cast<index_t>(model_.parameters().values().extent(0))),
        adam_(static_cast<index_t>(model_.parameters().values().extent(0))) {
    Kokkos::deep_copy(space_, x_.view(), 0.5F);
  }

  void step() {
    Kokkos::deep_copy(space_, sharded_.gradients().values(), 0.0F);
    sharded_.apply(space_, y_, x_);
    value_ = loss_(space_, y_, target_);
    loss_.pullback(space_, dy_, y_, target_);
    sharded_.pullback(space_, not_wanted, dy_, x_);
    sum_(space_, sharded_.gradients().values());
    adam_(space_, model_.parameters().values(), sharded_.gradients().values());
    space_.fence();
  }
  double value() const { return value_; }

 private:
  using Model   = decltype(unet(1));
  using Sharded = decltype(domain_parallel<Lat>(std::declval<Model>(), std::declval<Mesh<Lat>>()));
  using Output  = typename Sharded::Output;

  Space space_;
  Mesh<Lat> mesh_;
  Model model_;
  Sharded sharded_;
  typename Sharded::Input x_;
  Output y_, dy_, target_;
  MeanSquare<Space::memory_space> loss_;
  GradientSum<float> sum_;
  AdamW<float> adam_;
  double value_ = 0;
};

/// Waits for all ranks without taking a core from them.
void meet_asleep(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  for (int done = 0; done == 0; usleep(200)) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

double seconds_of_step(Training& training) {
  const double begin = MPI_Wtime();
  training.step();
  return MPI_Wtime() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  Environment environment(argc, argv);
  int rounds = 20, width = 64, rows = 180, columns = 360;
  support::Arguments given(argc, argv, "[ROUNDS [WIDTH [ROWS [COLUMNS]]]]");
  given.next("ROUNDS", rounds, 1);
  given.next("WIDTH", width, 1);
  given.next("ROWS", rows, 1);
  given.next("COLUMNS", columns, 1);
  if (!given.understood()) return 2;
  const MPI_Comm world = environment.world();
  Training own(MPI_COMM_SELF, width, rows, columns),
      all(world, width, index_t{rows} * environment.size(), columns);
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
