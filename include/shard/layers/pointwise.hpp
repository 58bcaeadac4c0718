// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_HPP
#define SHARD_LAYERS_POINTWISE_HPP

#include "shard/layers/activations.hpp"
#include "shard/layers/kernels.hpp"
#include "shard/layers/layer_checks.hpp"
#include "shard/redistribute/meeting.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// y = x on owned cells, whatever the fields' halos and whoever owns the cells.
template <class Space, AnyShardedView Y, AnyShardedView X>
void copy_owned(const Space& space, const Y& y, const X& x) {
  impl::require_same_world("copy_owned", y, x);
  impl::require_extent("copy_owned", x.label(), "channels", x.global_extent(1), y.global_extent(1));
  impl::bring_to(space, y, x, -1, 0, [&](const auto& here) {
    impl::PointwiseKernels<Space, typename Y::non_const_value_type>::copy(
        space, impl::owned_block(impl::local(y)), impl::owned_input(here));
  });
}

/// y = a + b on owned cells; y may be a or b. Cells of `a` or `b` that other ranks own are moved
/// first (see redistribute). Throws ArgumentError on every rank where global extents differ. The
/// pullback is copy_owned of dy, twice.
template <class Space, AnyShardedView Y, AnyShardedView A, AnyShardedView B>
void add(const Space& space, const Y& y, const A& a, const B& b) {
  using Kernels = impl::PointwiseKernels<Space, typename Y::non_const_value_type>;
  impl::require_same_world("add", y, a);
  impl::require_same_world("add", y, b);
  impl::require_extent("add", a.label(), "channels", a.global_extent(1), y.global_extent(1));
  impl::require_extent("add", b.label(), "channels", b.global_extent(1), y.global_extent(1));
  impl::bring_to(space, y, a, -1, 0, [&](const auto& left) {
    impl::bring_to(space, y, b, -1, 1, [&](const auto& right) {
      Kernels::add(space, impl::owned_block(impl::local(y)), impl::owned_input(left),
                   impl::owned_input(right));
    });
  });
}

namespace impl {

/// The channels [first, first + count) of a block.
template <class T>
Block<T> channels_of(Block<T> b, index_t first, index_t count) {
  b.origin += first * b.stride[1];
  b.channels = count;
  return b;
}

}  // namespace impl

/// y's channels are those of the `parts`, one after the other, on owned cells. Cells of a part that
/// other ranks own are moved first. Channels aren't cut. Throws ArgumentError on every rank where
/// global extents differ.
template <class Space, AnyShardedView Y, AnyShardedView... Parts>
void concat_channels(const Space& space, const Y& y, const Parts&... parts) {
  using T = typename Y::non_const_value_type;
  static_assert(!impl::is_cut_v<Y, 1>, "channels that are joined can't be cut");
  (impl::require_same_world("concat_channels", y, parts), ...);
  impl::require_extent("concat_channels", y.label(), "channels", y.global_extent(1),
                       (parts.global_extent(1) + ... + 0));
  index_t first  = 0;
  const auto put = [&](const auto& part) {
    impl::bring_to(space, y, part, 1, 0, [&](const auto& here) {
      impl::PointwiseKernels<Space, T>::copy(
          space, impl::channels_of(impl::owned_block(impl::local(y)), first, part.extent(1)),
          impl::owned_input(here));
    });
    first += part.extent(1);
  };
  (put(parts), ...);
}

/// The transpose of concat_channels: y's channels go to the `parts`, one after the other, whoever
/// owns their cells.
template <class Space, AnyShardedView Y, AnyShardedView... Parts>
void split_channels(const Space& space, const Y& y, const Parts&... parts) {
  using T = typename Y::non_const_value_type;
  static_assert(!impl::is_cut_v<Y, 1>, "channels that are split can't be cut");
  (impl::require_same_world("split_channels", y, parts), ...);
  impl::require_extent("split_channels", y.label(), "channels", y.global_extent(1),
                       (parts.global_extent(1) + ... + 0));
  index_t first   = 0;
  const auto take = [&](const auto& part) {
    impl::bring_back(space, y, part, 1, 0, [&](const auto& here) {
      impl::PointwiseKernels<Space, T>::copy(
          space, impl::owned_block(impl::local(here)),
          impl::channels_of(impl::owned_input(y), first, part.extent(1)));
    });
    first += part.extent(1);
  };
  (take(parts), ...);
}

}  // namespace shard

#endif
