// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The share of the memory's bandwidth that the latitude-longitude shallow-water model reaches.
//
// latlon_roofline [--rows 512] [--turns 11] [--steps 2] [--processor-time]
#include <cmath>

#include "roofline.hpp"
#include "shallow_water/latlon_model.hpp"

namespace {

/// Numbers that a step reads and writes for each cell: each kernel reads each of its fields once
/// and writes its results once. Neighbours' values come from the caches; halos and numbers by row
/// are left out. `polar` is the share of rows that are filtered.
double numbers_per_cell(double polar) {
  const double diagnostics = 5 + 4,            // h, u, v, ground, f; two fluxes, q, Bernoulli
      filter               = 2 * (2 + 2 + 2),  // two fields: to circles, transforms, back
      stage                = 2 + 2,            // start, sum; sum, next
      others               = 4 + 3 * stage,    // two fluxes, q, Bernoulli
      filtered             = (2 + stage) + 2 * (3 + 1) + filter + 2 * (1 + stage);
  return 4 * (diagnostics + polar * (filter + filtered) + (1 - polar) * others);
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  roofline::Options o{.size = 512};
  if (!o.read(argc, argv, "--rows")) return 2;

  LatLon model(environment.world(), Williamson{2, pi / 4}, o.size);
  const double cells = static_cast<double>(model.h.extent(0) * model.h.extent(1));
  const double polar = 2 * std::ceil(o.size / 6.0) / o.size;
  roofline::report(environment.world(), "latitude-longitude", cells,
                   cells * numbers_per_cell(polar), o, [&] { model.step(480.0 * 64 / o.size); });
  return 0;
}
