// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/grid.hpp>
#include <shard/io/map.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "parts.hpp"

namespace {

using namespace shard;

/// Lightness L* of CIELAB.
double lightness(const Colour& c) {
  const auto linear = [](double x) {
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  const double y =
      0.2126729 * linear(c.red) + 0.7151522 * linear(c.green) + 0.0721750 * linear(c.blue);
  return y > 216.0 / 24389.0 ? 116.0 * std::cbrt(y) - 16.0 : 24389.0 / 27.0 * y;
}

void expect_rgb(const Colour& colour, int red, int green, int blue, double tolerance) {
  EXPECT_NEAR(colour.red * 255.0, red, tolerance);
  EXPECT_NEAR(colour.green * 255.0, green, tolerance);
  EXPECT_NEAR(colour.blue * 255.0, blue, tolerance);
}

TEST(Colours, ViridisAtOtherPointsThanItIsBuiltFrom) {
  const int published[9][3] = {{68, 1, 84},    {71, 45, 123},  {59, 82, 139},
                               {44, 114, 142}, {33, 144, 140}, {39, 173, 129},
                               {93, 200, 99},  {170, 220, 50}, {253, 231, 37}};
  for (int k = 0; k < 9; ++k) {
    SCOPED_TRACE(k);
    expect_rgb(colour_at(ColourScale::sequential, k / 8.0), published[k][0], published[k][1],
               published[k][2], 3.0);
  }
}

TEST(Colours, EqualStepsOfTheSequentialScaleLookEqual) {
  double last       = lightness(colour_at(ColourScale::sequential, 0.0));
  const double mean = (lightness(colour_at(ColourScale::sequential, 1.0)) - last) / 64.0;
  for (int k = 1; k <= 64; ++k) {
    const double next = lightness(colour_at(ColourScale::sequential, k / 64.0));
    EXPECT_NEAR(next - last, mean, 0.35 * mean) << k;
    last = next;
  }
}

TEST(Colours, CoolToWarmHasMorelandsColours) {
  expect_rgb(colour_at(ColourScale::diverging, 0.0), 59, 76, 192, 1.0);
  expect_rgb(colour_at(ColourScale::diverging, 0.5), 221, 221, 221, 1.0);
  expect_rgb(colour_at(ColourScale::diverging, 1.0), 180, 4, 38, 1.0);
  expect_rgb(colour_at(ColourScale::diverging, 0.25), 141, 176, 254, 2.0);
  for (int k = 0; k < 32; ++k) {  // lighter up to the middle, darker after it
    EXPECT_LT(lightness(colour_at(ColourScale::diverging, k / 64.0)),
              lightness(colour_at(ColourScale::diverging, (k + 1) / 64.0)));
    EXPECT_LT(lightness(colour_at(ColourScale::diverging, 1.0 - k / 64.0)),
              lightness(colour_at(ColourScale::diverging, 1.0 - (k + 1) / 64.0)));
  }
}

TEST(Colours, BeyondTheEndsAreTheEnds) {
  const Colour low = colour_at(ColourScale::sequential, -3.0);
  EXPECT_EQ(low.red, colour_at(ColourScale::sequential, 0.0).red);
}

TEST(Ticks, AreRound) {
  using List = std::vector<double>;
  EXPECT_EQ(shard::nice_ticks(0.0, 10.0, 6), (List{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(shard::nice_ticks(-1.0, 1.0, 5), (List{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(shard::nice_ticks(47800.0, 58900.0, 6),
            (List{48000, 50000, 52000, 54000, 56000, 58000}));
  for (double high = 1.01; high < 1000.0; high *= 1.07) {
    const List ticks = shard::nice_ticks(0.3, high, 7);
    EXPECT_LE(ticks.size(), 7U);
    EXPECT_GE(ticks.size(), 2U) << high;
  }
  EXPECT_THROW(shard::nice_ticks(1.0, 1.0, 5), std::invalid_argument);
}

TEST(Ticks, RangeLeavesOutWhatIsMissing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(shard::value_range({nan, 2.0, -1.0, nan}), (std::array<double, 2>{-1.0, 2.0}));
  EXPECT_EQ(shard::value_range({nan}), (std::array<double, 2>{0.0, 0.0}));
}

class Picture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!shard::pictures_available()) GTEST_SKIP() << "this build has no Cairo";
  }

  /// A small map with a hole, four uneven shards and an empty one.
  static shard::Map map() {
    shard::Map map;
    map.title      = "truth";
    map.note       = "rms 1.0";
    map.units      = "m**2 s**-2";
    map.latitudes  = shard::latitudes_with_poles(7);
    map.longitudes = shard::global_longitudes(8);
    for (int k = 0; k < 56; ++k) map.values.push_back(k);
    map.values[20] = std::numeric_limits<double>::quiet_NaN();
    map.boxes      = {{0, 3, 0, 4, "rank 0"},
                      {0, 3, 4, 8, "rank 1"},
                      {3, 7, 0, 4, "rank 2"},
                      {3, 7, 4, 8, "rank 3"},
                      {7, 7, 0, 8, "rank 4"}};
    return map;
  }
};

TEST_F(Picture, IsAPngOfTheWidthAskedFor) {
  const std::string path = ::testing::TempDir() + "shard_map_" + std::to_string(getpid()) + ".png";
  shard::Figure figure;
  figure.title   = "A test";
  figure.caption = "Made by a test";
  figure.width   = 800;
  for (int k = 0; k < 3; ++k) figure.maps.push_back(map());
  figure.maps[1].colours = ColourScale::diverging;
  figure.maps[2].low     = 10.0;
  figure.maps[2].high    = 40.0;
  shard::write_png(path, figure);
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::remove(path.c_str());
  ASSERT_GT(bytes.size(), 1000U);
  EXPECT_EQ(bytes.substr(1, 3), "PNG");
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(bytes[k]); };
  EXPECT_EQ(byte(18) * 256 + byte(19), 800);
}

TEST_F(Picture, AppearsWhenItIsComplete) {
  const std::string path  = ::testing::TempDir() + "shard_map_" + std::to_string(getpid()) + ".png";
  const std::string other = path + "-other";
  const auto text         = [](const std::string& of) {
    std::ifstream in(of, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::ofstream(other) << "another's";
  ASSERT_EQ(symlink(other.c_str(), path.c_str()), 0);
  shard::Figure figure;
  figure.maps = {map()};
  shard::write_png(path, figure);  // in place of the link, not into what it points to
  EXPECT_EQ(text(path).substr(1, 3), "PNG");
  EXPECT_EQ(text(other), "another's");
  // a disk that is full, for this process: the old picture stays
  const std::string before = text(path);
  figure.title             = "Another";
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit small{1000, usual.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(shard::write_png(path, figure), std::runtime_error);
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text(path), before);
  EXPECT_EQ(shard::testing::parts_beside(path), 0);
  std::remove(path.c_str());
  std::remove(other.c_str());
}

TEST_F(Picture, RefusesWhatDoesNotFit) {
  shard::Figure figure;
  EXPECT_THROW(shard::write_png("x.png", figure), std::invalid_argument);
  figure.maps = {map()};
  EXPECT_THROW(shard::write_png("/nowhere/x.png", figure), std::runtime_error);
  const std::string fifo = ::testing::TempDir() + "shard_map_" + std::to_string(getpid()) + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);  // whose other end nobody opens
  for (const std::string& special : {fifo, ::testing::TempDir(), std::string("/dev/zero")})
    EXPECT_THROW(shard::write_png(special, figure), std::runtime_error) << special;
  std::remove(fifo.c_str());
  figure.maps[0].boxes[0].row_end = 8;
  EXPECT_THROW(shard::write_png("x.png", figure), std::invalid_argument);
  figure.maps = {map()};
  figure.maps[0].values.pop_back();
  EXPECT_THROW(shard::write_png("x.png", figure), std::invalid_argument);
}

}  // namespace
