// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An exchange on the device, forward and transposed: its kernels are instantiated in src/, here are
// the templates before them.
#include <shard/shard.hpp>

#include <type_traits>

struct X;
struct Y;

namespace device_exchange {

using namespace shard;
using Space = Kokkos::DefaultExecutionSpace;
using Field = ShardedView<double***, Kokkos::LayoutRight,
                          ShardDim<1, Y, Halo<1>, PoleFold<2, Pole::on_row, Parity::odd>>,
                          ShardDim<2, X, Halo<2, 1>, Periodic>>;
using Other = ShardedView<std::int16_t**, Kokkos::LayoutLeft, ShardDim<0, X, Halo<1>, Constant<3>>>;

// Memory that the host reaches too, as on MI300A and GH200, is a device's where its kernels run.
#if defined(KOKKOS_ENABLE_CUDA)
using UnifiedMemory = Kokkos::CudaUVMSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using UnifiedMemory = Kokkos::HIPManagedSpace;
#endif
using Unified =
    ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Periodic>, UnifiedMemory>;
static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, UnifiedMemory>::accessible);
static_assert(!impl::is_host_space_v<Unified::execution_space>);
static_assert(std::is_same_v<impl::PlanMemory<Unified>, Space::memory_space>);

/// A tripolar grid, with a boundary of the caller's at the lower of its levels and one for each of
/// its variables.
struct Inflow {
  double time;
  template <class F>
  KOKKOS_FUNCTION double operator()(const F& f, const OutsidePoint<3>& at) const {
    return time * f(0, at.index[1], at.index[2]);
  }
};
struct InflowAdjoint {
  double time;
  template <class F>
  KOKKOS_FUNCTION void operator()(const F& f, const OutsidePoint<3>& at, double cotangent) const {
    Kokkos::atomic_add(&f(0, at.index[1], at.index[2]), time * cotangent);
  }
};
using Ocean = ShardedView<
    double***, Kokkos::LayoutRight,
    ShardDim<0, Unsharded, Halo<1>, Sides<Custom<Inflow, InflowAdjoint>, Odd<Symmetric>>>,
    ShardDim<1, Y, Halo<1>, Sides<Clamp, NorthFold<2, Pivot::t_point, At::east, Parity::odd>>>,
    ShardDim<2, X, Halo<1>, Periodic>>;
using State = ShardedView<double***, Kokkos::LayoutRight,
                          ShardDim<1, Y, Halo<1>, ByIndex<0, Clamp, Given, Odd<Reflect>>>>;

template <class F>
struct TwiceOf {
  F from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const { to(l, i, j) = 2 * from(l, i, j); }
};

void use_exchanges(const Mesh<Y, X>& mesh) {
  const Space space;
  const Field t("t", mesh, {2, 8, 8}), t2 = t.like("t2");
  const Other q("q", mesh, {8, 3});
  exchange(space, t, q);
  exchange_adjoint(space, t, q);
  const Exchange halos(t, q);
  auto pending = halos.start(space, t2, q);
  pending.finish();
  halos.adjoint(space);
  mark_written(space, t2);
  auto loop = steps_per_exchange<1>(Reach<Halo<1>, Halo<2, 1>>{}, t);
  parallel_for("step", space, loop.prepare(space, t), TwiceOf<Field>{t, t2});
  loop.complete(space, t2);
  exchange(space, Unified("unified", mesh, {8}));
  const Ocean u("u", mesh, {4, 8, 8}), v = u.like("v");
  const Exchange ocean(u);
  ocean.with(Inflow{1.0})(space);
  ocean.with(InflowAdjoint{1.0}).adjoint(space);
  overlapped("step", space, ocean.with(Inflow{2.0}), u, TwiceOf<Ocean>{u, v});
  parallel_for("outside", space, grown<2>(beyond<Y>(u), 1, 1), TwiceOf<Ocean>{u, u});
  const State s("s", mesh, {3, 8, 8});
  exchange(space, s);
}

}  // namespace device_exchange
