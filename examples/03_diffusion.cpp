// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A time loop: heat spreads on a torus. The interior is computed while messages are in transit. The
// two time levels are swapped, and one plan works for both.
#include <shard/shard.hpp>

#include <cmath>
#include <cstdio>

struct X;
struct Y;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Y, shard::Halo<1>, shard::Periodic>,
                                 shard::ShardDim<1, X, shard::Halo<1>, shard::Periodic>>;

constexpr double pi = 3.14159265358979323846;

struct Wave {  // one wave in each direction: it decays by the same factor in each step
  Field t;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    t(i, j) = Kokkos::sin(2 * pi * static_cast<double>(t.to_global(0, i)) /
                          static_cast<double>(t.global_extent(0))) *
              Kokkos::sin(2 * pi * static_cast<double>(t.to_global(1, j)) /
                          static_cast<double>(t.global_extent(1)));
  }
};

struct Step {
  Field now, next;
  double k;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    next(i, j) = now(i, j) + k * (now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1) -
                                  4 * now(i, j));
  }
};

struct Height {
  Field t;
  KOKKOS_FUNCTION double operator()(int i, int j) const { return Kokkos::abs(t(i, j)); }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  constexpr int n = 96, steps = 200;
  shard::Mesh<Y, X> mesh(environment.world(), {0, 0});
  Field now("now", mesh, {n, n}), next = now.like("next");
  Kokkos::DefaultExecutionSpace space;
  shard::parallel_for("wave", space, shard::owned_region(now), Wave{now});

  shard::Exchange halos(now);
  constexpr double k = 0.2;
  for (int step = 0; step < steps; ++step) {
    auto pending = halos.start(space, now);
    shard::parallel_for("interior", space, shard::interior(now), Step{now, next, k});
    pending.finish();
    shard::parallel_for("rim", space, shard::rim(now), Step{now, next, k});
    swap(now, next);
  }

  const double largest = shard::reduce<shard::Max>(space, now, Height{now});  // of all ranks

  const double decay    = 1 - 8 * k * std::pow(std::sin(pi / n), 2);
  const double expected = std::pow(decay, steps);
  if (mesh.rank() == 0)
    std::printf("after %d steps on %d ranks the wave's height is %.12f, exactly %.12f\n", steps,
                mesh.size(), largest, expected);
  return std::abs(largest - expected) < 1e-12 ? 0 : 1;
}
