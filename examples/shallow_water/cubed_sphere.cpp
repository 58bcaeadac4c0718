// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transport on a cubed sphere: a bell that a solid rotation carries over four corners of the cube
// (Williamson et al. 1992, case 1), and two bells or two hills in the deformational flow of Nair
// and Lauritzen 2010, case 4. After 12 days the start is the answer. The coarsest runs are done in
// blocks on all ranks, in smaller blocks, and in whole tiles on each rank alone; all have the same
// bits.
#include "../help.hpp"
#include "cubed_sphere_model.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/io/map.hpp"

/// A cosine bell at a point of the equator, from 0 to 1.
double bell(const Point& p, double longitude, double width) {
  const double nearness = p[0] * std::cos(longitude) + p[1] * std::sin(longitude);
  const double distance = std::acos(std::fmin(1.0, std::fmax(-1.0, nearness)));
  return distance < width ? 0.5 * (1 + std::cos(pi * distance / width)) : 0;
}
double hill(const Point& p, double longitude) {
  const Point centre{std::cos(longitude), std::sin(longitude), 0};
  return 0.95 * std::exp(-10 * (1 - dot(p, centre)));  // exp(-5 |p - centre|^2)
}

struct Case {
  const char* name;
  bool deforms;
  double (*start)(const Point& p);
  double order;  // l2 errors fall by this factor from the coarsest to the finest grid, or more
};
const std::array<Case, 3> cases{
    Case{"rotation", false, [](const Point& p) { return 1000 * bell(p, 1.5 * pi, 1.0 / 3); }, 1.7},
    Case{"bells", true,
         [](const Point& p) {
           return 0.1 + 0.9 * (bell(p, 5 * pi / 6, 0.5) + bell(p, 7 * pi / 6, 0.5));
         },
         1.15},
    Case{"hills", true, [](const Point& p) { return hill(p, 5 * pi / 6) + hill(p, 7 * pi / 6); },
         1.2}};

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return !std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace> ||
         std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// The tracer (or the area) of all cells on every rank, by tile, row and column.
std::vector<double> all_cells(MPI_Comm comm, const CubedSphere& model, bool areas = false) {
  const index_t n = model.cells;
  std::vector<double> all(static_cast<std::size_t>(6 * n * n));
  model.each([&](int tile, index_t y, index_t x, double value, double area) {
    all[static_cast<std::size_t>((tile * n + y) * n + x)] = areas ? area : value;
  });
  MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(all.size()), MPI_DOUBLE, MPI_SUM, comm);
  return all;
}
template <class Use>
void each_centre(index_t n, const Use& use) {
  std::size_t k = 0;
  for (int tile = 0; tile < 6; ++tile)
    for (index_t y = 0; y < n; ++y)
      for (index_t x = 0; x < n; ++x)
        use(k++, shard::cubed_sphere_point(n, tile, 2.0 * static_cast<double>(y) + 1,
                                           2.0 * static_cast<double>(x) + 1));
}

/// A map of the tracer: each point has its nearest cell's.
shard::Map map_of(index_t n, const std::vector<double>& values, const char* title) {
  std::vector<Point> centres;
  each_centre(n, [&](std::size_t, const Point& p) { centres.push_back(p); });
  shard::Map map;
  map.title = title;
  for (int i = 0; i < 90; ++i) map.latitudes.push_back(89.0 - 2 * i);
  for (int j = 0; j < 180; ++j) map.longitudes.push_back(2.0 * j);
  for (const double latitude : map.latitudes)
    for (const double longitude : map.longitudes) {
      const double phi = latitude * pi / 180, lambda = longitude * pi / 180;
      const Point p{std::cos(phi) * std::cos(lambda), std::cos(phi) * std::sin(lambda),
                    std::sin(phi)};
      std::size_t nearest = 0;
      for (std::size_t c = 1; c < centres.size(); ++c)
        if (dot(p, centres[c]) > dot(p, centres[nearest])) nearest = c;
      map.values.push_back(values[nearest]);
    }
  return map;
}

constexpr const char* usage =
    R"(cubed_sphere [CELLS [PREFIX]]: CELLS, 2 CELLS and 4 CELLS cells along a tile's edge (6), a
multiple of 6. Draws PREFIXrotation.png, PREFIXbells.png and PREFIXhills.png.)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  const MPI_Comm world = environment.world();
  const index_t least  = argc > 1 ? std::atol(argv[1]) : 6;
  const bool root      = environment.rank() == 0;
  bool right           = true;
  if (root)
    std::printf(
        "case       cells        l1         l2         linf       least     change of mass\n");
  for (const Case& of : cases) {
    double coarsest = 0;
    for (index_t n = least; n <= 4 * least; n *= 2) {
      const int steps = 30 * static_cast<int>(n);
      shard::Figure figure;
      std::vector<double> area;
      double change = 0;
      /// The tracer after 12 days.
      const auto run = [&](MPI_Comm comm, std::array<index_t, 2> block, bool draws) {
        CubedSphere model(comm, n, block, of.deforms);
        model.start(of.start);
        const double mass = model.mass();
        for (int s = 0; s < steps; ++s) {
          model.step(period * s / steps, period / steps);
          if (draws && 2 * (s + 1) == steps)
            figure.maps.push_back(map_of(n, all_cells(comm, model), "after 6 days"));
        }
        change = model.mass() / mass - 1;
        area   = all_cells(comm, model, true);
        return all_cells(comm, model);
      };
      const bool draws = argc > 2 && n == 4 * least;
      bool same        = true;
      if (n == least) {
        const auto alone = run(MPI_COMM_SELF, {n, n}, false),
                   small = run(world, {n / 6, n / 2}, false);
        same = same_bits(alone, small) && same_bits(alone, run(world, {n / 2, n / 3}, false));
      }
      const auto values = run(world, {n / 2, n / 3}, draws);

      double sums[4] = {}, most = 0, largest = 0, lowest = 1e300;
      each_centre(n, [&](std::size_t k, const Point& p) {
        const double exact = of.start(p), e = std::fabs(values[k] - exact);
        sums[0] += area[k] * e, sums[1] += area[k] * e * e;
        sums[2] += area[k] * exact, sums[3] += area[k] * exact * exact;
        most = std::fmax(most, e), largest = std::fmax(largest, exact);
        lowest = std::fmin(lowest, values[k]);
      });
      const double l2 = std::sqrt(sums[1] / sums[3]);
      right           = right && same && std::fabs(change) < 1e-12;
      if (n == least) coarsest = l2;
      if (n == 4 * least) right = right && of.order * l2 < coarsest;
      if (root)
        std::printf("%-9s  6 x %3d^2  %.3e  %.3e  %.3e  %8.1e  %9.1e%s\n", of.name,
                    static_cast<int>(n), sums[0] / sums[2], l2, most / largest, lowest, change,
                    same ? "" : "  other bits than on one rank");
      if (draws && root) {
        figure.maps.push_back(map_of(n, values, "after 12 days"));
        shard::write_png(argv[2] + std::string(of.name) + ".png", figure);
      }
    }
  }
  if (root && right) std::printf("the same bits in all blocks and on one rank\n");
  return right ? 0 : 1;
}
