// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/grid.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace {

constexpr double degree = std::numbers::pi / 180.0;

TEST(Grid, WeightsAddUpToOneAndPoleRowsAreHalfCells) {
  for (const int rows : {2, 3, 7, 61, 721}) {
    const auto latitudes = shard::latitudes_with_poles(rows);
    EXPECT_EQ(latitudes.front(), 90.0);
    EXPECT_EQ(latitudes.back(), -90.0);
    const auto weights = shard::area_weights(latitudes);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1.0, 1e-14);
    const double half = 90.0 / (rows - 1);
    EXPECT_NEAR(weights[0], 0.5 * (1.0 - std::sin((90.0 - half) * degree)), 1e-15);
    EXPECT_GT(weights[0], 0.0);
  }
}

TEST(Grid, WeightsIntegrateAsTheSphereDoes) {
  const auto latitudes = shard::latitudes_with_poles(721);
  const auto weights   = shard::area_weights(latitudes);
  double mean          = 0.0;  // of sin^2(latitude): 1/3
  for (std::size_t i = 0; i < weights.size(); ++i) {
    mean += weights[i] * std::pow(std::sin(latitudes[i] * degree), 2);
  }
  EXPECT_NEAR(mean, 1.0 / 3.0, 1e-5);
}

TEST(Grid, WeightsAreTheSameFromSouthToNorth) {
  auto latitudes     = shard::latitudes_with_poles(61);
  const auto weights = shard::area_weights(latitudes);
  std::reverse(latitudes.begin(), latitudes.end());
  auto turned = shard::area_weights(latitudes);
  std::reverse(turned.begin(), turned.end());
  EXPECT_EQ(weights, turned);
}

TEST(Grid, EdgesOfCellCentresEndAtThePoles) {
  const auto edges = shard::latitude_edges({75.0, 45.0, 15.0, -15.0, -45.0, -75.0});
  EXPECT_EQ(edges, (std::vector<double>{90, 60, 30, 0, -30, -60, -90}));
  // A Gaussian grid's outer row is farther from the pole than half a cell; the cap is still its
  // own.
  EXPECT_EQ(shard::latitude_edges({88.57216851, 86.72253095, 84.86197029})[0], 90.0);
  // A grid that lacks the polar rows ends half a cell beyond its last.
  EXPECT_NEAR(shard::latitude_edges({87.0, 84.0, 81.0})[0], 88.5, 1e-12);
}

TEST(Grid, TellsWhereThePolesLie) {
  EXPECT_EQ(shard::pole_rows(shard::latitudes_with_poles(61)), shard::PoleRows::on_row);
  EXPECT_EQ(shard::pole_rows({75, 45, 15, -15, -45, -75}), shard::PoleRows::between_rows);
  EXPECT_EQ(shard::pole_rows({-88.572, -86.723, 86.723, 88.572}), shard::PoleRows::between_rows);
  EXPECT_EQ(shard::pole_rows({87, 84, -84, -87}), shard::PoleRows::neither);
  EXPECT_EQ(shard::pole_rows({90, 45, 0}), shard::PoleRows::neither);
}

TEST(Grid, LongitudesGoRoundTheGlobe) {
  auto longitudes = shard::global_longitudes(120);
  EXPECT_TRUE(shard::is_global(longitudes));
  const auto edges = shard::longitude_edges(longitudes);
  EXPECT_EQ(edges.front(), -1.5);
  EXPECT_EQ(edges.back(), 358.5);
  longitudes.pop_back();
  EXPECT_FALSE(shard::is_global(longitudes));
  EXPECT_EQ(shard::longitude_edges(longitudes).back(), 355.5);
  for (double& longitude : longitudes) longitude += 20.5;
  EXPECT_FALSE(shard::is_global(longitudes));
}

TEST(Grid, RefusesWhatIsNoGrid) {
  EXPECT_THROW(shard::latitude_edges({90.0}), std::invalid_argument);
  EXPECT_THROW(shard::latitude_edges({90.0, 30.0, 60.0}), std::invalid_argument);
  EXPECT_THROW(shard::latitude_edges({100.0, 0.0}), std::invalid_argument);
  EXPECT_THROW(shard::longitude_edges({10.0, 5.0}), std::invalid_argument);
  EXPECT_THROW(shard::longitude_edges({0.0, 200.0, 400.0}), std::invalid_argument);
}

}  // namespace
