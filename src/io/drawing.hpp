// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_DRAWING_HPP
#define SHARD_SRC_IO_DRAWING_HPP

#include <cairo.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "new_file.hpp"
#include "shard/io/map.hpp"

namespace shard::impl {

inline constexpr const char* font = "DejaVu Sans";
inline constexpr Colour ink{0.13, 0.13, 0.15};
inline constexpr Colour faint{0.38, 0.38, 0.42};

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Context = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

struct Rectangle {
  double x = 0.0, y = 0.0, width = 0.0, height = 0.0;
};

enum class Align { left, centre, right };

/// A Cairo context with the drawing functions of maps.
class Drawing {
 public:
  explicit Drawing(cairo_t* context) : c_(context) {
    cairo_font_options_t* options = cairo_font_options_create();
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
    cairo_set_font_options(c_, options);
    cairo_font_options_destroy(options);
  }

  [[nodiscard]] cairo_t* context() const { return c_; }

  void colour(const Colour& colour, double opacity = 1.0) {
    cairo_set_source_rgba(c_, colour.red, colour.green, colour.blue, opacity);
  }

  double text_width(const std::string& words, double size, bool bold = false) {
    choose(size, bold);
    cairo_text_extents_t extents;
    cairo_text_extents(c_, words.c_str(), &extents);
    return extents.x_advance;
  }

  /// Writes with the baseline at y, smaller if it would be wider than \p room.
  void text(const std::string& words, double x, double y, double size, Align align,
            const Colour& tint = ink, bool bold = false, double room = 0.0) {
    if (words.empty()) return;
    double width = text_width(words, size, bold);
    if (room > 0.0 && width > room) {
      size *= room / width;
      width = text_width(words, size, bold);
    }
    const double shift = align == Align::left ? 0.0 : align == Align::centre ? 0.5 * width : width;
    choose(size, bold);
    colour(tint);
    cairo_move_to(c_, x - shift, y);
    cairo_show_text(c_, words.c_str());
  }

  void line(double x0, double y0, double x1, double y1) {
    cairo_move_to(c_, x0, y0);
    cairo_line_to(c_, x1, y1);
    cairo_stroke(c_);
  }

  void rectangle(const Rectangle& box) { cairo_rectangle(c_, box.x, box.y, box.width, box.height); }

 private:
  void choose(double size, bool bold) {
    cairo_select_font_face(c_, font, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c_, size);
  }
  cairo_t* c_;
};

/// A white picture.
class Picture {
 public:
  Picture(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height),
                 &cairo_surface_destroy),
        context_(cairo_create(surface_.get()), &cairo_destroy),
        drawing_(context_.get()),
        size_(std::to_string(width) + " x " + std::to_string(height)) {
    drawing_.colour({1.0, 1.0, 1.0});
    cairo_paint(context_.get());
  }

  [[nodiscard]] Drawing& drawing() { return drawing_; }

  /// The file appears when it is complete. Throws std::runtime_error if it can't be written.
  void save(const std::string& path) {
    cairo_surface_flush(surface_.get());
    NewFile file(path, fail);
    Writing writing{file};
    cairo_status_t status = cairo_status(context_.get());
    if (status == CAIRO_STATUS_SUCCESS)
      status = cairo_surface_write_to_png_stream(surface_.get(), &Writing::append, &writing);
    if (!writing.wrong.empty()) throw std::runtime_error(writing.wrong);
    if (status != CAIRO_STATUS_SUCCESS)
      fail(path, std::string(cairo_status_to_string(status)) + " (" + size_ + " pixels)");
    file.put_in_place();
  }

 private:
  [[noreturn]] static void fail(const std::string& path, const std::string& reason) {
    throw std::runtime_error("shard::write_png: picture '" + path + "' could not be written: " +
                             reason + "; give a path in a folder that can be written to");
  }

  /// The callback of Cairo for each part of the file.
  struct Writing {
    NewFile& file;
    off_t end         = 0;
    std::string wrong = {};

    static cairo_status_t append(void* self, const unsigned char* bytes, unsigned int count) {
      auto& writing = *static_cast<Writing*>(self);
      try {
        writing.file.write(writing.end, bytes, count);
      } catch (const std::exception& error) {
        writing.wrong = error.what();
        return CAIRO_STATUS_WRITE_ERROR;
      }
      writing.end += count;
      return CAIRO_STATUS_SUCCESS;
    }
  };

  Surface surface_;
  Context context_;
  Drawing drawing_;
  std::string size_;
};

}  // namespace shard::impl

#endif
