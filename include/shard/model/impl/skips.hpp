// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_SKIPS_HPP
#define SHARD_MODEL_IMPL_SKIPS_HPP

#include <cstddef>

#include "shard/base/wanted.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard::impl {

/// y = x, for operations that need different halos or boundaries of one value.
struct CopyValue {
  static constexpr LayerSharding sharding = LayerSharding::local;
  bool passes(std::size_t) const { return true; }
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    copy_owned(space, y, x);
  }
  template <class Space, class TY, class TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    copy_owned(space, ty, tx);
  }
  template <class Space, class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    copy_gradient(space, dx, dy);
  }
};

/// y = f + x, the end of a residual: y has f's partitions, x may have others.
struct AddSkip {
  static constexpr LayerSharding sharding = LayerSharding::local;
  bool passes(std::size_t) const { return true; }
  template <class Space, class Y, class F, class X>
  void apply(const Space& space, const Y& y, const F& f, const X& x) const {
    add(space, y, f, x);
  }
  template <class Space, class TY, class TF, class TX>
  void pushforward(const Space& space, const TY& ty, const TF& tf, const TX& tx) const {
    add(space, ty, tf, tx);
  }
  template <class Space, class DF, class DX, class DY>
  void pullback(const Space& space, const DF& df, const DX& dx, const DY& dy) const {
    if constexpr (is_wanted_v<DF>) copy_gradient(space, df, dy);
    if constexpr (is_wanted_v<DX>) copy_gradient(space, dx, dy);
  }
};

/// y's channels are those of x, then those of f: the end of a skip connection. y has x's partitions
/// in space, f may have other ones.
struct ConcatenateSkip {
  static constexpr LayerSharding sharding = LayerSharding::local;
  index_t skipped                         = 0;  ///< channels of x

  template <class Partitions>
  static Partitions output_partitions(const Partitions& x, const Partitions& f) {
    Partitions out = x;
    out[1]         = Partition::balanced(x[1].size() + f[1].size(), 1);
    return out;
  }
  template <class Space, class Y, class X, class F>
  void apply(const Space& space, const Y& y, const X& x, const F& f) const {
    concat_channels(space, y, x, f);
  }
  template <class Space, class TY, class TX, class TF>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const TF& tf) const {
    concat_channels(space, ty, tx, tf);
  }
  template <class Space, class DX, class DF, class DY>
  void pullback(const Space& space, const DX& dx, const DF& df, const DY& dy) const {
    if constexpr (is_wanted_v<DX>) take_channels(space, dx, dy, 0);
    if constexpr (is_wanted_v<DF>) take_channels(space, df, dy, skipped);
  }
};

}  // namespace shard::impl

#endif
