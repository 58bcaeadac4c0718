// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A NetCDF file of a run on a Voronoi mesh, by CF 1.11 and its UGRID conventions: the mesh, and
// records of the surface, the wind at the centres of cells and the vorticity. Rank 0 writes.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_OUTPUT_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_OUTPUT_HPP

#include <shard/io/netcdf.hpp>
#include <shard/solve/sparse_gather.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "voronoi_model.hpp"
#include "voronoi_regrid.hpp"

/// Records of a run, gathered on rank 0.
class Records {
 public:
  /// Collective.
  explicit Records(const Voronoi& model)
      : winds_(centre_winds(model.mesh, model.places.cell)),
        east_(model.ranks, model.places.cell.owned_ids(), model.places.edge.owned_ids(), winds_[0]),
        north_(model.ranks, model.places.cell.owned_ids(), model.places.edge.owned_ids(),
               winds_[1]),
        relief_(model.by_id(model.ground)) {}

  /// Adds the state at a time in days. Collective.
  void add(const Voronoi& model, double days) {
    const Kokkos::DefaultExecutionSpace space;
    const Field<Cell> wind = model.h.like("wind");
    days_.push_back(days);
    auto surface = model.by_id(model.h);
    for (std::size_t c = 0; c < surface.size(); ++c) surface[c] += relief_[c];
    append(surface_, surface);
    east_.apply(space, wind, model.u);
    append(eastward_, model.by_id(wind));
    north_.apply(space, wind, model.u);
    append(northward_, model.by_id(wind));
    append(vorticity_, model.by_id(model.vorticity()));
  }
  const std::vector<double>& relief() const { return relief_; }
  /// The last record.
  std::vector<double> surface() const { return last(surface_); }
  std::vector<double> vorticity() const { return last(vorticity_); }

  /// Writes all records. Only on rank 0.
  void write(const std::string& path, const voronoi::Mesh& mesh) const {
    shard::NetcdfWriter file(path);
    file.add_attribute({"Conventions", "CF-1.11 UGRID-1.0"});
    file.add_attribute({"title", "Shallow water on an icosahedral Voronoi mesh"});
    file.add_attribute({"history", "made by shard's example voronoi_real"});
    file.add_coordinate("time", days_,
                        {{"standard_name", "time"},
                         {"units", "days since 2000-01-01"},
                         {"calendar", "standard"},
                         {"axis", "T"}});
    file.add_dimension("cell", mesh.cell.size());
    file.add_dimension("vertex", mesh.vertex.size());
    file.add_dimension("corner", 6);
    file.add_variable("mesh", {}, shard::NetcdfType::int32,
                      {{"cf_role", "mesh_topology"},
                       {"topology_dimension", 2},
                       {"node_coordinates", "vertex_lon vertex_lat"},
                       {"face_coordinates", "lon lat"},
                       {"face_node_connectivity", "cell_vertices"}});
    file.write("mesh", std::vector<double>{0.0});
    places(file, mesh.cell, "cell", "", true);
    places(file, mesh.vertex, "vertex", "vertex_", false);
    std::vector<double> corners;
    for (const auto& vertices : mesh.vertices_on_cell)
      for (std::size_t j = 0; j < 6; ++j)
        corners.push_back(j < vertices.size() ? vertices[j]
                                              : std::numeric_limits<double>::quiet_NaN());
    file.add_variable(
        "cell_vertices", {"cell", "corner"}, shard::NetcdfType::int32,
        {{"cf_role", "face_node_connectivity"}, {"start_index", 0}, {"_FillValue", -1}});
    file.write("cell_vertices", corners);
    bounds(file, mesh);

    const auto add = [&](const std::string& name, bool in_time, const std::string& place,
                         const std::string& standard, const std::string& units,
                         const std::vector<double>& values) {
      const bool at_cells = place == "cell";
      std::vector<std::string> dimensions{place};
      if (in_time) dimensions.insert(dimensions.begin(), "time");
      file.add_variable(name, dimensions, shard::NetcdfType::float64,
                        {{"standard_name", standard},
                         {"units", units},
                         {"mesh", "mesh"},
                         {"location", at_cells ? "face" : "node"},
                         {"coordinates", at_cells ? "lat lon" : "vertex_lat vertex_lon"}});
      file.write(name, values);
    };
    add("relief", false, "cell", "surface_altitude", "m", relief_);
    add("surface", true, "cell", "geopotential_height", "m", surface_);
    add("eastward", true, "cell", "eastward_wind", "m s-1", eastward_);
    add("northward", true, "cell", "northward_wind", "m s-1", northward_);
    add("vorticity", true, "vertex", "atmosphere_relative_vorticity", "s-1", vorticity_);
    file.close();
  }

 private:
  static void append(std::vector<double>& all, const std::vector<double>& record) {
    all.insert(all.end(), record.begin(), record.end());
  }
  std::vector<double> last(const std::vector<double>& all) const {
    const std::size_t size = all.size() / days_.size();
    return {all.end() - static_cast<std::ptrdiff_t>(size), all.end()};
  }
  static void places(shard::NetcdfWriter& file, const std::vector<voronoi::Point>& points,
                     const std::string& dimension, const std::string& prefix, bool have_bounds) {
    std::vector<double> lat, lon;
    for (const auto& p : points) {
      lat.push_back(latitude_of(p) * 180 / pi);
      lon.push_back(longitude_of(p) * 180 / pi);
    }
    const auto add = [&](const std::string& name, const char* standard, const char* units,
                         const std::vector<double>& values) {
      std::vector<shard::NetcdfAttribute> attributes{{"standard_name", standard}, {"units", units}};
      if (have_bounds) attributes.push_back({"bounds", name + "_bnds"});
      file.add_variable(prefix + name, {dimension}, shard::NetcdfType::float64, attributes);
      file.write(prefix + name, values);
    };
    add("lat", "latitude", "degrees_north", lat);
    add("lon", "longitude", "degrees_east", lon);
  }
  /// The corners of cells by CF, for tools that don't read UGRID (cdo): of a pentagon the last
  /// corner comes twice.
  static void bounds(shard::NetcdfWriter& file, const voronoi::Mesh& mesh) {
    std::vector<double> lat, lon;
    for (const auto& vertices : mesh.vertices_on_cell)
      for (std::size_t j = 0; j < 6; ++j) {
        const auto& p =
            mesh.vertex[static_cast<std::size_t>(vertices[std::min(j, vertices.size() - 1)])];
        lat.push_back(latitude_of(p) * 180 / pi);
        lon.push_back(longitude_of(p) * 180 / pi);
      }
    file.add_variable("lat_bnds", {"cell", "corner"}, shard::NetcdfType::float64);
    file.write("lat_bnds", lat);
    file.add_variable("lon_bnds", {"cell", "corner"}, shard::NetcdfType::float64);
    file.write("lon_bnds", lon);
  }

  std::array<Entries, 2> winds_;
  shard::SparseGather<double, Ranks, Cell, Edge> east_, north_;
  std::vector<double> days_, relief_, surface_, eastward_, northward_, vorticity_;
};

#endif
