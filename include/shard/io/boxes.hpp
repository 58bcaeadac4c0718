// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// \file
/// A table of boxes as a PNG picture: which device has which part of a tensor. Local.
/// `pictures_available` (map.hpp) returns whether this build can draw.

namespace shard {

/// One row or column of a BoxFigure.
struct BoxLine {
  std::string label;        ///< beside the row, above the column; such as "0:361"
  std::int64_t extent = 0;  ///< its relative size in the picture; 0 is a thin line
};

/// Boxes in rows and columns, each with a text.
struct BoxFigure {
  std::vector<std::string> title;    ///< lines above, the first one larger; may be empty
  std::vector<BoxLine> rows;         ///< from the top
  std::vector<BoxLine> columns;      ///< from the left
  std::vector<std::string> holders;  ///< texts of the boxes, row by row; equal texts have the
                                     ///< same colour
  int width = 900;                   ///< of the picture in pixels; the height follows
};

/// Draws \p figure into the file \p path, which appears when it is complete. Throws
/// std::invalid_argument if there are no boxes, another number of texts than boxes, or less than
/// 200 pixels, and std::runtime_error if the file can't be written or this build can't draw.
void write_png(const std::string& path, const BoxFigure& figure);

}  // namespace shard
