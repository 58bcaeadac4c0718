// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moving and adding fields: cases for a device. On hosts benchmarks/halo and
// benchmarks/redistribute time them.
#include <array>

#include "shard/shard.hpp"
#include "timing.hpp"

namespace {

/// A copy, and a scalar product, of two fields.
void time_sums(const Grid& mesh, double least) {
  const Space space;
  const Plain<float> x("x", mesh, {8, 64, 181, 360}), y = x.like("y");
  fill(x.view());
  const double bytes   = 2 * bytes_of(x);
  volatile double keep = 0;
  answer<float>(least, {0, bytes, bytes},
                {[&] { Kokkos::deep_copy(space, y.view(), x.view()); },
                 [&] { keep = shard::dot(space, x, y); }});
  static_cast<void>(keep);
}

/// The exchange of both halo faces of dimension D, 16 MB each, and its adjoint.
template <int D>
Case faces(const std::array<index_t, 3>& extents) {
  return [extents](const Grid& mesh, double least) {
    using Field = shard::ShardedView<float***, Kokkos::LayoutRight,
                                     shard::ShardDim<D, Lat, shard::Halo<1>, shard::Periodic>>;
    const Space space;
    const Field t("t", mesh, {extents[0], extents[1], extents[2]});
    fill(t.view());
    const double face =
        4.0 * static_cast<double>(extents[0] * extents[1] * extents[2] / extents[D]);
    answer<float>(least, {0, 4 * face, 8 * face},
                  {[&] { shard::exchange(space, t); }, [&] { shard::exchange_adjoint(space, t); }});
  };
}

using Levels = shard::ShardedView<float***, Kokkos::LayoutRight,
                                  shard::ShardDim<1, Lat, shard::Halo<1>, shard::Periodic>,
                                  shard::ShardDim<2, Lon, shard::Halo<1>, shard::Periodic>>;
struct SmoothKernel {
  Levels from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    to(l, i, j) =
        0.25F * (from(l, i - 1, j) + from(l, i + 1, j) + from(l, i, j - 1) + from(l, i, j + 1));
  }
};
/// A stencil of four points in the owned region.
void time_stencil(const Grid& mesh, double least) {
  const Space space;
  const Levels t("t", mesh, {32, 721, 1440}), u = t.like("u");
  fill(t.view());
  answer<float>(least, {0, 2 * bytes_of(t)}, {[&] {
                  shard::parallel_for("smooth", space, shard::owned_region(t), SmoothKernel{t, u});
                }});
}

}  // namespace

// op/type/extents/dimension
void add_large_fields(Cases& cases) {
  cases.insert({{"copy_dot/float/8x64x181x360", time_sums},
                {"halo_faces/float/16x2000x2000/d0", faces<0>({16, 2000, 2000})},
                {"halo_faces/float/2000x16x2000/d1", faces<1>({2000, 16, 2000})},
                {"halo_faces/float/2000x2000x16/d2", faces<2>({2000, 2000, 16})},
                {"stencil/float/32x721x1440", time_stencil}});
}
