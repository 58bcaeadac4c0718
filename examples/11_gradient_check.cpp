// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A custom operation with its tangent and its adjoint: checks them, then runs it backwards on a
// tape that stores three of a hundred states.
#include <shard/shard.hpp>

#include <cstdio>

struct Lat;
struct Lon;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>,
                                 shard::ShardDim<1, Lon, shard::Halo<1>, shard::Periodic>>;
using Space = Kokkos::DefaultExecutionSpace;

/// A step of Burgers' equation, upwind: y = x - c x (x - x to the west).
struct Burgers {
  double c = 0.2;

  void apply(const Space& space, const Field& y, const Field& x) const {
    shard::exchange(space, x);
    shard::parallel_for(
        "burgers", space, shard::owned_region(y), KOKKOS_CLASS_LAMBDA(int i, int j) {
          y(i, j) = x(i, j) - c * x(i, j) * (x(i, j) - x(i, j - 1));
        });
  }
  void pushforward(const Space& space, const Field& ty, const Field& tx, const Field& x) const {
    shard::exchange(space, tx);
    shard::parallel_for(
        "tangent", space, shard::owned_region(ty), KOKKOS_CLASS_LAMBDA(int i, int j) {
          ty(i, j) =
              tx(i, j) * (1.0 - c * (2.0 * x(i, j) - x(i, j - 1))) + c * x(i, j) * tx(i, j - 1);
        });
  }
  void pullback(const Space& space, const Field& dx, const Field& dy, const Field& x) const {
    shard::exchange(space, dy);  // each point reads from its eastern neighbour
    shard::parallel_for(
        "adjoint", space, shard::owned_region(dx), KOKKOS_CLASS_LAMBDA(int i, int j) {
          dx(i, j) =
              dy(i, j) * (1.0 - c * (2.0 * x(i, j) - x(i, j - 1))) + c * x(i, j + 1) * dy(i, j + 1);
        });
  }
};

Field wave(const Space& space, const shard::Mesh<Lat, Lon>& mesh, const char* label, double phase) {
  const Field f(label, mesh, {31, 60});
  shard::parallel_for(
      "wave", space, shard::owned_region(f), KOKKOS_LAMBDA(int i, int j) {
        f(i, j) = 0.5 + 0.3 * Kokkos::sin(phase + 0.1 * static_cast<double>(f.to_global(0, i)) +
                                          0.2094395 * static_cast<double>(f.to_global(1, j)));
      });
  return f;
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  Space space;
  const Burgers step;
  const Field x = wave(space, mesh, "x", 0.0), tx = wave(space, mesh, "tx", 1.0),
              dy = wave(space, mesh, "dy", 2.0);

  const double pair       = shard::dot_product_error(space, step, x, tx, dy);
  const double difference = shard::tangent_error(space, step, x, tx, dy);

  shard::Tape tape(space);
  const Field forecast = tape.loop(step, x, 100, {.slots = 3});
  const Field gradient = tape.pullback(forecast, dy);  // of J = <dy, forecast>
  const double slope   = shard::dot(space, gradient, tx);
  if (mesh.rank() == 0)
    std::printf(
        "<J tx, dy> and <tx, J' dy> differ by %.1e, J tx and differences by %.1e\n"
        "after 100 steps dJ along tx is %.12g; %d steps were made again\n",
        pair, difference, slope, static_cast<int>(tape.recomputed()));
  return pair < 1e-14 && difference < 1e-7 ? 0 : 1;
}
