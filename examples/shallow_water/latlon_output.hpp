// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run of the latitude-longitude model leaves: a NetCDF file with CF's conventions, which all
// ranks write, pictures of vorticity, a checkpoint that any number of ranks can go on from, and a
// line that shows how far it is.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_LATLON_OUTPUT_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_LATLON_OUTPUT_HPP

#include <shard/io/checkpoint.hpp>
#include <shard/io/map.hpp>
#include <shard/io/netcdf_output.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "latlon_model.hpp"

/// The state of a run. `step` counts the steps done.
inline shard::Checkpoint checkpoint_of(const LatLon& model, shard::index_t& step) {
  shard::Checkpoint state(model.h.communicator());
  state.add("h", model.h);
  state.add("u", model.u);
  state.add("v", model.v);
  state.add("step", step);
  return state;
}

/// `count` degrees, `step` apart.
inline std::vector<double> degrees(shard::index_t count, double first, double step) {
  std::vector<double> values;
  for (shard::index_t k = 0; k < count; ++k)
    values.push_back(first + static_cast<double>(k) * step);
  return values;
}

/// Relative vorticity at the corners: VorticityKernel for water of depth 1 without rotation.
class RelativeVorticity {
 public:
  explicit RelativeVorticity(const LatLon& model)
      : metric_(model.h.global_extent(0)),
        depth_(model.h.like("one")),
        field("vorticity", model.mesh(), {model.v.partition(0), model.v.partition(1)}),
        no_rotation_(field.like("zero")) {
    Kokkos::deep_copy(depth_.view(), 1.0);
  }
  void compute(const LatLon& model) const {
    const Space space;
    const auto inside = latlon::between_poles(field, shard::owned_region(field));
    shard::exchange(space, model.u, model.v);
    shard::parallel_for("vorticity", space, inside,
                        VorticityKernel{metric_, depth_, model.u, model.v, no_rotation_, field});
    shard::exchange(space, field);
    shard::parallel_for("pole", space, at_poles(field), PoleKernel{field});
  }

 private:
  Metric metric_;
  Centres depth_;

 public:
  Corners field;  ///< in 1/s, after compute

 private:
  Corners no_rotation_;
};

/// The NetCDF file: each variable on its own points of the C-grid.
class History {
 public:
  History(const LatLon& model, const std::string& path, const std::vector<double>& days)
      : file_(model.h.communicator(), path) {
    const auto rows = model.h.global_extent(0), columns = 2 * rows;
    const double step = 180.0 / static_cast<double>(rows);
    const std::vector<shard::NetcdfAttribute> north{{"units", "degrees_north"},
                                                    {"standard_name", "latitude"}},
        east{{"units", "degrees_east"}, {"standard_name", "longitude"}};
    file_.add_attribute({"Conventions", "CF-1.11"});
    file_.add_coordinate("time", days,
                         {{"units", "days since 2000-01-01"}, {"standard_name", "time"}});
    file_.add_coordinate("lat", degrees(rows, step / 2 - 90, step), north);
    file_.add_coordinate("lon", degrees(columns, step / 2, step), east);
    file_.add_coordinate("lat_edge", degrees(rows + 1, -90, step), north);
    file_.add_coordinate("lon_edge", degrees(columns, 0, step), east);
    const auto add = [&](const char* name, const char* lat, const char* lon, const char* meaning,
                         const char* units) {
      file_.add_variable(name, {"time", lat, lon}, shard::NetcdfType::float64,
                         {{"long_name", meaning}, {"units", units}});
    };
    add("h", "lat", "lon", "depth of the water", "m");
    add("u", "lat", "lon_edge", "eastward velocity", "m s-1");
    add("v", "lat_edge", "lon", "northward velocity", "m s-1");
    add("vorticity", "lat_edge", "lon_edge", "relative vorticity", "s-1");
  }
  void write(const LatLon& model, const Corners& vorticity) {
    file_.write("h", next_, model.h);
    file_.write("u", next_, model.u);
    file_.write("v", next_, model.v);
    file_.write("vorticity", next_++, vorticity);
  }
  void close() { file_.close(); }

 private:
  shard::NetcdfOutput file_;
  std::size_t next_ = 0;
};

/// Pictures of vorticity as PREFIX0000.png, ..., with the colours of the first one.
class Frames {
 public:
  explicit Frames(std::string prefix) : prefix_(std::move(prefix)) {}
  /// The values are those of all ranks, on the first rank; none on others.
  template <class Values>
  void draw(const Values& values, int number, double days) {
    if (values.size() == 0) return;
    const auto rows    = static_cast<shard::index_t>(values.extent(0)) - 1;
    const double scale = 180.0 / static_cast<double>(rows);
    shard::Map map;
    char words[32];
    std::snprintf(words, sizeof words, "day %.2f", days);
    map.title      = "Relative vorticity";
    map.note       = words;
    map.units      = "1/s";
    map.latitudes  = degrees(rows + 1, -90, scale);
    map.longitudes = degrees(2 * rows, 0, scale);
    map.values.assign(values.data(), values.data() + values.size());
    map.colours = shard::ColourScale::diverging;
    if (most_ == 0)
      for (const double v : map.values) most_ = std::max(most_, std::fabs(v));
    map.low = -most_, map.high = most_;
    shard::Figure figure;
    figure.maps = {map};
    std::snprintf(words, sizeof words, "%04d.png", number);
    shard::write_png(prefix_ + words, figure);
  }

 private:
  std::string prefix_;
  double most_ = 0;
};

/// "[####......]  day 2.50 of 6  0.41 days/s": one line that is written over, or, without a
/// terminal, a line every ten seconds. For one rank.
class DayBar {
 public:
  DayBar(double first, double last, bool shows) : first_(first), last_(last), shows_(shows) {}
  void update(double days) {
    using Seconds  = std::chrono::duration<double>;
    const auto now = std::chrono::steady_clock::now();
    const bool end = days >= last_;
    if (!shows_ || (!end && Seconds(now - shown_).count() < (terminal_ ? 0.1 : 10))) return;
    shown_             = now;
    const double speed = (days - first_) / Seconds(now - start_).count();
    const auto full    = static_cast<std::size_t>(30 * std::min(1.0, days / last_));
    std::fprintf(stderr, "%s[%s%s]  day %.2f of %g  %.3g days/s%s", terminal_ ? "\r" : "",
                 std::string(full, '#').c_str(), std::string(30 - full, '.').c_str(), days, last_,
                 speed, terminal_ && !end ? "" : "\n");
  }

 private:
  double first_, last_;
  bool shows_, terminal_ = isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), shown_{};
};

#endif
