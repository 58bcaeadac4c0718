// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_PERIODIC_CONV_HPP
#define SHARD_LAYERS_WINDOW_PERIODIC_CONV_HPP

#include <type_traits>

#include "shard/layers/window/conv.hpp"

namespace shard {

namespace impl {

/// The Conv of a PeriodicConv, with the missing options added.
template <bool HasPadding, bool HasMode, class KernelSize, class... Options>
struct PeriodicConvBase;
template <bool HasMode, int... K, class... Options>
struct PeriodicConvBase<false, HasMode, Kernel<K...>, Options...>
    : PeriodicConvBase<true, HasMode, Kernel<K...>, Options..., Padding<(K - 1) / 2 ...>> {};
template <class KernelSize, class... Options>
struct PeriodicConvBase<true, false, KernelSize, Options...> {
  using type = Conv<KernelSize, Options..., PaddingMode<Reflect, Periodic>>;
};
template <class KernelSize, class... Options>
struct PeriodicConvBase<true, true, KernelSize, Options...> {
  using type = Conv<KernelSize, Options...>;
};
template <class KernelSize, class... Options>
using PeriodicConvOf =
    typename PeriodicConvBase<(is_padding_v<Options> || ...),
                              !std::is_void_v<typename FindMode<Options...>::type>, KernelSize,
                              Options...>::type;

}  // namespace impl

/// Convolution on a globe, latitude by longitude: `PeriodicConv<Kernel<3, 3>>{in, out}`. Longitude
/// wraps round, latitude is reflected at the poles (miles-credit's PeriodicConv2d), with a padding
/// of (k - 1) / 2 on each side. x's boundaries have to be Reflect and Periodic; to pad across the
/// poles add `PaddingMode<PoleFold<3, Pole::on_row>, Periodic>`. It has all options of a Conv.
template <class KernelSize, class... Options>
struct PeriodicConv : impl::PeriodicConvOf<KernelSize, Options...> {
  static_assert(impl::KernelDims<KernelSize>::value == 2,
                "a PeriodicConv's kernel has two dimensions: latitude and longitude");
};

}  // namespace shard

#endif
