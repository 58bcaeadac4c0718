// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_SKIPS_HPP
#define SHARD_MODEL_IMPL_SKIPS_HPP

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/base/wanted.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/redistribute/rearrange.hpp"

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

/// Concatenate of `N` inputs, as an operation that takes them one by one. Where channels are
/// joined, y has the first input's partitions in space, and others may have other ones.
template <int N>
struct ConcatenateFields {
  static constexpr LayerSharding sharding = LayerSharding::moving;
  shard::Concatenate op;
  std::array<index_t, static_cast<std::size_t>(N)> sizes{};  ///< of the inputs along the dimension

  template <class Partitions, class... More>
  Partitions output_partitions(const Partitions& first, const More&...) const {
    require_dimension("Concatenate", op.dim, static_cast<int>(first.size()));
    Partitions out = first;
    Partition& to  = out[Geometry::at(op.dim)];
    index_t n      = 0;
    for (const index_t size : sizes) n += size;
    to = Partition::balanced(n, to.parts());
    return out;
  }
  template <class Space, class Y, class... X>
  void apply(const Space& space, const Y& y, const X&... x) const {
    if (op.dim == 1)
      concat_channels(space, y, x...);
    else
      op.apply(space, y, std::tuple<X...>(x...));
  }
  // constrained, because a pushforward may also take the values
  template <class Space, class TY, class... TX>
  requires(sizeof...(TX) == static_cast<std::size_t>(N)) void pushforward(const Space& space,
                                                                          const TY& ty,
                                                                          const TX&... tx) const {
    apply(space, ty, tx...);
  }
  /// dx... from (dx..., dy).
  template <class Space, class... DXAndDY>
  requires(sizeof...(DXAndDY) ==
           static_cast<std::size_t>(N) + 1) void pullback(const Space& space,
                                                          const DXAndDY&... all) const {
    const auto d    = std::tie(all...);
    const auto& dy  = std::get<static_cast<std::size_t>(N)>(d);
    index_t first   = 0;
    std::size_t at  = 0;
    const auto take = [&](const auto& dx) {
      if constexpr (is_wanted_v<std::remove_cvref_t<decltype(dx)>>) {
        if (op.dim == 1)
          take_channels(space, dx, dy, first);
        else
          Slice{op.dim, first, first + sizes[at]}.apply(space, dx, dy);
      }
      first += sizes[at++];
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) { (take(std::get<I>(d)), ...); }
    (std::make_index_sequence<static_cast<std::size_t>(N)>{});
  }
};

}  // namespace shard::impl

#endif
