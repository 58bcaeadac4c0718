// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/autodiff/checkpointing.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "shard/base/error.hpp"

namespace {

using shard::index_t;

/// The fewest advances by trying every first distance.
std::vector<std::vector<index_t>> fewest(index_t steps, index_t slots) {
  std::vector<std::vector<index_t>> t(static_cast<std::size_t>(slots) + 1,
                                      std::vector<index_t>(static_cast<std::size_t>(steps) + 1, 0));
  for (std::size_t s = 1; s < t.size(); ++s)
    for (std::size_t l = 2; l < t[s].size(); ++l) {
      t[s][l] = static_cast<index_t>(l * (l - 1) / 2);  // always from the first state
      if (s > 1)
        for (std::size_t m = 1; m < l; ++m)
          t[s][l] = std::min(t[s][l], static_cast<index_t>(m) + t[s - 1][l - m] + t[s][m]);
    }
  return t;
}

index_t advances(index_t steps, index_t slots) {
  if (steps <= 1) return 0;
  if (slots == 1) return steps * (steps - 1) / 2;
  const index_t m = shard::impl::checkpoint_distance(steps, slots);
  EXPECT_GE(m, 1);
  EXPECT_LT(m, steps);
  return m + advances(steps - m, slots - 1) + advances(m, slots);
}

TEST(Checkpointing, DistancesGiveTheFewestAdvances) {
  const auto best = fewest(70, 9);
  for (index_t s = 1; s <= 9; ++s)
    for (index_t l = 0; l <= 70; ++l) {
      const index_t least = best[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
      EXPECT_EQ(shard::impl::least_advances(l, s), least) << l << " steps, " << s << " slots";
      EXPECT_EQ(advances(l, s), least) << l << " steps, " << s << " slots";
    }
}

TEST(Checkpointing, ReachIsBinomial) {
  EXPECT_EQ(shard::impl::binomial_reach(3, 0), 1);
  EXPECT_EQ(shard::impl::binomial_reach(3, -1), 0);
  EXPECT_EQ(shard::impl::binomial_reach(3, 4), 35);
  EXPECT_EQ(shard::impl::binomial_reach(10, 10), 184756);
  EXPECT_EQ(shard::impl::binomial_reach(1000, 1000), index_t{1} << 62);
}

TEST(Checkpointing, BoundsBecomeSlots) {
  using shard::impl::allowed_slots;
  EXPECT_EQ(allowed_slots({}, 100, 7, MPI_COMM_SELF), 7);
  EXPECT_EQ(allowed_slots({3, 0}, 100, 7, MPI_COMM_SELF), 3);
  EXPECT_EQ(allowed_slots({0, 450}, 100, 7, MPI_COMM_SELF), 4);
  EXPECT_EQ(allowed_slots({3, 250}, 100, 7, MPI_COMM_SELF), 2);
  EXPECT_EQ(allowed_slots({}, 100, 0, MPI_COMM_NULL), 1);
  EXPECT_THROW(allowed_slots({0, 99}, 100, 7, MPI_COMM_SELF), shard::ArgumentError);
  EXPECT_THROW(allowed_slots({-1, 0}, 100, 7, MPI_COMM_SELF), shard::ArgumentError);
}

}  // namespace
