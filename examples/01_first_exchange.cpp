// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A field on a mesh of processes, a halo exchange, and a kernel whose interior overlaps with the
// messages.
#include <shard/shard.hpp>

#include <cstdio>

struct Lat;  // mesh axes are types, declared outside functions: mixing them up does not compile
struct Lon;

using Field = shard::ShardedView<
    float***, Kokkos::LayoutRight,  // level x lat x lon
    shard::ShardDim<1, Lat, shard::Halo<1>,
                    shard::PoleFold<2, shard::Pole::on_row>>,  // 1 row each side, across the poles
    shard::ShardDim<2, Lon, shard::Halo<2, 1>, shard::Periodic>>;  // 2 columns west, 1 east,
                                                                   // wrapping round

struct Smooth {  // index 0 is the first owned point; the halo is at -1 and at n
  Field from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    to(l, i, j) =
        0.25f * (from(l, i - 1, j) + from(l, i + 1, j) + from(l, i, j - 1) + from(l, i, j + 1));
  }
};

struct Ramp {  // the value of a point is the number of its row
  Field t;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    t(l, i, j) = static_cast<float>(t.to_global(1, i));
  }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);  // MPI and Kokkos, ended in the right order
  shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});  // 0: shard chooses the number
  Field t("temperature", mesh, {8, 61, 120});  // global extents, any integers; shards may be uneven
  Field q = t.like("humidity"), next = t.like("next temperature");

  Kokkos::DefaultExecutionSpace space;
  shard::parallel_for("ramp", space, shard::owned_region(t), Ramp{t});
  shard::exchange(space, t, q);  // both fields, one message per neighbour

  shard::Exchange halos(t, q);  // or keep a plan, and overlap
  auto pending = halos.start(space);
  shard::parallel_for("smooth", space, shard::interior(t), Smooth{t, next});
  pending.finish();
  shard::parallel_for("smooth", space, shard::rim(t),
                      Smooth{t, next});  // one kernel over all the strips
  space.fence();

  const auto host = create_mirror_view(next);
  shard::deep_copy(space, host, next);
  space.fence();
  std::printf(
      "rank %d at (%d, %d) owns rows %lld to %lld, columns %lld to %lld, sends %d messages; "
      "north-west corner: %g\n",
      mesh.rank(), mesh.coordinate<Lat>(), mesh.coordinate<Lon>(),
      static_cast<long long>(t.begin(1)), static_cast<long long>(t.begin(1) + t.extent(1) - 1),
      static_cast<long long>(t.begin(2)), static_cast<long long>(t.begin(2) + t.extent(2) - 1),
      halos.sends(), host.owned().extent(1) > 0 ? static_cast<double>(host(0, 0, 0)) : 0.0);
}
