// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>

#include "shard/shard.hpp"
#include "workloads.hpp"

namespace {

struct Y;
struct X;
using shard::Halo;
using shard::ShardDim;
using shard::Unsharded;
using Space = Kokkos::DefaultExecutionSpace;
using Mesh  = shard::Mesh<Y, X>;

using Field = shard::ShardedView<double***, Kokkos::LayoutRight,
                                 ShardDim<0, Y, Halo<1>, shard::Periodic>,
                                 ShardDim<1, X, Halo<1>, shard::Periodic>,
                                 ShardDim<2, Unsharded, Halo<1>, shard::Periodic>>;

struct StencilKernel {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to(i, j, k) = 0.25 * from(i, j, k) +
                  0.125 * (from(i - 1, j, k) + from(i + 1, j, k) + from(i, j - 1, k) +
                           from(i, j + 1, k) + from(i, j, k - 1) + from(i, j, k + 1));
  }
};

template <int D0, int D1>
using Pencil = shard::ShardedView<double***, Kokkos::LayoutRight, ShardDim<D0, Y>, ShardDim<D1, X>>;

struct Pencils {
  Pencil<0, 1> along_z;
  Pencil<0, 2> along_y;
  Pencil<1, 2> along_x;
};

}  // namespace

workloads::Step workloads::exchange(MPI_Comm comm) {
  constexpr int n = 64;
  const Mesh mesh(comm, {0, 0});
  Field now("now", mesh, {n * mesh.size<Y>(), n * mesh.size<X>(), n});
  const Field then = now.like("then"), tracer = now.like("tracer");
  Kokkos::deep_copy(now.view(), 1.0);
  return [=]() mutable {
    const Space space;
    shard::exchange(space, now, tracer);
    shard::parallel_for("stencil", space, shard::owned_region(then), StencilKernel{now, then});
    shard::parallel_for("stencil", space, shard::owned_region(now), StencilKernel{tracer, now});
    space.fence("benchmark");
  };
}

workloads::Step workloads::transposes(MPI_Comm comm) {
  constexpr int n = 48;
  const Mesh mesh(comm, {0, 0});
  const std::array<shard::index_t, 3> extents{n * mesh.size<Y>(), n * mesh.size<X>(),
                                              std::max(n, mesh.size<X>())};
  const Pencils p{{"z", mesh, extents}, {"y", mesh, extents}, {"x", mesh, extents}};
  return [p] {
    const Space space;
    shard::redistribute(space, p.along_y, p.along_z);
    shard::redistribute(space, p.along_x, p.along_y);
    shard::redistribute(space, p.along_y, p.along_x);
    shard::redistribute(space, p.along_z, p.along_y);
    space.fence("benchmark");
  };
}
