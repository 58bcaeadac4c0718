// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps of fields on a Voronoi mesh: each point of the map has the value of the nearest cell or
// vertex.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_MAPS_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_MAPS_HPP

#include <cmath>
#include <cstddef>
#include <vector>

#include "../voronoi_mesh.hpp"
#include "shard/io/map.hpp"
#include "williamson.hpp"

inline voronoi::Point point_at(double lat, double lon) {
  return {std::cos(lat) * std::cos(lon), std::cos(lat) * std::sin(lon), std::sin(lat)};
}

/// The cell whose centre is nearest to a point: from cell to cell, always nearer.
inline std::size_t nearest_cell(const voronoi::Mesh& mesh, const voronoi::Point& p,
                                std::size_t from) {
  using voronoi::dot;
  for (;;) {
    std::size_t best = from;
    for (const int e : mesh.edges_on_cell[from])
      for (const int c : mesh.cells_on_edge[static_cast<std::size_t>(e)])
        if (dot(p, mesh.cell[static_cast<std::size_t>(c)]) > dot(p, mesh.cell[best]))
          best = static_cast<std::size_t>(c);
    if (best == from) return best;
    from = best;
  }
}

/// A map with `rows` rows of a value for each cell, or for each vertex.
inline shard::Map map_of(const voronoi::Mesh& mesh, const std::vector<double>& values, int rows) {
  shard::Map map;
  const double step = 180.0 / rows;
  for (int i = 0; i < rows; ++i) map.latitudes.push_back(90 - (i + 0.5) * step);
  for (int j = 0; j < 2 * rows; ++j) map.longitudes.push_back(j * step);
  std::size_t near = 0;
  for (const double lat : map.latitudes)
    for (const double lon : map.longitudes) {
      const voronoi::Point p = point_at(lat * pi / 180, lon * pi / 180);
      near                   = nearest_cell(mesh, p, near);
      std::size_t place      = near;
      if (values.size() == mesh.vertex.size()) {
        place = static_cast<std::size_t>(mesh.vertices_on_cell[near][0]);
        for (const int v : mesh.vertices_on_cell[near])
          if (voronoi::dot(p, mesh.vertex[static_cast<std::size_t>(v)]) >
              voronoi::dot(p, mesh.vertex[place]))
            place = static_cast<std::size_t>(v);
      }
      map.values.push_back(values[place]);
    }
  return map;
}

#endif
