// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host sides of embeddings, poolings and shuffled pixels, for the device: nvcc reads templates
// of its own.

#include <shard/shard.hpp>

struct Lat;

namespace device_windows {

using namespace shard;

using Layer = CrossEmbed<Stride<2>, Kernel<2>, Kernel<4>>;
using X     = ShardedView<float***, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<3>>>;
using Y     = ShardedView<float***, Kokkos::LayoutRight, ShardDim<2, Lat>>;
[[maybe_unused]] void use(const Kokkos::DefaultExecutionSpace& s, const Layer& l,
                          const Layer::Parameters<float>& p, const Y& y, const X& x) {
  l.apply(s, p, y, x);
  l.pushforward(s, p, p, y, x, x);
  l.pullback(s, p, p, x, y, x);
  MaxPool<Kernel<3>, Stride<2>, Padding<1>> m;
  auto st = m.state(x);
  m.apply(s, st, y, x);
  m.pushforward(s, st, y, x, x);
  m.pullback(s, st, x, y, x);
  AvgPool<Kernel<3>, Stride<2>, Padding<1>, ExcludePadding> a;
  a.apply(s, y, x);
  a.pullback(s, x, y, x);
  PixelShuffle<2, 1> ps;
  ps.apply(s, y, x);
  ps.pullback(s, x, y, x);
  PeriodicConv<Kernel<3, 3>> pc;
  (void)pc;
}

}  // namespace device_windows
