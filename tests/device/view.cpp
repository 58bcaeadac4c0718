// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of regions, and everything of a ShardedView that a kernel may call, for the device.
#include <Kokkos_Core.hpp>

#include "shard/view/copy.hpp"
#include "shard/view/index_map.hpp"
#include "shard/view/impl/local_field.hpp"
#include "shard/view/region.hpp"
#include "shard/view/subview.hpp"

struct X;
struct Y;

namespace device_view {

using namespace shard;
using Space = Kokkos::DefaultExecutionSpace;

template <class T, class Layout>
using Field = ShardedView<T***, Layout, ShardDim<0, Unsharded, Halo<0, 1>, Clamp>,
                          ShardDim<1, Y, Halo<1, 2>, PoleFold<2, Pole::on_row>>,
                          ShardDim<2, X, Halo<2, 1>, Periodic>>;

template <class F>
struct UseKernel {
  F to;
  typename impl::RegionOf<F> region;
  impl::LocalField<typename F::value_type, F::rank> local;

  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    const F copy  = to;
    const F moved = copy;
    const Image image =
        image_of(BoundaryKind::fold_on_row, moved.to_global(1, i), moved.global_extent(1));
    moved(l, i, j) = static_cast<typename F::value_type>(
        moved.extent(0) + moved.begin(1) + moved.to_local(2, j) + moved.stride(0) + image.source +
        region.cells() + local.origin[0] + moved.origin()[0] +
        (moved.owns(1, i) ? F::halo_lo(1) : 0));
  }
};

template <class T, class Layout>
void use(const Mesh<Y, X>& mesh) {
  using F = Field<T, Layout>;
  const Space space;
  const F t("t", mesh, {2, 8, 8}), u = t.like("u");
  const auto strips = rim(t);
  const UseKernel<F> kernel{t, strips, impl::local(t)};
  parallel_for("rim", space, strips, kernel);
  // the host's grain, compiled for the device too
  Kokkos::parallel_for("lines", Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, 8),
                       impl::RegionLinesKernel<3, F::rank - 1, UseKernel<F>>({}, kernel, 1));
  const auto host = create_mirror_view(t);
  deep_copy(space, host, t);
  deep_copy(space, u, T(1));
}

void use_views(const Mesh<Y, X>& mesh) {
  use<double, Kokkos::LayoutRight>(mesh);
  use<float, Kokkos::LayoutLeft>(mesh);
}

}  // namespace device_view
