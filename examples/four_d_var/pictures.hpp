// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps of the experiment.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_PICTURES_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_PICTURES_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "../voronoi_mesh.hpp"
#include "shard/io/map.hpp"

/// Maps of a value for each cell: each point has its nearest cell's.
class Maps {
 public:
  explicit Maps(const voronoi::Mesh& mesh) {
    constexpr double degree = 3.14159265358979323846 / 180;
    for (int i = 0; i < 90; ++i) like_.latitudes.push_back(89.0 - 2 * i);
    for (int j = 0; j < 180; ++j) like_.longitudes.push_back(2.0 * j);
    for (const double lat : like_.latitudes)
      for (const double lon : like_.longitudes) {
        const voronoi::Point p{std::cos(lat * degree) * std::cos(lon * degree),
                               std::cos(lat * degree) * std::sin(lon * degree),
                               std::sin(lat * degree)};
        std::size_t nearest = 0;
        for (std::size_t c = 1; c < mesh.cell.size(); ++c)
          if (voronoi::dot(p, mesh.cell[c]) > voronoi::dot(p, mesh.cell[nearest])) nearest = c;
        nearest_.push_back(nearest);
      }
  }
  shard::Map operator()(const std::string& title, const std::vector<double>& values) const {
    shard::Map map = like_;
    map.title      = title;
    map.units      = "m";
    for (const std::size_t c : nearest_) map.values.push_back(values[c]);
    return map;
  }
  /// Of a difference, from -range to range.
  shard::Map operator()(const std::string& title, std::vector<double> values,
                        const std::vector<double>& less, double range) const {
    std::transform(values.begin(), values.end(), less.begin(), values.begin(), std::minus<>());
    shard::Map map = (*this)(title, values);
    map.colours    = shard::ColourScale::diverging;
    map.low        = -range;
    map.high       = range;
    return map;
  }

 private:
  shard::Map like_;
  std::vector<std::size_t> nearest_;
};

inline void draw(const std::string& path, const voronoi::Mesh& mesh,
                 const std::vector<double>& truth, const std::vector<double>& background,
                 const std::vector<double>& analysis) {
  double range = 0;
  for (std::size_t c = 0; c < truth.size(); ++c)
    range = std::max(range, std::fabs(background[c] - truth[c]));
  const Maps map(mesh);
  shard::Figure figure;
  figure.title = "4D-Var on " + std::to_string(mesh.cell.size()) + " Voronoi cells: depth";
  figure.maps  = {map("Truth", truth), map("Background less truth", background, truth, range),
                  map("Analysis less background", analysis, background, range),
                  map("Analysis less truth", analysis, truth, range)};
  shard::write_png(path, figure);
}

#endif
