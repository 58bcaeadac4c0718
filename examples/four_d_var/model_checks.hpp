// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of the model: its error in a steady flow, its tangent and adjoint, the cost of a gradient.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_MODEL_CHECKS_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_MODEL_CHECKS_HPP

#include <shard/autodiff/checks.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "assimilation.hpp"

/// The relative l2 error of the depth after five days of Williamson's case 2, which is steady.
inline double steady_error(const Space& space, int level) {
  const Options o{.level = level};
  const voronoi::Mesh mesh(level);
  const Trisk model(MPI_COMM_SELF, mesh);
  const Williamson flow{2};
  const auto speed = [&](auto e) {  // by the stream function, so without divergence
    const auto& [low, up] = mesh.vertices_on_edge[at(e)];
    return flow.speed() * (mesh.vertex[at(up)][2] - mesh.vertex[at(low)][2]) /
           mesh.edge_length[at(e)];
  };
  const Field<Cell> depth = std::get<0>(model.start(mesh, flow)),
                    area  = std::get<0>(model.areas(mesh));
  State x{depth.like("h"), field<Edge>(model.ranks, model.edge, model.edges.partition(), speed)};
  shard::axpby(space, std::get<0>(x), 1.0, depth, 0.0);
  const Field<Cell> error =
      std::get<0>(run(space, step_of(model, x, o.dt()), x, static_cast<int>(5 * day / o.dt())));
  shard::axpby(space, error, -1.0, depth, 1.0);
  const auto sums =
      shard::weighted_dots<ordered>(space, area, std::tie(error, error), std::tie(depth, depth));
  return std::sqrt(sums[0] / sums[1]);
}

/// The least time of some calls, on the slowest rank, in seconds.
template <class F>
double seconds(const Space& space, MPI_Comm comm, int calls, const F& f) {
  double least = 1e30;
  for (int call = 0; call < calls; ++call) {
    space.fence();
    MPI_Barrier(comm);
    const Kokkos::Timer timer;
    f();
    space.fence();
    least = std::min(least, timer.seconds());
  }
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MAX, comm);
  return least;
}

struct ModelChecks {
  static constexpr int steps = 24, slots = 8;  // of the gradient through a run; stored states

  double pair;                        // the dot-product test of one step
  shard::TaylorTest taylor;           // of one step
  int applies;                        // of the step, for the gradient
  double difference;                  // of the gradient from that with all states stored
  State slope;                        // the gradient
  double tangent, adjoint, gradient;  // times: of a step, in steps; of a run, in runs
};

inline ModelChecks check_model(const Space& space, const Trisk& model, const voronoi::Mesh& mesh,
                               const Options& o) {
  const Williamson wave{6};
  const State x = model.start(mesh, wave), tx = model.start(mesh, wave, o.displaced),
              dy = model.start(mesh, Williamson{2, 0.7});
  shard::axpby(space, tx, -1.0, x, 1.0);  // the error of the background
  const auto step  = step_of(model, x, o.dt());
  const State y    = step.output(x);
  const auto comm  = model.ranks.communicator();
  const int steps  = ModelChecks::steps;
  const auto slope = [&](shard::index_t slots, int& recomputed) {
    shard::Tape tape(space);
    const State last   = tape.loop(step, x, steps, {.slots = slots});
    const State result = tape.pullback(last, dy);
    recomputed         = static_cast<int>(tape.recomputed());
    return result;
  };

  ModelChecks c{};
  c.pair          = shard::dot_product_error(space, step, x, tx, dy);
  c.taylor        = shard::taylor_test(space, step, x, tx, x);
  int recomputed  = 0;
  const State all = slope(0, recomputed);  // no bound
  c.slope         = slope(ModelChecks::slots, recomputed);
  c.applies       = steps + recomputed;
  shard::axpby(space, all, -1.0, c.slope, 1.0);
  c.difference = dot(space, all, all);

  if (o.calls == 0) return c;
  const auto repeated = [&](const auto& f) {
    return seconds(space, comm, o.calls, [&] {
      for (int s = 0; s < steps; ++s) f();
    });
  };
  const double forward = seconds(space, comm, o.calls, [&] { run(space, step, x, steps); });
  c.tangent            = repeated([&] { step.pushforward(space, y, tx); }) / forward;
  c.adjoint            = repeated([&] { step.pullback(space, y, dy); }) / forward;
  c.gradient =
      seconds(space, comm, o.calls, [&] { slope(ModelChecks::slots, recomputed); }) / forward;
  return c;
}

#endif
