// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of the plans that were tried is chosen.
#include <gtest/gtest.h>

#include <vector>

#include "../../src/exchange/plan_choice.hpp"

namespace {

using shard::impl::best_of;
using shard::impl::Seconds;
using shard::impl::trial_turns;

Seconds always(double seconds) {
  Seconds all;
  all.fill(seconds);
  return all;
}

TEST(PlanChoice, TheFastestWins) { EXPECT_EQ(best_of({always(3), always(2), always(1)}), 2U); }

TEST(PlanChoice, OfPlansThatAreAlikeThePlainerIsKept) {
  EXPECT_EQ(best_of({always(1), always(0.99)}), 0U);
  EXPECT_EQ(best_of({always(1), always(0.97)}), 1U);
}

TEST(PlanChoice, WhoPacksLongRunsMustBeFasterByMore) {
  using shard::impl::packing_margin;
  using shard::impl::usual_margin;
  EXPECT_EQ(best_of({always(1), always(0.95)}, {usual_margin, packing_margin}), 0U);
  EXPECT_EQ(best_of({always(1), always(0.85)}, {usual_margin, packing_margin}), 1U);
  EXPECT_EQ(best_of({always(1), always(0.95)}, {packing_margin, usual_margin}), 1U);
}

// Of a machine that goes at half its pace in half of the turns a median is either of the two.
TEST(PlanChoice, AMedianThatIsLessByChanceDoesNotWin) {
  Seconds plain, other;
  for (std::size_t turn = 0; turn < trial_turns; ++turn) {
    const bool slow = turn % 2 == 0;  // in 25 turns of 49
    plain[turn]     = slow ? 2.0 : 1.0;
    other[turn]     = turn == 0 ? 1.5 : slow ? 2.1 : 1.1;
  }
  other[2] = 1.2;
  EXPECT_LT(shard::impl::median(other), 0.7 * shard::impl::median(plain));
  EXPECT_EQ(best_of({plain, other}), 0U);
}

}  // namespace
