// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files made with NetCDF's own functions: attributes and sizes that NetcdfWriter doesn't write.
#include <shard/io/field_reader.hpp>
#include <shard/io/netcdf.hpp>

#include <gtest/gtest.h>
#include <netcdf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "parts.hpp"

namespace {

using namespace shard;

const double nan = std::numeric_limits<double>::quiet_NaN();
const double inf = std::numeric_limits<double>::infinity();

/// A path of the process's own; what is there goes with it.
class Scratch {
 public:
  Scratch() : path_(::testing::TempDir() + "shard_" + std::to_string(getpid()) + "_given.nc") {
    std::remove(path_.c_str());
  }
  ~Scratch() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void ok(int code) { ASSERT_EQ(code, NC_NOERR) << nc_strerror(code); }

using Attributes = std::function<void(int file, int variable)>;

/// A file with a variable "p" of these values.
void write_file(const std::string& path, nc_type type, const std::vector<double>& values,
                const Attributes& attributes) {
  int file = -1, dimension = -1, variable = -1;
  ok(nc_create(path.c_str(), NC_CLOBBER | NC_NETCDF4, &file));
  ok(nc_def_dim(file, "x", values.size(), &dimension));
  ok(nc_def_var(file, "p", type, 1, &dimension, &variable));
  attributes(file, variable);
  ok(nc_enddef(file));
  ok(nc_put_var_double(file, variable, values.data()));
  ok(nc_close(file));
}

/// Expects "p" to be read as these values, with NaN where one is missing.
void expect_read(const std::string& path, const std::vector<double>& expected) {
  const std::vector<double> read = NetcdfFile(path).read("p");
  ASSERT_EQ(read.size(), expected.size());
  for (std::size_t i = 0; i < read.size(); ++i)
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(read[i])) << i << ": " << read[i];
    else
      EXPECT_NEAR(read[i], expected[i], 1e-9) << i;
}

/// Expects a NetcdfError with all parts.
void expect_error(const std::function<void()>& action, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const shard::NetcdfError& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\n  lacks: " << part;
  }
}

TEST(NetcdfAttributes, PackingThatIsNoNumberIsAnError) {
  for (const char* name : {"scale_factor", "add_offset", "missing_value", "valid_min"}) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    write_file(scratch.path(), NC_SHORT, {1, 2}, [&](int file, int variable) {
      ok(nc_put_att_text(file, variable, name, 3, "0.1"));
    });
    expect_error([&] { (void)NetcdfFile(scratch.path()).read("p"); }, {"'p'", name, "no number"});
  }
  for (const char* name : {"scale_factor", "add_offset", "valid_max"}) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    write_file(scratch.path(), NC_SHORT, {1, 2}, [&](int file, int variable) {
      ok(nc_put_att_double(file, variable, name, NC_DOUBLE, 1, &nan));
    });
    expect_error([&] { (void)NetcdfFile(scratch.path()).read("p"); }, {"'p'", name, "NaN"});
  }
  const Scratch two, infinite;
  const std::vector<double> factors{0.1, 0.2};
  write_file(two.path(), NC_SHORT, {1, 2}, [&](int file, int variable) {
    ok(nc_put_att_double(file, variable, "scale_factor", NC_DOUBLE, 2, factors.data()));
  });
  expect_error([&] { (void)NetcdfFile(two.path()).read("p"); }, {"scale_factor has 2 values"});
  write_file(infinite.path(), NC_SHORT, {1, 2}, [&](int file, int variable) {
    ok(nc_put_att_double(file, variable, "add_offset", NC_DOUBLE, 1, &inf));
  });
  expect_error([&] { (void)NetcdfFile(infinite.path()).read("p"); }, {"add_offset is infinite"});
  NetcdfWriter writer(two.path());
  writer.add_dimension("x", 1);
  writer.add_variable("p", {"x"}, shard::NetcdfType::int16, {{"scale_factor", "0.1"}});
  expect_error([&] { writer.write("p", std::vector<double>{1.0}); }, {"scale_factor"});
}

TEST(NetcdfAttributes, ValuesOutsideTheValidRangeAreMissing) {
  const std::vector<double> values{-3, -2, 0, 5, 6};
  const auto with = [](const char* name, nc_type type, std::vector<double> bounds) {
    return [=](int file, int variable) {
      ok(nc_put_att_double(file, variable, name, type, bounds.size(), bounds.data()));
    };
  };
  const Scratch scratch;
  for (const nc_type type : {NC_SHORT, NC_INT, NC_FLOAT, NC_DOUBLE}) {
    SCOPED_TRACE(type);
    write_file(scratch.path(), type, values, with("valid_range", type, {-2, 5}));
    expect_read(scratch.path(), {nan, -2, 0, 5, nan});
    write_file(scratch.path(), type, values, with("valid_min", type, {0}));
    expect_read(scratch.path(), {nan, nan, 0, 5, 6});
    write_file(scratch.path(), type, values, with("valid_max", type, {0}));
    expect_read(scratch.path(), {-3, -2, 0, nan, nan});
  }
  // single precision against a bound that it can't hold
  write_file(scratch.path(), NC_FLOAT, {static_cast<double>(0.1F), 0.2},
             with("valid_max", NC_DOUBLE, {0.1}));
  expect_read(scratch.path(), {static_cast<double>(0.1F), nan});
  // packed: bounds are of stored values, floating-point ones of what they stand for
  const auto packed = [&](nc_type type, std::vector<double> bounds) {
    return [=](int file, int variable) {
      const double scale = 0.1, offset = 300.0;
      ok(nc_put_att_double(file, variable, "scale_factor", NC_DOUBLE, 1, &scale));
      ok(nc_put_att_double(file, variable, "add_offset", NC_DOUBLE, 1, &offset));
      with("valid_range", type, bounds)(file, variable);
    };
  };
  write_file(scratch.path(), NC_SHORT, values, packed(NC_SHORT, {-2, 5}));
  expect_read(scratch.path(), {nan, 299.8, 300.0, 300.5, nan});
  write_file(scratch.path(), NC_SHORT, values, packed(NC_DOUBLE, {299.8, 300.5}));
  expect_read(scratch.path(), {nan, 299.8, 300.0, 300.5, nan});
  // signed bytes that are meant without sign
  write_file(scratch.path(), NC_BYTE, {-6, -1, 0, 7}, [&](int file, int variable) {
    ok(nc_put_att_text(file, variable, "_Unsigned", 4, "true"));
    with("valid_range", NC_BYTE, {7, -6})(file, variable);
  });
  expect_read(scratch.path(), {250, nan, nan, 7});
  write_file(scratch.path(), NC_INT, values, with("valid_range", NC_INT, {5, -2}));
  expect_error([&] { (void)NetcdfFile(scratch.path()).read("p"); }, {"no value is valid"});
  write_file(scratch.path(), NC_INT, values, with("valid_range", NC_INT, {5}));
  expect_error([&] { (void)NetcdfFile(scratch.path()).read("p"); }, {"valid_range has 1 values"});
}

TEST(NetcdfAttributes, EveryMissingValueAndDefaultFillValueIsMissing) {
  const Scratch scratch;
  const std::vector<double> markers{-999, -998};
  write_file(scratch.path(), NC_INT, {-999, 1, -998, -997}, [&](int file, int variable) {
    ok(nc_put_att_double(file, variable, "missing_value", NC_INT, 2, markers.data()));
  });
  expect_read(scratch.path(), {nan, 1, nan, -997});

  const auto nothing = [](int, int) {};
  struct Case {
    nc_type type;
    double fill;
  };
  for (const Case& c : {Case{NC_SHORT, NC_FILL_SHORT}, Case{NC_USHORT, NC_FILL_USHORT},
                        Case{NC_INT, NC_FILL_INT}, Case{NC_UINT, NC_FILL_UINT}}) {
    SCOPED_TRACE(c.type);
    write_file(scratch.path(), c.type, {1, c.fill, 2}, nothing);
    expect_read(scratch.path(), {1, nan, 2});
  }
  // bytes have no value to spare
  write_file(scratch.path(), NC_BYTE, {1, NC_FILL_BYTE}, nothing);
  expect_read(scratch.path(), {1, NC_FILL_BYTE});
  write_file(scratch.path(), NC_UBYTE, {1, NC_FILL_UBYTE}, nothing);
  expect_read(scratch.path(), {1, NC_FILL_UBYTE});
  // never written at all, so of 64 bits exactly
  for (const nc_type type : {NC_INT64, NC_UINT64}) {
    int file = -1, dimension = -1, variable = -1;
    ok(nc_create(scratch.path().c_str(), NC_CLOBBER | NC_NETCDF4, &file));
    ok(nc_def_dim(file, "x", 2, &dimension));
    ok(nc_def_var(file, "p", type, 1, &dimension, &variable));
    ok(nc_close(file));
    expect_read(scratch.path(), {nan, nan});
  }
}

TEST(NetcdfSizes, AFileThatDeclaresMoreThanTheLimitIsRefusedBeforeAllocation) {
  const Scratch scratch;
  int file = -1, variable = -1;
  int dimensions[2];
  ok(nc_create(scratch.path().c_str(), NC_CLOBBER | NC_NETCDF4, &file));
  ok(nc_def_dim(file, "y", std::size_t{1} << 13, &dimensions[0]));
  ok(nc_def_dim(file, "x", std::size_t{1} << 20, &dimensions[1]));
  ok(nc_def_var(file, "large", NC_DOUBLE, 2, dimensions, &variable));
  const std::size_t chunk[2] = {1, 1 << 10};
  ok(nc_def_var_chunking(file, variable, NC_CHUNKED, chunk));
  ok(nc_def_var(file, "chunk", NC_DOUBLE, 2, dimensions, &variable));
  const std::size_t huge[2] = {1 << 8, 1 << 20};
  ok(nc_def_var_chunking(file, variable, NC_CHUNKED, huge));
  ok(nc_close(file));
  struct stat found {};
  ASSERT_EQ(stat(scratch.path().c_str(), &found), 0);
  EXPECT_LT(found.st_size, 10000);
  {
    const NetcdfFile given(scratch.path());
    expect_error([&] { (void)given.read("large"); },
                 {"'large'", "68719476736 bytes (64 GiB)", "the limit is 1073741824 (1 GiB)"});
    std::vector<double> one(1);
    const std::vector<std::size_t> start{0, 0}, count{1, 1};
    expect_error([&] { given.read("chunk", start, count, one); },
                 {"'chunk'", "a chunk", "2147483648 bytes (2 GiB)"});
    EXPECT_EQ(given.read("large", start, count, one), 1U);  // a part, which was never written
  }

  const std::vector<double> values{1, 2, 3};
  write_file(scratch.path(), NC_DOUBLE, values, [](int, int) {});
  EXPECT_EQ(NetcdfFile(scratch.path(), 24).read("p"), values);
  expect_error([&] { (void)NetcdfFile(scratch.path(), 23).read("p"); },
               {"24 bytes", "the limit is 23"});
}

TEST(NetcdfSizes, FieldsOfTooManyLevelsOrCellsAreRefused) {
  const Scratch scratch;
  int file = -1, variable = -1;
  int dimensions[3];
  ok(nc_create(scratch.path().c_str(), NC_CLOBBER | NC_NETCDF4, &file));
  const std::vector<double> latitudes{90, 0, -90}, longitudes{0, 90, 180, 270};
  ok(nc_def_dim(file, "level", std::size_t{1} << 32, &dimensions[0]));
  ok(nc_def_dim(file, "lat", latitudes.size(), &dimensions[1]));
  ok(nc_def_dim(file, "lon", longitudes.size(), &dimensions[2]));
  int lat = -1, lon = -1;
  ok(nc_def_var(file, "lat", NC_DOUBLE, 1, &dimensions[1], &lat));
  ok(nc_def_var(file, "lon", NC_DOUBLE, 1, &dimensions[2], &lon));
  ok(nc_def_var(file, "t", NC_FLOAT, 3, dimensions, &variable));
  const std::size_t chunk[3] = {1, 3, 4};
  ok(nc_def_var_chunking(file, variable, NC_CHUNKED, chunk));
  ok(nc_def_var(file, "q", NC_FLOAT, 2, dimensions + 1, &variable));
  ok(nc_put_var_double(file, lat, latitudes.data()));
  ok(nc_put_var_double(file, lon, longitudes.data()));
  ok(nc_close(file));
  expect_error([&] { FieldReader(scratch.path(), "t"); }, {"levels of 'level'", "the limit is"});
  const FieldReader reader(scratch.path(), "q", 95);
  expect_error([&] { (void)reader.read(0, 0, 0); }, {"96 bytes", "the limit is 95"});
}

TEST(NetcdfGrids, LongitudesThatAreNoneAreRefusedAtOnce) {
  const auto reader_of = [](const std::vector<double>& longitudes) {
    const Scratch scratch;
    const std::vector<double> latitudes{90, 0, -90};
    NetcdfWriter writer(scratch.path());
    writer.add_coordinate("lat", latitudes, {{"units", "degrees_north"}});
    writer.add_coordinate("lon", longitudes, {{"units", "degrees_east"}});
    writer.add_variable("q", {"lat", "lon"}, shard::NetcdfType::float32);
    writer.close();
    return FieldReader(scratch.path(), "q");
  };
  for (const double wrong : {inf, -inf, nan, 1e300, -1e300, 1e17, -1e17})
    for (std::size_t place = 0; place < 4; ++place) {
      SCOPED_TRACE(std::to_string(wrong) + " at " + std::to_string(place));
      std::vector<double> longitudes{0, 90, 180, 270};
      longitudes[place] = wrong;
      expect_error([&] { reader_of(longitudes); }, {"its grid can't be used", "longitude"});
    }
  // some turns behind: the same meridians
  EXPECT_EQ(reader_of({10, 100 - 720, 190 - 360, 280 - 1080}).longitudes(),
            (std::vector<double>{10, 100, 190, 280}));
}

TEST(NetcdfFiles, WhatIsNoFileIsAnErrorAtOnce) {
  const Scratch scratch;
  ASSERT_EQ(mkfifo(scratch.path().c_str(), 0600), 0);
  expect_error([&] { NetcdfFile file(scratch.path()); }, {scratch.path(), "a fifo"});
  expect_error([&] { NetcdfWriter file(scratch.path()); }, {scratch.path(), "a fifo"});
  expect_error([&] { NetcdfFile file(::testing::TempDir()); }, {"a directory"});
  expect_error([&] { NetcdfFile file("/dev/zero"); }, {"a device"});
  expect_error([&] { NetcdfWriter file(::testing::TempDir()); }, {"a directory"});
  expect_error([&] { NetcdfWriter file("/dev/zero"); }, {"a device"});
}

TEST(NetcdfFiles, AppearWhenTheyAreComplete) {
  const Scratch scratch;
  const auto latitudes = [&] { return NetcdfFile(scratch.path()).read("lat").size(); };
  const auto begin     = [&](std::size_t count) {
    NetcdfWriter writer(scratch.path());
    writer.add_coordinate("lat", std::vector<double>(count, 1.0), {});
    return writer;
  };
  begin(2).close();
  EXPECT_EQ(latitudes(), 2U);
  NetcdfWriter writer = begin(3);
  EXPECT_EQ(latitudes(), 2U);
  writer.close();
  EXPECT_EQ(latitudes(), 3U);
  begin(4);  // is not closed
  EXPECT_EQ(latitudes(), 3U);
  {
    NetcdfWriter late = begin(5);
    begin(6).close();
    expect_error([&] { late.close(); }, {scratch.path(), "another program has written it"});
  }
  EXPECT_EQ(latitudes(), 6U);
  EXPECT_EQ(shard::testing::parts_beside(scratch.path()), 0);
}

}  // namespace
