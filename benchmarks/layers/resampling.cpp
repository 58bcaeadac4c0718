// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/resampling/pixel_shuffle.hpp"
#include "shard/layers/resampling/pool.hpp"
#include "shard/layers/window/pad.hpp"
#include "timing.hpp"

namespace {

template <class T, class Layer, class X>
void time_layer(const Layer& layer, const X& x, const Grid& mesh, double least) {
  const Space space;
  const auto dx = x.like("dx");
  const Plain<T> y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
  fill(x.view());
  fill(dy.view());
  const double bytes = bytes_of(x) + bytes_of(y);
  if constexpr (requires { layer.state(x); }) {
    const auto state = layer.state(x);
    answer<T>(least, {0, bytes, bytes},
              {[&] { layer.apply(space, state, y, x); },
               [&] { layer.pullback(space, state, dx, dy, x); }});
  } else {
    answer<T>(least, {0, bytes, bytes},
              {[&] { layer.apply(space, y, x); }, [&] { layer.pullback(space, dx, dy, x); }});
  }
}

/// A layer without parameters from channels x rows x columns.
template <class T, class Layer>
Case of(Layer layer, index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    if constexpr (requires { Layer::halo_bound(0); }) {
      using X = shard::ShardedView<T****, Kokkos::LayoutRight,
                                   shard::ShardDim<2, Lat, shard::required_halo_t<Layer, 0>>,
                                   shard::ShardDim<3, Lon, shard::required_halo_t<Layer, 1>>>;
      time_layer<T>(layer, X("x", mesh, {1, channels, rows, columns}), mesh, least);
    } else {
      time_layer<T>(layer, Plain<T>("x", mesh, {1, channels, rows, columns}), mesh, least);
    }
  };
}

template <int K, int S, int P>
using Largest = shard::MaxPool<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<P, P>>;
template <int K, int S, int P>
using Mean = shard::AvgPool<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<P, P>>;

}  // namespace

// op/type/channels x rows x columns/factor, or kernel, stride, padding
void add_resampling(Cases& cases) {
  using shard::Interpolate;
  cases.insert(
      {{"linear/float/64x91x180/x2", of<float>(Interpolate<2>{.scale = 2}, 64, 91, 180)},
       {"linear/double/64x91x180/x2", of<double>(Interpolate<2>{.scale = 2}, 64, 91, 180)},
       {"cubic/float/64x91x180/x2",
        of<float>(Interpolate<2, shard::Bicubic>{.scale = 2}, 64, 91, 180)},
       {"nearest/float/64x91x180/x2",
        of<float>(Interpolate<2, shard::Nearest>{.scale = 2}, 64, 91, 180)},
       {"area/float/64x180x360/x0.5",
        of<float>(Interpolate<2, shard::Area<2>>{.scale = 0.5}, 64, 180, 360)},
       {"avg_pool/float/64x180x360/k2s2p0", of<float>(Mean<2, 2, 0>{}, 64, 180, 360)},
       {"avg_pool/float/64x180x360/k3s2p1", of<float>(Mean<3, 2, 1>{}, 64, 180, 360)},
       {"max_pool/float/64x180x360/k2s2p0", of<float>(Largest<2, 2, 0>{}, 64, 180, 360)},
       {"max_pool/float/64x180x360/k3s2p1", of<float>(Largest<3, 2, 1>{}, 64, 180, 360)},
       {"pixel_shuffle/float/256x90x180/x2", of<float>(shard::PixelShuffle<2>{}, 256, 90, 180)},
       {"pixel_unshuffle/float/64x180x360/x2", of<float>(shard::PixelUnshuffle<2>{}, 64, 180, 360)},
       {"earth_pad/float/64x181x360/x40",
        of<float>(shard::EarthPad{.low = {40, 40}, .high = {40, 40}}, 64, 181, 360)},
       {"unpad/float/64x261x440/x40",
        of<float>(shard::Unpad<2>{.low = {40, 40}, .high = {40, 40}}, 64, 261, 440)}});
}
