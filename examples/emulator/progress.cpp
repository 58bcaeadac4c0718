// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace emulator {
namespace {

/// Characters as they are seen: bytes of UTF-8 that begin one.
int width_of(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

int terminal_columns(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    const int given = std::atoi(columns);
    if (given > 0) return given;
  }
  return 100;
}

bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale(value);
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

std::string bar(double share, int width, bool blocks) {
  share = std::clamp(share, 0.0, 1.0);
  std::string line;
  if (!blocks) {
    const int full = static_cast<int>(share * width);
    line.assign(static_cast<std::size_t>(full), '#');
    line.append(static_cast<std::size_t>(width - full), '.');
    return "[" + line + "]";
  }
  constexpr const char* eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int parts                 = static_cast<int>(share * width * 8);
  for (int k = 0; k < width; ++k) {
    const int here = std::clamp(parts - 8 * k, 0, 8);
    line += here == 8 ? "█" : eighths[here];
  }
  return "▕" + line + "▏";
}

std::string format(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

}  // namespace

std::string duration_text(double seconds) {
  const long whole = std::lround(std::max(0.0, seconds));
  char buffer[48];
  if (whole < 60) {
    std::snprintf(buffer, sizeof buffer, "%ld s", whole);
  } else if (whole < 3600) {
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld min", whole / 60, whole % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld:%02ld h", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return buffer;
}

std::string number_text(double value, int digits) {
  if (value == 0.0) return "0";
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0.0 ? "inf" : "-inf";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  char buffer[64];
  if (exponent < -4 || exponent > 6) {
    std::snprintf(buffer, sizeof buffer, "%.*e", std::max(0, digits - 1), value);
  } else {
    std::snprintf(buffer, sizeof buffer, "%.*f", std::max(0, digits - 1 - exponent), value);
  }
  return buffer;
}

std::string progress_line(const Progress& p, double seconds_left, int columns, bool blocks) {
  const double share =
      p.steps > 0 ? static_cast<double>(p.step) / static_cast<double>(p.steps) : 0.0;
  const std::string epochs = std::to_string(p.epochs), steps = std::to_string(p.steps);
  const auto padded = [](const std::string& text, std::size_t width) {
    return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
  };
  const std::string head = "epoch " + padded(std::to_string(p.epoch), epochs.size()) + "/" + epochs;
  // From what matters most to what matters least.
  const std::vector<std::string> parts = {
      "loss " + format("%.3e", p.loss),
      "step " + padded(std::to_string(p.step), steps.size()) + "/" + steps,
      format("%.1f ms/step", 1e3 * p.step_seconds),
      format("%.0f %% communication", 100.0 * p.communication),
      seconds_left < 0.0 ? std::string() : duration_text(seconds_left) + " left"};
  std::string line = head;
  for (const std::string& part : parts) {
    if (part.empty() || width_of(line) + 2 + width_of(part) > columns) continue;
    line += "  " + part;
  }
  const std::string percent = padded(std::to_string(static_cast<int>(100.0 * share)), 3) + " %";
  const int room            = columns - width_of(line) - 3 - width_of(percent) - 2;
  if (room < 8) return line;
  return head + " " + bar(share, std::min(room, 30), blocks) + " " + percent +
         line.substr(head.size());
}

ProgressBar::ProgressBar(std::FILE* out, bool enabled, double seconds_between_lines)
    : out_(out), seconds_between_(seconds_between_lines) {
  if (!enabled) return;
  mode_ = isatty(fileno(out)) != 0 ? Mode::bar : Mode::lines;
  if (const char* wish = std::getenv("SHARD_PROGRESS")) {
    const std::string word(wish);
    if (word == "bar")
      mode_ = Mode::bar;
    else if (word == "lines")
      mode_ = Mode::lines;
    else if (word == "none")
      mode_ = Mode::none;
    else if (!word.empty())
      throw std::invalid_argument("emulator::ProgressBar: SHARD_PROGRESS is '" + word +
                                  "'; bar, lines and none are known");
  }
  blocks_ = has_utf8();
}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(const Progress& progress) {
  if (mode_ == Mode::none) return;
  const Clock::time_point now = Clock::now();
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const bool last    = progress.step >= progress.steps;
  if (!begun_) {
    // The first step may hold set-up work: what remains is reckoned from the second.
    begun_      = true;
    start_      = now;
    first_step_ = progress.step;
  } else if (!last && seconds(now - shown_) < (mode_ == Mode::bar ? 0.1 : seconds_between_)) {
    return;
  }
  shown_            = now;
  const long done   = progress.step - first_step_;
  const double left = done > 0 ? seconds(now - start_) *
                                     static_cast<double>(progress.steps - progress.step) /
                                     static_cast<double>(done)
                               : -1.0;
  if (mode_ == Mode::bar) {
    // One column stays free: a full line would wrap in some terminals.
    const std::string line = progress_line(progress, left, terminal_columns(out_) - 1, blocks_);
    std::fprintf(out_, "\r%s\033[K", line.c_str());
    line_open_ = true;
  } else {
    std::fprintf(out_, "%s\n", progress_line(progress, left, 120, blocks_).c_str());
  }
  std::fflush(out_);
}

void ProgressBar::finish() {
  if (line_open_) {
    std::fputc('\n', out_);
    std::fflush(out_);
  }
  line_open_ = false;
  begun_     = false;
}

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void Table::add(std::vector<std::string> row) {
  if (row.size() != rows_[0].size()) {
    throw std::invalid_argument("emulator::Table: a row of " + std::to_string(row.size()) +
                                " cells for a header of " + std::to_string(rows_[0].size()));
  }
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<int> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line = " ";
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string& cell = rows_[r][c];
      const std::string space(static_cast<std::size_t>(widths[c] - width_of(cell)), ' ');
      line += c == 0 ? " " + cell + space : "   " + space + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r > 0) continue;
    out += "  ";
    for (std::size_t c = 0; c < widths.size(); ++c) {
      out +=
          std::string(c == 0 ? 0 : 3, ' ') + std::string(static_cast<std::size_t>(widths[c]), '-');
    }
    out += "\n";
  }
  return out;
}

}  // namespace emulator
