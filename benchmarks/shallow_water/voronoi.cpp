// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The share of the memory's bandwidth that the shallow-water model on a Voronoi mesh reaches.
//
// voronoi_roofline [--level 7] [--turns 11] [--steps 2] [--processor-time]
//                  [--stages-per-exchange 1]
//   1, 2 or 4 stages; what is computed twice is counted twice. Past 1 also the ratio to the time
//   with one, in turns.
#include <cmath>
#include <cstdio>
#include <vector>

#include "roofline.hpp"
#include "shallow_water/voronoi_model.hpp"

namespace {

/// Numbers that a stage whose tendencies go up to a layer reads and writes on this rank: each
/// kernel reads each of its fields and lists once and writes its results once; an int of a list is
/// half a number. What a kernel gathers, it reads once: the other times it is in the caches.
double numbers_of(const MeshPlaces& places, int layer) {
  const auto count       = [](std::size_t n) { return static_cast<double>(n); };
  const double cells     = count(places.cell.up_to(layer + 1)),
               edges     = count(places.edge.up_to(layer + 1)),
               vertices  = count(places.vertex.up_to(layer + 1));
  const double vorticity = vertices * (6 * 1.5 + 2) + cells + edges,      // curl, kite, f, q; h, u
      bernoulli          = cells * (6 * 1.5 + 3) + edges,                 // h, ground, result; u
      fluxes             = edges * (2 * 2 * 0.5 + 3) + cells + vertices,  // u, both results; h, q
      continuity = count(places.cell.up_to(layer)) * (6 * 1.5 + 4) + edges,  // a Stage; flux
      momentum = count(places.edge.up_to(layer)) * (10 * 1.5 + 1 + 2 * 0.5 + 4) + 2 * edges + cells;
  return vorticity + bernoulli + fluxes + continuity + momentum;
}
/// The same of a step.
double numbers_of(const MeshPlaces& places) {
  double sum = 0;
  for (int s = 0; s < places.stages; ++s) sum += numbers_of(places, 2 * s);
  return 4 * sum / places.stages;
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  roofline::Options o{.size = 7, .stages = 1};
  if (!o.read(argc, argv, "--level")) return 2;

  const voronoi::Mesh mesh(o.size);
  const MPI_Comm world = environment.world();
  const double dt      = 900 * std::pow(2.0, 4 - o.size);
  Voronoi model(world, mesh, o.stages);
  model.start(flow_named("2"));
  roofline::report(world, "Voronoi", static_cast<double>(model.places.cell.owned),
                   numbers_of(model.places), o, [&] { model.step(dt); });
  if (o.stages == 1) return 0;

  Voronoi single(world, mesh);
  single.start(flow_named("2"));
  const auto seconds = [&](Voronoi& of) {
    return roofline::seconds(world, o.clock, [&] {
      for (int s = 0; s < o.steps; ++s) of.step(dt);
    });
  };
  std::vector<double> ratios;
  for (int turn = 0; turn <= o.turns; ++turn) {
    const double time = seconds(single);
    ratios.push_back(seconds(model) / time);
  }
  if (environment.rank() == 0)
    std::printf("%d stages per exchange: %.2f of the time with one, in turns\n", o.stages,
                support::median({ratios.begin() + 1, ratios.end()}));
  return 0;
}
