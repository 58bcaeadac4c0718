// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "checksum.hpp"
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

using Field =
    shard::ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, shard::Periodic>,
                       ShardDim<1, X, Halo<1>, shard::Periodic>,
                       ShardDim<2, Unsharded, Halo<1>, shard::Periodic>>;

template <class F>
struct StartKernel {
  F to;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to(i, j, k) = Kokkos::sin(0.1 * static_cast<double>(to.to_global(0, i)) +
                              0.2 * static_cast<double>(to.to_global(1, j)) +
                              0.3 * static_cast<double>(to.to_global(2, k)));
  }
};
struct StencilKernel {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to(i, j, k) =
        0.25 * from(i, j, k) + 0.125 * (from(i - 1, j, k) + from(i + 1, j, k) + from(i, j - 1, k) +
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

workloads::Run workloads::exchange(MPI_Comm comm, int parts) {
  constexpr int n = 64;
  const auto in   = shape_of(parts);
  const Mesh mesh(comm, {0, 0});
  struct Fields {
    Field a, b, next_a, next_b;
  };
  const Field a("a", mesh, {n * in[0], n * in[1], n});
  const auto f = std::make_shared<Fields>(Fields{a, a.like("b"), a.like("next"), a.like("next")});
  for (const Field& start : {f->a, f->b})
    shard::parallel_for("start", Space(), shard::owned_region(start), StartKernel<Field>{start});
  const auto step = [f] {
    const Space space;
    shard::exchange(space, f->a, f->b);
    shard::parallel_for("stencil", space, shard::owned_region(f->a),
                        StencilKernel{f->a, f->next_a});
    shard::parallel_for("stencil", space, shard::owned_region(f->b),
                        StencilKernel{f->b, f->next_b});
    swap(f->a, f->next_a);
    swap(f->b, f->next_b);
    space.fence("benchmark");
  };
  return {step, [=] { return checksum(comm, f->a) + 3 * checksum(comm, f->b); }};
}

workloads::Run workloads::transposes(MPI_Comm comm, int parts) {
  constexpr int n = 48;
  const auto in   = shape_of(parts);
  const Mesh mesh(comm, {0, 0});
  const std::array<shard::index_t, 3> extents{n * in[0], n * in[1], std::max(n, in[1])};
  const Pencils p{{"z", mesh, extents}, {"y", mesh, extents}, {"x", mesh, extents}};
  shard::parallel_for("start", Space(), shard::owned_region(p.along_z),
                      StartKernel<Pencil<0, 1>>{p.along_z});
  const auto step = [p] {
    const Space space;
    shard::redistribute(space, p.along_y, p.along_z);
    shard::redistribute(space, p.along_x, p.along_y);
    shard::redistribute(space, p.along_y, p.along_x);
    shard::redistribute(space, p.along_z, p.along_y);
    space.fence("benchmark");
  };
  return {step, [=] { return checksum(comm, p.along_z) + 3 * checksum(comm, p.along_x); }};
}
