// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 4D-Var with a shallow-water model on an icosahedral Voronoi mesh: docs/four_d_var.md. First the
// checks of the model's tangent and adjoint, and the cost of a gradient; then a twin experiment. It
// is done on all ranks, and on each rank alone; both have the same bits.
#include <shard/shard.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "../help.hpp"
#include "latlon_checks.hpp"
#include "model_checks.hpp"
#include "pictures.hpp"

/// A field's values by id, on every rank.
template <class F>
std::vector<double> gathered(const Trisk& model, const Ids& ids, const F& f, std::size_t count) {
  const auto own = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), f.owned());
  std::vector<double> all(count);
  for (std::size_t i = 0; i < ids.size(); ++i) all[at(ids[i])] = own(i);
  MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                model.ranks.communicator());
  return all;
}
std::vector<double> depth(const Trisk& model, const voronoi::Mesh& mesh, const State& x) {
  return gathered(model, model.cell, std::get<0>(x), mesh.cell.size());
}

/// All numbers of the results.
std::vector<double> numbers(const Trisk& model, const voronoi::Mesh& mesh, const ModelChecks& c,
                            const Analysis& a) {
  std::vector<double> all;
  for (const State& x : {c.slope, a.state}) {
    const auto h = depth(model, mesh, x),
               u = gathered(model, model.edge, std::get<1>(x), mesh.edge.size());
    all.insert(all.end(), h.begin(), h.end());
    all.insert(all.end(), u.begin(), u.end());
  }
  for (const auto& outer : a.outer) {
    all.insert(all.end(), {outer.cost, outer.errors.depth, outer.errors.velocity});
    all.insert(all.end(), outer.inner.begin(), outer.inner.end());
  }
  return all;
}

void print(const char* of, double pair, const shard::TaylorTest& taylor) {
  std::printf("%s: dot-product test %.1e; Taylor test\n", of, pair);
  double size = 1;
  for (std::size_t k = 0; k < taylor.remainders.size(); ++k, size /= 10)
    if (k == 0)
      std::printf("  step %.0e  remainder %.3e\n", size, taylor.remainders[k]);
    else
      std::printf("  step %.0e  remainder %.3e  slope %.4f\n", size, taylor.remainders[k],
                  taylor.slope(k - 1));
}

void print(const ModelChecks& c, const LatLonChecks& l, const Analysis& a) {
  print("latitude-longitude, one step", l.pair, l.taylor);
  print("latitude-longitude, 24 steps on a tape", l.run_pair, l.run_taylor);
  print("one step", c.pair, c.taylor);
  std::printf("a gradient through %d steps with %d stored states: %d steps are made\n",
              ModelChecks::steps, ModelChecks::slots, c.applies);
  if (c.gradient > 0)
    std::printf("  it takes %.2f runs; a step's tangent takes %.2f steps, its adjoint %.2f\n",
                c.gradient, c.tangent, c.adjoint);
  print("observed window", a.pair, a.taylor);
  std::printf("outer        cost  background  observations  error: depth (m)  velocity (m/s)\n");
  for (std::size_t k = 0; k < a.outer.size(); ++k) {
    const auto& o = a.outer[k];
    std::printf("%5zu  %10.3f  %10.3f  %12.3f  %16.3f  %14.4f\n", k, o.cost, o.background,
                o.observations, o.errors.depth, o.errors.velocity);
    if (o.inner.empty()) continue;
    std::printf("  inner:");
    for (const double cost : o.inner) std::printf(" %.1f", cost);
    std::printf("\n");
  }
}

constexpr const char* usage =
    R"(four_d_var [LEVEL [HOURS [OBSERVATIONS [INNER [MAP.png]]]]]: 10 * 4^LEVEL + 2 cells (2), a window
of 6 hours, 400 observations, 10 inner iterations. With an argument it times gradients and the
assimilation too, and doesn't repeat the run on each rank alone.)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  Options o;
  if (argc > 1) o.level = std::atoi(argv[1]);
  if (argc > 2) o.hours = std::atoi(argv[2]);
  if (argc > 3) o.observations = std::atoi(argv[3]);
  if (argc > 4) o.inner = std::atoi(argv[4]);
  if (argc > 1) o.calls = 5;
  const Space space;
  const voronoi::Mesh mesh(o.level);
  const auto places = random_places(mesh, o.observations, o.times());

  const Trisk model(environment.world(), mesh);
  const ModelChecks c  = check_model(space, model, mesh, o);
  const LatLonChecks l = check_latlon(space, environment.world(), o.displaced);
  const Kokkos::Timer since_start;
  const Analysis a     = assimilate(space, model, mesh, places, o);
  const double seconds = since_start.seconds();
  const auto result    = numbers(model, mesh, c, a);
  if (environment.rank() == 0) {
    print(c, l, a);
    if (argc > 1) std::printf("the assimilation took %.2f s\n", seconds);
  }

  bool right         = true;
  const auto require = [&](const char* what, bool holds) {
    if (!holds && environment.rank() == 0) std::printf("wrong: %s\n", what);
    right = right && holds;
  };
  for (const double pair : {c.pair, l.pair, l.run_pair, a.pair})
    require("the dot-product tests", pair < 1e-12);
  for (const auto& taylor : {c.taylor, l.taylor, l.run_taylor, a.taylor})
    require("the Taylor tests", std::fabs(taylor.worst_slope() - 2) < 0.02);
  require("the gradient with few stored states",
          c.difference == 0 && c.applies <= 3 * ModelChecks::steps);
  for (std::size_t k = 0; k < a.outer.size(); ++k) {
    double cost = a.outer[k].cost;
    for (const double inner : a.outer[k].inner) {
      require("the quadratic cost falls", inner < cost);
      cost = inner;
    }
    if (k > 0) require("the cost falls", a.outer[k].cost < a.outer[k - 1].cost);
  }
  const Errors before = a.outer.front().errors, after = a.outer.back().errors;
  require("the analysis has half of the background's error",
          after.depth < before.depth / 2 && after.velocity < before.velocity / 2);
  if (environment.size() == 1) {
    const double error = steady_error(space, 3);
    std::printf("Williamson's case 2 on 642 cells, five days: l2 %.3e\n", error);
    require("the error of shallow_water/voronoi", std::fabs(error / 4.336e-3 - 1) < 1e-3);
  } else if (argc < 2 && std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>) {
    const Trisk one(MPI_COMM_SELF, mesh);
    const auto alone = numbers(one, mesh, check_model(space, one, mesh, o),
                               assimilate(space, one, mesh, places, o));
    require("the bits of one rank",
            result.size() == alone.size() &&
                std::memcmp(result.data(), alone.data(), alone.size() * sizeof(double)) == 0);
    if (right && environment.rank() == 0) std::printf("the same bits as on one rank\n");
  }
  if (argc > 5) {
    const auto truth = depth(model, mesh, a.truth), analysis = depth(model, mesh, a.state),
               background = depth(model, mesh, a.background);
    if (environment.rank() == 0) draw(argv[5], mesh, truth, background, analysis);
  }
  return right ? 0 : 1;
}
