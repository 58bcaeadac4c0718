// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Truth from a finer core, and the loss of a run against it, with its gradient.
#ifndef SHARD_EXAMPLES_HYBRID_LOSS_HPP
#define SHARD_EXAMPLES_HYBRID_LOSS_HPP

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "core.hpp"
#include "correction.hpp"

namespace hybrid {

/// A cell of the coarse grid from those of a finer one: the mean depth, weighted by area, and the
/// mean velocity through each edge.
struct RestrictDepth {
  Metric m;  // of the fine grid
  Centres<double> fine, coarse;
  int ratio;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    double sum = 0, area = 0;
    for (int y = j * ratio; y < (j + 1) * ratio; ++y)
      for (int x = i * ratio; x < (i + 1) * ratio; ++x) {
        sum += m.cos_centre(fine, y) * fine(y, x);
        area += m.cos_centre(fine, y);
      }
    coarse(j, i) = sum / area;
  }
};
template <class Edges>
struct RestrictEdges {
  Edges fine, coarse;
  int ratio;
  int dj, di;  // along an edge
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    double sum = 0;
    for (int n = 0; n < ratio; ++n) sum += fine(j * ratio + n * dj, i * ratio + n * di);
    coarse(j, i) = sum / ratio;
  }
};
inline void restrict_state(const Space& space, const Metric& fine_metric, const State<>& fine,
                           const State<>& coarse, int ratio) {
  const auto& [h, u, v] = coarse;
  shard::parallel_for("restrict", space, shard::owned_region(h),
                      RestrictDepth{fine_metric, std::get<0>(fine), h, ratio});
  shard::parallel_for("restrict", space, shard::owned_region(u),
                      RestrictEdges<Wests<double>>{std::get<1>(fine), u, ratio, 1, 0});
  shard::parallel_for("restrict", space, shard::owned_region(v),
                      RestrictEdges<Souths<double>>{std::get<2>(fine), v, ratio, 0, 1});
}

/// The states of a fine run on the coarse grid, at the start and every `every` steps of the coarse
/// core, whose steps are `ratio` times those of the fine one.
inline std::vector<State<>> truth(const Space& space, const Core<double>& coarse, int ratio,
                                  const Wave& wave, int records, int every) {
  const Grid grid = coarse.grid().refined(ratio);
  const Core<double> fine(grid, coarse.dt() / ratio);
  State<> x = wave_state(space, grid, wave), y = grid.state();
  std::vector<State<>> states;
  for (int r = 0; r <= records; ++r) {
    states.push_back(coarse.grid().state());
    restrict_state(space, fine.metric(), x, states.back(), ratio);
    for (int s = 0; r < records && s < every * ratio; ++s) {
      fine.apply(space, y, x);
      std::swap(x, y);
    }
  }
  return states;
}

/// Squared differences between two states: of a cell, its southern and its western edge, weighted
/// by area.
struct Misfit {
  Metric m;
  Centres<double> h, th;
  Wests<double> u, tu;
  Souths<double> v, tv;
  KOKKOS_FUNCTION Kokkos::Array<double, 3> operator()(int j, int i) const {
    const double c = m.cos_centre(h, j), e = m.cos_edge(h, j);
    const double dh = h(j, i) - th(j, i), du = u(j, i) - tu(j, i), dv = v(j, i) - tv(j, i);
    return {c * dh * dh, c * du * du, e * dv * dv};
  }
};
inline Misfit misfit(const Metric& m, const State<>& a, const State<>& b) {
  return {m,
          std::get<0>(a),
          std::get<0>(b),
          std::get<1>(a),
          std::get<1>(b),
          std::get<2>(a),
          std::get<2>(b)};
}
using Weights = Kokkos::Array<double, 3>;  // of depth and both velocities

/// An operation: y = cost + the misfit to `truth`, cell by cell.
struct AddMisfit {
  Metric m;
  State<> truth;
  Weights weights;

  struct Kernel {
    Misfit misfit;
    Weights weights;
    Centres<double> cost, y;
    KOKKOS_FUNCTION void operator()(int j, int i) const {
      const auto parts = misfit(j, i);
      y(j, i) = cost(j, i) + weights[0] * parts[0] + weights[1] * parts[1] + weights[2] * parts[2];
    }
  };
  struct Adjoint {
    Misfit at;
    Weights weights;
    Centres<double> a_y, a_h;
    Wests<double> a_u;
    Souths<double> a_v;
    KOKKOS_FUNCTION void operator()(int j, int i) const {
      const double c = 2 * at.m.cos_centre(a_y, j) * a_y(j, i);
      const double e = 2 * at.m.cos_edge(a_y, j) * a_y(j, i);
      a_h(j, i)      = c * weights[0] * (at.h(j, i) - at.th(j, i));
      a_u(j, i)      = c * weights[1] * (at.u(j, i) - at.tu(j, i));
      a_v(j, i)      = e * weights[2] * (at.v(j, i) - at.tv(j, i));
    }
  };

  Centres<double> output(const State<>&, const Centres<double>& cost) const {
    return cost.like("cost");
  }
  void apply(const Space& space, const Centres<double>& y, const State<>& x,
             const Centres<double>& cost) const {
    shard::parallel_for("misfit", space, shard::owned_region(y),
                        Kernel{misfit(m, x, truth), weights, cost, y});
  }
  void pullback(const Space& space, const State<>& dx, const Centres<double>& d_cost,
                const Centres<double>& dy, const State<>& x, const Centres<double>&) const {
    const auto& [a_h, a_u, a_v] = dx;
    shard::deep_copy(space, d_cost, dy);
    fill(space, dx, 0.0);  // the rows at the poles too
    shard::parallel_for("misfit", space, shard::owned_region(dy),
                        Adjoint{misfit(m, x, truth), weights, dy, a_h, a_u, a_v});
  }
};

/// The sum of the cosines of all cells of a grid.
inline double sum_of_cosines(index_t rows) {
  const auto n = static_cast<double>(rows);
  return 2 * n / std::sin(pi / (2 * n));
}

/// Root of the mean square difference of depth, eastward and northward velocity.
inline std::array<double, 3> differences(const Space& space, const Metric& m, const State<>& a,
                                         const State<>& b) {
  const auto sums =
      shard::reduce<shard::Determinism::ordered>(space, std::get<0>(a), misfit(m, a, b));
  const double all = sum_of_cosines(std::get<0>(a).global_extent(0));
  return {std::sqrt(sums[0] / all), std::sqrt(sums[1] / all), std::sqrt(sums[2] / all)};
}

/// A corrected step and its loss over a window: `terms` comparisons with the truth, `every` steps
/// apart.
class WindowLoss {
  using Step =
      decltype(shard::chain(std::declval<const State<>&>(), std::declval<const Core<double>&>(),
                            std::declval<const Correction&>()));

 public:
  WindowLoss(const Core<double>& core, const Correction& correction)
      : core_(core),
        correction_(correction),
        step_(shard::chain(core.grid().state(), core, correction)),
        sum_(zero_, count()) {}

  /// The loss of the run from `states[first]`. With `differentiate`, sets `gradients()` to its
  /// derivatives by the weights.
  double operator()(const Space& space, const std::vector<State<>>& states, int first, int terms,
                    int every, const Weights& weights, bool differentiate, index_t slots = 3) {
    shard::Tape<Space> tape(space);
    tape.constant(zero_);
    const State<>& start = states[static_cast<std::size_t>(first)];
    State<> x            = start;
    Centres<double> cost = zero_;
    for (int k = 1; k <= terms; ++k) {
      x    = tape.loop(step_, x, every, {.slots = slots});
      cost = tape.run(
          AddMisfit{core_.metric(), states[static_cast<std::size_t>(first + k)], weights}, x, cost);
    }
    const double loss = shard::sum<shard::Determinism::ordered>(space, cost);
    if (differentiate) {
      shard::deep_copy(space, one_, 1.0);
      Kokkos::deep_copy(space, gradients(), 0.0);
      by_start_ = tape.pullback(cost, one_, start);
      sum_(space, gradients());
    }
    return loss;
  }

  const Step& step() const { return step_; }
  Kokkos::View<double*, Kokkos::LayoutRight, Space::memory_space> weights() const {
    return correction_.net().parameters().values();
  }
  Kokkos::View<double*, Kokkos::LayoutRight, Space::memory_space> gradients() const {
    return correction_.net().gradients().values();
  }
  /// The derivatives of the last loss by the first state.
  const State<>& by_start() const { return by_start_; }
  index_t count() const { return static_cast<index_t>(weights().extent(0)); }

 private:
  Core<double> core_;
  Correction correction_;
  Step step_;
  Centres<double> zero_ = core_.grid().cells<Centres<double>>("zero"), one_ = zero_.like("one");
  shard::GradientSum<double, Space::memory_space> sum_;
  State<> by_start_;
};

}  // namespace hybrid

#endif
