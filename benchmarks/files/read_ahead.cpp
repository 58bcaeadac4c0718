// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// read_ahead [--samples N] [FOLDER]: steps of a small model whose samples are read
// from a NetCDF file in FOLDER (.), first between the steps and then by ReadAhead, in turns.
// hidden: the share of the reading that the steps hide.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "shard/io/netcdf.hpp"
#include "shard/io/read_ahead.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/shard.hpp"
#include "support/arguments.hpp"

namespace {

struct Lat;
struct Lon;
using Space = Kokkos::DefaultHostExecutionSpace;
using Grid  = shard::Mesh<Lat, Lon>;
using Conv3 = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>,
                          shard::PaddingMode<shard::Clamp, shard::Periodic>>;

constexpr std::size_t levels = 8, rows = 181, columns = 360;

void write(const std::string& path, std::size_t samples) {
  shard::NetcdfWriter writer(path);
  const auto coordinate = [&](const char* name, std::size_t n, double first, double step,
                              const char* units) {
    std::vector<double> values;
    for (std::size_t i = 0; i < n; ++i) values.push_back(first + static_cast<double>(i) * step);
    writer.add_coordinate(name, values, {{"units", units}});
  };
  coordinate("time", samples, 0, 6, "hours since 2017-01-01 00:00:00");
  coordinate("level", levels, 10000, 10000, "Pa");
  coordinate("lat", rows, 90, -1, "degrees_north");
  coordinate("lon", columns, 0, 1, "degrees_east");
  writer.add_variable("t", {"time", "level", "lat", "lon"}, shard::NetcdfType::float32);
  std::vector<double> map(rows * columns);
  for (std::size_t t = 0; t < samples; ++t)
    for (std::size_t l = 0; l < levels; ++l) {
      for (std::size_t i = 0; i < map.size(); ++i)
        map[i] = std::sin(static_cast<double>(i + 31 * t + 7 * l));
      const std::size_t start[] = {t, l, 0, 0}, count[] = {1, 1, rows, columns};
      writer.write("t", start, count, map);
    }
  writer.close();
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  int samples        = 40;
  std::string folder = ".";
  support::Arguments given(argc, argv, "[--samples N] [FOLDER]");
  given.take("--samples", samples, 1);
  given.next("FOLDER", folder);
  if (!given.understood()) return 2;
  const std::string path = folder + "/read_ahead.nc";
  if (environment.rank() == 0) write(path, static_cast<std::size_t>(samples));
  MPI_Barrier(environment.world());
  {
    const shard::FieldReader reader(path, "t");
    const Space space;
    const Grid mesh(environment.world(), {0, 1});
    const auto model = shard::sequential<float, Kokkos::HostSpace>(
        Conv3{levels, levels}, shard::SiLU{}, Conv3{levels, levels});
    const auto net = shard::domain_parallel<Lat, Lon>(model, mesh);
    const auto x = net.input("x", {1, levels, rows, columns}), dx = x.like("dx");
    using Field = std::remove_const_t<decltype(x)>;
    std::vector<shard::FieldSample> order;
    for (int t = 0; t < samples; ++t) order.push_back({0, static_cast<std::size_t>(t)});
    const auto step = [&] {
      const auto& y = net(space, x);
      net.pullback(space, dx, y, x);
      space.fence("step");
    };
    const auto seconds = [&](const auto& call) {
      MPI_Barrier(environment.world());
      const double begin = MPI_Wtime();
      call();
      MPI_Barrier(environment.world());
      return MPI_Wtime() - begin;
    };
    // the reading by itself and the steps by themselves, then one after the other, then at once
    const auto read_all = [&](bool with_steps, bool waits) {
      shard::ReadAhead<Field> ahead(reader, x, order, waits ? 1 : 2);
      while (ahead.left() > 0) {
        ahead.next(space, x);
        if (with_steps) step();
      }
    };
    const auto in_turn = [&] {
      for (const shard::FieldSample& one : order) {
        shard::ReadAhead<Field>(reader, x, {one}).next(space, x);
        step();
      }
    };
    std::vector<double> read, steps, sequence, at_once;
    read_all(true, false);
    for (int round = 0; round < 5; ++round) {
      read.push_back(seconds([&] { read_all(false, true); }));
      steps.push_back(seconds([&] {
        for (int t = 0; t < samples; ++t) step();
      }));
      sequence.push_back(seconds(in_turn));
      at_once.push_back(seconds([&] { read_all(true, false); }));
    }
    const auto per_sample = [&](std::vector<double>& times) {
      std::sort(times.begin(), times.end());
      return 1e3 * times[times.size() / 2] / samples;
    };
    const double r = per_sample(read), s = per_sample(steps), q = per_sample(sequence),
                 a = per_sample(at_once);
    if (environment.rank() == 0)
      std::printf(
          "%d ranks, ms per sample: reading %.2f, step %.2f, in turn %.2f, ahead %.2f; hidden "
          "%.2f of what can be\n",
          environment.size(), r, s, q, a, (r + s - a) / std::min(r, s));
  }
  MPI_Barrier(environment.world());
  if (environment.rank() == 0) std::remove(path.c_str());
}
