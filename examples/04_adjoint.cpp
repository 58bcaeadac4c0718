// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transpose of an exchange, and its dot-product test: <E x, y> = <x, E' y> for random x and y.
#include <shard/shard.hpp>

#include <cmath>
#include <cstdio>
#include <random>

struct Lat;
struct Lon;

using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, Lat, shard::Halo<2>,
                                       shard::PoleFold<1, shard::Pole::on_row, shard::Parity::odd>>,
                       shard::ShardDim<1, Lon, shard::Halo<1, 3>, shard::Periodic>,
                       Kokkos::HostSpace>;

/// <a, b> over all ranks: over the owned points, or with the halos.
double dot(const Field& a, const Field& b, bool halos) {
  double here = 0, all = 0;
  const int south = halos ? Field::halo<0>::lo : 0, north = halos ? Field::halo<0>::hi : 0;
  const int west = halos ? Field::halo<1>::lo : 0, east = halos ? Field::halo<1>::hi : 0;
  for (int i = -south; i < a.extent(0) + north; ++i)
    for (int j = -west; j < a.extent(1) + east; ++j) here += a(i, j) * b(i, j);
  MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_SUM, a.communicator());
  return all;
}

void randomise(const Field& f, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  for (int i = -2; i < f.extent(0) + 2; ++i)
    for (int j = -1; j < f.extent(1) + 3; ++j) f(i, j) = normal(engine);
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  Field x("x", mesh, {31, 60}), y = x.like("y"), ex = x.like("E x"), ey = x.like("E' y");
  randomise(x, 1u + static_cast<unsigned>(mesh.rank()));
  randomise(y, 1000u + static_cast<unsigned>(mesh.rank()));

  Kokkos::DefaultHostExecutionSpace space;
  shard::deep_copy(space, ex, x);
  shard::deep_copy(space, ey, y);
  shard::Exchange halos(x);
  halos(space, ex);          // fills the halos from their owners
  halos.adjoint(space, ey);  // adds halo values to their owners, zeroes the halos

  const double left = dot(ex, y, true), right = dot(x, ey, false);
  if (mesh.rank() == 0) std::printf("<E x, y> = %.15g\n<x, E' y> = %.15g\n", left, right);
  return std::abs(left - right) <= 1e-12 * std::abs(left) ? 0 : 1;
}
