// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/window/cross_embed.hpp"
#include "shard/layers/window/periodic_conv.hpp"
#include "timing.hpp"

namespace {

template <class T, class Layer>
struct FieldsOf {
  template <int D>
  using halo = shard::required_halo_t<Layer, D>;
  template <int D>
  using boundary = typename Layer::template boundary<D>;
  using X =
      shard::ShardedView<T****, Kokkos::LayoutRight, shard::ShardDim<2, Lat, halo<0>, boundary<0>>,
                         shard::ShardDim<3, Lon, halo<1>, boundary<1>>>;
  using Y = Plain<T>;
};
/// Of three dimensions in space the first isn't sharded.
template <class T, class Layer>
requires(Layer::dims == 3) struct FieldsOf<T, Layer> {
  template <int D>
  using halo = shard::required_halo_t<Layer, D>;
  using X =
      shard::ShardedView<T*****, Kokkos::LayoutRight, shard::ShardDim<2, shard::Unsharded, halo<0>>,
                         shard::ShardDim<3, Lat, halo<1>>, shard::ShardDim<4, Lon, halo<2>>>;
  using Y = shard::ShardedView<T*****, Kokkos::LayoutRight, shard::ShardDim<3, Lat>,
                               shard::ShardDim<4, Lon>>;
};

/// Fills the weights, and returns how many there are.
template <class P>
double fill_weights(const P& parameters) {
  if constexpr (requires { parameters.branches; }) {
    double count = 0;
    for (const auto& branch : parameters.branches) count += fill_weights(branch);
    return count;
  } else {
    fill(parameters.weight);
    return static_cast<double>(parameters.weight.size());
  }
}

/// Forward, and the gradients of input, weights and bias; `depth` is of a third dimension.
template <class T, class Layer>
Case of(Layer layer, index_t rows, index_t columns, index_t depth = 1) {
  return [=](const Grid& mesh, double least) {
    using X = typename FieldsOf<T, Layer>::X;
    using Y = typename FieldsOf<T, Layer>::Y;
    const Space space;
    const auto x = [&] {
      if constexpr (Layer::dims == 3)
        return X("x", mesh, {1, layer.in, depth, rows, columns});
      else
        return X("x", mesh, {1, layer.in, rows, columns});
    }();
    const auto dx = x.like("dx");
    const Y y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
    const auto parameters = shard::make_parameters<T>(layer, "p");
    const auto gradients  = shard::make_parameters<T>(layer, "g");
    fill(x.view());
    fill(dy.view());
    double flops          = 2.0 * fill_weights(parameters);
    const bool transposed = y.global_extent(2) > x.global_extent(2);
    const auto& coarse    = transposed ? x.partitions() : y.partitions();
    for (int d = 0; d < Layer::dims; ++d)
      flops *= static_cast<double>(coarse[static_cast<std::size_t>(d + 2)].size());
    answer<T>(least, {flops},
              {[&] { layer.apply(space, parameters, y, x); },
               [&] { layer.pullback(space, parameters, gradients, dx, dy, x); },
               [&] { layer.pullback_input(space, parameters, dx, dy); },
               [&] { layer.pullback_parameters(space, gradients, dy, x); }});
  };
}

template <int K, int S, int P>
using Square = shard::Conv<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<P, P>>;
template <int K, int S, int P>
using Upward = shard::ConvTranspose<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<P, P>>;
using Cube   = shard::Conv<shard::Kernel<3, 3, 3>, shard::Padding<1, 1, 1>>;

}  // namespace

// op/type/channels (to output channels) x rows x columns/kernel, stride, padding, groups
void add_windows(Cases& cases, bool large) {
  cases.insert(
      {{"conv/float/64x181x360/k3s1p1", of<float>(Square<3, 1, 1>{64, 64}, 181, 360)},
       {"conv/float/32x192x288/k5s1p2", of<float>(Square<5, 1, 2>{32, 32}, 192, 288)},
       {"conv/float/64x192x288/k3s2p1", of<float>(Square<3, 2, 1>{64, 64}, 192, 288)},
       {"conv/double/64x181x360/k3s1p1", of<double>(Square<3, 1, 1>{64, 64}, 181, 360)},
       {"conv/float/64x181x360/k1s1p0", of<float>(Square<1, 1, 0>{64, 64}, 181, 360)},
       {"conv/float/256to1024x60x120/k1s1p0", of<float>(Square<1, 1, 0>{256, 1024}, 60, 120)},
       {"conv/float/1024to256x60x120/k1s1p0", of<float>(Square<1, 1, 0>{1024, 256}, 60, 120)},
       {"conv/float/256x45x90/k3s1p1", of<float>(Square<3, 1, 1>{256, 256}, 45, 90)},
       {"conv/float/4to64x181x360/k3s1p1", of<float>(Square<3, 1, 1>{4, 64}, 181, 360)},
       {"conv/float/64to4x181x360/k3s1p1", of<float>(Square<3, 1, 1>{64, 4}, 181, 360)},
       {"conv/float/64x192x288/k4s2p1", of<float>(Square<4, 2, 1>{64, 64}, 192, 288)},
       {"conv/float/64x192x288/k2s2p0", of<float>(Square<2, 2, 0>{64, 64}, 192, 288)},
       {"conv/float/64x181x360/k3s1p1g64", of<float>(Square<3, 1, 1>{64, 64, 64}, 181, 360)},
       {"conv/float/64x181x360/k7s1p3g64", of<float>(Square<7, 1, 3>{64, 64, 64}, 181, 360)},
       {"conv/double/64x181x360/k7s1p3g64", of<double>(Square<7, 1, 3>{64, 64, 64}, 181, 360)},
       {"conv/float/64x181x360/k3s1p1g16", of<float>(Square<3, 1, 1>{64, 64, 16}, 181, 360)},
       {"conv/float/64to32x192x288/k8s4p2", of<float>(Square<8, 4, 2>{64, 32}, 192, 288)},
       {"conv/float/64to256x180x360/k4s4p0", of<float>(Square<4, 4, 0>{64, 256}, 180, 360)},
       {"conv/float/64to16x192x288/k32s4p14", of<float>(Square<32, 4, 14>{64, 16}, 192, 288)},
       {"periodic_conv/float/64x181x360/k3",
        of<float>(shard::PeriodicConv<shard::Kernel<3, 3>>{64, 64}, 181, 360)},
       {"cross_embed/float/64x192x288/k4k8s2",
        of<float>(
            shard::CrossEmbed<shard::Stride<2, 2>, shard::Kernel<4, 4>, shard::Kernel<8, 8>>{
                64, {32, 32}},
            192, 288)},
       {"conv3/float/16x20x90x180/k3s1p1", of<float>(Cube{16, 16}, 90, 180, 20)},
       {"conv_transpose/float/64x96x144/k4s2p1", of<float>(Upward<4, 2, 1>{64, 64}, 96, 144)},
       {"conv_transpose/float/64x96x144/k2s2p0", of<float>(Upward<2, 2, 0>{64, 64}, 96, 144)}});
  if (!large) return;
  cases.insert({{"conv/float/128x181x360/k3s1p1", of<float>(Square<3, 1, 1>{128, 128}, 181, 360)},
                {"conv/float/64x721x1440/k3s1p1", of<float>(Square<3, 1, 1>{64, 64}, 721, 1440)},
                {"conv/float/128x721x1440/k3s1p1", of<float>(Square<3, 1, 1>{128, 128}, 721, 1440)},
                {"conv/float/64x181x360/k3s2p1", of<float>(Square<3, 2, 1>{64, 64}, 181, 360)}});
}
