// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_AUTODIFF_OPERATIONS_HPP
#define SHARD_TESTS_AUTODIFF_OPERATIONS_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cmath>

#include "shard/autodiff/halo_exchange.hpp"
#include "shard/shard.hpp"
#include "support/on_host.hpp"

namespace shard::testing {

struct Lat;
struct Lon;
using Space = Kokkos::DefaultExecutionSpace;
using Grid  = Mesh<Lat, Lon>;
using Bare  = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<1, Lon>>;
using Halos = HaloExchange<ShardDim<0, Lat, Halo<1>, Reflect>, ShardDim<1, Lon, Halo<1>, Periodic>>;
using Field = Halos::output_t<Bare>;

/// y = x + c (sum of four neighbours - 4 x) + c x^3, a step that isn't linear, on any value type.
template <class To, class From>
struct StepKernel {
  To y;
  From x;
  double c;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    const auto v = x(i, j);
    y(i, j) =
        v + c * (x(i - 1, j) + x(i + 1, j) + x(i, j - 1) + x(i, j + 1) - 4.0 * v) + c * (v * v * v);
  }
};
struct StepTangentKernel {
  Field ty, tx, x;
  double c;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    const double t = tx(i, j), v = x(i, j);
    ty(i, j) = t + c * (tx(i - 1, j) + tx(i + 1, j) + tx(i, j - 1) + tx(i, j + 1) - 4.0 * t) +
               3.0 * c * (v * v * t);
  }
};
/// What each owned cell of dy gives to the cells that it read; serial, for a test.
struct StepAdjointKernel {
  Field dx, dy, x;
  double c;
  KOKKOS_FUNCTION void operator()(int) const {
    for (int i = 0; i < static_cast<int>(dy.extent(0)); ++i)
      for (int j = 0; j < static_cast<int>(dy.extent(1)); ++j) {
        const double d = dy(i, j), v = x(i, j);
        dx(i, j) += d * (1.0 - 4.0 * c + 3.0 * c * v * v);
        dx(i - 1, j) += c * d;
        dx(i + 1, j) += c * d;
        dx(i, j - 1) += c * d;
        dx(i, j + 1) += c * d;
      }
  }
};

/// Counts what is asked of it; copies share the counts.
struct Counts {
  int applied = 0, pulled = 0;
};

struct Step {
  double c       = 0.05;
  Counts* counts = nullptr;

  template <class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    if (counts != nullptr) ++counts->applied;
    exchange(space, x);
    shard::parallel_for("step", space, owned_region(y), StepKernel<Y, X>{y, x, c});
  }
  void pushforward(const Space& space, const Field& ty, const Field& tx, const Field& x) const {
    exchange(space, tx);
    shard::parallel_for("tangent of a step", space, owned_region(ty),
                        StepTangentKernel{ty, tx, x, c});
  }
  void pullback(const Space& space, const Field& dx, const Field& dy, const Field& x) const {
    if (counts != nullptr) ++counts->pulled;
    deep_copy(space, dx, 0.0);
    Kokkos::parallel_for("adjoint of a step", Kokkos::RangePolicy<Space>(space, 0, 1),
                         StepAdjointKernel{dx, dy, x, c});
    exchange_adjoint(space, dx);
  }
};

/// A field with values that depend on the global index only.
template <class F>
void fill(const F& f, double phase) {
  const auto host = create_mirror_view(f);
  for (index_t i = 0; i < f.extent(0); ++i)
    for (index_t j = 0; j < f.extent(1); ++j)
      host(i, j) = std::sin(phase + 0.7 * static_cast<double>(f.begin(0) + i) +
                            1.3 * static_cast<double>((f.begin(1) + j) * (f.begin(0) + i + 1)));
  deep_copy(Space(), f, host);
  Space().fence("filled");
}

struct ProductKernel {
  Field to, a, b;
  double c;
  KOKKOS_FUNCTION void operator()(int i, int j) const { to(i, j) = c * a(i, j) * b(i, j); }
};
/// to = c a b on the owned cells.
inline void product(const Space& space, const Field& to, double c, const Field& a, const Field& b) {
  shard::parallel_for("product", space, owned_region(to), ProductKernel{to, a, b, c});
}

/// y = x^2, from what the last apply of any copy has left.
struct Square {
  static constexpr bool remembers = true;
  Field last;

  void apply(const Space& space, const Field& y, const Field& x) const {
    product(space, y, 1.0, x, x);
    deep_copy(space, last, x);
  }
  void pushforward(const Space& space, const Field& ty, const Field& tx) const {
    product(space, ty, 2.0, last, tx);
  }
  void pullback(const Space& space, const Field& dx, const Field& dy) const {
    product(space, dx, 2.0, last, dy);
  }
};

/// All ranks along the first axis, or the squarest mesh.
inline Grid grid(bool square) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int rows = 1;
  for (int r = 1; r * r <= ranks; ++r)
    if (ranks % r == 0) rows = r;
  return square ? Grid(MPI_COMM_WORLD, {rows, ranks / rows}) : Grid(MPI_COMM_WORLD, {ranks, 1});
}

/// 5 rows and 6 columns: empty shards on many ranks.
inline Field field(const Grid& mesh, double phase, const char* label) {
  const Field f(label, mesh, {5, 6});
  fill(f, phase);
  return f;
}

}  // namespace shard::testing

#endif
