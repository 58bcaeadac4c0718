// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host side of merged halos, for the device.

#include "shard/model/conversion_report.hpp"
#include "shard/model/merge_halos.hpp"

struct Lat;
struct Lon;

void use_merged_halos(const shard::Mesh<Lat, Lon>& mesh) {
  using namespace shard;
  using Stem       = Conv<Kernel<3, 3>, Padding<1, 1>, PaddingMode<Reflect, Periodic>>;
  using Pool       = MaxPool<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>;
  const auto model = sequential<float>(block(Stem{2, 4}, SiLU{}), residual(Stem{4, 4}, Stem{4, 4}),
                                       Stem{4, 4}, Pool{}, Stem{4, 2});
  constexpr auto chains =
      halo_chains<decltype(model), MergeHalos<ExpectedShard<1, 4, 8, 8>>, Lat, Lon>();
  static_assert(chains.count == 2);
  const auto net = domain_parallel<Lat, Lon>(model, mesh, merge_halos<MergeAlways>());
  const Kokkos::DefaultExecutionSpace space;
  const auto x = net.input("x", {1, 2, 8, 8}), dx = x.like("dx");
  const auto& y = net(space, x);
  net.pushforward(space, y, dx, x);
  net.pullback(space, dx, y, x);
  net.pullback(space, not_wanted, y, x);
  conversion_report(model, net);
}
