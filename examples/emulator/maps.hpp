// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/io/map.hpp>

#include <span>
#include <string>
#include <vector>

/// \file
/// The emulator's pictures: a forecast beside the truth, and its error beside persistence's.

namespace emulator {

/// One field of one forecast, gathered; all fields are latitudes x longitudes, row by row.
struct ForecastMaps {
  std::string title;                          ///< such as "z 500 hPa, 12 hours ahead"
  std::string caption;                        ///< small, below; may be empty
  std::string units;                          ///< of the field
  std::vector<double> latitudes, longitudes;  ///< degrees
  std::vector<double> start;                  ///< the state the forecast began from
  std::vector<double> truth;                  ///< the state it should reach
  std::vector<double> forecast;               ///< the state it reached
  std::vector<shard::MapBox> shards;          ///< which rank owns which cells
};

/// Truth, forecast, the forecast's error and persistence's (start - truth). Truth and forecast have
/// one colour scale, the errors another, that of persistence's, so that colours can be compared.
/// Throws std::invalid_argument if a field has not the grid's size.
shard::Figure forecast_figure(const ForecastMaps& maps);

/// Root mean square over the globe, cells weighted by their exact area; NaN cells are left out.
double area_rms(std::span<const double> values, const std::vector<double>& latitudes);

}  // namespace emulator
