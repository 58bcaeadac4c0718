// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

/// \file
/// Latitude-longitude maps as PNG pictures. Local: one rank, which has the fields, draws.

namespace shard {

/// True if this build can draw. Otherwise write_png throws std::runtime_error, whose message says
/// how to build it.
bool pictures_available();

/// A colour, each part from 0 to 1 (sRGB).
struct Colour {
  double red   = 0.0;  ///< red part
  double green = 0.0;  ///< green part
  double blue  = 0.0;  ///< blue part
};

/// Colour scales in which equal steps look equal.
enum class ColourScale {
  sequential,  ///< viridis (S. van der Walt and N. Smith, 2015): for fields
  diverging    ///< cool to warm (K. Moreland, "Diverging Color Maps for Scientific Visualization",
             ///< ISVC 2009, doi:10.1007/978-3-642-10520-3_9): for errors, light grey where there is
             ///< none
};

/// The colour at \p position, clamped to [0, 1].
Colour colour_at(ColourScale scale, double position);

/// Round numbers (1, 2, 2.5 or 5 times a power of ten apart) within [low, high], at most \p most.
/// \p low must be less than \p high, \p most at least 2.
std::vector<double> nice_ticks(double low, double high, int most);

/// A box of the grid, in indices: rows [row_begin, row_end), columns [column_begin, column_end).
struct MapBox {
  std::size_t row_begin    = 0;  ///< first row
  std::size_t row_end      = 0;  ///< one past the last row
  std::size_t column_begin = 0;  ///< first column
  std::size_t column_end   = 0;  ///< one past the last column
  std::string label;             ///< drawn in its corner, such as "rank 3"
};

/// One map of a figure.
struct Map {
  std::string title;               ///< above it, on the left
  std::string note;                ///< above it, on the right; such as "rms 0.21"
  std::string units;               ///< beside the colour bar
  std::vector<double> latitudes;   ///< degrees north of the rows, monotone either way
  std::vector<double> longitudes;  ///< degrees east of the columns, increasing
  std::vector<double> values;      ///< latitudes x longitudes, row by row; NaN is drawn grey
  ColourScale colours = ColourScale::sequential;  ///< the colour scale
  /// Values at the ends of the colour bar. NaN: the values' own range, made symmetric for a
  /// diverging scale. Values outside get the end's colour, and the bar a pointed end.
  double low  = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();  ///< see low
  /// The shards, drawn as outlines with labels; empty boxes are omitted.
  std::vector<MapBox> boxes;
};

/// Several maps in one picture.
struct Figure {
  std::string title;      ///< above all maps; may be empty
  std::string caption;    ///< below all maps, small; may be empty
  std::vector<Map> maps;  ///< from left to right, then downwards
  int columns = 0;        ///< maps beside one another; 0: one for one map, else two
  int width   = 1600;     ///< of the picture in pixels; the height follows from the maps
};

/// Draws \p figure into the file \p path, which appears when it is complete. The map begins at the
/// western edge of the first column. Throws std::invalid_argument if there is no map or one's sizes
/// don't fit its coordinates, and std::runtime_error if the file can't be written.
void write_png(const std::string& path, const Figure& figure);

/// The lowest and highest value that is not NaN; {0, 0} if there is none.
std::array<double, 2> value_range(const std::vector<double>& values);

}  // namespace shard
