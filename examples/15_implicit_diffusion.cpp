// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heat in the ocean's columns: each step is explicit along the surface and implicit downwards,
// where layers are thin and mixing is strong. A thread solves a column.
#include <shard/shard.hpp>
#include <shard/solve/tridiagonal.hpp>

#include <cmath>
#include <cstdio>

struct Lat;
struct Lon;

// temperature of 30 layers below each point; no heat flows through the coasts
constexpr int layers = 30;
using Field          = shard::ShardedView<double***, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Lat, shard::Halo<1>, shard::Symmetric>,
                                 shard::ShardDim<1, Lon, shard::Halo<1>, shard::Symmetric>>;

KOKKOS_INLINE_FUNCTION double thickness(int k) { return 5.0 * (1 + k); }  // m

struct Start {  // a warm patch at the surface
  Field t;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    const double y = static_cast<double>(t.to_global(0, i)) - 16.0,
                 x = static_cast<double>(t.to_global(1, j)) - 24.0;
    t(i, j, k)     = 4.0 + 20.0 * Kokkos::exp(-0.02 * (x * x + y * y) - 0.5 * k);
  }
};

struct Spread {  // along the surface, explicit
  Field to, t;
  double share;  // dt kappa / dx^2
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to(i, j, k) = t(i, j, k) + share * (t(i + 1, j, k) + t(i - 1, j, k) + t(i, j + 1, k) +
                                        t(i, j - 1, k) - 4.0 * t(i, j, k));
  }
};

/// Downwards, implicit: h (new - old) = dt d/dz (kappa d(new)/dz).
struct Mix {
  Field t, work;
  double dt;

  struct Column {  // of a field, from the surface down
    Field of;
    int i, j;
    KOKKOS_FUNCTION double& operator()(int k) const { return of(i, j, k); }
  };
  struct Thickness {
    KOKKOS_FUNCTION double operator()(int k) const { return thickness(k); }
  };
  struct Mixing {  // convection in the uppermost 50 m mixes a million times faster
    double dt;
    KOKKOS_FUNCTION double operator()(int k) const {
      return dt * (k < 4 ? 10.0 : 1e-5) / (0.5 * (thickness(k) + thickness(k + 1)));
    }
  };
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    const Column column{t, i, j};
    for (int k = 0; k < layers; ++k) column(k) *= thickness(k);
    shard::solve_diffusion_column(layers, Thickness{}, Mixing{dt}, column, column,
                                  Column{work, i, j});
  }
};

struct Heat {
  Field t;
  KOKKOS_FUNCTION double operator()(int i, int j, int k) const { return thickness(k) * t(i, j, k); }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  const Kokkos::DefaultExecutionSpace space;
  Field t("t", mesh, {32, 48, layers}), next = t.like("next"), work = t.like("work");
  shard::parallel_for("start", space, shard::owned_region(t), Start{t});

  const auto heat = [&] {
    return shard::reduce<shard::Determinism::ordered, shard::Sum>(space, t, Heat{t});
  };
  const double before = heat();
  const auto columns  = Kokkos::MDRangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::Rank<2>>(
      space, {0, 0}, {t.extent(0), t.extent(1)});
  const shard::Exchange halos(t);
  for (int step = 0; step < 48; ++step) {  // of half an hour
    shard::overlapped("spread", space, halos.of(t), t, Spread{next, t, 0.1});
    Kokkos::parallel_for("mix", columns, Mix{next, work, 1800.0});
    swap(t, next);
  }
  const double after = heat(), change = (after - before) / before;
  const double warmest = shard::norm_max(space, t);
  if (mesh.rank() == 0)
    std::printf("after a day: the warmest point has %.2f degrees, heat changed by %.1e of %.3e\n",
                warmest, change, before);
  return std::abs(change) < 1e-13 && warmest > 4.0 && warmest < 24.0 ? 0 : 1;
}
