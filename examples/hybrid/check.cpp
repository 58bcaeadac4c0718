// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check.hpp"

#include <shard/train/adam.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "loss.hpp"
#include "waves.hpp"

namespace hybrid {
namespace {

constexpr int check_rows = 12, check_ratio = 2, check_terms = 4, check_every = 6;  // 24 steps

/// Prints numbers beside their limits.
class Report {
 public:
  explicit Report(bool root) : root_(root) {}
  void operator()(const char* what, double value, double limit) {
    const bool good = value <= limit;  // not if it is NaN
    right_          = right_ && good;
    if (root_)
      std::printf("%-52s %9.2e  limit %.0e%s\n", what, value, limit, good ? "" : "  WRONG");
  }
  bool right() const { return right_; }

 private:
  bool root_, right_ = true;
};

/// A core, a correction and a true run.
struct Setting {
  Setting(const Space& space, const Mesh& mesh)
      : core(Grid(mesh, check_rows), time_step(check_rows)),
        correction(core.grid(), 4),
        loss(core, correction),
        states(truth(space, core, check_ratio, random_waves(1, 1)[0], check_terms, check_every)) {}
  double operator()(const Space& space, bool differentiate, index_t slots = 3) {
    return loss(space, states, 0, check_terms, check_every, {1e-6, 1e-4, 1e-4}, differentiate,
                slots);
  }
  Core<double> core;
  Correction correction;
  WindowLoss loss;
  std::vector<State<>> states;
};

struct ScaleKernel {
  Kokkos::View<double*, Kokkos::LayoutRight, Space::memory_space> x;
  KOKKOS_FUNCTION void operator()(int i) const { x(i) *= Kokkos::sin(1.0 + 0.37 * i); }
};
struct MoveKernel {
  Kokkos::View<double*, Kokkos::LayoutRight, Space::memory_space> x, direction;
  double by;
  KOKKOS_FUNCTION void operator()(int i) const { x(i) += by * direction(i); }
};

std::vector<double> host_values(
    const Kokkos::View<double*, Kokkos::LayoutRight, Space::memory_space>& x) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), x);
  return {host.data(), host.data() + host.extent(0)};
}

/// The largest difference over the largest value.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(a[i]));
    apart   = std::max(apart, std::isfinite(a[i] - b[i]) ? std::fabs(a[i] - b[i]) : INFINITY);
  }
  return apart / largest;
}

/// The gradient of the loss against differences of the loss along one direction of the weights.
double weight_gradient_error(const Space& space, Setting& s) {
  const auto x = s.loss.weights();
  s(space, true);
  const auto gradient  = host_values(s.loss.gradients());
  const auto direction = Kokkos::create_mirror(Space(), x);
  Kokkos::deep_copy(space, direction, 0.1);
  const Kokkos::RangePolicy<Space> all(space, 0, static_cast<int>(x.extent(0)));
  Kokkos::parallel_for("direction", all, ScaleKernel{direction});
  const auto along = host_values(direction);
  double slope     = 0;
  for (std::size_t i = 0; i < along.size(); ++i) slope += along[i] * gradient[i];
  const auto at = [&](double by) {
    Kokkos::parallel_for("move", all, MoveKernel{x, direction, by});
    const double loss = s(space, false);
    Kokkos::parallel_for("move", all, MoveKernel{x, direction, -by});
    return loss;
  };
  constexpr double by = 1e-3;  // Richardson's extrapolation of central differences
  const double wide = (at(by) - at(-by)) / (2 * by), narrow = (at(by / 2) - at(-by / 2)) / by;
  return std::fabs((4 * narrow - wide) / 3 - slope) / std::fabs(slope);
}

}  // namespace

bool check(const Space& space, const Mesh& mesh, bool root) {
  Report report(root);
  Setting s(space, mesh);
  s.correction.initialise(space, 7, false);

  const Grid& grid = s.core.grid();
  const State<>& x = s.states[0];
  // differences of waves: depth, the largest number of a state, doesn't hide the velocities
  const State<> tx = grid.state(), dy = grid.state();
  combine(space, tx, 0.1, wave_state(space, grid, random_waves(2, 1)[0]), -0.1, x);
  combine(space, dy, 1, wave_state(space, grid, random_waves(3, 1)[0]), -1, x);
  report("dot test, the core's step", shard::dot_product_error(space, s.core, x, tx, dy), 1e-12);
  report("dot test, the network's correction",
         shard::dot_product_error(space, s.correction, x, tx, dy), 1e-12);
  report("dot test, both", shard::dot_product_error(space, s.loss.step(), x, tx, dy), 1e-12);
  report("tangent and differences, both",
         shard::tangent_error(space, s.loss.step(), x, tx, dy, 1e-3), 1e-7);
  report("gradient and differences, both",
         shard::gradient_error(space, s.loss.step(), x, tx, dy, 1e-3), 1e-7);
  report("24 steps: gradient by the weights and differences", weight_gradient_error(space, s),
         1e-7);

  const double loss   = s(space, true);
  const auto gradient = host_values(s.loss.gradients());
  const double stored = s(space, true, 24);
  report("24 steps: with checkpoints, with all states stored",
         std::fabs(loss / stored - 1) + difference(gradient, host_values(s.loss.gradients())),
         1e-13);
  double apart = 0;
  if (root) {
    Setting alone(space, Mesh(MPI_COMM_SELF, {1, 1}));
    alone.correction.initialise(space, 7, false);
    apart = std::fabs(alone(space, true) / loss - 1) +
            difference(host_values(alone.loss.gradients()), gradient);
  }
  report("24 steps: loss and gradient, on one rank and on all", apart, 1e-11);

  const State<> y = grid.state(), z = grid.state();
  const auto before = budget(space, s.core.metric(), x);
  fill(space, y, x);
  for (int n = 0; n < 10; ++n) {
    s.loss.step().apply(space, z, y);
    fill(space, y, z);
  }
  report("mass after ten steps", std::fabs(budget(space, s.core.metric(), y)[0] / before[0] - 1),
         1e-14);

  s.correction.initialise(space, 1, true);
  shard::Adam<double, Space::memory_space> adam(s.loss.count(), {.learning_rate = 2e-2});
  const double first = s(space, false);
  for (int n = 0; n < 20; ++n) {
    s(space, true);
    adam(space, s.loss.weights(), s.loss.gradients());
  }
  report("loss after 20 steps of training, over that before", s(space, false) / first, 0.7);
  if (root && report.right()) std::printf("all checks are right\n");
  return report.right();
}

}  // namespace hybrid
