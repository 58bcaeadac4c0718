// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_IMPL_AXIS_OPERATION_HPP
#define SHARD_COLLECTIVES_IMPL_AXIS_OPERATION_HPP

#include "shard/collectives/impl/collectives_call.hpp"

namespace shard::impl {

/// What the collectives and the operations on sequences have in common: they are linear, so each is
/// a call forward and a call backward. `Op` has `names`, for messages: of the operation, of its
/// pullback, of its replicated pullback. And, for a View type `To` that is written,
/// `forward<To>(space, call)`, `backward<To>`, `backward_replicated<To>`.
template <class Op, class Axis>
struct AxisOperation {
  /// to = the operation's result
  template <class Space, class To, class From, class... MeshAxes>
  void apply(const Space& space, const To& to, const From& from,
             const Mesh<MeshAxes...>& mesh) const {
    self().template forward<To>(space, call(0, space, to, from, mesh));
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_to, const From& d_from,
                   const Mesh<MeshAxes...>& mesh) const {
    Op::require_linear();
    apply(space, d_to, d_from, mesh);
  }
  /// The transpose: overwrites d_from.
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    Op::require_linear();
    self().template backward<DFrom>(space, call(1, space, d_from, d_to, mesh));
  }
  /// The transpose if all ranks compute the same from the result and it counts once (a loss), or if
  /// the replicas of x are one variable.
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback_replicated(const Space& space, const DFrom& d_from, const DTo& d_to,
                           const Mesh<MeshAxes...>& mesh) const requires(Op::may_count_once) {
    Op::require_linear();
    self().template backward_replicated<DFrom>(space, call(2, space, d_from, d_to, mesh));
  }

 protected:
  static constexpr bool may_count_once = false;
  static constexpr void require_linear() {}

 private:
  const Op& self() const { return static_cast<const Op&>(*this); }
  template <class Space, class To, class From, class... MeshAxes>
  static CollectiveCall call(int name, const Space& space, const To& to, const From& from,
                             const Mesh<MeshAxes...>& mesh) {
    return collective_call<Axis>(Op::names[name], space, to, from, mesh);
  }
};

}  // namespace shard::impl

#endif
