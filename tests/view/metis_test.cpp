// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Partitions by METIS of a torus and of a chain.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "shard/shard.hpp"
#include "shard/view/metis.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard::testing;
using Id = std::int64_t;

constexpr Id side = 32;

/// Each element names two of its four neighbours.
shard::Neighbours torus() {
  shard::Neighbours near;
  for (Id id = 0; id < side * side; ++id)
    near.add({id / side * side + (id + 1) % side, (id + side) % (side * side)});
  return near;
}

TEST(Metis, PartsAreBalancedAndNear) {
  const auto near = torus();
  std::vector<double> weights;
  for (Id id = 0; id < side * side; ++id) weights.push_back(id < side * side / 2 ? 3 : 1);
  for (const int parts : {1, 2, 7, 16})
    for (const bool weighted : {false, true}) {
      const auto given = weighted ? weights : std::vector<double>();
      const auto part  = shard::metis_partition(near, parts, given);
      ASSERT_EQ(part.size(), static_cast<std::size_t>(side * side));
      EXPECT_EQ(part, shard::metis_partition(near, parts, given));
      std::vector<double> sums(static_cast<std::size_t>(parts));
      int cut = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        ASSERT_TRUE(part[i] >= 0 && part[i] < parts);
        sums[static_cast<std::size_t>(part[i])] += weighted ? weights[i] : 1;
        for (int k = 0; k < 2; ++k)
          cut +=
              part[i] !=
                      part[static_cast<std::size_t>(near.id[2 * i + static_cast<std::size_t>(k)])]
                  ? 1
                  : 0;
      }
      const double mean = (weighted ? 2048.0 : 1024.0) / parts;
      for (const double sum : sums) EXPECT_NEAR(sum, mean, 0.06 * mean + 3) << parts << weighted;
      EXPECT_LE(cut, parts == 1 ? 0.0 : 100 * std::sqrt(parts)) << parts << weighted;
    }
}

TEST(Metis, WrongGraphsAreErrors) {
  shard::Neighbours near;
  near.add({1}), near.add({2});
  expect_parts(message_thrown_by<shard::ArgumentError>([&] { shard::metis_partition(near, 2); }),
               {"element 1", "neighbour 2", "2 elements"});
  near.add({0});
  expect_parts(message_thrown_by<shard::ArgumentError>([&] { shard::metis_partition(near, 0); }),
               {"0 parts"});
  expect_parts(
      message_thrown_by<shard::ArgumentError>([&] { shard::metis_partition(near, 2, {1.0}); }),
      {"3 elements and 1 weights"});
  expect_parts(message_thrown_by<shard::ArgumentError>([&] {
                 shard::metis_partition(near, 2, {1.0, -1.0, 1.0});
               }),
               {"negative"});
  EXPECT_TRUE(shard::metis_partition({}, 3).empty());
}

}  // namespace
