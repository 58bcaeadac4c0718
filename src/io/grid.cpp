// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/grid.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <stdexcept>
#include <string>

namespace shard {
namespace {

/// Single precision coordinates have errors of about 1e-5 degrees.
constexpr double coordinate_tolerance = 1e-4;

/// Tolerance of the outer row's distance from the pole, in half cells. On a Gaussian grid it is
/// 0.54 more than one half cell (zeros of the Bessel function J0); 1 more would be a grid that
/// lacks the row.
constexpr double polar_slack = 0.75;

void require_coordinates(const char* function, const std::vector<double>& values) {
  if (values.size() < 2) {
    throw std::invalid_argument(std::string("shard::") + function + ": " +
                                std::to_string(values.size()) +
                                " coordinate(s) given, but cells need at least two");
  }
}

/// Half the distance between a row and its neighbour towards the equator, in degrees.
double half_cell(double outer, double inner) { return 0.5 * std::abs(outer - inner); }

/// The outer edge of the outer row: the pole if the row is at most about half a cell from it, so
/// that the polar cap belongs to a cell.
double outer_edge(double outer, double inner) {
  const double half    = half_cell(outer, inner);
  const double sign    = outer > inner ? 1.0 : -1.0;
  const double to_pole = 90.0 - sign * outer;
  return to_pole <= (1.0 + polar_slack) * half ? sign * 90.0 : outer + sign * half;
}

}  // namespace

std::vector<double> latitude_edges(const std::vector<double>& latitudes) {
  require_coordinates("latitude_edges", latitudes);
  const std::size_t n  = latitudes.size();
  const bool southward = latitudes[1] < latitudes[0];
  for (std::size_t i = 0; i < n; ++i) {
    if (!(std::abs(latitudes[i]) <= 90.0 + coordinate_tolerance)) {
      throw std::invalid_argument("shard::latitude_edges: latitude " +
                                  std::to_string(latitudes[i]) + " of row " + std::to_string(i) +
                                  " is outside [-90, 90]; is it given in degrees?");
    }
    if (i > 0 && !(southward ? latitudes[i] < latitudes[i - 1] : latitudes[i] > latitudes[i - 1])) {
      throw std::invalid_argument(
          "shard::latitude_edges: rows " + std::to_string(i - 1) + " and " + std::to_string(i) +
          " have latitudes " + std::to_string(latitudes[i - 1]) + " and " +
          std::to_string(latitudes[i]) + ", which is not monotone; sort the rows");
    }
  }
  std::vector<double> edges(n + 1);
  edges.front() = outer_edge(latitudes[0], latitudes[1]);
  edges.back()  = outer_edge(latitudes[n - 1], latitudes[n - 2]);
  for (std::size_t i = 1; i < n; ++i) edges[i] = 0.5 * (latitudes[i - 1] + latitudes[i]);
  return edges;
}

std::vector<double> longitude_edges(const std::vector<double>& longitudes) {
  require_coordinates("longitude_edges", longitudes);
  const std::size_t n = longitudes.size();
  for (std::size_t j = 0; j < n; ++j) {
    if (!(std::abs(longitudes[j]) <= impl::farthest_longitude)) {
      throw std::invalid_argument(
          "shard::longitude_edges: longitude " + std::to_string(longitudes[j]) + " of column " +
          std::to_string(j) + " is outside [-36000, 36000]; is it given " + "in degrees?");
    }
    if (j > 0 && !(longitudes[j] > longitudes[j - 1])) {
      throw std::invalid_argument(
          "shard::longitude_edges: columns " + std::to_string(j - 1) + " and " + std::to_string(j) +
          " have longitudes " + std::to_string(longitudes[j - 1]) + " and " +
          std::to_string(longitudes[j]) + ", which do not increase; add 360 after the date line");
    }
  }
  if (longitudes[n - 1] - longitudes[0] > 360.0 + coordinate_tolerance) {
    throw std::invalid_argument("shard::longitude_edges: the columns span " +
                                std::to_string(longitudes[n - 1] - longitudes[0]) +
                                " degrees, more than once round the globe");
  }
  std::vector<double> edges(n + 1);
  for (std::size_t j = 1; j < n; ++j) edges[j] = 0.5 * (longitudes[j - 1] + longitudes[j]);
  edges.front() = longitudes[0] - 0.5 * (longitudes[1] - longitudes[0]);
  edges.back()  = is_global(longitudes)
                      ? edges.front() + 360.0
                      : longitudes[n - 1] + 0.5 * (longitudes[n - 1] - longitudes[n - 2]);
  return edges;
}

bool is_global(const std::vector<double>& longitudes) {
  const std::size_t n = longitudes.size();
  if (n < 2) return false;
  const double step = 360.0 / static_cast<double>(n);
  for (std::size_t j = 0; j < n; ++j) {
    const double expected = longitudes[0] + step * static_cast<double>(j);
    if (!(std::abs(longitudes[j] - expected) <= 1e-2 * step)) return false;
  }
  return true;
}

PoleRows pole_rows(const std::vector<double>& latitudes) {
  const std::size_t n = latitudes.size();
  if (n < 2) return PoleRows::neither;
  const auto place = [](double outer, double inner) {
    const double half    = half_cell(outer, inner);
    const double to_pole = 90.0 - std::abs(outer);
    if (std::abs(to_pole) <= coordinate_tolerance) return PoleRows::on_row;
    return std::abs(to_pole - half) <= polar_slack * half ? PoleRows::between_rows
                                                          : PoleRows::neither;
  };
  if (latitudes.front() * latitudes.back() >= 0.0) return PoleRows::neither;
  const PoleRows first = place(latitudes[0], latitudes[1]);
  const PoleRows last  = place(latitudes[n - 1], latitudes[n - 2]);
  return first == last ? first : PoleRows::neither;
}

std::vector<double> area_weights(const std::vector<double>& latitudes) {
  const std::vector<double> edges = latitude_edges(latitudes);
  const auto sine = [](double degrees) { return std::sin(degrees * std::numbers::pi / 180.0); };
  std::vector<double> weights(latitudes.size());
  double total = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = std::abs(sine(edges[i]) - sine(edges[i + 1]));
    total += weights[i];
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

std::vector<double> latitudes_with_poles(int rows) {
  if (rows < 2) {
    throw std::invalid_argument("shard::latitudes_with_poles: " + std::to_string(rows) +
                                " row(s) requested, but the two poles need two");
  }
  std::vector<double> latitudes(static_cast<std::size_t>(rows));
  for (int i = 0; i < rows; ++i) {
    latitudes[static_cast<std::size_t>(i)] = 90.0 * (rows - 1 - 2 * i) / (rows - 1);
  }
  return latitudes;
}

std::vector<double> global_longitudes(int columns) {
  if (columns < 1) {
    throw std::invalid_argument("shard::global_longitudes: " + std::to_string(columns) +
                                " columns asked for");
  }
  std::vector<double> longitudes(static_cast<std::size_t>(columns));
  for (int j = 0; j < columns; ++j) {
    longitudes[static_cast<std::size_t>(j)] = 360.0 * j / columns;
  }
  return longitudes;
}

}  // namespace shard
