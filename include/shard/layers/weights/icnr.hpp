// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WEIGHTS_ICNR_HPP
#define SHARD_LAYERS_WEIGHTS_ICNR_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/layers/parameters.hpp"

namespace shard {

/// Initialises a Conv before a PixelShuffle so that both together begin as a convolution and
/// nearest-neighbour upsampling, without a checkerboard (ICNR: Aitken et al. 2017). `points` is the
/// number of output points of an input point, such as r^2: output channels c points to (c + 1)
/// points - 1 have the same weights and bias. The first of them are those of `initialise`. Local.
/// Throws ArgumentError unless `points` divides the output channels.
template <class Space, class Layer, class Parameters>
void initialise_icnr(const Space& space, const Layer& layer, const Parameters& parameters,
                     index_t points, std::uint64_t seed, std::uint64_t stream) {
  const index_t channels = layer.out;
  if (points < 1 || channels % points != 0)
    impl::throw_argument("initialise_icnr",
                         {impl::text(channels), " output channels can't be divided into groups of ",
                          impl::text(points)});
  initialise(space, layer, parameters, seed, stream);
  const auto repeat = [&](const auto& view) {
    using T    = typename std::decay_t<decltype(view)>::value_type;
    using Flat = Kokkos::View<T*, typename std::decay_t<decltype(view)>::memory_space,
                              Kokkos::MemoryUnmanaged>;
    const Flat all(view.data(), view.size());
    const auto each = static_cast<index_t>(view.size()) / channels;
    const auto of   = [&](index_t channel) {
      return Kokkos::subview(all, std::pair(channel * each, (channel + 1) * each));
    };
    for (index_t o = 0; o < channels; ++o)
      if (o % points != 0) Kokkos::deep_copy(space, of(o), of(o - o % points));
  };
  repeat(parameters.weight);
  if (layer.bias) repeat(parameters.bias);
}

}  // namespace shard

#endif
