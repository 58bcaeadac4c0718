// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A training step of a U-Net of three levels: forward, loss, backward, Adam. The emulator's network
// without its poles; torch_bench.py has the same.

#include <Kokkos_Core.hpp>

#include "report.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/model/sequential.hpp"
#include "shard/shard.hpp"
#include "shard/train/adam.hpp"

namespace {

using shard::index_t;

struct Lat;
struct Lon;

auto u_net(index_t channels, index_t w) {
  using namespace shard;
  using Same      = Conv<Kernel<3, 3>, Padding<1, 1>>;
  using Down      = Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
  using Up        = ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
  const auto unit = [](const auto& conv) {
    return block(named<"conv">(conv), named<"norm">(GroupNorm{4, conv.out}), SiLU{});
  };
  const auto same   = [&](index_t in, index_t out) { return unit(Same{in, out, 1, false}); };
  const auto down   = [&](index_t in, index_t out) { return unit(Down{in, out, 1, false}); };
  const auto level2 = concat(named<"down">(down(2 * w, 4 * w)), named<"refine">(same(4 * w, 4 * w)),
                             named<"up">(Up{4 * w, 2 * w}));
  const auto level1 = concat(named<"down">(down(w, 2 * w)), named<"refine">(same(2 * w, 2 * w)),
                             named<"level2">(level2), named<"merge">(same(4 * w, 2 * w)),
                             named<"up">(Up{2 * w, w}));
  return sequential<float>(named<"change">(residual(
      named<"enter">(same(channels, w)), named<"refine">(same(w, w)), named<"level1">(level1),
      named<"merge">(same(2 * w, w)), named<"head">(Conv<Kernel<1, 1>>{w, channels}))));
}

}  // namespace

void time_training() {
  constexpr index_t channels = 6, rows = 181, columns = 360;
  if (!wanted("u-net step 1x6x181x360")) return;
  const Space space;
  const shard::Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {1, 1});
  auto model = u_net(channels, 64);
  auto net   = shard::domain_parallel<Lat, Lon>(model, mesh);
  using Net  = decltype(net);
  model.initialise(space, 1);
  const auto x = net.input("x", {1, channels, rows, columns});
  const typename Net::Output target("target", mesh, x.partitions()), dy = target.like("dy");
  fill(x.view());
  fill(target.view());
  shard::MeanSquare loss(target, {});
  const auto weights = net.parameters().values();
  shard::Adam<float> adam(static_cast<index_t>(weights.extent(0)), {.learning_rate = 1e-6});
  const auto backward = [&] {
    const auto& y = net(space, x);
    static_cast<void>(loss(space, y, target));
    loss.pullback(space, dy, y, target);
    Kokkos::deep_copy(space, net.gradients().values(), 0.0F);
    net.pullback(space, shard::not_wanted, dy, x);
  };
  report("u-net 1x6x181x360 forward", 0, 0, [&] { static_cast<void>(net(space, x)); });
  report_products("u-net step 1x6x181x360 step", 0, 0, [&] {
    backward();
    adam(space, weights, net.gradients().values());
  });
}
