// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/grid.hpp>
#include <shard/io/map.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "drawing.hpp"

namespace shard {
namespace {

using namespace impl;

constexpr Colour no_data{0.62, 0.62, 0.62};

std::string superscript(const std::string& digits) {
  constexpr const char* raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out;
  for (const char c : digits) out += c == '-' ? "⁻" : c == '+' ? "" : raised[c - '0'];
  return out;
}

/// "m**2 s**-2", "m2 s-2" and "m^2 s^-2" become "m² s⁻²"; "1" and "degC" are replaced by their
/// meaning.
std::string pretty_units(const std::string& units) {
  if (units == "1") return "";
  if (units == "degC" || units == "Celsius" || units == "celsius") return "°C";
  std::string out;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_digit  = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < units.size();) {
    std::size_t at = i;
    if (units.compare(at, 2, "**") == 0) {
      at += 2;
    } else if (units[at] == '^') {
      at += 1;
    } else if (i == 0 || !is_letter(units[i - 1])) {
      out += units[i++];
      continue;
    }
    std::size_t end = at;
    if (end < units.size() && (units[end] == '-' || units[end] == '+')) ++end;
    const std::size_t first_digit = end;
    while (end < units.size() && is_digit(units[end])) ++end;
    if (end == first_digit) {
      out += units[i++];
      continue;
    }
    out += superscript(units.substr(at, end - at));
    i = end;
  }
  return out;
}

/// A number with the decimals of its step, and a typographic minus sign.
std::string number_text(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, std::abs(value));
  const bool zero = std::string(buffer).find_first_of("123456789") == std::string::npos;
  return (value < 0.0 && !zero ? "−" : "") + std::string(buffer);
}

std::string latitude_text(double latitude) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g°%s", std::abs(latitude),
                latitude > 0.0   ? "N"
                : latitude < 0.0 ? "S"
                                 : "");
  return buffer;
}

std::string longitude_text(double longitude) {
  double east = std::fmod(longitude, 360.0);
  if (east > 180.0) east -= 360.0;
  if (east <= -180.0) east += 360.0;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g°%s", std::abs(east),
                east == 180.0 || east == 0.0 ? ""
                : east > 0.0                 ? "E"
                                             : "W");
  return buffer;
}

/// Distance of graticule lines in degrees, so that at most \p most fit the span.
double graticule_step(double span, double most) {
  for (const double step : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 90.0}) {
    if (span / step <= most) return step;
  }
  return 180.0;
}

/// Quantities computed before a map is drawn.
struct Layout {
  std::vector<double> row_edges, column_edges;  // degrees, in the order of rows and columns
  double north = 0.0, south = 0.0, west = 0.0, east = 0.0;
  double low = 0.0, high = 1.0;
  bool below = false, above = false, missing = false;
};

Layout lay_out(const Map& map) {
  const std::size_t cells = map.latitudes.size() * map.longitudes.size();
  if (map.values.size() != cells) {
    throw std::invalid_argument("shard::write_png: map '" + map.title + "' has " +
                                std::to_string(map.latitudes.size()) + " x " +
                                std::to_string(map.longitudes.size()) + " coordinates but " +
                                std::to_string(map.values.size()) + " values");
  }
  Layout layout;
  layout.row_edges    = latitude_edges(map.latitudes);
  layout.column_edges = longitude_edges(map.longitudes);
  layout.north        = std::max(layout.row_edges.front(), layout.row_edges.back());
  layout.south        = std::min(layout.row_edges.front(), layout.row_edges.back());
  layout.west         = layout.column_edges.front();
  layout.east         = layout.column_edges.back();
  for (const MapBox& box : map.boxes) {
    if (box.row_end > map.latitudes.size() || box.column_end > map.longitudes.size()) {
      throw std::invalid_argument("shard::write_png: box '" + box.label + "' of map '" + map.title +
                                  "' ends at row " + std::to_string(box.row_end) + ", column " +
                                  std::to_string(box.column_end) + ", outside the grid");
    }
  }

  const std::array<double, 2> range = value_range(map.values);
  layout.low                        = std::isnan(map.low) ? range[0] : map.low;
  layout.high                       = std::isnan(map.high) ? range[1] : map.high;
  if (map.colours == ColourScale::diverging) {
    const double most = std::max(std::abs(layout.low), std::abs(layout.high));
    if (std::isnan(map.low)) layout.low = -most;
    if (std::isnan(map.high)) layout.high = most;
  }
  if (!(layout.high > layout.low)) {  // a constant field still gets a bar with ticks
    const double margin = layout.low == 0.0 ? 1.0 : 0.1 * std::abs(layout.low);
    layout.low -= margin;
    layout.high += margin;
  }
  const double tolerance = 1e-9 * (layout.high - layout.low);
  layout.below           = range[0] < layout.low - tolerance;
  layout.above           = range[1] > layout.high + tolerance;
  layout.missing         = std::any_of(map.values.begin(), map.values.end(),
                                       [](double value) { return std::isnan(value); });
  return layout;
}

/// For each pixel along an axis from \p from to \p to degrees, the cell it is in.
std::vector<std::size_t> cells_of_pixels(const std::vector<double>& edges, double from, double to,
                                         int pixels) {
  const bool rising       = edges.back() > edges.front();
  const std::size_t cells = edges.size() - 1;
  std::vector<std::size_t> result(static_cast<std::size_t>(pixels));
  for (int p = 0; p < pixels; ++p) {
    const double place = from + (to - from) * (p + 0.5) / pixels;
    const auto at      = rising ? std::upper_bound(edges.begin(), edges.end(), place)
                                : std::upper_bound(edges.begin(), edges.end(), place, std::greater<>());
    const auto passed  = static_cast<std::size_t>(at - edges.begin());
    result[static_cast<std::size_t>(p)] = std::min(passed == 0 ? 0 : passed - 1, cells - 1);
  }
  return result;
}

std::uint32_t pixel_of(const Colour& colour) {
  const auto part = [](double x) { return static_cast<std::uint32_t>(std::lround(255.0 * x)); };
  return 0xff000000U | part(colour.red) << 16U | part(colour.green) << 8U | part(colour.blue);
}

/// The cells themselves, each pixel in its cell's colour: sharp edges, no seams.
void draw_cells(Drawing& drawing, const Map& map, const Layout& layout, const Rectangle& area) {
  const int width = static_cast<int>(area.width), height = static_cast<int>(area.height);
  const Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height),
                      &cairo_surface_destroy);
  cairo_surface_flush(image.get());
  unsigned char* data = cairo_image_surface_get_data(image.get());
  if (data == nullptr) throw std::runtime_error("shard::write_png: no memory for the picture");
  const auto stride = static_cast<std::size_t>(cairo_image_surface_get_stride(image.get()));

  constexpr int shades = 1024;
  std::vector<std::uint32_t> table(shades);
  for (int k = 0; k < shades; ++k) {
    table[static_cast<std::size_t>(k)] = pixel_of(colour_at(map.colours, (k + 0.5) / shades));
  }
  const std::uint32_t grey = pixel_of(no_data);
  const auto rows          = cells_of_pixels(layout.row_edges, layout.north, layout.south, height);
  const auto columns       = cells_of_pixels(layout.column_edges, layout.west, layout.east, width);
  for (std::size_t y = 0; y < rows.size(); ++y) {
    auto* line = reinterpret_cast<std::uint32_t*>(data + y * stride);
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const double value = map.values[rows[y] * map.longitudes.size() + columns[x]];
      if (std::isnan(value)) {
        line[x] = grey;
        continue;
      }
      const double position = (value - layout.low) / (layout.high - layout.low);
      const int shade       = static_cast<int>(std::clamp(position, 0.0, 1.0) * shades);
      line[x]               = table[static_cast<std::size_t>(std::min(shade, shades - 1))];
    }
  }
  cairo_surface_mark_dirty(image.get());
  cairo_set_source_surface(drawing.context(), image.get(), area.x, area.y);
  cairo_rectangle(drawing.context(), area.x, area.y, area.width, area.height);
  cairo_fill(drawing.context());
}

void draw_graticule(Drawing& drawing, const Layout& layout, const Rectangle& area, double unit) {
  cairo_t* c        = drawing.context();
  const double size = 16.0 * unit;
  const auto draw   = [&](bool vertical, double from, double to, double most) {
    const double step = graticule_step(std::abs(to - from), most);
    const double low = std::min(from, to), high = std::max(from, to);
    double free_from = -1e9;  // keeps labels of neighbouring lines apart
    for (double place = std::ceil(low / step - 1e-9) * step; place <= high + 1e-9; place += step) {
      const double t = (place - from) / (to - from);
      cairo_set_line_width(c, unit);
      drawing.colour({1.0, 1.0, 1.0}, 0.35);
      if (vertical) {
        const double x = area.x + t * area.width;
        if (t > 1e-6 && t < 1.0 - 1e-6) drawing.line(x, area.y, x, area.y + area.height);
        drawing.colour(ink);
        drawing.line(x, area.y + area.height, x, area.y + area.height + 5.0 * unit);
        const std::string label = longitude_text(place);
        const double half       = 0.5 * drawing.text_width(label, size);
        if (x - half < free_from || x + half > area.x + area.width + 24.0 * unit) continue;
        free_from = x + half + 8.0 * unit;
        drawing.text(label, x, area.y + area.height + 22.0 * unit, size, Align::centre);
      } else {
        const double y = area.y + t * area.height;
        if (t > 1e-6 && t < 1.0 - 1e-6) drawing.line(area.x, y, area.x + area.width, y);
        drawing.colour(ink);
        drawing.line(area.x - 5.0 * unit, y, area.x, y);
        drawing.text(latitude_text(place), area.x - 9.0 * unit, y + 0.36 * size, size,
                       Align::right);
      }
    }
  };
  draw(true, layout.west, layout.east, area.width / (100.0 * unit));
  draw(false, layout.north, layout.south, area.height / (45.0 * unit));
}

void draw_boxes(Drawing& drawing, const Map& map, const Layout& layout, const Rectangle& area,
                double unit) {
  cairo_t* c      = drawing.context();
  const auto x_of = [&](std::size_t edge) {
    return area.x +
           area.width * (layout.column_edges[edge] - layout.west) / (layout.east - layout.west);
  };
  const auto y_of = [&](std::size_t edge) {
    return area.y +
           area.height * (layout.north - layout.row_edges[edge]) / (layout.north - layout.south);
  };
  const auto place = [&](const MapBox& box) {
    const double x0 = x_of(box.column_begin), x1 = x_of(box.column_end);
    const double y0 = y_of(box.row_begin), y1 = y_of(box.row_end);
    return Rectangle{x0, std::min(y0, y1), x1 - x0, std::abs(y1 - y0)};
  };
  const auto empty = [](const MapBox& box) {
    return box.row_end <= box.row_begin || box.column_end <= box.column_begin;
  };
  cairo_save(c);
  drawing.rectangle(area);
  cairo_clip(c);
  // All outlines first in white, then in ink, so that they show on any colour.
  for (const bool under : {true, false}) {
    for (const MapBox& box : map.boxes) {
      if (empty(box)) continue;
      cairo_set_line_width(c, (under ? 5.0 : 2.0) * unit);
      if (under) {
        drawing.colour({1.0, 1.0, 1.0}, 0.75);
      } else {
        drawing.colour(ink);
      }
      const Rectangle outline = place(box);
      const double right = outline.x + outline.width, bottom = outline.y + outline.height;
      // sides along the map's edge are part of its frame
      if (right < area.x + area.width - 0.5) drawing.line(right, outline.y, right, bottom);
      if (bottom < area.y + area.height - 0.5) drawing.line(outline.x, bottom, right, bottom);
      if (outline.x > area.x + 0.5) drawing.line(outline.x, outline.y, outline.x, bottom);
      if (outline.y > area.y + 0.5) drawing.line(outline.x, outline.y, right, outline.y);
    }
  }
  for (const MapBox& box : map.boxes) {
    if (empty(box) || box.label.empty()) continue;
    const Rectangle outline = place(box);
    const double size = 15.0 * unit, pad = 5.0 * unit, gap = 7.0 * unit;
    const double room   = outline.width - 2.0 * gap;
    const double width  = drawing.text_width(box.label, size, true) + 2.0 * pad;
    const double height = size + 1.4 * pad;
    if (width > room || height > outline.height - 2.0 * gap) continue;
    drawing.rectangle({outline.x + gap, outline.y + gap, width, height});
    drawing.colour({1.0, 1.0, 1.0}, 0.85);
    cairo_fill(c);
    drawing.text(box.label, outline.x + gap + pad, outline.y + gap + height - 1.35 * pad, size,
                 Align::left, ink, true);
  }
  cairo_restore(c);
}

void draw_colour_bar(Drawing& drawing, const Map& map, const Layout& layout, const Rectangle& strip,
                     double unit) {
  cairo_t* c           = drawing.context();
  const double size    = 16.0 * unit;
  const double largest = std::max(std::abs(layout.low), std::abs(layout.high));
  int exponent         = static_cast<int>(std::floor(std::log10(largest)));
  if (exponent > -3 && exponent < 5) exponent = 0;
  const double factor = std::pow(10.0, exponent);
  std::string units   = pretty_units(map.units);
  if (exponent != 0) {
    units = "×10" + superscript(std::to_string(exponent)) + (units.empty() ? "" : " " + units);
  }

  double right = strip.x + strip.width;
  if (layout.missing) {
    const std::string words = "no data";
    const double width      = drawing.text_width(words, size);
    drawing.text(words, right - width, strip.y + 0.5 * strip.height + 0.36 * size, size,
                 Align::left);
    const Rectangle swatch{right - width - 7.0 * unit - strip.height, strip.y, strip.height,
                           strip.height};
    drawing.rectangle(swatch);
    drawing.colour(no_data);
    cairo_fill(c);
    right = swatch.x - 20.0 * unit;
  }
  if (!units.empty()) {
    drawing.text(units, right, strip.y + 0.5 * strip.height + 0.36 * size, size, Align::right);
    right -= drawing.text_width(units, size) + 14.0 * unit;
  }
  const double point = strip.height * 0.9;
  const Rectangle bar{strip.x + (layout.below ? point : 0.0), strip.y,
                      right - strip.x - (layout.below ? point : 0.0) - (layout.above ? point : 0.0),
                      strip.height};

  const auto outline = [&] {
    cairo_move_to(c, bar.x, bar.y);
    cairo_line_to(c, bar.x + bar.width, bar.y);
    if (layout.above) cairo_line_to(c, bar.x + bar.width + point, bar.y + 0.5 * bar.height);
    cairo_line_to(c, bar.x + bar.width, bar.y + bar.height);
    cairo_line_to(c, bar.x, bar.y + bar.height);
    if (layout.below) cairo_line_to(c, bar.x - point, bar.y + 0.5 * bar.height);
    cairo_close_path(c);
  };
  cairo_save(c);
  outline();
  cairo_clip(c);
  const double begin = std::floor(bar.x - point), end = std::ceil(bar.x + bar.width + point);
  cairo_set_antialias(c, CAIRO_ANTIALIAS_NONE);
  for (double x = begin; x < end; x += 1.0) {
    drawing.colour(colour_at(map.colours, (x + 0.5 - bar.x) / bar.width));
    cairo_rectangle(c, x, bar.y, 1.0, bar.height);
    cairo_fill(c);
  }
  cairo_restore(c);
  outline();
  cairo_set_line_width(c, unit);
  drawing.colour(faint);
  cairo_stroke(c);

  const int most                  = std::max(2, static_cast<int>(bar.width / (95.0 * unit)));
  const std::vector<double> ticks = nice_ticks(layout.low / factor, layout.high / factor, most);
  int decimals                    = 0;
  if (ticks.size() > 1) {
    const double step = ticks[1] - ticks[0];
    while (decimals < 6 && std::abs(step * std::pow(10.0, decimals) -
                                    std::round(step * std::pow(10.0, decimals))) > 1e-6) {
      ++decimals;
    }
  }
  for (const double tick : ticks) {
    const double x = bar.x + bar.width * (tick * factor - layout.low) / (layout.high - layout.low);
    drawing.colour(ink);
    drawing.line(x, bar.y + bar.height, x, bar.y + bar.height + 5.0 * unit);
    drawing.text(number_text(tick, decimals), x, bar.y + bar.height + 22.0 * unit, size,
                 Align::centre);
  }
}

// Distances within a panel, in units of a picture that is 1600 wide.
constexpr double outer_margin  = 32.0;
constexpr double panel_gap     = 44.0;
constexpr double title_height  = 38.0;
constexpr double left_labels   = 62.0;
constexpr double bottom_labels = 34.0;
constexpr double bar_gap       = 12.0;
constexpr double bar_height    = 16.0;
constexpr double bar_labels    = 32.0;
constexpr double right_margin  = 18.0;

void draw_map(Drawing& drawing, const Map& map, const Layout& layout, const Rectangle& area,
              double unit) {
  const double note_width = map.note.empty() ? 0.0 : drawing.text_width(map.note, 17.0 * unit);
  drawing.text(map.title, area.x, area.y - 12.0 * unit, 20.0 * unit, Align::left, ink, true,
               area.width - note_width - 20.0 * unit);
  drawing.text(map.note, area.x + area.width, area.y - 12.0 * unit, 17.0 * unit, Align::right,
               faint);
  draw_cells(drawing, map, layout, area);
  draw_graticule(drawing, layout, area, unit);
  draw_boxes(drawing, map, layout, area, unit);
  drawing.rectangle(area);
  cairo_set_line_width(drawing.context(), 1.5 * unit);
  drawing.colour(ink);
  cairo_stroke(drawing.context());
  draw_colour_bar(drawing, map, layout,
                  {area.x, area.y + area.height + (bottom_labels + bar_gap) * unit, area.width,
                   bar_height * unit},
                  unit);
}

}  // namespace

bool pictures_available() { return true; }

void write_png(const std::string& path, const Figure& figure) {
  if (figure.maps.empty() || figure.width < 200) {
    throw std::invalid_argument("shard::write_png: '" + path + "' was given " +
                                std::to_string(figure.maps.size()) + " maps and a width of " +
                                std::to_string(figure.width) +
                                " pixels; at least one map and 200 pixels are needed");
  }
  const int count   = static_cast<int>(figure.maps.size());
  const int columns = std::min(count, figure.columns > 0 ? figure.columns : count == 1 ? 1 : 2);
  const int rows    = (count + columns - 1) / columns;
  // Many small maps beside one another keep readable letters.
  const double unit = figure.width / 1600.0 * (columns > 2 ? 2.6 / columns : 1.0);

  std::vector<Layout> layouts;
  for (const Map& map : figure.maps) layouts.push_back(lay_out(map));
  const double panel_width =
      (figure.width - 2.0 * outer_margin * unit - (columns - 1) * panel_gap * unit) / columns;
  const double map_width = std::floor(panel_width - (left_labels + right_margin) * unit);
  std::vector<double> map_heights, row_heights(static_cast<std::size_t>(rows), 0.0);
  for (int k = 0; k < count; ++k) {
    const Layout& layout = layouts[static_cast<std::size_t>(k)];
    const double shape   = (layout.north - layout.south) / (layout.east - layout.west);
    const double height  = std::floor(map_width * std::clamp(shape, 0.2, 1.2));
    map_heights.push_back(height);
    double& row = row_heights[static_cast<std::size_t>(k / columns)];
    row         = std::max(row, height);
  }
  const double panel_extra =
      (title_height + bottom_labels + bar_gap + bar_height + bar_labels) * unit;
  const double head = figure.title.empty() ? 0.0 : 46.0 * unit;
  const double foot = figure.caption.empty() ? 0.0 : 34.0 * unit;
  double total      = 2.0 * outer_margin * unit + head + foot + (rows - 1) * panel_gap * 0.5 * unit;
  for (const double height : row_heights) total += height + panel_extra;

  Picture picture(figure.width, static_cast<int>(std::ceil(total)));
  Drawing& drawing = picture.drawing();
  drawing.text(figure.title, outer_margin * unit, (outer_margin + 24.0) * unit, 27.0 * unit,
               Align::left, ink, true, figure.width - 2.0 * outer_margin * unit);

  double y = outer_margin * unit + head;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns && row * columns + column < count; ++column) {
      const auto k = static_cast<std::size_t>(row * columns + column);
      const double x =
          outer_margin * unit + column * (panel_width + panel_gap * unit) + left_labels * unit;
      const Rectangle area{std::round(x), std::round(y + title_height * unit), map_width,
                           map_heights[k]};
      draw_map(drawing, figure.maps[k], layouts[k], area, unit);
    }
    y += row_heights[static_cast<std::size_t>(row)] + panel_extra + panel_gap * 0.5 * unit;
  }
  drawing.text(figure.caption, outer_margin * unit, total - outer_margin * 0.8 * unit, 16.0 * unit,
               Align::left, faint, false, figure.width - 2.0 * outer_margin * unit);

  picture.save(path);
}

}  // namespace shard
