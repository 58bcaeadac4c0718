// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/progress.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

using emulator::Progress;

const Progress halfway{2, 20, 150, 300, 0.01234, 0.0213, 0.123};

TEST(ProgressBar, ShowsAllThereIsRoomFor) {
  const std::string wide = emulator::progress_line(halfway, 65.0, 140, false);
  EXPECT_EQ(wide,
            "epoch  2/20 [###############...............]  50 %  loss 1.234e-02  step 150/300  "
            "21.3 ms/step  12 % communication  1:05 min left");
  for (int columns = 20; columns < 130; ++columns) {
    EXPECT_LE(emulator::progress_line(halfway, 65.0, columns, false).size(),
              static_cast<std::size_t>(columns));
  }
  EXPECT_EQ(emulator::progress_line(halfway, -1.0, 30, false), "epoch  2/20  loss 1.234e-02");
}

TEST(ProgressBar, WritesLinesWhereThereIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  unsetenv("SHARD_PROGRESS");
  {
    emulator::ProgressBar bar(file, true, 1e6);
    Progress p = halfway;
    for (p.step = 1; p.step <= p.steps; ++p.step) bar.update(p);
    emulator::ProgressBar silent(file, false);
    silent.update(p);
  }
  std::rewind(file);
  int lines = 0, returns = 0;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    lines += c == '\n' ? 1 : 0;
    returns += c == '\r' ? 1 : 0;
  }
  std::fclose(file);
  EXPECT_EQ(lines, 2);  // the first and the last
  EXPECT_EQ(returns, 0);
}

TEST(ProgressBar, RefusesAWayItDoesNotKnow) {
  setenv("SHARD_PROGRESS", "bars", 1);
  EXPECT_THROW(emulator::ProgressBar(stdout, true), std::invalid_argument);
  unsetenv("SHARD_PROGRESS");
}

TEST(ProgressBar, SpellsTimesAndNumbers) {
  EXPECT_EQ(emulator::duration_text(12.4), "12 s");
  EXPECT_EQ(emulator::duration_text(185.0), "3:05 min");
  EXPECT_EQ(emulator::duration_text(3723.0), "1:02:03 h");
  EXPECT_EQ(emulator::number_text(123.456), "123");
  EXPECT_EQ(emulator::number_text(1.23456), "1.23");
  EXPECT_EQ(emulator::number_text(0.0123456, 4), "0.01235");
  EXPECT_EQ(emulator::number_text(1.5e-9), "1.50e-09");
  EXPECT_EQ(emulator::number_text(0.0), "0");
}

TEST(Table, LinesUpWhatIsSeen) {
  emulator::Table table({"variable", "units", "emulator"});
  table.add({"z 500 hPa", "m² s⁻²", "12.5"});
  table.add({"t", "K", "0.25"});
  EXPECT_EQ(table.text(),
            "  variable     units   emulator\n"
            "  ---------   ------   --------\n"
            "  z 500 hPa   m² s⁻²       12.5\n"
            "  t                K       0.25\n");
  EXPECT_THROW(table.add({"too", "few"}), std::invalid_argument);
}

}  // namespace
