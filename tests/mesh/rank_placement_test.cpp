// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/rank_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "shard/base/error.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Ints = std::vector<int>;

Ints nodes_in_order(int nodes, int each) {
  Ints all;
  for (int n = 0; n < nodes; ++n) all.insert(all.end(), static_cast<std::size_t>(each), n);
  return all;
}

/// Cell by cell: for each face of each rank the cells that it receives from another node, found
/// from who owns the cells beyond.
index_t bytes_cell_by_cell(const Ints& shape, const Ints& order, const Ints& nodes,
                           const HaloTraffic& t) {
  const auto begin = [&](std::size_t a, index_t r) {
    const index_t n = t.grid[a], p = shape[a];
    return r * (n / p) + std::min(r, n % p);
  };
  index_t bytes = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    Ints c(shape.size());
    std::size_t rest = place;
    for (std::size_t a = shape.size(); a-- > 0; rest /= static_cast<std::size_t>(shape[a]))
      c[a] = static_cast<int>(rest % static_cast<std::size_t>(shape[a]));
    for (std::size_t a = 0; a < shape.size(); ++a)
      for (int side = 0; side < 2; ++side) {
        Ints other = c;
        other[a] += side == 0 ? -1 : 1;
        if (other[a] < 0 || other[a] == shape[a]) {
          if (!t.periodic[a]) continue;
          other[a] = (other[a] + shape[a]) % shape[a];
        }
        std::size_t there = 0;
        for (std::size_t b = 0; b < shape.size(); ++b)
          there = there * static_cast<std::size_t>(shape[b]) + static_cast<std::size_t>(other[b]);
        if (there == place || nodes[static_cast<std::size_t>(order[there])] ==
                                  nodes[static_cast<std::size_t>(order[place])])
          continue;
        index_t cells = std::min(t.halo[a][static_cast<std::size_t>(side)],
                                 begin(a, other[a] + 1) - begin(a, other[a]));
        for (std::size_t b = 0; b < shape.size(); ++b)
          if (b != a) cells *= begin(b, c[b] + 1) - begin(b, c[b]);
        bytes += cells * t.bytes;
      }
  }
  return bytes;
}

/// The least over all ways to tile the mesh with equal blocks, one for each node.
index_t least_over_blocks(const Ints& shape, int each, const HaloTraffic& t) {
  index_t least = std::numeric_limits<index_t>::max();
  for (int rows = 1; rows <= shape[0]; ++rows) {
    if (shape[0] % rows != 0 || each % rows != 0) continue;
    const int columns = each / rows;
    if (columns > shape[1] || shape[1] % columns != 0) continue;
    Ints node_at, order(static_cast<std::size_t>(shape[0] * shape[1]));
    for (int i = 0; i < shape[0]; ++i)
      for (int j = 0; j < shape[1]; ++j)
        node_at.push_back(i / rows * (shape[1] / columns) + j / columns);
    std::iota(order.begin(), order.end(), 0);
    least = std::min(least, bytes_cell_by_cell(shape, order, node_at, t));
  }
  return least;
}

bool is_order(Ints order) {
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<int>(i)) return false;
  return true;
}

TEST(RankPlacement, SixteenNodesOfEightRanks) {
  const Ints nodes = nodes_in_order(16, 8);
  for (const bool periodic : {false, true}) {
    HaloTraffic t        = HaloTraffic::of_square_shards({8, 16}, {periodic, periodic});
    t.grid               = {8 * 90, 16 * 90};
    const Ints order     = place_by_node({8, 16}, nodes, t);
    const index_t before = bytes_across_nodes({8, 16}, {}, nodes, t);
    const index_t after  = bytes_across_nodes({8, 16}, order, nodes, t);
    EXPECT_TRUE(is_order(order));
    EXPECT_EQ(after, least_over_blocks({8, 16}, 8, t));
    // open: 72 of 120 faces, periodic: 96 of 144
    EXPECT_EQ(before, (periodic ? 144 : 120) * 90 * 2);
    EXPECT_EQ(after, (periodic ? 96 : 72) * 90 * 2);
    EXPECT_NEAR(static_cast<double>(after) / static_cast<double>(before),
                periodic ? 2.0 / 3.0 : 0.6, 1e-12);
  }
}

TEST(RankPlacement, CountsBytesAsCellByCell) {
  std::mt19937_64 random(shard::testing::seed());
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    Ints shape(static_cast<std::size_t>(1 + below(3)));
    HaloTraffic t;
    int size = 1;
    for (int& extent : shape) {
      size *= extent = 1 + below(5);
      t.grid.push_back(below(20));
      t.halo.push_back({below(4), below(4)});
      t.periodic.push_back(below(2) == 0);
    }
    t.bytes = 1 + below(8);
    Ints nodes(static_cast<std::size_t>(size)), order(nodes.size());
    for (int& node : nodes) node = below(3);
    std::iota(order.begin(), order.end(), 0);
    EXPECT_EQ(bytes_across_nodes(shape, {}, nodes, t), bytes_cell_by_cell(shape, order, nodes, t));
    std::shuffle(order.begin(), order.end(), random);
    EXPECT_EQ(bytes_across_nodes(shape, order, nodes, t),
              bytes_cell_by_cell(shape, order, nodes, t));
  }
}

TEST(RankPlacement, NeverMoreThanRankOrderOnRandomMeshes) {
  std::mt19937_64 random(shard::testing::seed());
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    Ints shape(static_cast<std::size_t>(1 + below(4)));
    HaloTraffic t;
    int size = 1;
    for (int& extent : shape) {
      size *= extent = 1 + below(6);
      t.grid.push_back(below(1000));
      t.halo.push_back({below(3), below(3)});
      t.periodic.push_back(below(2) == 0);
    }
    Ints nodes(static_cast<std::size_t>(size));
    const int each = 1 + below(9);
    for (int r = 0; r < size; ++r)
      nodes[static_cast<std::size_t>(r)] = trial % 3 == 0 ? below(5) : r / each;
    if (trial % 3 == 1) std::shuffle(nodes.begin(), nodes.end(), random);
    const Ints order = place_by_node(shape, nodes, t);
    ASSERT_TRUE(is_order(order));
    EXPECT_LE(bytes_across_nodes(shape, order, nodes, t), bytes_across_nodes(shape, {}, nodes, t));
  }
}

/// The best block whenever blocks of the nodes' size tile the mesh.
TEST(RankPlacement, LeastOverBlocksOnRandomMeshes) {
  std::mt19937_64 random(shard::testing::seed());
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    const Ints block       = {1 + below(4), 1 + below(4)};
    const Ints shape       = {block[0] * (1 + below(5)), block[1] * (1 + below(5))};
    const int each         = block[0] * block[1];
    HaloTraffic t          = HaloTraffic::of_square_shards(shape, {below(2) == 0, below(2) == 0});
    t.grid                 = {shape[0] * (1 + below(50)), shape[1] * (1 + below(50))};
    Ints nodes             = nodes_in_order(shape[0] * shape[1] / each, each);
    const index_t in_order = bytes_across_nodes(shape, {}, nodes, t);
    EXPECT_EQ(bytes_across_nodes(shape, place_by_node(shape, nodes, t), nodes, t),
              std::min(in_order, least_over_blocks(shape, each, t)));
    // whatever the ranks' numbers
    std::shuffle(nodes.begin(), nodes.end(), random);
    EXPECT_LE(bytes_across_nodes(shape, place_by_node(shape, nodes, t), nodes, t),
              least_over_blocks(shape, each, t));
  }
}

/// Nodes of other sizes take stretches of a walk from neighbour to neighbour. On these meshes 0.84
/// of rank order's bytes; 0.88 where each line of the walk begins on the same side.
TEST(RankPlacement, UnequalNodesGainToo) {
  std::mt19937_64 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  double ratios    = 0;
  int meshes       = 0;
  while (meshes < 300) {
    Ints shape = {2 + below(7), 2 + below(7)};
    if (meshes % 2 == 0) shape.push_back(1 + below(4));
    const int size = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
    const int most = 2 + below(8);
    Ints nodes;
    for (int node = 0; static_cast<int>(nodes.size()) < size; ++node)
      nodes.insert(nodes.end(), static_cast<std::size_t>(most - below(2)), node);
    nodes.resize(static_cast<std::size_t>(size));
    const HaloTraffic t  = HaloTraffic::of_square_shards(shape);
    const index_t before = bytes_across_nodes(shape, {}, nodes, t);
    if (before == 0) continue;
    const index_t after = bytes_across_nodes(shape, place_by_node(shape, nodes, t), nodes, t);
    ratios += static_cast<double>(after) / static_cast<double>(before);
    ++meshes;
  }
  EXPECT_LT(ratios / meshes, 0.86);
}

TEST(RankPlacement, WhatCanNotBeThrows) {
  const HaloTraffic t = HaloTraffic::of_square_shards({2, 2});
  const auto message  = [](const auto& function) {
    return message_thrown_by<ArgumentError>(function);
  };
  for (const auto& [grid, width, bytes, part] :
       {std::tuple{index_t{-4}, index_t{1}, index_t{1}, "negative"},
        std::tuple{index_t{4}, index_t{-1}, index_t{1}, "negative"},
        std::tuple{index_t{4}, index_t{1}, index_t{-8}, "negative"},
        std::tuple{index_t{4}, index_t{1}, std::numeric_limits<index_t>::max(), "64 bits"}}) {
    const HaloTraffic wrong{{grid, 4}, {{1, 1}, {1, width}}, {false, false}, bytes};
    expect_parts(message([&] { place_by_node({2, 2}, {0, 0, 1, 1}, wrong); }), {part});
  }
  expect_parts(message([&] { place_by_node({2, 2}, {0, 1, 2}, t); }), {"4 places", "3 ranks"});
  expect_parts(message([&] { place_by_node({2, 0}, {}, t); }), {"at least 1"});
  expect_parts(message([&] {
                 bytes_across_nodes({2, 2}, {0}, {0, 0, 1, 1}, t);
               }),
               {"1 are ordered"});
  expect_parts(message([&] {
                 bytes_across_nodes({2, 2}, {0, 1, 2, 4}, {0, 0, 1, 1}, t);
               }),
               {"no rank 4"});
  expect_parts(message([&] { place_by_node({4}, {0, 0, 1, 1}, t); }), {"1 axes", "2, 2 and 2"});
}

}  // namespace
