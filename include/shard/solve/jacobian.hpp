// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_JACOBIAN_HPP
#define SHARD_SOLVE_JACOBIAN_HPP

#include <Kokkos_Core.hpp>

#include <memory>

#include "shard/autodiff/operation.hpp"
#include "shard/solve/operators.hpp"

namespace shard {

/// The derivative J of an operation at a value x, as an operator: `apply` is the operation's
/// pushforward, `apply_adjoint` its pullback. For Newton's method with GMRES, for LSQR, and for
/// J' W J by `gauss_newton`. The operation is a layer, a module, a `chain`, an `operation_graph`
/// or one of your own; a Tape has no pushforward.
///
///   const shard::Jacobian j(space, step, x);       // applies step to x
///   shard::GMRES gmres(x, j);
///   shard::SolveResult result = gmres(space, dx, residual);
///
/// x must not change until the next `linearise`. An operation that remembers its last apply is
/// applied to x again if it was applied elsewhere, as on a tape; one without `applied()` at each
/// call. `apply_adjoint` adds to the gradients of parameters, as pullback does. Keeps x, not a
/// copy. Copies share the linearisation.
template <class Op, class X>
class Jacobian {
 public:
  using output_type = impl::OutputOf<Op, X>;  ///< of the operation

  /// Applies the operation to x. Collective as it.
  template <class Space>
  Jacobian(const Space& space, const Op& op, const X& x)
      : op_(op),
        x_(x),
        output_(impl::make_output(op, x)),
        applied_(std::make_shared<impl::Applied<Op>>(op)) {
    linearise(space);
  }
  /// An error that says what is missing.
  template <class Other>
  Jacobian(const Other&, const X&) {
    static_assert(!std::is_same_v<Other, Other>,
                  "Jacobian applies the operation, so it needs an execution-space instance first: "
                  "Jacobian(space, op, x)");
  }
  /// Applies the operation to x anew, when x has changed. Collective as the operation.
  template <class Space>
  void linearise(const Space& space) const {
    applied_->apply(op_, space, output_, x_);
  }
  /// The operation's result for x.
  const output_type& output() const { return output_; }
  /// ty = J tx
  template <class Space, class TY, class TX>
  void apply(const Space& space, const TY& ty, const TX& tx) const {
    applied_->restore(op_, space, output_, x_);
    impl::call_pushforward(op_, space, ty, tx, x_);
  }
  /// dx = J' dy
  template <class Space, class DX, class DY>
  void apply_adjoint(const Space& space, const DX& dx, const DY& dy) const {
    applied_->restore(op_, space, output_, x_);
    impl::call_pullback(op_, space, dx, dy, x_);
  }

 private:
  Op op_;
  X x_;
  output_type output_;
  std::shared_ptr<impl::Applied<Op>> applied_;
};
/// Of the operation's and the field's types.
template <class Op, class X>
Jacobian(const Op&, const X&) -> Jacobian<Op, X>;

/// J' W J: the Gauss-Newton operator of a least-squares problem with weights W. Made by
/// `gauss_newton`.
template <class J, class W>
class GaussNewton {
 public:
  static constexpr bool is_symmetric = impl::is_symmetric<W>();  ///< as W

  /// Allocates two vectors of J's output. Local.
  GaussNewton(const J& j, const W& w)
      : j_(j),
        w_(w),
        forward_(impl::like_value(j.output(), "shard::gauss_newton")),
        weighted_(impl::like_value(j.output(), "shard::gauss_newton")) {}
  /// y = J' W J x
  template <class Space, class X>
  void apply(const Space& space, const X& y, const X& x) const {
    j_.apply(space, forward_, x);
    w_.apply(space, weighted_, forward_);
    j_.apply_adjoint(space, y, weighted_);
  }
  /// x = J' W' J y
  template <class Space, class X>
  void apply_adjoint(const Space& space, const X& x, const X& y) const {
    j_.apply(space, forward_, y);
    impl::apply_adjoint(w_, space, weighted_, forward_);
    j_.apply_adjoint(space, x, weighted_);
  }

 private:
  J j_;
  W w_;
  typename J::output_type forward_, weighted_;
};

/// J' W J for a Jacobian J and an operator W on its output, by default the identity. Add a
/// background term or damping by `OperatorSum` or `shifted`. Local.
template <class Op, class X, class W = Identity>
GaussNewton<Jacobian<Op, X>, W> gauss_newton(const Jacobian<Op, X>& j, const W& w = {}) {
  return {j, w};
}

}  // namespace shard

#endif
