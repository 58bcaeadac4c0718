// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_ADD_BROADCAST_HPP
#define SHARD_LAYERS_POINTWISE_ADD_BROADCAST_HPP

#include <cstddef>
#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// y = x + z, point by point, with a z that is broadcast as in Multiply: the embedding of a time or
/// a noise level [B, C, 1, 1], a field of one channel [B, 1, H, W]. The gradient of z is as that of
/// Multiply. A layer with two inputs, and an operation for a tape. Throws ArgumentError on every
/// rank for other extents or partitions.
struct AddBroadcast {
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< forward sends nothing
  static constexpr bool takes_not_wanted  = true;                  ///< dx and dz may be not_wanted
  static constexpr int inputs             = 2;                     ///< x and z
  static constexpr bool broadcasts        = true;                  ///< z may be replicated
  /// Whether the adjoint of an input is that of y, so that a model needn't compute it.
  constexpr bool passes(std::size_t input) const { return input == 0; }

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Computes y's owned points; y may be x.
  template <class Space, class Y, class X, class Z>
  void apply(const Space& space, const Y& y, const X& x, const Z& z) const {
    combine(space, y, x, x, z);
    mark_written(space, y);
  }
  /// ty = tx + tz; ty may be tx. Tangents may be not_wanted (zero).
  template <class Space, class TY, class TX, class TZ, class X, class Z>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const TZ& tz, const X& x,
                   const Z&) const {
    combine(space, ty, x, tx, tz);
    mark_written(space, ty);
  }
  /// Sets dx = dy, and dz = the sums of dy; dx may be dy. Collective if dz is a sum over sharded
  /// dimensions, else local.
  template <class Space, class DX, class DZ, class DY, class X, class Z>
  void pullback(const Space& space, const DX& dx, const DZ& dz, const DY& dy, const X& x,
                const Z& z) const {
    impl::require_same_owners("AddBroadcast", x, dy);
    if constexpr (is_wanted_v<DZ>) {
      impl::require_same_broadcast("AddBroadcast", dz, z, x);
      impl::set_broadcast_gradient(space, "AddBroadcast", dz, dy,
                                   decltype(impl::owned_input(dy)){});
    }
    if constexpr (is_wanted_v<DX>) combine(space, dx, x, dy, not_wanted);
  }

 private:
  /// y = a + z, without those that aren't wanted.
  template <class Space, class Y, class X, class A, class Z>
  static void combine(const Space& space, const Y& y, const X& x, const A& a, const Z& z) {
    using T = typename X::non_const_value_type;
    impl::Products<T> terms;
    terms.base = 1.0;
    impl::require_same_owners("AddBroadcast", x, y);
    if constexpr (is_wanted_v<A>) {
      impl::require_same_owners("AddBroadcast", x, a);
      terms.a = impl::owned_input(a);
    }
    if constexpr (is_wanted_v<Z>) terms.s = impl::broadcast_block("AddBroadcast", z, x);
    impl::BroadcastKernels<Space, T>::combine(space, impl::owned_block(impl::local(y)), terms);
  }
};

}  // namespace shard

#endif
