// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An exchange on the device, forward and transposed: its kernels are instantiated in src/, here are
// the templates before them.
#include <shard/shard.hpp>

#include <type_traits>

struct X;
struct Y;

namespace {

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

struct Twice {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const { to(l, i, j) = 2 * from(l, i, j); }
};

}  // namespace

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
  parallel_for("step", space, loop.prepare(space, t), Twice{t, t2});
  loop.complete(space, t2);
  exchange(space, Unified("unified", mesh, {8}));
}
