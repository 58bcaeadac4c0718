// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/netcdf_output.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/netcdf.hpp"
#include "shard/io/tile_cells.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/index_space.hpp"
#include "support/counting.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Lat;
struct Lon;

using Space    = Kokkos::DefaultExecutionSpace;
using Grid     = Mesh<Lat, Lon>;
using Map      = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>,
                        ShardDim<1, Lon, Halo<1>>>;
using ConstMap = ShardedView<const double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>,
                             ShardDim<1, Lon, Halo<1>>>;
using Left     = ShardedView<float***, Kokkos::LayoutLeft, ShardDim<1, Lat, Halo<2>>>;

using Short = ShardedView<float*, Kokkos::LayoutRight, ShardDim<0, Lat>>;

struct Cell;
using Cells = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Indices<Cell>>>;

double value_at(index_t i, index_t j, index_t k) {
  return static_cast<double>(10000 * i + 100 * j + k) + 0.25;
}

Map filled(const Map& map, double added) {
  const auto host = create_mirror_view(map);
  for (index_t j = 0; j < map.extent(0); ++j)
    for (index_t i = 0; i < map.extent(1); ++i)
      host(j, i) = value_at(0, map.to_global(0, j), map.to_global(1, i)) + added;
  if (map.extent(0) > 0 && map.extent(1) > 0 && map.to_global(0, 0) == 0 &&
      map.to_global(1, 0) == 0)
    host(0, 0) = std::numeric_limits<double>::quiet_NaN();
  deep_copy(Space(), map, host);
  Kokkos::fence();
  return map;
}

/// A field over 11 ids, the highest first, in turn to the ranks along Lat.
Cells cells_of(const Grid& mesh) {
  std::vector<std::int64_t> ids;
  for (int id = 10; id >= 0; --id)
    if (id % mesh.size<Lat>() == mesh.coordinate<Lat>()) ids.push_back(id);
  const IndexSpace<Cell, Lat> space(mesh, by_global_ids(ids, static_cast<index_t>(ids.size())));
  const Cells cells("cells", mesh, {space, Partition::whole(4)});
  const auto host = create_mirror_view(cells);
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (index_t k = 0; k < 4; ++k) host(i, k) = value_at(0, ids[i], k);
  deep_copy(Space(), cells, host);
  Kokkos::fence();
  return cells;
}

/// Two times of a map, a field of three dimensions in the other layout, one over an index space,
/// one that leaves ranks without points, a coordinate, and a variable that nobody writes.
void write(MPI_Comm comm, const std::string& path) {
  const Grid mesh(comm, {0, 0});
  const Map map("map", mesh, {7, 10});
  const Left left("left", mesh, {3, 7, 4});
  const auto host = create_mirror_view(left);
  for (index_t i = 0; i < left.extent(0); ++i)
    for (index_t j = 0; j < left.extent(1); ++j)
      for (index_t k = 0; k < left.extent(2); ++k)
        host(i, j, k) = static_cast<float>(value_at(i, left.to_global(1, j), k));
  deep_copy(Space(), left, host);
  Kokkos::fence();

  const Short two("two", mesh, {2});
  Kokkos::deep_copy(two.owned(), std::numeric_limits<float>::infinity());

  NetcdfOutput file(comm, path);
  file.add_attribute({"Conventions", "CF-1.11"});
  file.add_coordinate("lat", std::vector<double>{-3, -2, -1, 0, 1, 2, 3},
                      {{"units", "degrees_north"}});
  file.add_dimension("lon", 10);
  file.add_dimension("time", 2);
  file.add_dimension("three", 3);
  file.add_dimension("four", 4);
  file.add_variable("map", {"time", "lat", "lon"}, NetcdfType::float32,
                    {{"units", "m"}, {"_FillValue", -999.0}, {"factor", 1.5}});
  file.add_variable("left", {"three", "lat", "four"}, NetcdfType::float64);
  file.add_dimension("cell", 11);
  file.add_variable("cells", {"cell", "four"}, NetcdfType::float64);
  file.add_variable("once", {"lat", "lon"}, NetcdfType::float64, {{"_FillValue", -1.0}});
  file.add_variable("two", {"time"}, NetcdfType::float32);
  file.add_variable("nothing", {"four"}, NetcdfType::float64);
  file.write("left", left);
  file.write("two", two);
  file.write("cells", cells_of(mesh));
  file.write("map", 1, filled(map, 1e6));
  file.write("map", 0, ConstMap(filled(map, 0)));
  file.write("once", map);
  file.close();
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(NetcdfOutput, HasTheSameBytesOnAnyRanks) {
  const ScratchFile all("all.nc"), one("one.nc");
  write(MPI_COMM_WORLD, all.path());
  if (rank() == 0) {
    write(MPI_COMM_SELF, one.path());
    EXPECT_EQ(bytes_of_file(all.path()), bytes_of_file(one.path()));
    EXPECT_EQ(bytes_of_file(all.path()).substr(0, 4), std::string("CDF\x02"));
    const std::string nothing(32, '\0');  // at the end
    EXPECT_TRUE(bytes_of_file(all.path()).ends_with(nothing));
  }
}

TEST(NetcdfOutput, IsReadByNetcdf) {
  if (!netcdf_available()) GTEST_SKIP() << "built without NetCDF";
  const ScratchFile scratch("read.nc");
  write(MPI_COMM_WORLD, scratch.path());
  if (rank() != 0) return;
  const NetcdfFile file(scratch.path());
  EXPECT_EQ(file.text("", "Conventions"), "CF-1.11");
  EXPECT_EQ(file.text("map", "units"), "m");
  EXPECT_EQ(file.number("map", "factor"), 1.5);
  EXPECT_EQ(file.role("lat"), DimensionRole::latitude);
  EXPECT_EQ(file.read("lat"), (std::vector<double>{-3, -2, -1, 0, 1, 2, 3}));
  EXPECT_EQ(file.read("two"), std::vector<double>(2, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(file.read("nothing"), std::vector<double>(4, 0.0));
  const std::vector<double> map = file.read("map"), left = file.read("left");
  ASSERT_EQ(map.size(), 140U);
  ASSERT_EQ(left.size(), 84U);
  const std::vector<double> cells = file.read("cells");
  ASSERT_EQ(cells.size(), 44U);
  for (std::size_t n = 0; n < cells.size(); ++n)
    EXPECT_EQ(cells[n], value_at(0, static_cast<index_t>(n / 4), static_cast<index_t>(n % 4)));
  for (std::size_t t = 0, n = 0; t < 2; ++t)
    for (index_t j = 0; j < 7; ++j)
      for (index_t i = 0; i < 10; ++i, ++n) {
        if (i == 0 && j == 0)
          EXPECT_TRUE(std::isnan(map[n]));  // _FillValue
        else
          EXPECT_EQ(map[n], value_at(0, j, i) + (t == 1 ? 1e6 : 0)) << t << " " << j << " " << i;
      }
  for (index_t i = 0, n = 0; i < 3; ++i)
    for (index_t j = 0; j < 7; ++j)
      for (index_t k = 0; k < 4; ++k, ++n)
        EXPECT_EQ(left[static_cast<std::size_t>(n)], value_at(i, j, k));
}

// A model's output: a record dimension, bounds, a mask, NaN without a _FillValue of one's own.
TEST(NetcdfOutput, WritesRecordsBoundsAndIntegers) {
  const ScratchFile scratch("records.nc");
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Map map = filled(Map("map", mesh, {7, 10}), 0);
  using Mask    = ShardedView<std::int32_t**, Kokkos::LayoutLeft, ShardDim<1, Lat>>;
  const Mask mask("mask", mesh, {10, 7});
  Kokkos::deep_copy(mask.view(), -70000 - static_cast<int>(mask.begin(1)));
  using Flags  = ShardedView<std::int8_t*, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  using Shorts = ShardedView<std::int16_t*, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  const Flags flags("flags", mesh, {7});
  const Shorts shorts("shorts", mesh, {7});
  Kokkos::deep_copy(flags.view(), static_cast<std::int8_t>(-3));
  Kokkos::deep_copy(shorts.view(), static_cast<std::int16_t>(-300));
  Kokkos::fence();
  std::vector<double> lat{-80, -50, -20, 0, 20, 50, 80}, edges{-90, -65, -35, -10, 10, 35, 65, 90},
      lon;
  for (int i = 0; i < 10; ++i) lon.push_back(36.0 * i);
  {
    NetcdfOutput file(MPI_COMM_WORLD, scratch.path());
    file.add_time("days since 2000-01-01", "noleap");
    file.add_latitude(lat, edges);
    file.add_longitude(lon);
    file.add_variable("h", {"time", "lat", "lon"}, NetcdfType::float32,
                      {{"units", "m"}, {"valid_max", 1e6}, {"level", 3}});
    file.add_variable("mask", {"lon", "lat"}, NetcdfType::int32);
    file.add_variable("flags", {"lat"}, NetcdfType::int8);
    file.add_variable("shorts", {"lat"}, NetcdfType::int16);
    file.add_variable("late", {"time"}, NetcdfType::float32);  // nobody writes its last entries
    // of whatever instance wrote the field
    const auto fences = shard::testing::count([&] { file.write("mask", mask); }).fence_names;
    EXPECT_EQ(fences.at(0), "shard::NetcdfOutput: kernels that write the field are complete");
    file.write("flags", flags);
    file.write("shorts", shorts);
    file.write("h", 0, map);
    file.write("h", 2, map);
    file.write("time", 2, 2.5);
    file.write("time", 0, 0.5);
    EXPECT_THROW(file.write("h", map), ArgumentError);
    file.close();
  }
  if (rank() != 0 || !netcdf_available()) return;
  const NetcdfFile file(scratch.path());
  EXPECT_EQ(file.dimensions().at(0).size, 3U);
  EXPECT_EQ(file.text("time", "calendar"), "noleap");
  EXPECT_EQ(file.text("lat", "bounds"), "lat_bnds");
  EXPECT_EQ(file.number("h", "level"), 3.0);
  EXPECT_EQ(file.role("lon"), DimensionRole::longitude);
  EXPECT_EQ(file.read("time")[0], 0.5);
  EXPECT_EQ(file.read("time")[2], 2.5);
  const auto bounds = file.read("lat_bnds"), h = file.read("h"), masks = file.read("mask");
  EXPECT_EQ(bounds[0], -90.0);
  EXPECT_EQ(bounds[13], 90.0);
  EXPECT_TRUE(std::isnan(h[0]));  // where `filled` has NaN
  EXPECT_TRUE(std::isnan(h[140]));
  EXPECT_EQ(h[209], value_at(0, 6, 9));
  EXPECT_EQ(file.read("flags"), std::vector<double>(7, -3.0));
  EXPECT_EQ(file.read("shorts"), std::vector<double>(7, -300.0));
  for (const double m : masks) EXPECT_TRUE(m <= -70000 && m > -70007) << m;
}

TEST(NetcdfOutput, WritesVariablesOfMoreThanFourGigabytes) {
  const ScratchFile scratch("large.nc");
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Map map               = filled(Map("map", mesh, {7, 10}), 0);
  constexpr std::size_t times = 16'000'000;  // most of the file is a hole
  {
    NetcdfOutput file(MPI_COMM_WORLD, scratch.path());
    file.add_dimension("time", times);
    file.add_dimension("lat", 7);
    file.add_dimension("lon", 10);
    file.add_variable("map", {"time", "lat", "lon"}, NetcdfType::float32);
    file.add_variable("last", {"lat", "lon"}, NetcdfType::float64);
    file.write("map", times - 1, map);
    file.write("last", map);
    file.close();
  }
  if (rank() != 0) return;
  std::ifstream file(scratch.path(), std::ios::binary);
  std::string magic(4, ' ');
  file.read(magic.data(), 4);
  EXPECT_EQ(magic, std::string("CDF\x05"));
  if (!netcdf_available()) return;
  std::vector<double> values(10);
  NetcdfFile(scratch.path())
      .read("map", std::vector<std::size_t>{times - 1, 6, 0}, std::vector<std::size_t>{1, 1, 10},
            values);
  EXPECT_EQ(values[9], value_at(0, 6, 9));
  EXPECT_EQ(NetcdfFile(scratch.path()).read("last")[69], value_at(0, 6, 9));
}

TEST(NetcdfOutput, RefusesWhatDoesNotFit) {
  const ScratchFile scratch("refused.nc");
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Map map("map", mesh, {7, 10});
  NetcdfOutput file(MPI_COMM_WORLD, scratch.path());
  file.add_dimension("lat", 7);
  file.add_dimension("lon", 9);
  file.add_variable("map", {"lat", "lon"}, NetcdfType::float64);
  const auto refuses = [&](const auto& call, const std::string& words) {
    EXPECT_NE(message_thrown_by<ArgumentError>(call).find(words), std::string::npos) << words;
  };
  refuses([&] { file.add_dimension("lat", 7); }, "there is a dimension \"lat\" already");
  refuses([&] { file.add_dimension("none", 0); }, "has size 0");
  refuses([&] { file.add_variable("x", {"depth"}, NetcdfType::float64); },
          "there is no dimension \"depth\"");
  refuses([&] { file.add_variable("map", {"lat"}, NetcdfType::float64); },
          "there is a variable \"map\" already");
  refuses(
      [&] {
        file.add_variable("x", {"lat", "lat"}, NetcdfType::float64);
      },
      "dimension \"lat\" twice");
  refuses(
      [&] {
        file.add_variable("x", {"lat"}, NetcdfType::float32, {{"_FillValue", 1e40}});
      },
      "can't hold");
  refuses(
      [&] {
        file.add_variable("x", {"lat"}, NetcdfType::int16, {{"missing_value", 40000}});
      },
      "can't hold");
  EXPECT_NO_THROW(file.add_variable("short", {"lat"}, NetcdfType::int16, {{"_FillValue", -32768}}));
  const std::vector<double> unsorted{1, 3, 2};
  refuses([&] { file.add_coordinate("x", unsorted, {}); }, "neither rise nor fall");
  refuses(
      [&] {
        file.add_coordinate("x", std::vector<double>{1, 2, 3}, {}, unsorted);
      },
      "3 values and 3 edges");
  refuses(
      [&] {
        file.add_variable("x", {"lat"}, NetcdfType::float64, {{"_FillValue", "none"}});
      },
      "_FillValue that is text");
  refuses(
      [&] {
        file.add_variable("x", {"lat"}, NetcdfType::float64, {{"scale_factor", 0.1}});
      },
      "scale_factor, but fields aren't packed");
  refuses([&] { file.write("map", map); }, "\"map\" is [7, 9], the field is [7, 10]");
  refuses([&] { file.write("map", 7, map); }, "entry 7");
  refuses([&] { file.write("h", map); }, "there is no variable \"h\"; there are: map, short");
  refuses([&] { file.add_dimension("depth", 2); }, "after the first write");
  refuses([&] { NetcdfOutput(MPI_COMM_NULL, "x.nc"); }, "MPI_COMM_NULL");
  if (mesh.size() > 1) {  // each rank would write its part into another variable, or wait for ever
    const auto mine = [](const char* first, const char* others) {
      return rank() == 0 ? first : others;
    };
    EXPECT_THROW(file.write(mine("map", "lat"), map), AgreementError);
    EXPECT_THROW(file.write(mine("map", "none"), map), AgreementError);
    EXPECT_THROW(file.write("map", rank() == 0 ? 1U : 2U, map), AgreementError);
  }
  NetcdfOutput differs(MPI_COMM_WORLD, scratch.path());
  differs.add_dimension("x", rank() == 0 ? 1 : 2);
  if (mesh.size() > 1) {
    EXPECT_THROW(differs.close(), AgreementError);
  }
}

/// What may be declared otherwise for a file that is there.
struct Series {
  std::string units = "m", name = "h";
  double first      = -1;  ///< latitude
  NetcdfType type   = NetcdfType::int16;
  std::size_t extra = 0;  ///< a dimension

  void declare(NetcdfOutput& file) const {
    file.add_attribute({"title", "A series"});
    file.add_time("days since 2000-01-01");
    file.add_latitude(std::vector<double>{first, 0, 1});
    if (extra > 0) file.add_dimension("extra", extra);
    file.add_variable(name, {"time", "lat"}, NetcdfType::float32,
                      {{"units", units}, {"factor", 0.1}, {"level", 3}, {"_FillValue", -0.1}});
    file.add_variable("depth", {"lat"}, type, {{"valid_min", 2}});
  }
};
/// Adds records up to `end`.
void write_series(const std::string& path, ExistingFile existing, std::size_t end,
                  const Series& series = {}) {
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const Short h("h", mesh, {3});
  NetcdfOutput file(MPI_COMM_WORLD, path, existing);
  series.declare(file);
  std::size_t next = file.records();
  if (next == 0) {
    Kokkos::deep_copy(h.view(), 7.0F);
    file.write("depth", h);
  }
  for (; next < end; ++next) {
    Kokkos::deep_copy(h.view(), static_cast<float>(next) + 0.5F);
    file.write("time", next, static_cast<double>(next));
    file.write("h", next, h);
  }
  EXPECT_EQ(file.records(), end);
  file.close();
}

TEST(NetcdfOutput, ExtendsAFile) {
  const ScratchFile whole("whole.nc"), parts("parts.nc");
  write_series(whole.path(), ExistingFile::replace, 5);
  for (const std::size_t end : {1U, 3U, 5U}) write_series(parts.path(), ExistingFile::extend, end);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(bytes_of_file(parts.path()), bytes_of_file(whole.path()));

  const auto refuses = [&](const Series& series, const std::vector<std::string>& what) {
    const auto message = message_thrown_by<ArgumentError>(
        [&] { write_series(parts.path(), ExistingFile::extend, 6, series); });
    expect_parts(message, {"parts.nc", "can't be extended"});
    for (const std::string& part : what)
      EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refuses({.units = "km"}, {"'h:units = \"m\"'", "'h:units = \"km\"'"});
  refuses({.name = "g"}, {"float h(time, lat)", "declared"});
  refuses({.first = -2}, {"values of 'lat'"});
  refuses({.type = NetcdfType::int32}, {"'depth:valid_min = 2 (short)'", "(int)"});
  refuses({.extra = 2}, {"nothing in its place", "'dimension extra = 2'"});
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(bytes_of_file(parts.path()), bytes_of_file(whole.path()));
  whole.write(bytes_of_file(parts.path()).substr(0, bytes_of_file(parts.path()).size() - 20));
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { write_series(whole.path(), ExistingFile::extend, 6); }),
               {"whole.nc", "cut short"});
  whole.write("not NetCDF");
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { write_series(whole.path(), ExistingFile::extend, 6); }),
               {"whole.nc", "isn't a NetCDF file in the classic format"});
}

struct Sphere;
using Tiled =
    ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat, Blocks<Sphere>>,
                ShardDim<2, Unsharded, Halo<1>, LinkedY>, ShardDim<3, Unsharded, Halo<1>, LinkedX>>;

// A point of a map of two tiles of 3 x 4 cells, side by side, as a position.
std::array<double, 3> on_map(int tile, double y, double x) {
  const double lat = (y - 3.0) * 0.1, lon = (x + 8.0 * tile - 8.0) * 0.1;
  return {std::cos(lat) * std::cos(lon), std::cos(lat) * std::sin(lon), std::sin(lat)};
}

TEST(TileCells, AreTheCellsOfAllTilesInOrder) {
  const Grid mesh(MPI_COMM_WORLD, {0, 1});
  const BlockGrid<Sphere, Lat> grid(mesh, Tiles({{3, 4}, {3, 4}}, {}));
  const TileCells cells(mesh, grid);
  EXPECT_EQ(cells.size(), 24);

  const Tiled field("h", mesh, {grid.at(At::centre), Partition::whole(2), grid.y(), grid.x()});
  const auto value = [](int tile, index_t level, index_t y, index_t x) {
    return value_at(tile, 10 * level + y, x);
  };
  const auto host = create_mirror_view(field);
  for (index_t b = 0; b < grid.count(); ++b)
    for (index_t k = 0; k < 2; ++k)
      for (index_t j = 0; j < grid.y().size(); ++j)
        for (index_t i = 0; i < grid.x().size(); ++i)
          host(b, k, j, i) = value(grid.block(b).tile, k, grid.block(b).y + j, grid.block(b).x + i);
  deep_copy(Space(), field, host);

  const ScratchFile scratch("cells.nc");
  NetcdfOutput file(mesh.communicator(), scratch.path());
  file.add_dimension("level", 2);
  cells.declare(file);
  file.add_variable("h", {"level", "cell"}, NetcdfType::float64);
  cells.write_positions(file, on_map);
  file.write("h", cells(Space(), field));
  file.close();
  if (rank() != 0 || !netcdf_available()) return;
  const NetcdfFile read(scratch.path());
  const auto h = read.read("h"), lat = read.read("lat"), lon = read.read("lon"),
             lats = read.read("lat_bnds");
  ASSERT_EQ(h.size(), 48U);
  constexpr double degree = 180.0 / 3.14159265358979323846;
  for (int t = 0, c = 0; t < 2; ++t)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 4; ++i, ++c) {
        const auto cell = static_cast<std::size_t>(c);
        for (std::size_t k = 0; k < 2; ++k)
          EXPECT_EQ(h[24 * k + cell], value(t, static_cast<index_t>(k), j, i));
        EXPECT_NEAR(lat[cell], (2 * j + 1 - 3) * 0.1 * degree, 1e-12);
        EXPECT_NEAR(lon[cell], (2 * i + 1 + 8 * t - 8) * 0.1 * degree, 1e-12);
        EXPECT_NEAR(lats[4 * cell], (2 * j - 3) * 0.1 * degree, 1e-12);
        EXPECT_NEAR(lats[4 * cell + 2], (2 * j + 2 - 3) * 0.1 * degree, 1e-12);
      }
}

TEST(NetcdfOutput, AFileWithoutWritesIsComplete) {
  const ScratchFile scratch("unwritten.nc");
  NetcdfOutput file(MPI_COMM_WORLD, scratch.path());
  Series().declare(file);
  file.close();
  if (rank() != 0 || !netcdf_available()) return;
  const NetcdfFile read(scratch.path());
  EXPECT_EQ(read.dimensions().at(0).size, 0U);
  EXPECT_EQ(read.read("lat"), (std::vector<double>{-1, 0, 1}));
  EXPECT_TRUE(read.read("h").empty());
  EXPECT_TRUE(std::isnan(read.read("depth").at(0)));  // 0, below valid_min
}

TEST(NetcdfOutput, LeavesNothingWithoutClose) {
  const ScratchFile scratch("left.nc");
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Map map("map", mesh, {7, 10});
  {
    NetcdfOutput file(MPI_COMM_WORLD, scratch.path());
    file.add_dimension("lat", 7);
    file.add_dimension("lon", 10);
    file.add_variable("map", {"lat", "lon"}, NetcdfType::float64);
    file.write("map", map);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::ifstream(scratch.path()).good());
  NetcdfOutput nowhere(MPI_COMM_WORLD, scratch.path() + "/nowhere/x.nc");
  EXPECT_THROW(nowhere.close(), IoError);
}

}  // namespace
}  // namespace shard::testing
