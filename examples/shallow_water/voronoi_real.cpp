// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water on an icosahedral Voronoi mesh from real fields: ERA-Interim's winds and heights at
// 500 hPa over ETOPO's relief, regridded by sparse products. Writes a NetCDF file (CF, UGRID) and a
// checkpoint at half time, and goes on from that on one rank less: the same bits.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "../help.hpp"
#include "voronoi_maps.hpp"
#include "voronoi_model.hpp"
#include "voronoi_output.hpp"
#include "voronoi_regrid.hpp"

/// field = max(field / divisor - other, least)
struct ScaleKernel {
  Field<Cell> field, other;
  double divisor, least;
  KOKKOS_FUNCTION void operator()(int c) const {
    field(c) = Kokkos::fmax(field(c) / divisor - other(c), least);
  }
};
/// sum += part
struct AddKernel {
  Field<Edge> sum, part;
  KOKKOS_FUNCTION void operator()(int e) const { sum(e) += part(e); }
};
struct DepthKernel {
  Field<Cell> h;
  KOKKOS_FUNCTION double operator()(int c) const { return h(c); }
};
struct SpeedKernel {
  Field<Edge> u;
  KOKKOS_FUNCTION double operator()(int e) const { return Kokkos::fabs(u(e)); }
};

/// January's heights and winds at 500 hPa, and the relief, on the model's mesh. Returns whether the
/// regridding leaves a constant as it is.
bool start_from_files(Voronoi& model, const std::string& folder) {
  const Space space;
  const auto cells = model.places.cell.owned_ids(), edges = model.places.edge.owned_ids();
  const auto scale = [&](const Field<Cell>& field, double divisor, const Field<Cell>& less,
                         double least) {
    shard::parallel_for("scale", space, shard::owned_region(field),
                        ScaleKernel{field, less, divisor, least});
  };
  const Field<Cell> zero = model.h.like("zero");

  const FileGrid relief(model.ranks, folder + "/etopo60.cdf", "ROSE");
  const shard::SparseGather<double, Ranks, Cell, GridPoint> relief_means(
      model.ranks, cells, relief.ids, relief.cell_means(model.mesh, 4));
  relief_means.apply(space, model.ground, relief.read(0, "ROSE"));
  scale(model.ground, 1, zero, 0);  // the sea is flat

  const FileGrid era(model.ranks, folder + "/eraint_uvz.nc", "u,v,z");
  const shard::SparseGather<double, Ranks, Cell, GridPoint> means(model.ranks, cells, era.ids,
                                                                  era.cell_means(model.mesh, 2));
  const Field<GridPoint> z = era.read(0, "z 500 hPa"), one = z.like("one");
  shard::deep_copy(space, one, 1.0);
  means.apply(space, model.h, one);
  const double least   = shard::reduce<shard::Min>(space, model.h, DepthKernel{model.h}),
               largest = shard::reduce<shard::Max>(space, model.h, DepthKernel{model.h});
  means.apply(space, model.h, z);
  scale(model.h, gravity, model.ground, 500);

  const auto winds       = era.normal_winds(model.mesh, model.places.edge);
  const Field<Edge> part = model.u.like("northern part");
  const shard::SparseGather<double, Ranks, Edge, GridPoint> from_east(model.ranks, edges, era.ids,
                                                                      winds[0]),
      from_north(model.ranks, edges, era.ids, winds[1]);
  from_east.apply(space, model.u, era.read(0, "u 500 hPa"));
  from_north.apply(space, part, era.read(0, "v 500 hPa"));
  shard::parallel_for("add", space, shard::owned_region(part), AddKernel{model.u, part});
  model.set_coriolis();
  shard::exchange(space, model.ground);
  return std::fabs(least - 1) < 1e-12 && std::fabs(largest - 1) < 1e-12;
}

void draw(const std::string& path, const voronoi::Mesh& mesh, const Records& records, double days) {
  shard::Figure figure;
  figure.maps = {map_of(mesh, records.surface(), 120), map_of(mesh, records.vorticity(), 120)};
  for (double& z : figure.maps[1].values) z *= 1e5;
  figure.maps[0].title   = "Height of the surface";
  figure.maps[0].units   = "m";
  figure.maps[1].title   = "Relative vorticity";
  figure.maps[1].units   = "1e-5 / s";
  figure.maps[1].colours = shard::ColourScale::diverging;
  figure.maps[1].low     = -10;
  figure.maps[1].high    = 10;
  char title[80];
  std::snprintf(title, sizeof title, "From ERA-Interim, January, 500 hPa: day %.2f", days);
  figure.title = title;
  shard::write_png(path, figure);
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// A path for files that the program removes again, the same on every rank.
std::string scratch(MPI_Comm comm) {
  long process = getpid();
  MPI_Bcast(&process, 1, MPI_LONG, 0, comm);
  return (std::filesystem::temp_directory_path() / ("voronoi_real_" + std::to_string(process)))
      .string();
}

constexpr const char* usage =
    R"(voronoi_real [LEVEL [DAYS [PREFIX]]]: 10 * 4^LEVEL + 2 cells (3), 1 day. The environment variable
SHARD_DATA names the folder with eraint_uvz.nc and etopo60.cdf. Writes PREFIX.nc and a map every
six hours, PREFIX_000.png and so on; without PREFIX it removes its files.)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  const bool root    = environment.rank() == 0;
  const char* folder = std::getenv("SHARD_DATA");
  if (folder == nullptr || !shard::netcdf_available()) {
    if (root)
      std::printf("nothing done: SHARD_DATA names no folder, or this build has no NetCDF\n");
    return 0;
  }
  const int level          = argc > 1 ? std::atoi(argv[1]) : 3;
  const double days        = argc > 2 ? std::atof(argv[2]) : 1;
  const bool draws         = argc > 3 && shard::pictures_available();
  const std::string prefix = argc > 3 ? argv[3] : scratch(environment.world());
  const double dt          = 900 * std::pow(2.0, 4 - level);
  const int steps = static_cast<int>(std::lround(days * day / dt)), half = steps / 2,
            record = std::max(1, static_cast<int>(std::lround(0.25 * day / dt)));

  const voronoi::Mesh mesh(level);
  Voronoi model(environment.world(), mesh);
  bool right = start_from_files(model, folder);
  Records records(model);
  const auto before = model.budget();
  if (root)
    std::printf(
        "%zu cells, steps of %.0f s\n  day  depth, m   fastest, m/s  mass      energy    "
        "simulated days / s\n",
        mesh.cell.size(), dt);
  auto clock = std::chrono::steady_clock::now();
  for (int s = 0; s <= steps; ++s) {
    if (s == half) model.save(prefix + ".safetensors");
    if (s % record == 0 || s == steps) {
      const double now = s * dt / day;
      records.add(model, now);
      if (draws && root) {
        char name[16];
        std::snprintf(name, sizeof name, "_%03d.png", s / record);
        draw(prefix + name, mesh, records, now);
      }
      const Space space;
      const double least   = shard::reduce<shard::Min>(space, model.h, DepthKernel{model.h}),
                   fastest = shard::reduce<shard::Max>(space, model.u, SpeedKernel{model.u});
      const auto after     = model.budget();
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - clock).count();
      if (root)
        std::printf("%5.2f  %8.1f  %8.1f     %8.1e  %8.1e  %8.1f\n", now, least, fastest,
                    after[0] / before[0] - 1, after[1] / before[1] - 1,
                    s == 0 ? 0.0 : record * dt / day / seconds);
      right = right && least > 0 && fastest < 200 && std::fabs(after[0] / before[0] - 1) < 1e-13;
      clock = std::chrono::steady_clock::now();
    }
    if (s < steps) model.step(dt);
  }
  const auto h = model.by_id(model.h), u = model.by_id(model.u);

  // the second half again, on one rank less
  const int fewer = std::max(1, environment.size() - 1);
  MPI_Comm some   = MPI_COMM_NULL;
  MPI_Comm_split(environment.world(), environment.rank() < fewer ? 0 : MPI_UNDEFINED, 0, &some);
  if (some != MPI_COMM_NULL) {
    Voronoi again(some, mesh);
    start_from_files(again, folder);  // for the relief
    again.load(prefix + ".safetensors");
    for (int s = half; s < steps; ++s) again.step(dt);
    const auto h_again = again.by_id(again.h), u_again = again.by_id(again.u);
    if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
      if (root) right = right && same_bits(h, h_again) && same_bits(u, u_again);
    MPI_Comm_free(&some);
  }
  if (root) {
    records.write(prefix + ".nc", mesh);
    const shard::NetcdfFile file(prefix + ".nc");
    const auto surface = file.read("surface");
    right              = right && same_bits(std::vector<double>(
                                   surface.end() - static_cast<std::ptrdiff_t>(mesh.cell.size()),
                                   surface.end()),
                                            records.surface());
    std::printf(right ? "the same bits after a restart on %d ranks; wrote %s.nc\n"
                      : "something is wrong: restart on %d ranks, %s.nc\n",
                fewer, prefix.c_str());
    if (argc <= 3)
      for (const char* end : {".nc", ".safetensors"}) std::filesystem::remove(prefix + end);
  }
  return right ? 0 : 1;
}
