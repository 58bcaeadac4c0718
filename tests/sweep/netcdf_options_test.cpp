// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/netcdf_output.hpp"
#include "sweep/options.hpp"

namespace sweep_options_test {

using shard::testing::ScratchFile;

TEST(Options, OfNetcdfOutput) {
  const Line mesh = line();
  const Field f   = field(mesh);
  const ScratchFile one("one.nc"), two("two.nc");
  struct Said {
    std::string path      = {};
    ExistingFile existing = ExistingFile::replace;
    std::string dimension = "y", units = "m", title = "a run", time = "days since 2000-01-01";
    NetcdfType type = NetcdfType::float64;
    double middle = 1.0, edge = 0.5, most = 1.0;
    std::string variable = "v";
    std::size_t entry    = 0;
    bool is_record       = true;
  };
  const auto write = [&](const Said& said) {
    return [&, said] {
      NetcdfOutput file(mesh.communicator(), said.path.empty() ? one.path() : said.path,
                        said.existing);
      if (said.is_record)
        file.add_time(said.time);
      else
        file.add_dimension("time", 3);
      file.add_dimension(said.dimension, 24);
      file.add_coordinate("x", std::vector<double>{0.0, said.middle, 2.0}, {},
                          std::vector<double>{-0.5, said.edge, 1.5, 2.5});
      file.add_variable("v", {"time", said.dimension, "x"}, said.type,
                        {{"units", said.units}, {"most", said.most}});
      file.add_variable("w", {"time", said.dimension, "x"}, said.type);
      file.add_attribute({"title", said.title});
      file.write(said.variable, said.entry, f);
      file.close();
    };
  };
  expect_disagreement(
      {{"path", {"one.nc", "two.nc"}, write({.path = differ(one.path(), two.path())})},
       {"existing",
        {"extends"},
        write({.existing = differ(ExistingFile::replace, ExistingFile::extend)})},
       {"dimension", {"y=24", "z=24"}, write({.dimension = differ("y", "z")})},
       {"attribute", {"units=m", "units=km"}, write({.units = differ("m", "km")})},
       {"digits of an attribute",
        {"most=0x1p+0", "most=0x1.00000000011"},
        write({.most = differ(1.0, 1.0 + 1e-12)})},
       {"attribute of the file",
        {"a run", "another"},
        write({.title = differ("a run", "another")})},
       {"units of time",
        {"2000", "2001"},
        write({.time = differ("days since 2000-01-01", "days since 2001-01-01")})},
       {"record dimension", {"time=0", "time=3"}, write({.is_record = !differs()})},
       {"type",
        {"double", "float"},
        write({.type = differ(NetcdfType::float64, NetcdfType::float32)})},
       {"coordinate", {}, write({.middle = differ(1.0, 1.25)})},
       {"edges", {}, write({.edge = differ(0.5, 0.75)})},
       {"variable", {"\"v\"", "\"w\""}, write({.variable = differ("v", "w")})},
       {"entry", {"entry 0", "entry 1"}, write({.entry = differ<std::size_t>(0, 1)})}});
  NetcdfOutput file(mesh.communicator(), one.path());
  file.add_time("days since 2000-01-01");
  expect_disagreement({{"entry of a number", {"entry 0", "entry 1"}, [&] {
                          file.write("time", differ<std::size_t>(0, 1), 1.0);
                        }}});
  file.write("time", 0, 1.0);
  file.close();
}

}  // namespace sweep_options_test
