// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_POINTWISE_HPP
#define SHARD_LAYERS_POINTWISE_POINTWISE_HPP

#include <string_view>

#include "shard/exchange/stale.hpp"
#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/redistribute/impl/common_partition.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// Common code of copy_owned and copy_gradient.
template <class Space, class Y, class X>
void copy_cells(std::string_view function, const Space& space, const Y& y, const X& x) {
  require_same_world(function, y, x);
  require_extent(function, x.label(), "channels", x.global_extent(1), y.global_extent(1));
  bring_to(space, y, x, -1, 0, [&](const auto& here) {
    PointwiseKernels<Space, typename Y::non_const_value_type>::copy(space, owned_block(local(y)),
                                                                    owned_input(here));
  });
}

/// Common code of add and add_gradients.
template <class Space, class Y, class A, class B>
void add_cells(std::string_view function, const Space& space, const Y& y, const A& a, const B& b) {
  require_same_world(function, y, a);
  require_same_world(function, y, b);
  require_extent(function, a.label(), "channels", a.global_extent(1), y.global_extent(1));
  require_extent(function, b.label(), "channels", b.global_extent(1), y.global_extent(1));
  bring_to(space, y, a, -1, 0, [&](const auto& left) {
    bring_to(space, y, b, -1, 1, [&](const auto& right) {
      PointwiseKernels<Space, typename Y::non_const_value_type>::add(
          space, owned_block(local(y)), owned_input(left), owned_input(right));
    });
  });
}

}  // namespace impl

/// y = x on owned points, for any halos and partitions; y's halo is then stale (see mark_written).
template <class Space, AnyShardedView Y, AnyShardedView X>
void copy_owned(const Space& space, const Y& y, const X& x) {
  impl::copy_cells("copy_owned", space, y, x);
  mark_written(space, y);
}

/// copy_owned for gradients: doesn't mark dx's halo, which may wait for exchange_adjoint.
template <class Space, AnyShardedView DX, AnyShardedView DY>
void copy_gradient(const Space& space, const DX& dx, const DY& dy) {
  impl::copy_cells("copy_gradient", space, dx, dy);
}

/// y = a + b on owned points; y may be a or b, and its halo is then stale (see mark_written). `a`
/// and `b` are redistributed first if their partitions differ. Throws ArgumentError on every rank
/// if global extents differ. The pullback is copy_gradient of dy, twice.
template <class Space, AnyShardedView Y, AnyShardedView A, AnyShardedView B>
void add(const Space& space, const Y& y, const A& a, const B& b) {
  impl::add_cells("add", space, y, a, b);
  mark_written(space, y);
}

/// add for gradients: doesn't mark dx's halo, which may wait for exchange_adjoint.
template <class Space, AnyShardedView DX, AnyShardedView A, AnyShardedView B>
void add_gradients(const Space& space, const DX& dx, const A& a, const B& b) {
  impl::add_cells("add_gradients", space, dx, a, b);
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

/// Concatenates the channels of the `parts` into y, on owned points. Parts with other partitions
/// are redistributed first. Channels must not be sharded. y's halo is then stale (see
/// mark_written). Throws ArgumentError on every rank if global extents differ.
template <class Space, AnyShardedView Y, AnyShardedView... Parts>
void concat_channels(const Space& space, const Y& y, const Parts&... parts) {
  using T = typename Y::non_const_value_type;
  static_assert(!impl::is_cut_v<Y, 1>, "channels that are joined can't be sharded");
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
  mark_written(space, y);
}

namespace impl {

/// part = the channels [first, first + its own) of y, on owned points, for any partition of part.
template <class Space, class Part, class Y>
void take_channels(const Space& space, const Part& part, const Y& y, index_t first) {
  bring_back(space, y, part, 1, 0, [&](const auto& here) {
    PointwiseKernels<Space, typename Y::non_const_value_type>::copy(
        space, owned_block(local(here)), channels_of(owned_input(y), first, part.extent(1)));
  });
}

}  // namespace impl

/// The transpose of concat_channels: splits y's channels into the `parts`, with any partitions.
/// Meant for gradients: it doesn't mark their halos; for values call mark_written for each.
template <class Space, AnyShardedView Y, AnyShardedView... Parts>
void split_channels(const Space& space, const Y& y, const Parts&... parts) {
  static_assert(!impl::is_cut_v<Y, 1>, "channels that are split can't be sharded");
  (impl::require_same_world("split_channels", y, parts), ...);
  impl::require_extent("split_channels", y.label(), "channels", y.global_extent(1),
                       (parts.global_extent(1) + ... + 0));
  index_t first   = 0;
  const auto take = [&](const auto& part) {
    impl::take_channels(space, part, y, first);
    first += part.extent(1);
  };
  (take(parts), ...);
}

}  // namespace shard

#endif
