// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/torus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using shard::impl::feasible_assignments;
using shard::impl::prefers;
using shard::impl::prime_factors;
using namespace shard::testing;
using Ints = std::vector<int>;

/// The invariants of an assignment, and that it places every node once: the node at a place of the
/// mesh has torus coordinates that follow from the parts.
void check(const TorusAssignment& a) {
  const int rank = static_cast<int>(a.physical.size()), axes = static_cast<int>(a.logical.size());
  for (int p = 0; p < rank; ++p) {
    int all = 1;
    for (int l = 0; l < axes; ++l) all *= a.size(p, l);
    EXPECT_EQ(all, a.physical[static_cast<std::size_t>(p)]);
  }
  for (int l = 0; l < axes; ++l) {
    int all = 1;
    for (int p = 0; p < rank; ++p) all *= a.size(p, l);
    EXPECT_EQ(all, a.logical[static_cast<std::size_t>(l)]);
  }
  const shard::DeviceArray mesh = a.place();
  EXPECT_EQ(mesh.shape, a.logical);
  // along mesh axis l the digits run over the torus axes in order; within a torus axis later mesh
  // axes are the faster ones
  for (std::size_t i = 0; i < mesh.ids.size(); ++i) {
    Ints coordinate(a.physical.size(), 0), weight(a.physical.size(), 1);
    int rest = static_cast<int>(i);
    for (int l = axes - 1; l >= 0; --l)
      for (int p = rank - 1; p >= 0; --p) {
        const auto at = static_cast<std::size_t>(p);
        coordinate[at] += rest % a.size(p, l) * weight[at];
        weight[at] *= a.size(p, l);
        rest /= a.size(p, l);
      }
    int node = 0;
    for (std::size_t p = 0; p < a.physical.size(); ++p) node = node * a.physical[p] + coordinate[p];
    ASSERT_EQ(mesh.ids[i], node) << "place " << i;
  }
}

TEST(Torus, RandomShapesOfAnyRank) {
  std::mt19937_64 random(shard::testing::seed());
  for (int trial = 0; trial < 500; ++trial) {
    // a torus, and its primes spread over the axes of a mesh
    Ints physical(1 + random() % 5), logical(1 + random() % 4, 1);
    for (int& extent : physical) {
      extent = 1 + static_cast<int>(random() % 6);
      for (const int prime : prime_factors(extent)) logical[random() % logical.size()] *= prime;
    }
    SCOPED_TRACE(::testing::PrintToString(physical) + " " + ::testing::PrintToString(logical));
    check(assign_torus(physical, logical));
    try {
      const TorusAssignment whole = assign_torus(physical, logical, SplitAxes::never);
      check(whole);
      for (std::size_t i = 0; i < whole.sizes.size(); ++i)
        EXPECT_TRUE(whole.sizes[i] == 1 || whole.sizes[i] == whole.physical[i / logical.size()]);
      EXPECT_EQ(assign_torus(physical, logical).sizes, whole.sizes);
    } catch (const ArgumentError&) {
    }
  }
}

TEST(Torus, B19_any_number_of_axes_for_one_axis_of_the_mesh) {
  // the original gives at most three torus axes to a mesh axis and fails beyond
  const TorusAssignment one = assign_torus({2, 2, 2, 2}, {16}, SplitAxes::never);
  EXPECT_EQ(one.sizes, (Ints{2, 2, 2, 2}));
  check(one);
  const TorusAssignment two = assign_torus({2, 3, 2, 2, 5}, {5, 24}, SplitAxes::never);
  EXPECT_EQ(two.sizes, (Ints{1, 2, 1, 3, 1, 2, 1, 2, 5, 1}));
  check(two);
}

TEST(Torus, B19_the_tie_break_stays_as_the_code_has_it) {
  // axes that another mesh axis uses already come first; the originals' comment says the opposite
  EXPECT_TRUE(prefers({2, 1}, {1, 2}, {4, 4}, {2, 1}));
  EXPECT_FALSE(prefers({1, 2}, {2, 1}, {4, 4}, {2, 1}));
  EXPECT_TRUE(prefers({1, 2}, {2, 1}, {4, 4}, {1, 2}));
}

TEST(Torus, Preferences) {
  EXPECT_TRUE(prefers({1, 2, 1}, {1, 1, 2}, {2, 2, 4}, {1, 1, 1}));
  EXPECT_TRUE(prefers({4, 4, 1}, {1, 1, 16}, {4, 4, 16}, {1, 1, 1}));
  EXPECT_TRUE(prefers({2, 1}, {1, 2}, {2, 4}, {1, 2}));
  // two whole axes rather than one of the same size, though it comes first
  EXPECT_TRUE(prefers({1, 2, 2}, {4, 1, 1}, {4, 2, 2}, {1, 1, 1}));
}

TEST(Torus, B17_primes) {
  EXPECT_EQ(prime_factors(1), Ints{});
  EXPECT_EQ(prime_factors(6), (Ints{2, 3}));
  EXPECT_EQ(prime_factors(12), (Ints{2, 2, 3}));
  EXPECT_EQ(prime_factors(121), (Ints{11, 11}));
  EXPECT_EQ(prime_factors(43), Ints{43});
  EXPECT_EQ(prime_factors(10), (Ints{2, 5}));
  EXPECT_EQ(prime_factors(14), (Ints{2, 7}));
  EXPECT_EQ(prime_factors(22), (Ints{2, 11}));
  EXPECT_EQ(prime_factors(26), (Ints{2, 13}));
  EXPECT_EQ(prime_factors(2147483647), Ints{2147483647});
  for (int n = 1; n < 5000; ++n) {
    const Ints primes = prime_factors(n);
    EXPECT_EQ(std::accumulate(primes.begin(), primes.end(), 1, std::multiplies<>()), n);
    EXPECT_TRUE(std::is_sorted(primes.begin(), primes.end()));
    for (const int p : primes)
      for (int q = 2; q * q <= p; ++q) EXPECT_NE(p % q, 0) << n;
  }
}

TEST(Torus, B17_a_mesh_axis_with_an_isolated_prime) {
  // the original crashes here
  EXPECT_EQ(assign_torus({14}, {7, 2}).sizes, (Ints{7, 2}));
  check(assign_torus({14}, {7, 2}));
  check(assign_torus({22, 3}, {2, 33}));
}

TEST(Torus, FeasibleAssignments) {
  const auto sorted = [](std::vector<Ints> all) {
    std::sort(all.rbegin(), all.rend());
    return all;
  };
  EXPECT_TRUE(feasible_assignments({2, 2, 1}, {1, 2, 1}, 4).empty());
  EXPECT_EQ(sorted(feasible_assignments({12, 4, 4}, {2, 2, 1}, 6)),
            (std::vector<Ints>{{6, 1, 1}, {3, 2, 1}, {3, 1, 2}}));
  EXPECT_EQ(sorted(feasible_assignments({4, 4, 8}, {2, 2, 2}, 4)),
            (std::vector<Ints>{{2, 2, 1}, {2, 1, 2}, {1, 2, 2}, {1, 1, 4}}));
  EXPECT_EQ(feasible_assignments({3, 2}, {1, 1}, 1), (std::vector<Ints>{{1, 1}}));
}

TEST(Torus, WhatCanNotBeThrows) {
  const auto message = [](const Ints& physical, const Ints& logical, SplitAxes split) {
    return message_thrown_by<ArgumentError>([&] { assign_torus(physical, logical, split); });
  };
  expect_parts(message({4, 4}, {2, 8}, SplitAxes::never),
               {"failed to find an assignment for logical axis 1", "(2, 8)", "(4, 4)", "8",
                "SplitAxes::if_needed"});
  expect_parts(message({4, 4}, {2, 4}, SplitAxes::if_needed), {"16 devices", "8 places"});
  expect_parts(message({4, 0}, {2}, SplitAxes::if_needed), {"(4, 0)", "below 1"});
  expect_parts(message({65536, 65536}, {2}, SplitAxes::if_needed), {"2147483647"});
  expect_parts(message_thrown_by<ArgumentError>([] {
                 (void)assign_torus({2, 2}, {4}).place({{4}, {0, 1, 2, 3}});
               }),
               {"(4,)", "(2, 2)"});
}

}  // namespace
