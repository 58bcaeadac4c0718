// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An atmosphere and an ocean on ranks of their own exchange heat flux and surface temperature each
// hour, each on its own grid. A conservative remap, a sparse matrix, takes what arrives to the
// receiver's grid. The last rank takes snapshots while both go on. The run is done twice, on these
// ranks and on each rank alone; both have the same bits.
#include <shard/redistribute/coupling.hpp>
#include <shard/shard.hpp>
#include <shard/solve/sparse_matrix.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "help.hpp"

struct Ranks;  // of a component: each has some circles of latitude
struct AirCell;
struct SeaCell;

using Space  = Kokkos::DefaultExecutionSpace;
using Grid   = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Ranks>>;
using Couple = shard::Coupling<Grid, Grid>;

constexpr double pi = 3.14159265358979323846;
constexpr int hours = 24;
struct Size {
  int lats, lons;
};
constexpr Size air_size{24, 40}, sea_size{30, 36};

/// Of the southern edge of circle i of n: the sine of its latitude, on which area depends linearly.
KOKKOS_FUNCTION double edge(shard::index_t i, shard::index_t n) {
  return Kokkos::sin(pi * (static_cast<double>(i) / static_cast<double>(n) - 0.5));
}
/// The area of a cell, as a part of the sphere's.
KOKKOS_FUNCTION double area(const Grid& f, int i) {
  const shard::index_t g = f.to_global(0, i), n = f.global_extent(0);
  return (edge(g + 1, n) - edge(g, n)) / 2 / static_cast<double>(f.global_extent(1));
}

/// How much [a, a + 1) / n of the receiver overlaps with [b, b + 1) / m, by the edges' places.
template <class Edge>
double overlap(int a, int n, int b, int m, const Edge& place) {
  return std::min(place(a + 1, n), place(b + 1, m)) - std::max(place(a, n), place(b, m));
}

/// A component: its temperature, and the other's field, as it arrives and on its own grid.
template <class Own, class Other>
struct Component {
  using Matrix = shard::SparseMatrix<double, Ranks, Own, Other>;

  shard::Mesh<Ranks> mesh;
  shard::Partition own_rows, other_rows;
  Matrix matrix;
  typename Matrix::column_vector x;
  typename Matrix::row_vector y;
  Grid temperature, flux, arriving, remapped;

  Component(MPI_Comm comm, const char* name, Size own, Size other)
      : mesh(comm, {0}),
        own_rows(shard::Partition::balanced(own.lats, mesh.size())),
        other_rows(shard::Partition::balanced(other.lats, mesh.size())),
        matrix(mesh, ids(own_rows, own.lons), ids(other_rows, other.lons), weights(own, other)),
        x(matrix.make_column_vector("arriving")),
        y(matrix.make_row_vector("remapped")),
        temperature(name, mesh, {own.lats, own.lons}),
        flux(temperature.like("flux")),
        arriving(over(x.view().data(), other_rows, other.lons)),  // the vectors' memory
        remapped(over(y.view().data(), own_rows, own.lons)) {}

  void remap(const Space& space) const { matrix.apply(space, y, x); }

 private:
  std::vector<std::int64_t> ids(const shard::Partition& rows, int lons) const {
    std::vector<std::int64_t> list;
    for (auto id = rows.begin(mesh.rank()) * lons; id < rows.begin(mesh.rank() + 1) * lons; ++id)
      list.push_back(id);
    return list;
  }
  Grid over(double* data, const shard::Partition& rows, int lons) const {
    const Grid::view_type view(data, static_cast<std::size_t>(rows.count(mesh.rank())),
                               static_cast<std::size_t>(lons));
    return {mesh, view, {rows, shard::Partition::balanced(lons, 1)}};
  }
  /// The mean over each own cell: the parts of its area that are in the other's cells.
  std::vector<shard::MatrixEntry<double>> weights(Size own, Size other) const {
    const auto sine = [](int i, int n) { return edge(i, n); };
    const auto line = [](int i, int n) { return static_cast<double>(i) / n; };
    std::vector<shard::MatrixEntry<double>> list;
    for (auto i = static_cast<int>(own_rows.begin(mesh.rank()));
         i < own_rows.begin(mesh.rank() + 1); ++i)
      for (int k = 0; k < other.lats; ++k)
        if (const double high = overlap(i, own.lats, k, other.lats, sine); high > 0)
          for (int j = 0; j < own.lons; ++j)
            for (int l = 0; l < other.lons; ++l)
              if (const double wide = overlap(j, own.lons, l, other.lons, line); wide > 0)
                list.push_back({i * own.lons + j, k * other.lons + l,
                                high / overlap(i, own.lats, i, own.lats, sine) * wide * own.lons});
    return list;
  }
};
using Air = Component<AirCell, SeaCell>;
using Sea = Component<SeaCell, AirCell>;

struct StartKernel {
  Grid t;
  double mean, range;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    const shard::index_t g = t.to_global(0, i), n = t.global_extent(0);
    const double sine = (edge(g, n) + edge(g + 1, n)) / 2;
    const double wave =
        Kokkos::cos(6 * pi * static_cast<double>(j) / static_cast<double>(t.global_extent(1)));
    t(i, j) = mean - range * sine * sine * (1 + 0.3 * wave);
  }
};
/// The heat that leaves the air in an hour.
struct AirKernel {
  Grid t, sea, flux;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    flux(i, j) = 0.1 * (t(i, j) - sea(i, j));
    t(i, j) -= flux(i, j);
  }
};
struct SeaKernel {
  Grid t, flux;
  KOKKOS_FUNCTION void operator()(int i, int j) const { t(i, j) += 0.2 * flux(i, j); }
};
struct TotalOf {
  Grid f;
  KOKKOS_FUNCTION double operator()(int i, int j) const { return area(f, i) * f(i, j); }
};
double total(const Space& space, const Grid& f) {
  return shard::reduce<shard::Determinism::ordered>(space, f, TotalOf{f});
}

struct Result {
  std::array<double, hours> sent, received;  // of each hour's flux
  std::array<double, hours> heat;            // of the sea, in the writer's snapshots
};

/// A day on these ranks: the roles of this one.
Result run(MPI_Comm comm, bool is_air, bool is_sea, bool is_writer, bool prints) {
  const Space space;
  const auto ranks_of = [&](bool in) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(comm, in ? 0 : MPI_UNDEFINED, 0, &part);
    return part;
  };
  MPI_Comm air_ranks = ranks_of(is_air), sea_ranks = ranks_of(is_sea), one = ranks_of(is_writer);
  Result result;
  for (auto* list : {&result.sent, &result.received, &result.heat}) list->fill(-1e300);
  {
    std::optional<Air> air;
    std::optional<Sea> sea;
    std::optional<Grid> snapshot;
    if (is_air) air.emplace(air_ranks, "air", air_size, sea_size);
    if (is_sea) sea.emplace(sea_ranks, "sea", sea_size, air_size);
    if (is_writer)
      snapshot.emplace("snapshot", shard::Mesh<Ranks>(one, {0}),
                       shard::Extents<2>{sea_size.lats, sea_size.lons});

    Couple flux(comm, sea ? &sea->arriving : nullptr, air ? &air->flux : nullptr);
    Couple surface(comm, air ? &air->arriving : nullptr, sea ? &sea->temperature : nullptr);
    Couple writer(comm, snapshot ? &*snapshot : nullptr, sea ? &sea->temperature : nullptr);

    const auto start = [&](const Grid& t, double mean, double range) {
      shard::parallel_for("start", space, shard::owned_region(t), StartKernel{t, mean, range});
    };
    if (air) start(air->temperature, 300, 60);
    if (sea) start(sea->temperature, 302, 30);
    for (int hour = 0; hour < hours; ++hour) {
      if (air) {
        result.sent[hour] = total(space, air->flux);
        flux.finish(space);  // the hour before
        flux.send(space);
      }
      if (sea) {
        surface.finish(space);
        surface.send(space);
        writer.finish(space);
        writer.send(space);
        flux.receive(space);
        sea->remap(space);
        result.received[hour] = total(space, sea->remapped);
      }
      if (snapshot) {
        writer.receive(space);
        result.heat[hour] = total(space, *snapshot);
        if (prints && hour % 6 == 0)
          std::printf("hour %2d: the sea has %.12f K\n", hour, result.heat[hour]);
      }
      if (air) {
        surface.receive(space);
        air->remap(space);
        shard::parallel_for("air", space, shard::owned_region(air->flux),
                            AirKernel{air->temperature, air->remapped, air->flux});
      }
      if (sea)
        shard::parallel_for("sea", space, shard::owned_region(sea->temperature),
                            SeaKernel{sea->temperature, sea->remapped});
    }
  }
  for (MPI_Comm* part : {&air_ranks, &sea_ranks, &one})
    if (*part != MPI_COMM_NULL) MPI_Comm_free(part);
  for (auto* list : {&result.sent, &result.received, &result.heat})
    MPI_Allreduce(MPI_IN_PLACE, list->data(), hours, MPI_DOUBLE, MPI_MAX, comm);
  return result;
}

constexpr const char* usage =
    R"(16_coupled [OCEAN]: ranks of the ocean (a third); the last rank is the writer, the others are
the atmosphere. On fewer than three ranks each rank is all of them.)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  int rank = 0, size = 1;
  MPI_Comm_rank(environment.world(), &rank);
  MPI_Comm_size(environment.world(), &size);
  const bool alone = size < 3;
  const int seas = std::min(argc > 1 ? std::atoi(argv[1]) : std::max(1, (size - 1) / 3), size - 2);
  const bool is_writer = rank == size - 1, is_sea = !is_writer && rank >= size - 1 - seas;
  const Result here =
      run(alone ? MPI_COMM_SELF : environment.world(), alone || (!is_writer && !is_sea),
          alone || is_sea, alone || is_writer, alone ? rank == 0 : is_writer);
  const Result serial = run(MPI_COMM_SELF, true, true, true, false);

  double lost = 0;
  for (int h = 1; h < hours; ++h)  // the first is zero
    lost = std::max(lost, std::abs(here.sent[h] - here.received[h]) / std::abs(here.sent[h]));
  int differ =
      here.sent != serial.sent || here.received != serial.received || here.heat != serial.heat;
  MPI_Allreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_MAX, environment.world());
  if (rank == 0)
    std::printf("the remap loses at most %.1e of an hour's flux; %s on one rank\n", lost,
                differ != 0 ? "other numbers" : "the same numbers");
  return differ == 0 && lost < 1e-14 ? 0 : 1;
}
