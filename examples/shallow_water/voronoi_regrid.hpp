// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a latitude-longitude grid of a file to a Voronoi mesh: the weights as entries of sparse
// products, whose transposes are the adjoints of the regridding.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_REGRID_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_REGRID_HPP

#include <shard/io/field_reader.hpp>
#include <shard/solve/sparse_gather.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "voronoi_maps.hpp"
#include "voronoi_model.hpp"

struct GridPoint;
using Entries = std::vector<shard::MatrixEntry<double>>;

/// Eastwards and northwards at a point.
inline std::array<voronoi::Point, 2> directions_at(const voronoi::Point& p) {
  const voronoi::Point east = voronoi::unit({-p[1], p[0], 0});
  return {east, voronoi::cross(p, east)};
}

/// The grid of a file. Each rank owns some of its rows; a point's id is row times columns + column.
class FileGrid {
 public:
  FileGrid(const shard::Mesh<Ranks>& ranks, const std::string& path, const std::string& variables)
      : reader(path, variables), ranks_(ranks) {
    const auto rows =
        shard::Partition::balanced(static_cast<shard::index_t>(reader.rows()), ranks.size());
    first_ = static_cast<std::size_t>(rows.begin(ranks.rank()));
    last_  = first_ + static_cast<std::size_t>(rows.count(ranks.rank()));
    for (std::size_t k = first_ * reader.columns(); k < last_ * reader.columns(); ++k)
      ids.push_back(static_cast<std::int64_t>(k));
  }
  /// A map of the file; each rank reads its rows. Missing values are an error.
  Field<GridPoint> read(std::size_t time, const std::string& channel) const {
    const shard::IndexSpace<GridPoint, Ranks> points(
        ranks_, shard::by_global_ids(ids, static_cast<shard::index_t>(ids.size())));
    Field<GridPoint> field(channel, ranks_, {points});
    std::vector<double> values(ids.size());
    const auto& all = reader.channels();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.name == channel; });
    if (found == all.end())
      throw std::invalid_argument("no " + channel + " in " + reader.summary());
    if (!ids.empty() && reader.read(0, time, static_cast<std::size_t>(found - all.begin()),
                                    {first_, last_, 0, reader.columns()}, values) > 0)
      throw std::runtime_error(channel + " has missing values");
    const auto host = Kokkos::create_mirror_view(field.view());
    for (std::size_t i = 0; i < values.size(); ++i) host(i) = values[i];
    Kokkos::deep_copy(field.view(), host);
    return field;
  }

  /// The mean over each cell: a grid cell is divided into `pieces` x `pieces`, and each piece
  /// counts for the Voronoi cell that it is in. A row adds up to 1, so a constant stays one; the
  /// sum of value times area of pieces is conserved.
  Entries cell_means(const voronoi::Mesh& mesh, int pieces) const {
    const auto rows    = shard::latitude_edges(reader.latitudes()),
               columns = shard::longitude_edges(reader.longitudes());
    const auto between = [&](const std::vector<double>& edges, std::size_t i, double part) {
      return (edges[i] + (edges[i + 1] - edges[i]) * part / pieces) * pi / 180;
    };
    std::vector<double> covered(mesh.cell.size());
    Entries entries;
    std::size_t near = 0;
    for (std::size_t i = 0; i < reader.rows(); ++i)
      for (std::size_t j = 0; j < reader.columns(); ++j)
        for (int a = 0; a < pieces; ++a)
          for (int b = 0; b < pieces; ++b) {
            const double area =
                std::fabs(std::sin(between(rows, i, a)) - std::sin(between(rows, i, a + 1)));
            near = nearest_cell(
                mesh, point_at(between(rows, i, a + 0.5), between(columns, j, b + 0.5)), near);
            covered[near] += area;
            if (i >= first_ && i < last_)
              entries.push_back({static_cast<std::int64_t>(near),
                                 static_cast<std::int64_t>(i * reader.columns() + j), area});
          }
    for (auto& entry : entries) entry.value /= covered[static_cast<std::size_t>(entry.row)];
    return entries;
  }

  /// Winds to normal velocities at this rank's edges, by linear interpolation of the vector. Two
  /// lists: of the eastward and of the northward wind. The grid's first and last rows are the
  /// poles.
  std::array<Entries, 2> normal_winds(const voronoi::Mesh& mesh, const Places& edges) const {
    std::array<Entries, 2> lists;
    const auto &lats = reader.latitudes(), &lons = reader.longitudes();
    const double dlat = lats[0] - lats[1], dlon = lons[1] - lons[0];
    edges.each(edges.owned, [&](std::size_t e) {
      const double lat = latitude_of(mesh.edge[e]) * 180 / pi;
      const double y   = (lats[0] - lat) / dlat;
      double x         = (longitude_of(mesh.edge[e]) * 180 / pi - lons[0]) / dlon;
      if (x < 0) x += static_cast<double>(lons.size());
      const auto i = std::min(static_cast<std::size_t>(y), lats.size() - 2);
      const auto j = static_cast<std::size_t>(x);
      for (const std::size_t a : {0, 1})
        for (const std::size_t b : {0, 1}) {
          const double up = y - static_cast<double>(i), right = x - static_cast<double>(j);
          const std::size_t row = i + a, column = (j + b) % lons.size();
          const auto axes =
              directions_at(point_at(std::fmin(89.999, std::fmax(-89.999, lats[row])) * pi / 180,
                                     lons[column] * pi / 180));
          for (std::size_t k = 0; k < 2; ++k)
            lists[k].push_back({static_cast<std::int64_t>(e),
                                static_cast<std::int64_t>(row * lons.size() + column),
                                (a == 1 ? up : 1 - up) * (b == 1 ? right : 1 - right) *
                                    voronoi::dot(mesh.normal[e], axes[k])});
        }
    });
    return lists;
  }

  shard::FieldReader reader;
  std::vector<std::int64_t> ids;

 private:
  shard::Mesh<Ranks> ranks_;
  std::size_t first_ = 0, last_ = 0;
};

/// The wind at the centres of this rank's cells from the normal velocities around (Perot 2000).
inline std::array<Entries, 2> centre_winds(const voronoi::Mesh& mesh, const Places& cells) {
  using voronoi::operator-;
  std::array<Entries, 2> lists;
  cells.each(cells.owned, [&](std::size_t c) {
    const auto axes = directions_at(mesh.cell[c]);
    for (const int edge : mesh.edges_on_cell[c]) {
      const auto e      = static_cast<std::size_t>(edge);
      const double sign = mesh.cells_on_edge[e][0] == static_cast<int>(c) ? 1 : -1;
      for (std::size_t k = 0; k < 2; ++k)
        lists[k].push_back({static_cast<std::int64_t>(c), edge,
                            sign * mesh.edge_length[e] / mesh.cell_area[c] *
                                voronoi::dot(mesh.edge[e] - mesh.cell[c], axes[k])});
    }
  });
  return lists;
}

#endif
