// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two fields and one exchange: tools/compile-time-ratio compares it with plain_views.cpp.
#include <shard/shard.hpp>

struct Lat;
struct Lon;

using Field = shard::ShardedView<float***, Kokkos::LayoutRight,
                                 shard::ShardDim<1, Lat, shard::Halo<1>, shard::Clamp>,
                                 shard::ShardDim<2, Lon, shard::Halo<1>, shard::Periodic>>;

struct Smooth {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    to(l, i, j) =
        0.25f * (from(l, i - 1, j) + from(l, i + 1, j) + from(l, i, j - 1) + from(l, i, j + 1));
  }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  const Field t("t", mesh, {32, 721, 1440}), next = t.like("next");
  const Kokkos::DefaultExecutionSpace space;
  shard::exchange(space, t);
  Kokkos::parallel_for("smooth",
                       Kokkos::MDRangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::Rank<3>>(
                           space, {0, 0, 0}, {t.extent(0), t.extent(1), t.extent(2)}),
                       Smooth{t, next});
}
