// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water on an icosahedral Voronoi mesh (TRiSK): Williamson et al. 1992, cases 1, 2, 5 and
// 6, Galewsky et al. 2004 and Laeuter et al. 2005. Errors at several resolutions, against the
// exact answer where there is one, else against the finest run; mass, energy, and the same bits on
// all ranks as on one.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "../help.hpp"
#include "voronoi_maps.hpp"
#include "voronoi_model.hpp"

using Values = std::vector<double>;

/// l1, l2 and l-infinity of Williamson et al. 1992, equations 82 to 84. The first values of a finer
/// mesh are those of the same cells.
std::array<double, 3> errors(const Values& area, const Values& values, const Values& exact) {
  double sums[4] = {}, most = 0, largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double e = std::fabs(values[i] - exact[i]), x = std::fabs(exact[i]);
    sums[0] += area[i] * e, sums[1] += area[i] * e * e;
    sums[2] += area[i] * x, sums[3] += area[i] * x * x;
    most = std::fmax(most, e), largest = std::fmax(largest, x);
  }
  return {sums[0] / sums[2], std::sqrt(sums[1] / sums[3]), most / largest};
}
bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// What a run leaves on rank 0.
struct Result {
  Values h, u, vorticity;
  double mass, energy;  // relative changes, on every rank
};
Result run(MPI_Comm comm, const voronoi::Mesh& mesh, const Flow& flow, double days, double dt,
           int stages = 1) {
  Voronoi model(comm, mesh, stages);
  model.start(flow);
  const auto before = model.budget();
  const int steps   = static_cast<int>(std::lround(days * day / dt));
  for (int s = 0; s < steps; ++s) model.step(days * day / steps);
  const auto after = model.budget();
  return {model.by_id(model.h), model.by_id(model.u), model.by_id(model.vorticity()),
          after[0] / before[0] - 1, after[1] / before[1] - 1};
}

/// h l2 of a serial program of the same scheme, case 2 after 5 days, by level and Lloyd's steps.
double serial_error(const std::string& name, double days, int level, int lloyd) {
  const double bisected[] = {4.336e-3, 1.403e-3, 4.861e-4, 1.649e-4},
               evened[]   = {2.105e-3, 5.442e-4, 1.412e-4, 4.229e-5};
  if (name != "2" || days != 5 || level < 3 || level > 6 || (lloyd != 0 && lloyd != 200)) return 0;
  return lloyd == 0 ? bisected[level - 3] : evened[level - 3];
}

struct Plan {
  std::string name;
  double days;
  int first, last, lloyd;
  double order;    // the least factor by which the l2 error falls from the first level to the last
  int stages = 1;  // for each exchange; one rank alone has 1
};

/// Runs a case on all its meshes and prints a table. Returns whether all is as it should be.
bool try_case(MPI_Comm world, const Plan& plan, const std::string& map) {
  const Flow flow = flow_named(plan.name);
  int rank        = 0;
  MPI_Comm_rank(world, &rank);
  std::vector<voronoi::Mesh> meshes;
  std::vector<Result> results;
  bool right         = true;
  const auto step_of = [](int level) { return 900 * std::pow(2.0, 4 - level); };
  for (int level = plan.first; level <= plan.last; ++level) {
    meshes.emplace_back(level, plan.lloyd);
    results.push_back(run(world, meshes.back(), flow, plan.days, step_of(level), plan.stages));
    right = right && std::fabs(results.back().mass) < 1e-13;
  }
  // Fourth order: half the step divides the energy's drift by 16 or more. The longest step damps
  // gravity waves of the mesh's scale, so the two shorter ones are compared.
  double drift[2] = {};
  if (!flow.advected)
    for (int k = 0; k < 2; ++k)
      drift[k] =
          run(world, meshes[0], flow, plan.days, step_of(plan.first) / (k == 0 ? 2 : 4)).energy;
  const double fall = drift[0] / drift[1];
  if (!flow.advected) right = right && (std::fabs(drift[1]) < 1e-12 || fall > 12);
  const auto alone = run(MPI_COMM_SELF, meshes[0], flow, plan.days, step_of(plan.first));
  if (rank != 0) return right;

  bool same = true;
  if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
    same = same_bits(alone.h, results[0].h) && same_bits(alone.u, results[0].u);
  double l2_first = 0, l2_last = 0;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    const voronoi::Mesh& mesh = meshes[i];
    if (!flow.exact && i + 1 == meshes.size()) break;
    Values exact = results.back().h;
    if (flow.exact) {
      exact.clear();
      for (const auto& p : mesh.cell) exact.push_back(flow.depth(p, plan.days * day));
    }
    const auto [l1, l2, most] = errors(mesh.cell_area, results[i].h, exact);
    const int level           = plan.first + static_cast<int>(i);
    std::printf("%-12s %5.1f  %6zu  %.3e  %.3e  %.3e", flow.name.c_str(), plan.days,
                mesh.cell.size(), l1, l2, most);
    if (flow.exact && !flow.advected) {
      Values u, edge_area;
      for (std::size_t e = 0; e < mesh.edge.size(); ++e) {
        u.push_back(Voronoi::normal_velocity(mesh, flow, e, plan.days * day));
        edge_area.push_back(mesh.edge_length[e] * mesh.cell_distance[e]);
      }
      std::printf("  %.3e", errors(edge_area, results[i].u, u)[1]);
    } else {
      std::printf("           ");
    }
    std::printf("  %8.1e", results[i].mass);
    if (!flow.advected) std::printf("  %8.1e", results[i].energy);
    if (i == 0 && !flow.advected) std::printf("  %5.1f", fall);
    const double known = serial_error(plan.name, plan.days, level, plan.lloyd);
    if (known > 0) std::printf("  %.3f of the serial l2", l2 / known);
    std::printf("\n");
    right = right && l2 < 1.1 * (known > 0 ? known : 1e300);
    if (i == 0) l2_first = l2;
    l2_last = l2;
  }
  if (!same) std::printf("other bits than on one rank\n");
  if (!map.empty()) {
    const bool is_jet = plan.name == "galewsky" || plan.name == "jet";
    Values surface    = results.back().h;
    for (std::size_t c = 0; c < surface.size(); ++c)
      surface[c] += flow.relief(meshes.back().cell[c]);
    if (is_jet)
      for (double& z : results.back().vorticity) z *= 1e5;
    shard::Map drawn = map_of(meshes.back(), is_jet ? results.back().vorticity : surface, 180);
    drawn.title      = is_jet ? "Relative vorticity" : "Height of the surface";
    drawn.units      = is_jet ? "1e-5 / s" : "m";
    if (is_jet) drawn.colours = shard::ColourScale::diverging;
    shard::Figure figure;
    figure.title = flow.name + " after " + std::to_string(static_cast<int>(plan.days)) +
                   " days on " + std::to_string(meshes.back().cell.size()) + " Voronoi cells";
    figure.maps = {drawn};
    shard::write_png(map, figure);
  }
  return right && same && (l2_last == l2_first || l2_first > plan.order * l2_last);
}

constexpr const char* usage =
    R"(voronoi                                 a short run of every case, for the tests
voronoi CASE DAYS FIRST LAST [LLOYD [MAP.png [STAGES]]]
  CASE: 1, 2, 2tilted, 5, 6, jet, galewsky, laeuter; meshes of 10 * 4^LEVEL + 2 cells from level
  FIRST to LAST, moved to their centroids LLOYD times; a map, or '' for none; STAGES of a step,
  1, 2 or 4, for each exchange.)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  const std::vector<Plan> short_runs{
      {"1", 3, 2, 3, 0, 1.2, 4},  {"2", 5, 2, 4, 0, 6, 2},     {"2", 5, 2, 3, 200, 3},
      {"2tilted", 1, 2, 3, 0, 2}, {"5", 1, 1, 3, 0, 2.5},      {"6", 1, 1, 3, 0, 4},
      {"jet", 1, 2, 3, 0, 1.2},   {"galewsky", 1, 1, 3, 0, 3}, {"laeuter", 1, 2, 4, 0, 6},
      {"6", 0.25, 3, 3, 0, 1, 4}};  // on a mesh with elements beyond the layers
  std::vector<Plan> plans = short_runs;
  if (argc > 4)
    plans = {{argv[1], std::atof(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
              argc > 5 ? std::atoi(argv[5]) : 0, 1, argc > 7 ? std::atoi(argv[7]) : 1}};
  if (environment.rank() == 0)
    std::printf(
        "case          days   cells  h l1       h l2       h linf     u l2       "
        "mass      energy    16?\n");
  // the rest depth of Galewsky's jet in other programs
  bool right = std::fabs(Jet().rest() - 10158.18617) < 1e-4;
  for (const Plan& plan : plans)
    right = try_case(environment.world(), plan, argc > 6 ? argv[6] : "") && right;
  if (environment.rank() == 0 && right) std::printf("the same bits as on one rank\n");
  return right ? 0 : 1;
}
