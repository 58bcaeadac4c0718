// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same checks of the latitude-longitude core (../hybrid/core.hpp): of a step, and of a run on a
// tape.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_LATLON_CHECKS_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_LATLON_CHECKS_HPP

#include <shard/autodiff/checks.hpp>
#include <shard/shard.hpp>

#include <utility>

#include "../hybrid/core.hpp"
#include "../hybrid/waves.hpp"

/// Some steps as one operation. Its adjoint is that of a tape's loop, which stores a few states.
struct LatLonRun {
  using State = hybrid::State<>;
  hybrid::Core<double> core;
  int steps, slots;

  void apply(const latlon::Space& space, const State& y, const State& x) const {
    State now = core.grid().state(), next = core.grid().state();
    hybrid::fill(space, now, x);
    for (int s = 0; s < steps; ++s, std::swap(now, next)) core.apply(space, next, now);
    hybrid::fill(space, y, now);
  }
  void pushforward(const latlon::Space& space, const State& ty, const State& tx,
                   const State& x) const {
    State now = core.grid().state(), next = core.grid().state();
    hybrid::fill(space, now, x);
    hybrid::fill(space, ty, tx);
    for (int s = 0; s < steps; ++s, std::swap(now, next)) {
      core.pushforward(space, ty, ty, now);
      core.apply(space, next, now);
    }
  }
  void pullback(const latlon::Space& space, const State& dx, const State& dy,
                const State& x) const {
    shard::Tape tape(space);
    const State last = tape.loop(core, x, steps, {.slots = slots});
    hybrid::fill(space, dx, tape.pullback(last, dy, x));
  }
};

struct LatLonChecks {
  static constexpr int rows = 12, steps = 24, slots = 8;
  double pair, run_pair;  // the dot-product tests of a step and of the run
  shard::TaylorTest taylor, run_taylor;
};

/// A Rossby-Haurwitz wave, its displacement as the direction, and another wave's difference.
inline LatLonChecks check_latlon(const latlon::Space& space, MPI_Comm comm, double displaced) {
  const latlon::Mesh mesh(comm, {0, 0});
  const LatLonRun run{hybrid::Core<double>(hybrid::Grid(mesh, LatLonChecks::rows),
                                           hybrid::time_step(LatLonChecks::rows)),
                      LatLonChecks::steps, LatLonChecks::slots};
  const auto wave = [&](const hybrid::Wave& of) {
    return hybrid::wave_state(space, run.core.grid(), of);
  };
  const auto x = wave({}), tx = wave({.phase = displaced}), dy = wave({.number = 3});
  hybrid::combine(space, tx, 1, tx, -1, x);
  hybrid::combine(space, dy, 1, dy, -1, x);
  return {shard::dot_product_error(space, run.core, x, tx, dy),
          shard::dot_product_error(space, run, x, tx, dy),
          shard::taylor_test(space, run.core, x, tx, x), shard::taylor_test(space, run, x, tx, x)};
}

#endif
