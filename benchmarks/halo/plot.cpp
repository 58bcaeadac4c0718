// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// halo_plot POINTS PNG: speed against hand-written MPI over the bytes of a face, a panel for each
// kind of face. POINTS: lines of kind, bytes, way, ratio, as table.py writes them.
#include <cairo.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Point {
  std::string kind;
  double bytes = 0;
  std::string way;
  double ratio = 0;
};

struct Colour {
  double r, g, b;
};

struct Series {
  const char* way;
  const char* name;
  Colour colour;
};

constexpr Series all_series[] = {
    {"memcpy", "memcpy of the same bytes", {0.62, 0.62, 0.62}},
    {"tpetra", "Tpetra Import, ghosts only", {0.85, 0.60, 0.10}},
    {"petsc", "PETSc scatter, ghosts only", {0.80, 0.30, 0.25}},
    {"shard_mpi", "shard over MPI", {0.35, 0.60, 0.85}},
    {"shard_shared", "shard over shared memory", {0.05, 0.30, 0.60}},
};

constexpr struct {
  const char* kind;
  const char* title;
} panels[] = {{"long", "contiguous runs of 2.5 kB or more"},
              {"short", "runs of 256 B to 2.5 kB"},
              {"strided", "strided faces"}};

constexpr int width = 1200, height = 460;
constexpr double left = 60, top = 56, bottom = 96, gap = 24, right = 16;
constexpr double bytes_low = 1e3, bytes_high = 2e6, ratio_low = 0.25, ratio_high = 32;

double along(double value, double low, double high) {
  return std::log(value / low) / std::log(high / low);
}

class Plot {
 public:
  Plot()
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
        c_(cairo_create(surface_)) {
    cairo_set_source_rgb(c_, 1, 1, 1);
    cairo_paint(c_);
    cairo_select_font_face(c_, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  }
  ~Plot() {
    cairo_destroy(c_);
    cairo_surface_destroy(surface_);
  }
  Plot(const Plot&)            = delete;
  Plot& operator=(const Plot&) = delete;

  void draw(const std::vector<Point>& points) {
    colour({0.1, 0.1, 0.1});
    text(left, 22, 15, "Halo exchange, 2 ranks: times as fast as hand-written, packing MPI", 0);
    for (int p = 0; p < 3; ++p) panel(p, points);
    legend(points);
  }
  bool write(const char* file) {
    return cairo_surface_write_to_png(surface_, file) == CAIRO_STATUS_SUCCESS;
  }

 private:
  static constexpr double panel_width  = (width - left - right - 2 * gap) / 3,
                          panel_height = height - top - bottom;

  void panel(int p, const std::vector<Point>& points) {
    const double x0 = left + p * (panel_width + gap), y0 = top + panel_height;
    const auto x = [&](double bytes) {
      return x0 + panel_width * along(bytes, bytes_low, bytes_high);
    };
    const auto y = [&](double ratio) {
      return y0 - panel_height * along(ratio, ratio_low, ratio_high);
    };
    cairo_set_line_width(c_, 1);
    for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
      colour(ratio == 1 ? Colour{0.3, 0.3, 0.3} : Colour{0.88, 0.88, 0.88});
      line(x0, y(ratio), x0 + panel_width, y(ratio));
      char label[16];
      std::snprintf(label, sizeof(label), "%g", ratio);
      colour({0.3, 0.3, 0.3});
      if (p == 0) text(x0 - 6, y(ratio) + 4, 11, label, 1);
    }
    for (const double bytes : {1e3, 1e4, 1e5, 1e6}) {
      colour({0.88, 0.88, 0.88});
      line(x(bytes), y0, x(bytes), top);
      colour({0.3, 0.3, 0.3});
      const char* label = bytes < 5e3   ? "1 kB"
                          : bytes < 5e4 ? "10 kB"
                          : bytes < 5e5 ? "100 kB"
                                        : "1 MB";
      text(x(bytes), y0 + 16, 11, label, 0.5);
    }
    colour({0.1, 0.1, 0.1});
    text(x0 + panel_width / 2, top - 8, 12, panels[p].title, 0.5);
    for (const Series& series : all_series)
      for (const Point& point : points) {
        if (point.way != series.way || point.kind != panels[p].kind) continue;
        colour(series.colour);
        dot(x(point.bytes), y(std::fmin(std::fmax(point.ratio, ratio_low), ratio_high)));
      }
  }

  void legend(const std::vector<Point>& points) {
    colour({0.3, 0.3, 0.3});
    text(left + (width - left - right) / 2, height - 52, 11, "bytes of a face, all fields", 0.5);
    double x = left;
    for (const Series& series : all_series) {
      bool any = false;
      for (const Point& point : points) any = any || point.way == series.way;
      if (!any) continue;
      colour(series.colour);
      dot(x + 5, height - 24);
      colour({0.1, 0.1, 0.1});
      x += 16 + text(x + 16, height - 20, 12, series.name, 0) + 20;
    }
  }

  void colour(const Colour& k) { cairo_set_source_rgb(c_, k.r, k.g, k.b); }
  void line(double x0, double y0, double x1, double y1) {
    cairo_move_to(c_, std::floor(x0) + 0.5, std::floor(y0) + 0.5);
    cairo_line_to(c_, std::floor(x1) + 0.5, std::floor(y1) + 0.5);
    cairo_stroke(c_);
  }
  void dot(double x, double y) {
    cairo_arc(c_, x, y, 4, 0, 6.2832);
    cairo_fill(c_);
  }
  /// Text with the point at `anchor` of its width on x; returns the width.
  double text(double x, double y, double size, const char* words, double anchor) {
    cairo_set_font_size(c_, size);
    cairo_text_extents_t box;
    cairo_text_extents(c_, words, &box);
    cairo_move_to(c_, x - anchor * box.x_advance, y);
    cairo_show_text(c_, words);
    return box.x_advance;
  }

  cairo_surface_t* surface_;
  cairo_t* c_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: halo_plot POINTS PNG\n");
    return 2;
  }
  std::ifstream in(argv[1]);
  std::vector<Point> points;
  for (Point p; in >> p.kind >> p.bytes >> p.way >> p.ratio;) points.push_back(p);
  if (points.empty()) {
    std::fprintf(stderr, "halo_plot: no points in %s\n", argv[1]);
    return 1;
  }
  Plot plot;
  plot.draw(points);
  if (plot.write(argv[2])) return 0;
  std::fprintf(stderr, "halo_plot: can't write %s\n", argv[2]);
  return 1;
}
