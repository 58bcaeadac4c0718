// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/maps.hpp"

#include <shard/io/grid.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace {

TEST(ForecastMaps, ComparesErrorsOnOneScale) {
  emulator::ForecastMaps maps;
  maps.latitudes  = shard::latitudes_with_poles(5);
  maps.longitudes = shard::global_longitudes(8);
  maps.truth.assign(40, 2.0);
  maps.truth[3] = 5.0;
  maps.start.assign(40, 1.0);
  maps.forecast.assign(40, 2.5);
  maps.shards                = {{0, 5, 0, 4, "rank 0"}, {0, 5, 4, 8, "rank 1"}};
  const shard::Figure figure = emulator::forecast_figure(maps);
  ASSERT_EQ(figure.maps.size(), 4U);
  EXPECT_EQ(figure.maps[0].high, 5.0);
  EXPECT_EQ(figure.maps[1].high, 5.0);
  EXPECT_EQ(figure.maps[1].low, 2.0);
  EXPECT_EQ(figure.maps[2].values[0], 0.5);
  EXPECT_EQ(figure.maps[3].values[3], -4.0);
  EXPECT_EQ(figure.maps[2].high, 4.0);
  EXPECT_EQ(figure.maps[3].low, -4.0);
  EXPECT_EQ(figure.maps[0].boxes[1].label, "rank 1");
  EXPECT_EQ(figure.maps[3].boxes[1].label, "");
  maps.start.pop_back();
  EXPECT_THROW(emulator::forecast_figure(maps), std::invalid_argument);
}

TEST(ForecastMaps, RootMeanSquareWeighsByArea) {
  const auto latitudes = shard::latitudes_with_poles(61);
  std::vector<double> values(61 * 4, 3.0);
  EXPECT_NEAR(emulator::area_rms(values, latitudes), 3.0, 1e-12);
  values.assign(values.size(), 0.0);
  for (std::size_t j = 0; j < 4; ++j) values[j] = 1.0;  // one pole row: next to nothing
  EXPECT_LT(emulator::area_rms(values, latitudes), 0.02);
  EXPECT_GT(emulator::area_rms(values, latitudes), 0.01);
  EXPECT_THROW(emulator::area_rms(values, {90.0, 0.0, -90.0, -91.0, 3.0}), std::invalid_argument);
}

}  // namespace
