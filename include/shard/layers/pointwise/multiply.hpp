// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_MULTIPLY_HPP
#define SHARD_LAYERS_POINTWISE_MULTIPLY_HPP

#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// y = x z, point by point. x is a field [batch, channel, space...], sharded in any way. z is
/// broadcast as NumPy does: in each dimension it has x's extent and partition, or extent 1 and is
/// not sharded. So it is a field of x's extents; a gate for each batch entry and channel, [B, C, 1,
/// 1]; a gate for each point, [B, 1, H, W]. Or z is a plain View [B, C] of all gates, the same on
/// every rank; or a field on a mesh of one rank, such as [B, C, 1, 1] of this rank's batch entries.
///
/// y, and the gradient of x, are bitwise the same for any number of ranks, and send nothing. The
/// gradient of a smaller z is a sum over points, complete on every rank that has the value. It is
/// in double: first on each rank, then in rank order, so it is bitwise reproducible on one mesh. If
/// it is summed over sharded dimensions it needs one collective. The gradient of a z on a mesh of
/// one rank is this rank's part, as that of a parameter is. A layer with two inputs, and an
/// operation for a tape. Throws ArgumentError on every rank for other extents or partitions.
struct Multiply {
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< forward sends nothing
  static constexpr bool takes_not_wanted  = true;                  ///< dx and dz may be not_wanted
  static constexpr int inputs             = 2;                     ///< x and z
  static constexpr bool broadcasts        = true;                  ///< z may be replicated

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Computes y's owned points; y may be x.
  template <class Space, class Y, class X, class Z>
  void apply(const Space& space, const Y& y, const X& x, const Z& z) const {
    combine(space, y, x, x, z, not_wanted, not_wanted);
    mark_written(space, y);
  }
  /// ty = tx z + x tz; ty may be tx. Tangents may be not_wanted (zero).
  template <class Space, class TY, class TX, class TZ, class X, class Z>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const TZ& tz, const X& x,
                   const Z& z) const {
    combine(space, ty, x, tx, z, x, tz);
    mark_written(space, ty);
  }
  /// Sets dx = dy z, and dz = the sums of dy x; dx may be dy. Collective if dz is a sum over
  /// sharded dimensions, else local.
  template <class Space, class DX, class DZ, class DY, class X, class Z>
  void pullback(const Space& space, const DX& dx, const DZ& dz, const DY& dy, const X& x,
                const Z& z) const {
    impl::require_same_owners("Multiply", x, dy);
    if constexpr (is_wanted_v<DZ>) {
      impl::require_same_broadcast("Multiply", dz, z, x);
      impl::set_broadcast_gradient(space, "Multiply", dz, dy, impl::owned_input(x));
    }
    if constexpr (is_wanted_v<DX>) combine(space, dx, x, dy, z, not_wanted, not_wanted);
  }

 private:
  /// y = a z + b w; products with a tangent that isn't wanted are omitted.
  template <class Space, class Y, class X, class A, class Z, class B, class W>
  static void combine(const Space& space, const Y& y, const X& x, const A& a, const Z& z,
                      const B& b, const W& w) {
    using T = typename X::non_const_value_type;
    impl::Products<T> terms;
    impl::require_same_owners("Multiply", x, y);
    if constexpr (is_wanted_v<A>) {
      impl::require_same_owners("Multiply", x, a);
      terms.a = impl::owned_input(a);
      terms.z = impl::broadcast_block("Multiply", z, x);
    }
    if constexpr (is_wanted_v<W>) {
      terms.b = impl::owned_input(b);
      terms.w = impl::broadcast_block("Multiply", w, x);
    }
    impl::BroadcastKernels<Space, T>::combine(space, impl::owned_block(impl::local(y)), terms);
  }
};

}  // namespace shard

#endif
