// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/maps.hpp"

#include "emulator/progress.hpp"

#include <shard/io/grid.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace emulator {
namespace {

/// number_text as print has it: 2.2e-07 as 2.2×10⁻⁷.
std::string printed(double value) {
  constexpr const char* raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  const std::string text         = number_text(value);
  const std::size_t e            = text.find('e');
  if (e == std::string::npos) return text;
  std::string out    = text.substr(0, e) + "×10";
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < 0) out += "⁻";
  for (const char digit : std::to_string(std::abs(exponent))) out += raised[digit - '0'];
  return out;
}

}  // namespace

double area_rms(std::span<const double> values, const std::vector<double>& latitudes) {
  if (latitudes.empty() || values.size() % latitudes.size() != 0) {
    throw std::invalid_argument("emulator::area_rms: " + std::to_string(values.size()) +
                                " values on " + std::to_string(latitudes.size()) + " rows");
  }
  const std::vector<double> weights = shard::area_weights(latitudes);
  const std::size_t columns         = values.size() / latitudes.size();
  double squares = 0.0, area = 0.0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (std::isnan(values[k])) continue;
    squares += weights[k / columns] * values[k] * values[k];
    area += weights[k / columns];
  }
  return area > 0.0 ? std::sqrt(squares / area) : 0.0;
}

shard::Figure forecast_figure(const ForecastMaps& maps) {
  const std::size_t cells = maps.latitudes.size() * maps.longitudes.size();
  for (const std::vector<double>* field : {&maps.start, &maps.truth, &maps.forecast}) {
    if (field->size() != cells) {
      throw std::invalid_argument("emulator::forecast_figure: a field of '" + maps.title +
                                  "' has " + std::to_string(field->size()) +
                                  " values on a grid of " + std::to_string(cells));
    }
  }
  std::vector<double> error(cells), persistence(cells);
  for (std::size_t k = 0; k < cells; ++k) {
    error[k]       = maps.forecast[k] - maps.truth[k];
    persistence[k] = maps.start[k] - maps.truth[k];
  }
  const std::array<double, 2> range  = shard::value_range(maps.truth);
  const std::array<double, 2> spread = shard::value_range(persistence);
  const double most                  = std::max(std::abs(spread[0]), std::abs(spread[1]));

  // The ranks are named once; in the other maps their outlines are enough.
  std::vector<shard::MapBox> outlines = maps.shards;
  for (shard::MapBox& box : outlines) box.label.clear();
  const auto map = [&](const char* title, std::vector<double> values, bool is_error) {
    shard::Map result;
    result.title      = title;
    result.units      = maps.units;
    result.latitudes  = maps.latitudes;
    result.longitudes = maps.longitudes;
    if (is_error) {
      result.note    = "rms " + printed(area_rms(values, maps.latitudes));
      result.colours = shard::ColourScale::diverging;
      result.low     = -most;
      result.high    = most;
    } else {
      result.low  = range[0];
      result.high = range[1];
    }
    result.values = std::move(values);
    result.boxes  = outlines;
    return result;
  };
  shard::Figure figure;
  figure.title         = maps.title;
  figure.caption       = maps.caption;
  figure.maps          = {map("truth", maps.truth, false), map("forecast", maps.forecast, false),
                          map("error of the forecast", std::move(error), true),
                          map("error of persistence (no change)", std::move(persistence), true)};
  figure.maps[0].boxes = maps.shards;
  return figure;
}

}  // namespace emulator
