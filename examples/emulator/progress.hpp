// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

/// \file
/// What the emulator shows in a terminal: a progress bar and a table.

namespace emulator {

/// How far a training has come.
struct Progress {
  int epoch = 0, epochs = 0;  ///< the epoch under way, from 1
  long step = 0, steps = 0;   ///< steps done in all epochs together, and to be done
  double loss          = 0.0;
  double step_seconds  = 0.0;  ///< time per step
  double communication = 0.0;  ///< share of it that was communication, 0 to 1
};

/// Progress as one line of at most \p columns characters; what doesn't fit is left out, the bar
/// first. \p seconds_left below 0 means unknown; \p blocks draws the bar with Unicode's blocks.
std::string progress_line(const Progress& progress, double seconds_left, int columns, bool blocks);

/// "12 s", "3:05 min", "1:02:03 h".
std::string duration_text(double seconds);

/// A number with \p digits significant digits, without exponent where that is readable.
std::string number_text(double value, int digits = 3);

/// Shows progress on one line that is written over, or, where the output is no terminal, by a line
/// every few seconds. The environment variable SHARD_PROGRESS (bar, lines or none) decides
/// otherwise: a launcher's pipe hides whether there is a terminal at its end. Only one rank should
/// have one that is enabled.
class ProgressBar {
 public:
  /// Writes to \p out, nothing at all unless \p enabled.
  explicit ProgressBar(std::FILE* out, bool enabled = true, double seconds_between_lines = 5.0);
  ProgressBar(const ProgressBar&)            = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Ends the line if finish() was not called.
  ~ProgressBar();

  /// Shows where things stand; cheap if called too often. The last step is always shown.
  void update(const Progress& progress);
  /// Ends the line, so that other output can follow; the next update begins anew.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Mode { none, bar, lines };

  std::FILE* out_;
  Mode mode_              = Mode::none;
  bool blocks_            = false;
  bool line_open_         = false;
  double seconds_between_ = 0.0;
  bool begun_             = false;
  long first_step_        = 0;
  Clock::time_point start_, shown_;
};

/// A table of text: the first column to the left, the others to the right, a rule below the header.
class Table {
 public:
  /// The header gives the number of columns.
  explicit Table(std::vector<std::string> header);
  /// Adds a row. Throws std::invalid_argument if it has another number of cells.
  void add(std::vector<std::string> row);
  /// The whole table, each line indented by two and ended.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace emulator
