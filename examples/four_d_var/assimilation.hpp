// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Incremental 4D-Var (Courtier et al. 1994) as a twin experiment: the truth is a run of the model.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_ASSIMILATION_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_ASSIMILATION_HPP

#include <shard/autodiff/checks.hpp>
#include <shard/autodiff/operation_graph.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "background_errors.hpp"
#include "observations.hpp"

struct Options {
  int level        = 2;  // of the mesh: 10 * 4^level + 2 cells
  int hours        = 6;  // of the window
  int observations = 400;
  int outer        = 3;
  int inner        = 10;
  double displaced = 10 * pi / 180;  // of the background, eastwards
  double error     = 20;             // m, of the observations
  int calls        = 0;              // that are timed
  double dt() const { return 900 * std::pow(2.0, 4 - level); }
  /// Steps between the hours at which observations are.
  int steps() const { return std::max(1, static_cast<int>(3600 / dt() + 0.5)); }
  int times() const { return static_cast<int>(hours * 3600 / (steps() * dt()) + 0.5) + 1; }
};

constexpr auto ordered = shard::Determinism::ordered;  // sums with the same bits on all ranks

template <class V>
double dot(const Space& space, const V& a, const V& b) {
  return shard::dots<ordered>(space, std::tie(a, b))[0];
}

/// The graph of one step for states like x.
inline auto step_of(const Trisk& model, const State& x, double dt) {
  return shard::operation_graph(
      x, [&](auto& graph, const auto& h, const auto& u) { return model.step(graph, h, u, dt); });
}
/// The state some steps after x.
template <class Step>
State run(const Space& space, const Step& step, const State& x, int steps) {
  const State states[] = {step.output(x), step.output(x)};
  shard::axpby(space, states[0], 1.0, x, 0.0);
  for (int s = 0; s < steps; ++s) step.apply(space, states[(s + 1) % 2], states[s % 2]);
  return states[steps % 2];
}

/// What the window's observations would be of the run from a state.
template <class Run, class H, class U>
auto observed(Run& run, const Trisk& model, const Observations& observations, const Options& o, H h,
              U u) {
  auto y = run.run(observations.at_time[0], h);
  for (std::size_t time = 1; time < observations.at_time.size(); ++time) {
    for (int s = 0; s < o.steps(); ++s) std::tie(h, u) = model.step(run, h, u, o.dt());
    y = run.run(sum(1, 1), y, run.run(observations.at_time[time], h));
  }
  return y;
}

/// The Hessian of the cost's quadratic approximation, with respect to the control vector:
/// I + weight G' G, G the tangent of the observed window at the last run.
template <class Window>
struct Hessian {
  static constexpr bool is_symmetric = true;
  Window window;
  Field<Observation> y;
  double weight;
  std::vector<double>* curvatures;  ///< x' A x of all applies

  void apply(const Space& space, const Control& ax, const Control& x) const {
    window.pushforward(space, y, x);
    shard::axpby(space, y, 0.0, y, weight);
    window.pullback(space, ax, y);
    shard::axpby(space, ax, 1.0, x, 1.0);
    curvatures->push_back(dot(space, x, ax));
  }
};

/// Root mean square errors.
struct Errors {
  double depth, velocity;
};

struct Analysis {
  struct Outer {
    double cost, background, observations;
    Errors errors;
    int iterations;             // from here to the next
    std::vector<double> inner;  // the quadratic cost after each
  };
  std::vector<Outer> outer;
  State truth, background, state;
  double pair;               // the dot-product test of the observed window
  shard::TaylorTest taylor;  // of the same
};

/// The differences of two states.
inline Errors errors_of(const Space& space, const Trisk& model, const voronoi::Mesh& mesh,
                        const State& x, const State& truth) {
  const auto rms = [&](const auto& a, const auto& b, const auto& area) {
    const auto error = a.like("error"), one = a.like("one");
    shard::axpby(space, error, 1.0, a, 0.0);
    shard::axpby(space, error, -1.0, b, 1.0);
    deep_copy(space, one, 1.0);
    const auto sums =
        shard::weighted_dots<ordered>(space, area, std::tie(error, error), std::tie(one, one));
    return std::sqrt(sums[0] / sums[1]);
  };
  const auto [cell_area, edge_area] = model.areas(mesh);
  return {rms(std::get<0>(x), std::get<0>(truth), cell_area),
          rms(std::get<1>(x), std::get<1>(truth), edge_area)};
}

/// Observations, with errors, of the run from a state.
inline Field<Observation> observe(const Space& space, const Trisk& model,
                                  const Observations& observations,
                                  const std::vector<Place>& places, const Options& o,
                                  const State& x) {
  const auto window = shard::operation_graph(x, [&](auto& graph, const auto& h, const auto& u) {
    return observed(graph, model, observations, o, h, u);
  });
  const auto y      = window.output(x);
  window.apply(space, y, x);
  const auto error = [&](auto i) { return o.error * places[at(i)].error; };
  shard::axpby(space, y, 1.0,
               field<Observation>(model.ranks, observations.ids, y.partition(0), error), 1.0);
  return y;
}

/// Minimises |v|^2 / 2 + |observed(background + U v) - observations|^2 / (2 error^2): each outer
/// iteration runs the model, and conjugate gradients minimise the quadratic approximation there.
inline Analysis assimilate(const Space& space, const Trisk& model, const voronoi::Mesh& mesh,
                           const std::vector<Place>& places, const Options& o) {
  const Observations observations(model, places, o.times());
  const BackgroundErrors background_errors(model, mesh, {});
  const Williamson wave{6};
  Analysis a{{}, model.start(mesh, wave), model.start(mesh, wave, o.displaced), {}, 0, {}};

  const auto state_at = [&](auto& graph, const auto& stream, const auto& depth) {
    const auto [dh, du] = background_errors.increments(graph, stream, depth);
    return std::tuple(graph.run(Added<Field<Cell>>{std::get<0>(a.background)}, dh),
                      graph.run(Added<Field<Edge>>{std::get<1>(a.background)}, du));
  };
  const Control v = background_errors.control(), step = background_errors.control(),
                gradient = background_errors.control();
  const auto state       = shard::operation_graph(v, state_at);
  const auto window      = shard::operation_graph(v, [&](auto& graph, const auto&... parts) {
    const auto [h, u] = state_at(graph, parts...);
    return observed(graph, model, observations, o, h, u);
  });
  a.state                = state.output(v);

  const auto y        = observe(space, model, observations, places, o, a.truth);
  const auto misfit   = y.like("misfit");
  const double weight = 1 / (o.error * o.error);
  std::vector<double> curvatures;
  shard::CG cg(v, Hessian{window, y.like("tangent"), weight, &curvatures},
               {.relative = 1e-3, .iterations = o.inner, .determinism = ordered});
  for (int outer = 0; outer <= o.outer; ++outer) {
    window.apply(space, misfit, v);
    shard::axpby(space, misfit, -1.0, y, 1.0);
    state.apply(space, a.state, v);
    const double in_b = dot(space, v, v) / 2, in_o = weight * dot(space, misfit, misfit) / 2;
    a.outer.push_back(
        {in_b + in_o, in_b, in_o, errors_of(space, model, mesh, a.state, a.truth), 0, {}});
    if (outer == o.outer) break;
    shard::axpby(space, misfit, 0.0, y, weight);
    window.pullback(space, gradient, misfit);
    shard::axpby(space, gradient, -1.0, v, -1.0);  // downhill
    deep_copy(space, std::get<0>(step), 0.0);
    deep_copy(space, std::get<1>(step), 0.0);
    curvatures.clear();
    auto& last      = a.outer.back();
    last.iterations = cg(space, step, gradient).iterations;
    shard::axpby(space, v, 1.0, step, 1.0);
    double cost = last.cost;  // each direction p lowers it by (r'r)^2 / (2 p' A p)
    for (std::size_t k = 0; k < at(last.iterations); ++k)
      last.inner.push_back(cost -= std::pow(cg.history()[k], 4) / (2 * curvatures[k + 1]));
  }
  a.pair   = shard::dot_product_error(space, window, v, step, misfit);
  a.taylor = shard::taylor_test(space, window, background_errors.control(), v, misfit);
  return a;
}

#endif
