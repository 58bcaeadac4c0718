// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Observations of the depth at random places and times, each interpolated between three cells.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_OBSERVATIONS_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_OBSERVATIONS_HPP

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "trisk.hpp"

/// Numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  /// From 0 to 1.
  double uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }
  /// Of mean 0 and variance 1.
  double normal() {
    const double size = std::sqrt(-2 * std::log(uniform()));
    return size * std::cos(2 * pi * uniform());
  }

 private:
  std::mt19937_64 bits_;
};

struct Place {
  voronoi::Point point;
  int time;
  double error;  // of the observation, of variance 1
  std::array<int, 3> cells;
  std::array<double, 3> weights;
};

/// Places all over the sphere, at times 0 to `times` - 1. The same on every rank.
inline std::vector<Place> random_places(const voronoi::Mesh& m, int count, int times) {
  Random random(2026);
  std::vector<Place> places;
  for (int i = 0; i < count; ++i) {
    const double z = 2 * random.uniform() - 1, lon = 2 * pi * random.uniform(),
                 r = std::sqrt(1 - z * z);
    Place place{{r * std::cos(lon), r * std::sin(lon), z}, 0, 0, {}, {}};
    place.time  = static_cast<int>(random.uniform() * times);
    place.error = random.normal();
    // the triangle of cells that it is in, and its barycentric coordinates
    double best = -1e9;
    for (const auto& cells : m.cells_on_vertex) {
      const voronoi::Point &a = m.cell[at(cells[0])], &b = m.cell[at(cells[1])],
                           &c = m.cell[at(cells[2])], &p = place.point;
      if (voronoi::dot(a, p) < 0.5) continue;
      std::array<double, 3> w{voronoi::dot(p, voronoi::cross(b, c)),
                              voronoi::dot(p, voronoi::cross(c, a)),
                              voronoi::dot(p, voronoi::cross(a, b))};
      const double least = std::min({w[0], w[1], w[2]}), all = w[0] + w[1] + w[2];
      if (least <= best) continue;
      best        = least;
      place.cells = cells;
      for (std::size_t j = 0; j < 3; ++j) place.weights[j] = w[j] / all;
    }
    places.push_back(place);
  }
  return places;
}

/// The operations that observe the depth at each time; the other times' observations are 0.
class Observations {
 public:
  Observations(const Trisk& model, const std::vector<Place>& places, int times) {
    for (std::size_t i = 0; i < places.size(); ++i)
      if (model.owner(places[i].cells[0]) == model.ranks.rank())
        ids.push_back(static_cast<std::int64_t>(i));
    for (int time = 0; time < times; ++time)
      at_time.emplace_back(model.ranks, ids, model.cell, entries(ids, [&](auto i, auto add) {
                             const Place& place = places[at(i)];
                             if (place.time != time) return;
                             for (std::size_t j = 0; j < 3; ++j)
                               add(place.cells[j], place.weights[j]);
                           }));
  }

  Ids ids;  ///< that this rank owns
  std::vector<Product<Observation, Cell>> at_time;
};

#endif
