// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/field_reader.hpp>
#include <shard/io/netcdf.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace shard;

const double nan = std::numeric_limits<double>::quiet_NaN();

/// A path that is the process's own; the file goes with it.
class Scratch {
 public:
  explicit Scratch(const std::string& name)
      : path_(testing::TempDir() + "shard_" + std::to_string(getpid()) + "_" + name + ".nc") {}
  ~Scratch() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::vector<double> southward{90, 45, 0, -45, -90};
const std::vector<double> eastward{0, 60, 120, 180, 240, 300};

void add_grid(NetcdfWriter& file, const std::vector<double>& latitudes,
              const std::vector<double>& longitudes) {
  file.add_coordinate("lat", latitudes,
                      {{"units", "degrees_north"}, {"standard_name", "latitude"}});
  file.add_coordinate("lon", longitudes,
                      {{"units", "degrees_east"}, {"standard_name", "longitude"}});
}

/// A value that tells where it stands.
double mark(std::size_t channel, std::size_t member, std::size_t time, double latitude,
            double longitude) {
  return 1e4 * static_cast<double>(channel) + 1e3 * static_cast<double>(member) +
         100.0 * static_cast<double>(time) + 0.1 * latitude + 0.001 * longitude;
}

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const shard::NetcdfError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_MENTIONS(text, word) \
  EXPECT_NE((text).find(word), std::string::npos) << (text) << "\n  lacks: " << (word)

class Netcdf : public testing::Test {
 protected:
  void SetUp() override {
    if (!shard::netcdf_available()) GTEST_SKIP() << "this build has no NetCDF";
  }
};

TEST_F(Netcdf, WritesAndReadsBack) {
  const Scratch scratch("back");
  std::vector<double> field(30);
  for (std::size_t k = 0; k < field.size(); ++k) field[k] = 0.1 * static_cast<double>(k);
  NetcdfWriter writer(scratch.path());
  add_grid(writer, southward, eastward);
  writer.add_attribute({"title", "a test"});
  writer.add_variable("q", {"lat", "lon"}, NetcdfType::float64,
                      {{"units", "kg kg-1"}, {"long_name", "humidity"}});
  writer.write("q", field);
  writer.add_variable("n", {"lon"}, NetcdfType::int32);
  writer.write("n", std::vector<double>{1, 2, 3, 4, 5, -6});
  writer.close();

  const NetcdfFile file(scratch.path());
  EXPECT_EQ(file.path(), scratch.path());
  EXPECT_EQ(file.variables(), (std::vector<std::string>{"lat", "lon", "q", "n"}));
  EXPECT_EQ(file.dimensions().at(1).name, "lon");
  EXPECT_EQ(file.dimensions().at(1).size, 6U);
  EXPECT_EQ(file.text("", "title"), "a test");
  EXPECT_EQ(file.text("q", "none"), std::nullopt);
  EXPECT_EQ(file.number("q", "units"), std::nullopt);
  const auto q = file.variable("q");
  EXPECT_EQ(q.units, "kg kg-1");
  EXPECT_EQ(q.long_name, "humidity");
  EXPECT_FALSE(q.packed);
  EXPECT_EQ(q.dimensions.at(0).name, "lat");
  EXPECT_EQ(file.read("q"), field);
  EXPECT_EQ(file.read("n").back(), -6.0);

  std::vector<double> part(6);
  const std::vector<std::size_t> start{1, 2}, count{2, 3};
  EXPECT_EQ(file.read("q", start, count, part), 0U);
  EXPECT_EQ(part[0], field[8]);
  EXPECT_EQ(part[5], field[16]);
  const std::vector<std::size_t> nothing{0, 3};
  EXPECT_EQ(file.read("q", start, nothing, std::span<double>{}), 0U);
}

// The NetCDF library reads what isn't there as old bytes of a buffer. (Fixed sizes are checked
// here; the files of NetcdfOutput have all kinds of variables.)
TEST_F(Netcdf, RefusesFilesThatAreCutShort) {
  const Scratch scratch("cut");
  NetcdfWriter writer(scratch.path());
  add_grid(writer, southward, eastward);
  writer.add_variable("q", {"lat", "lon"}, NetcdfType::float32);
  writer.add_variable("n", {"lon"}, NetcdfType::int16);
  writer.write("q", std::vector<double>(30, 1.0));
  writer.write("n", std::vector<double>(6, 1.0));
  writer.close();
  const auto size = std::filesystem::file_size(scratch.path());
  EXPECT_NO_THROW(NetcdfFile{scratch.path()});
  for (const std::uintmax_t less : {1, 13, 100}) {
    std::filesystem::resize_file(scratch.path(), size - less);
    EXPECT_MENTIONS(message([&] { NetcdfFile file(scratch.path()); }), "cut short");
  }
}

TEST_F(Netcdf, UnpacksShortsAndMarksMissingValues) {
  const Scratch scratch("packed");
  NetcdfWriter writer(scratch.path());
  writer.add_dimension("x", 5);
  writer.add_variable("p", {"x"}, NetcdfType::int16,
                      {{"scale_factor", 0.01}, {"add_offset", 300.0}, {"_FillValue", -32767.0}});
  writer.write("p", std::vector<double>{300.0, 301.23, nan, 250.5, 310.004});
  writer.add_variable("f", {"x"}, NetcdfType::float32, {{"missing_value", -1e34}});
  writer.write("f", std::vector<double>{1.5, -1e34, 0.1, nan, 9.9692099683868690e36});
  writer.close();

  const NetcdfFile file(scratch.path());
  EXPECT_TRUE(file.variable("p").packed);
  std::vector<double> values(5);
  const std::vector<std::size_t> start{0}, count{5};
  EXPECT_EQ(file.read("p", start, count, values), 1U);
  EXPECT_NEAR(values[1], 301.23, 1e-9);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_NEAR(values[4], 310.00, 1e-9);
  // In single precision: the marker, a NaN, and what NetCDF puts where nothing was written.
  EXPECT_EQ(file.read("f", start, count, values), 3U);
  EXPECT_EQ(values[0], 1.5);
  EXPECT_EQ(values[2], static_cast<double>(0.1F));
}

TEST_F(Netcdf, IgnoresANanFillValueOfPackedIntegers) {
  // The library refuses to write such an attribute, but files have it: it is written by another
  // name of the same length, and renamed in the header.
  const Scratch scratch("nanfill");
  NetcdfWriter writer(scratch.path());
  writer.add_dimension("x", 3);
  writer.add_variable("p", {"x"}, NetcdfType::int16,
                      {{"_FillValuX", nan}, {"scale_factor", -0.5}, {"add_offset", 10.0}});
  writer.write("p", std::vector<double>{10.0, 0.0, -7.5});
  writer.close();
  std::string bytes;
  {
    std::ifstream in(scratch.path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto at = bytes.find("_FillValuX");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 9] = 'e';
  std::ofstream(scratch.path(), std::ios::binary) << bytes;

  const NetcdfFile file(scratch.path());
  std::vector<double> values(3);
  const std::vector<std::size_t> start{0}, count{3};
  EXPECT_EQ(file.read("p", start, count, values), 0U);
  EXPECT_EQ(values, (std::vector<double>{10.0, 0.0, -7.5}));
}

TEST_F(Netcdf, KnowsDimensionsByAttributesAndByName) {
  const Scratch scratch("roles");
  NetcdfWriter writer(scratch.path());
  const std::vector<double> two{0, 1};
  writer.add_coordinate("yy", two, {{"units", "degrees_north"}});
  writer.add_coordinate("xx", two, {{"axis", "X"}, {"units", "degrees"}});
  writer.add_coordinate("projected", two, {{"axis", "X"}, {"units", "m"}});
  writer.add_coordinate("p", two, {{"units", "millibars"}});
  writer.add_coordinate("when", two, {{"units", "days since 1900-01-01"}});
  writer.add_coordinate("who", two, {{"standard_name", "realization"}});
  writer.add_coordinate("zz", two, {{"positive", "up"}});
  for (const char* name : {"Latitude", "lon", "month", "number", "plev", "band"}) {
    writer.add_dimension(name, 2);
  }
  writer.close();
  const NetcdfFile file(scratch.path());
  EXPECT_EQ(file.role("yy"), DimensionRole::latitude);
  EXPECT_EQ(file.role("xx"), DimensionRole::longitude);
  EXPECT_EQ(file.role("projected"), DimensionRole::unknown);
  EXPECT_EQ(file.role("p"), DimensionRole::level);
  EXPECT_EQ(file.role("when"), DimensionRole::time);
  EXPECT_EQ(file.role("who"), DimensionRole::member);
  EXPECT_EQ(file.role("zz"), DimensionRole::level);
  EXPECT_EQ(file.role("Latitude"), DimensionRole::latitude);
  EXPECT_EQ(file.role("lon"), DimensionRole::longitude);
  EXPECT_EQ(file.role("month"), DimensionRole::time);
  EXPECT_EQ(file.role("number"), DimensionRole::member);
  EXPECT_EQ(file.role("plev"), DimensionRole::level);
  EXPECT_EQ(file.role("band"), DimensionRole::unknown);
}

TEST_F(Netcdf, ErrorsSayWhatIsThereAndWhatToDo) {
  EXPECT_MENTIONS(message([] { NetcdfFile file("/nowhere/a.nc"); }), "/nowhere/a.nc");
  EXPECT_MENTIONS(message([] { NetcdfWriter file("/nowhere/a.nc"); }), "folder");
  const Scratch scratch("errors");
  std::ofstream(scratch.path()) << "GRIB, say";
  EXPECT_MENTIONS(message([&] { NetcdfFile file(scratch.path()); }), "converted");

  NetcdfWriter writer(scratch.path());
  add_grid(writer, southward, eastward);
  writer.add_variable("q", {"lat", "lon"}, NetcdfType::float32);
  EXPECT_MENTIONS(message([&] { writer.write("q", std::vector<double>(7)); }), "30 values, 7");
  EXPECT_MENTIONS(message([&] { writer.write("r", {}); }), "not declared");
  EXPECT_MENTIONS(message([&] { writer.add_variable("r", {"t"}, NetcdfType::int16); }), "'t'");
  writer.add_variable("i", {"lon"}, NetcdfType::int16);
  EXPECT_MENTIONS(message([&] { writer.write("i", std::vector<double>(6, nan)); }), "_FillValue");
  EXPECT_MENTIONS(message([&] { writer.write("i", std::vector<double>(6, 1e6)); }), "'i'");
  writer.add_variable("s", {"lat"}, NetcdfType::float32);
  writer.close();
  EXPECT_MENTIONS(message([&] { writer.close(); }), "closed");

  const NetcdfFile file(scratch.path());
  EXPECT_MENTIONS(message([&] { (void)file.read("temperature"); }), "lat, lon, q");
  std::vector<double> values(4);
  const std::vector<std::size_t> start{4, 0}, count{2, 2};
  EXPECT_MENTIONS(message([&] { file.read("q", start, count, values); }), "'lat'");
  EXPECT_MENTIONS(message([&] { FieldReader reader(scratch.path(), ""); }), "lat (5) x lon (6)");
  EXPECT_MENTIONS(message([&] { FieldReader reader(scratch.path(), "t"); }), "there are: q");
  EXPECT_MENTIONS(message([&] { FieldReader reader(scratch.path(), "s"); }), "longitude");
  const FieldReader reader(scratch.path(), "q");
  EXPECT_MENTIONS(message([&] { (void)reader.read(0, 1, 0); }), "time 1");
  EXPECT_MENTIONS(message([&] { reader.read(0, 0, 0, FieldBox{0, 6, 0, 1}, values); }), "5 x 6");
}

TEST_F(Netcdf, FieldReaderPresentsLevelsTimesAndMembers) {
  const Scratch scratch("fields");
  NetcdfWriter writer(scratch.path());
  writer.add_coordinate("number", std::vector<double>{0, 1, 2}, {});
  writer.add_coordinate("time", std::vector<double>{0, 12},
                        {{"units", "hours since 2017-01-01 00:00:00"}});
  writer.add_coordinate("level", std::vector<double>{50000, 85000}, {{"units", "Pa"}});
  add_grid(writer, southward, eastward);
  std::vector<double> z, t, orography;
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t l = 0; l < 2; ++l) {
        for (const double lat : southward) {
          for (const double lon : eastward) z.push_back(mark(l, m, s, lat, lon));
        }
      }
      for (const double lat : southward) {
        for (const double lon : eastward) t.push_back(mark(2, m, s, lat, lon));
      }
    }
  }
  for (const double lat : southward) {
    for (const double lon : eastward) orography.push_back(mark(3, 0, 0, lat, lon));
  }
  writer.add_variable("z", {"number", "time", "level", "lat", "lon"}, NetcdfType::float64,
                      {{"units", "m2 s-2"}});
  writer.write("z", z);
  writer.add_variable("t2m", {"number", "time", "lat", "lon"}, NetcdfType::float64,
                      {{"units", "K"}});
  writer.write("t2m", t);
  writer.add_variable("orog", {"lat", "lon"}, NetcdfType::float64);
  writer.write("orog", orography);
  writer.close();

  const FieldReader reader(scratch.path(), "z, t2m,orog");
  EXPECT_EQ(reader.rows(), 5U);
  EXPECT_EQ(reader.columns(), 6U);
  EXPECT_EQ(reader.members(), 3U);
  EXPECT_EQ(reader.times(), 2U);
  ASSERT_EQ(reader.channels().size(), 4U);
  EXPECT_EQ(reader.channels()[0].name, "z 500 hPa");
  EXPECT_EQ(reader.channels()[1].name, "z 850 hPa");
  EXPECT_EQ(reader.channels()[1].units, "m2 s-2");
  EXPECT_EQ(reader.channels()[2].name, "t2m");
  EXPECT_EQ(reader.hours_between(0, 1), 12.0);
  EXPECT_EQ(reader.poles(), shard::PoleRows::on_row);
  EXPECT_TRUE(reader.global_longitudes());
  EXPECT_MENTIONS(reader.summary(), "3 members, 2 times");
  std::vector<double> part(4);
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t c = 0; c < 4; ++c) {
        EXPECT_EQ(reader.read(m, s, c, FieldBox{2, 4, 1, 3}, part), 0U);
        const std::size_t em = c == 3 ? 0 : m, es = c == 3 ? 0 : s;  // constant in both
        EXPECT_EQ(part[0], mark(c, em, es, southward[2], eastward[1]));
        EXPECT_EQ(part[3], mark(c, em, es, southward[3], eastward[2]));
      }
    }
  }
}

TEST_F(Netcdf, FieldReaderTurnsEveryOrderNorthUpAndEastward) {
  const std::vector<double> northward{-90, -45, 0, 45, 90};
  const std::vector<double> westward{300, 240, 180, 120, 60, 0};
  const std::vector<double> repeated{0, 60, 120, 180, 240, 300, 360};
  const std::vector<double> dateline{20.5, 80.5, 140.5, -159.5, -99.5, -39.5};
  for (const bool flip_rows : {false, true}) {
    for (const auto& longitudes : {eastward, westward, repeated, dateline}) {
      for (const bool columns_first : {false, true}) {
        const auto& latitudes = flip_rows ? northward : southward;
        const Scratch scratch("order");
        NetcdfWriter writer(scratch.path());
        add_grid(writer, latitudes, longitudes);
        std::vector<double> values;
        if (columns_first) {
          for (const double lon : longitudes) {
            for (const double lat : latitudes) values.push_back(mark(0, 0, 0, lat, lon));
          }
        } else {
          for (const double lat : latitudes) {
            for (const double lon : longitudes) values.push_back(mark(0, 0, 0, lat, lon));
          }
        }
        using Names = std::vector<std::string>;
        writer.add_variable("q", columns_first ? Names{"lon", "lat"} : Names{"lat", "lon"},
                            NetcdfType::float64);
        writer.write("q", values);
        writer.close();

        const FieldReader reader(scratch.path(), "q");
        EXPECT_EQ(reader.members(), 1U);  // no such dimension
        EXPECT_EQ(reader.times(), 1U);
        EXPECT_EQ(reader.columns(), 6U);
        EXPECT_EQ(reader.latitudes(), southward);
        EXPECT_TRUE(reader.global_longitudes());
        EXPECT_EQ(reader.longitudes()[0], longitudes == dateline ? 20.5 : 0.0);
        const FieldBox box{1, 4, 2, 6};
        std::vector<double> part(12);
        reader.read(0, 0, 0, box, part);
        for (std::size_t i = box.row_begin; i < box.row_end; ++i) {
          for (std::size_t j = box.column_begin; j < box.column_end; ++j) {
            double lon = reader.longitudes()[j];
            if (longitudes == dateline && lon > 180.0) lon -= 360.0;
            EXPECT_EQ(part[(i - 1) * 4 + j - 2], mark(0, 0, 0, southward[i], lon));
          }
        }
      }
    }
  }
}

TEST_F(Netcdf, FieldReaderRefusesWhatItWouldMisread) {
  const Scratch scratch("refuse");
  NetcdfWriter writer(scratch.path());
  add_grid(writer, southward, eastward);
  writer.add_dimension("band", 2);
  writer.add_dimension("one", 1);
  writer.add_coordinate("lat_v", std::vector<double>{67.5, 22.5, -22.5, -67.5},
                        {{"units", "degrees_north"}});
  writer.add_variable("banded", {"band", "lat", "lon"}, NetcdfType::float32);
  writer.add_variable("single", {"one", "lat", "lon"}, NetcdfType::float32);
  writer.add_variable("v", {"lat_v", "lon"}, NetcdfType::float32);
  writer.close();
  EXPECT_MENTIONS(message([&] { FieldReader r(scratch.path(), "banded"); }), "'band'");
  EXPECT_MENTIONS(message([&] { FieldReader r(scratch.path(), "single,v"); }), "(lat_v, lon)");
  EXPECT_NO_THROW(FieldReader(scratch.path(), "single"));
}

/// The four files of the project's own data folder, where there is one.
class RealFiles : public Netcdf {
 protected:
  void SetUp() override {
    Netcdf::SetUp();
    if (IsSkipped()) return;
    const char* folder = std::getenv("SHARD_DATA");
    if (folder == nullptr) GTEST_SKIP() << "SHARD_DATA names no folder";
    folder_ = std::string(folder) + "/";
  }
  /// Opens one, or skips if the folder lacks it.
  std::string file(const std::string& name) {
    const std::string path = folder_ + name;
    return std::ifstream(path).good() ? path : "";
  }

 private:
  std::string folder_;
};

TEST_F(RealFiles, Era5Members) {
  const std::string path = file("era5_zt_3deg_members.nc");
  if (path.empty()) GTEST_SKIP();
  const FieldReader reader(path, "z,t");
  EXPECT_EQ(reader.rows(), 61U);
  EXPECT_EQ(reader.columns(), 120U);
  EXPECT_EQ(reader.members(), 10U);
  EXPECT_EQ(reader.times(), 4U);
  EXPECT_EQ(reader.poles(), shard::PoleRows::on_row);
  EXPECT_EQ(reader.hours_between(0, 3), 36.0);
  ASSERT_EQ(reader.channels().size(), 4U);
  EXPECT_EQ(reader.channels()[3].name, "t 850 hPa");
  const auto z500 = reader.read(0, 0, 0);
  EXPECT_NEAR(z500[0], 51169.703125, 1e-9);
  EXPECT_EQ(z500[0], z500[119]);  // the pole is one place
  std::vector<double> part(6);
  EXPECT_EQ(reader.read(0, 0, 0, FieldBox{30, 32, 10, 13}, part), 0U);
  EXPECT_EQ(part[4], z500[31 * 120 + 11]);
  EXPECT_NEAR(reader.read(0, 0, 2)[0], 233.3096923828125, 1e-9);
}

TEST_F(RealFiles, EraInterimPackedShorts) {
  const std::string path = file("eraint_uvz.nc");
  if (path.empty()) GTEST_SKIP();
  const FieldReader reader(path, "u,v,z");
  EXPECT_EQ(reader.rows(), 241U);
  EXPECT_EQ(reader.columns(), 480U);
  EXPECT_EQ(reader.times(), 2U);
  EXPECT_EQ(reader.longitudes()[0], -180.0);
  EXPECT_EQ(reader.poles(), shard::PoleRows::on_row);
  EXPECT_EQ(reader.hours_between(0, 1), std::nullopt);  // months
  ASSERT_EQ(reader.channels().size(), 9U);
  EXPECT_EQ(reader.channels()[1].name, "u 500 hPa");
  std::vector<double> z(241 * 480);
  EXPECT_EQ(reader.read(0, 0, 6, FieldBox{0, 241, 0, 480}, z), 0U);
  EXPECT_NEAR(z[0], -23195 * -1.7250274674967954 + 66825.5, 1e-6);
  EXPECT_NEAR(reader.read(0, 0, 0)[3], 16338 * -0.001572704938045535 + 26.96875, 1e-9);
}

TEST_F(RealFiles, SurfaceTemperatureOnAGaussianGrid) {
  const std::string path = file("t_in_Celsius_1.nc");
  if (path.empty()) GTEST_SKIP();
  const FieldReader reader(path, "tC");
  EXPECT_EQ(reader.rows(), 96U);
  EXPECT_EQ(reader.columns(), 192U);
  EXPECT_EQ(reader.times(), 40U);
  EXPECT_EQ(reader.hours_between(0, 39), 234.0);
  EXPECT_EQ(reader.poles(), shard::PoleRows::between_rows);
  EXPECT_TRUE(reader.global_longitudes());
  EXPECT_EQ(reader.channels().at(0).units, "degC");
  EXPECT_NEAR(reader.read(0, 0, 0)[0], -30.761672973632812, 1e-12);
}

TEST_F(RealFiles, ReliefFromSouthToNorth) {
  const std::string path = file("etopo60.cdf");
  if (path.empty()) GTEST_SKIP();
  const FieldReader reader(path, "ROSE");
  EXPECT_EQ(reader.rows(), 180U);
  EXPECT_EQ(reader.columns(), 360U);
  EXPECT_EQ(reader.latitudes()[0], 89.5);
  EXPECT_EQ(reader.longitudes()[0], 20.5);
  EXPECT_EQ(reader.poles(), shard::PoleRows::between_rows);
  const auto relief = reader.read(0, 0, 0);
  EXPECT_NEAR(relief[179 * 360], 2814.333251953125,
              1e-9);          // the file's first row is the southernmost
  EXPECT_LT(relief[0], 0.0);  // the Arctic is sea
}

}  // namespace
