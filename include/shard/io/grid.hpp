// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

/// \file
/// Geometry of latitude-longitude grids for use outside of kernels: edges and areas of cells. All
/// functions are local and use plain vectors.

namespace shard {

/// The position of the poles on a grid; determines the pole fold.
enum class PoleRows {
  on_row,        ///< the first and the last row are the poles (ERA5): `Pole::on_row`
  between_rows,  ///< the poles are half a cell outside of the first and the last row:
                 ///< `Pole::between_rows`
  neither        ///< the grid does not reach both poles
};

/// Edges of the cells around \p latitudes (degrees, strictly monotone, either way): one more value
/// than rows, in the same order. Edges are half way between rows. The outer edges are the poles if
/// the outer row is on the pole or about half a cell from it (on a Gaussian grid half as much
/// again), otherwise half a cell outside of the row. Throws std::invalid_argument if the latitudes
/// are not strictly monotone, are outside [-90, 90], or are fewer than two.
std::vector<double> latitude_edges(const std::vector<double>& latitudes);

namespace impl {

/// The largest absolute longitude in degrees, a hundred times round the globe; larger ones are an
/// error.
inline constexpr double farthest_longitude = 36000.0;

}  // namespace impl

/// Edges of the cells around \p longitudes (degrees, strictly increasing): one more value than
/// columns; half way between columns, and half a cell outside of the outer ones. For a grid that
/// goes round the globe the last edge is the first plus 360. Throws std::invalid_argument if they
/// are not strictly increasing, exceed 36000 degrees, span more than 360 degrees, or are fewer than
/// two.
std::vector<double> longitude_edges(const std::vector<double>& longitudes);

/// True if the columns go once round the globe at equal distances, so that the dimension is
/// periodic.
bool is_global(const std::vector<double>& longitudes);

/// The position of the poles, from the distance of the outer rows. Gaussian grids are
/// `between_rows`.
PoleRows pole_rows(const std::vector<double>& latitudes);

/// The exact share of the sphere's area in each row of cells: differences of sin(latitude) at the
/// cells' edges, divided by their sum, so that they add up to 1. Rows on a pole are half cells. The
/// weight of one cell is its row's divided by the number of columns. Throws as latitude_edges.
std::vector<double> area_weights(const std::vector<double>& latitudes);

/// Latitudes of \p rows equally spaced rows from 90 to -90 degrees, poles included. At least two.
std::vector<double> latitudes_with_poles(int rows);

/// Longitudes of \p columns equally spaced columns from 0 degrees eastward.
std::vector<double> global_longitudes(int columns);

}  // namespace shard
