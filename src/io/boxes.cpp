// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/boxes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <stdexcept>

#include "drawing.hpp"

namespace shard {
namespace {

using namespace impl;

/// The positions of the lines: edges from 0 to \p room. Each has at least an eighth of the mean
/// width, so that thin and empty ones are visible.
std::vector<double> edges(const std::vector<BoxLine>& lines, double room) {
  double sum = 0.0;
  for (const BoxLine& line : lines)
    sum += static_cast<double>(std::max<std::int64_t>(line.extent, 0));
  const double common = sum > 0.0 ? sum / static_cast<double>(lines.size()) / 8.0 : 1.0;
  const double all    = sum + common * static_cast<double>(lines.size());
  std::vector<double> at{0.0};
  double passed = 0.0;
  for (const BoxLine& line : lines) {
    passed += static_cast<double>(std::max<std::int64_t>(line.extent, 0)) + common;
    at.push_back(std::round(room * passed / all));
  }
  return at;
}

/// A colour for each different text, light enough for ink.
std::map<std::string, Colour> tints(const std::vector<std::string>& holders) {
  std::map<std::string, Colour> tint;
  std::vector<std::string> order;
  for (const std::string& words : holders)
    if (tint.emplace(words, Colour{}).second) order.push_back(words);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double position =
        order.size() < 2 ? 0.5 : static_cast<double>(i) / static_cast<double>(order.size() - 1);
    const Colour full = colour_at(ColourScale::sequential, position);
    const auto light  = [](double part) { return 0.45 + 0.55 * part; };
    tint[order[i]]    = {light(full.red), light(full.green), light(full.blue)};
  }
  return tint;
}

}  // namespace

void write_png(const std::string& path, const BoxFigure& figure) {
  const std::size_t rows = figure.rows.size(), columns = figure.columns.size();
  if (rows * columns == 0 || figure.holders.size() != rows * columns || figure.width < 200)
    throw std::invalid_argument("shard::write_png: '" + path + "' was given " +
                                std::to_string(rows) + " x " + std::to_string(columns) +
                                " boxes with " + std::to_string(figure.holders.size()) +
                                " texts and a width of " + std::to_string(figure.width) +
                                " pixels; a text for each box and 200 pixels are needed");
  const double unit = figure.width / 900.0;
  const double size = 15.0 * unit, margin = 20.0 * unit, line = 22.0 * unit;
  const double left   = margin + 90.0 * unit;
  const double across = figure.width - left - margin;
  std::int64_t high = 0, wide = 0;
  for (const BoxLine& row : figure.rows) high += row.extent;
  for (const BoxLine& column : figure.columns) wide += column.extent;
  const double shape = wide > 0 ? static_cast<double>(high) / static_cast<double>(wide) : 1.0;
  const double down =
      std::round(std::max(across * std::clamp(shape, 0.1, 1.0),
                          28.0 * unit * static_cast<double>(std::min<std::size_t>(rows, 40))));
  const double top = margin + line * static_cast<double>(figure.title.size()) + 1.4 * line;
  Picture picture(figure.width, static_cast<int>(std::ceil(top + down + margin)));
  Drawing& drawing = picture.drawing();
  cairo_t* c       = drawing.context();

  double y = margin;
  for (const std::string& words : figure.title) {
    const bool first = y == margin;
    y += line;
    drawing.text(words, margin, y - 6.0 * unit, first ? 19.0 * unit : size, Align::left,
                 first ? ink : faint, first, figure.width - 2.0 * margin);
  }
  const std::vector<double> xs = edges(figure.columns, across), ys = edges(figure.rows, down);
  for (std::size_t j = 0; j < columns; ++j)
    drawing.text(figure.columns[j].label, left + 0.5 * (xs[j] + xs[j + 1]), top - 6.0 * unit, size,
                 Align::centre, faint, false, xs[j + 1] - xs[j] - 2.0 * unit);
  const std::map<std::string, Colour> tint = tints(figure.holders);
  for (std::size_t i = 0; i < rows; ++i) {
    const double height = ys[i + 1] - ys[i];
    const double tall   = std::min(size, 0.8 * height);
    drawing.text(figure.rows[i].label, left - 8.0 * unit,
                 top + 0.5 * (ys[i] + ys[i + 1]) + 0.36 * tall, tall, Align::right, faint, false,
                 left - margin);
    for (std::size_t j = 0; j < columns; ++j) {
      const std::string& words = figure.holders[i * columns + j];
      const Rectangle box{left + xs[j], top + ys[i], xs[j + 1] - xs[j], height};
      drawing.rectangle(box);
      drawing.colour(tint.at(words));
      cairo_fill(c);
      drawing.text(words, box.x + 0.5 * box.width, box.y + 0.5 * height + 0.36 * tall, tall,
                   Align::centre, ink, false, box.width - 4.0 * unit);
      drawing.rectangle(box);
      cairo_set_line_width(c, 1.2 * unit);
      drawing.colour(ink);
      cairo_stroke(c);
    }
  }
  picture.save(path);
}

}  // namespace shard
