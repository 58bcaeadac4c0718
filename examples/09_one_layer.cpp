// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One layer of a model on sharded fields: domain_parallel replaces it by one that exchanges its
// halo, with the same weights.
#include <shard/model/domain_parallel.hpp>
#include <shard/shard.hpp>

#include <cstdio>

struct Lat;
struct Lon;

using Stem = shard::Conv<shard::Kernel<3, 5>, shard::Stride<2, 1>, shard::Padding<1, 2>,
                         shard::PaddingMode<shard::Reflect, shard::Periodic>>;
static_assert(std::is_same_v<shard::required_halo_t<Stem, 0>, shard::Halo<1, 1>>);
static_assert(std::is_same_v<shard::required_halo_t<Stem, 1>, shard::Halo<2, 2>>);

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});

  auto model   = shard::sequential<float>(Stem{4, 8});
  auto sharded = shard::domain_parallel<Lat, Lon>(model, mesh);

  auto x = sharded.input("x", {1, 4, 181, 360});  // global extents; shards may be uneven
  Kokkos::DefaultExecutionSpace space;
  shard::deep_copy(space, x, 1.0f);
  const auto& y = sharded(space, x);  // fills x's halo, computes this rank's part

  const auto& layer = sharded.get<0>();
  const bool shared = layer.weight().data() == model.get<0>().weight().data();
  const double sum  = shard::sum(space, y);
  if (mesh.rank() == 0)
    std::printf("%d x %d rows and columns come out, their sum is %.6g; the weights are %s\n",
                static_cast<int>(y.global_extent(2)), static_cast<int>(y.global_extent(3)), sum,
                shared ? "the model's own" : "copies");
  return shared && y.global_extent(2) == 91 ? 0 : 1;
}
