// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_OPERATORS_HPP
#define SHARD_SOLVE_OPERATORS_HPP

#include <Kokkos_Core.hpp>

#include "shard/solve/vector.hpp"

/// \file
/// The protocol of linear operators. An operator is a copyable handle with
///
///   apply(space, y, x)          y = A x; may fill the halos of x
///
/// const, and optionally
///
///   apply_adjoint(space, x, y)  x = A' y
///   diagonal(space, d)          d = the diagonal of A
///   static constexpr bool is_symmetric = true    A' = A
///
/// y isn't x and has no memory of x, unless the operator says that it may be. The library's
/// operators throw ArgumentError on every rank for such a y, and for vectors of other partitions
/// than theirs. The memory of vectors may be padded, narrowed or a subview.
///
/// A linear operation of autodiff is one too: its pullback(space, x, y) is the adjoint. A
/// preconditioner is an operator that approximates the inverse. These functions are collective over
/// the mesh if the operator exchanges halos or reduces.

namespace shard {

/// y = x: no preconditioner.
struct Identity {
  static constexpr bool is_symmetric = true;  ///< A' = A
  /// y = x
  template <class Space, class V>
  void apply(const Space& space, const V& y, const V& x) const {
    axpby(space, y, 1.0, x, 0.0);
  }
};

namespace impl {

/// Whether A has apply(space, y, x) for vectors of this type. A preconditioner's needn't be const:
/// an inner solver's isn't.
template <class A, class Space, class V>
inline constexpr bool applies_to_v = requires(A& a, const Space& space, const V& v) {
  a.apply(space, v, v);
};

template <class A>
constexpr bool is_symmetric() {
  if constexpr (requires { A::is_symmetric; })
    return A::is_symmetric;
  else
    return false;
}

/// x = A' y, by whichever function the operator has.
template <class A, class Space, class X, class Y>
void apply_adjoint(const A& a, const Space& space, const X& x, const Y& y) {
  if constexpr (requires { a.apply_adjoint(space, x, y); }) {
    a.apply_adjoint(space, x, y);
  } else if constexpr (is_symmetric<A>()) {
    a.apply(space, x, y);
  } else {
    static_assert(
        requires { a.pullback(space, x, y); },
        "this needs an operator with apply_adjoint, pullback or is_symmetric = true");
    a.pullback(space, x, y);
  }
}

}  // namespace impl

/// The adjoint A' of an operator.
template <class A>
struct AdjointOperator {
  static constexpr bool is_symmetric = impl::is_symmetric<A>();  ///< as A
  A a;                                                           ///< the operator
  /// y = A' x
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::apply_adjoint(a, space, y, x);
  }
  /// x = A y
  template <class Space, class X, class Y>
  void apply_adjoint(const Space& space, const X& x, const Y& y) const {
    a.apply(space, x, y);
  }
};
/// The adjoint of `a`.
template <class A>
AdjointOperator<A> adjoint_of(const A& a) {
  return {a};
}

/// scale A + shift, such as I + dt A of an implicit time step.
template <class A>
struct ShiftedOperator {
  static constexpr bool is_symmetric = impl::is_symmetric<A>();  ///< as A
  A a;                                                           ///< the operator
  double shift = 0.0;                                            ///< added to the diagonal
  double scale = 1.0;                                            ///< factor of A
  /// y = scale A x + shift x
  template <class Space, class V>
  void apply(const Space& space, const V& y, const V& x) const {
    impl::require_operands("ShiftedOperator", y, x);
    a.apply(space, y, x);
    axpby(space, y, shift, x, scale);
  }
  /// x = scale A' y + shift y
  template <class Space, class V>
  void apply_adjoint(const Space& space, const V& x, const V& y) const {
    impl::require_operands("ShiftedOperator", x, y);
    impl::apply_adjoint(a, space, x, y);
    axpby(space, x, shift, y, scale);
  }
  /// d = scale diagonal(A) + shift
  template <class Space, class V>
  void diagonal(const Space& space, const V& d) const {
    a.diagonal(space, d);
    const V* const self[] = {&d};
    impl::update_some<1>(space, d, 0.0, &scale, self, shift);
  }
};
/// scale A + shift.
template <class A>
ShiftedOperator<A> shifted(const A& a, double shift, double scale = 1.0) {
  return {a, shift, scale};
}

/// A + B, with a vector of its own between them.
template <class A, class B, class V>
class OperatorSum {
 public:
  static constexpr bool is_symmetric =
      impl::is_symmetric<A>() && impl::is_symmetric<B>();  ///< as both
  /// `like`: a vector like those that it maps to. Local.
  OperatorSum(const A& a, const B& b, const V& like)
      : a_(a), b_(b), other_(impl::like_value(like, "shard::operator")) {}
  /// y = A x + B x
  template <class Space, class X>
  void apply(const Space& space, const V& y, const X& x) const {
    impl::require_apart("OperatorSum", y, x);
    a_.apply(space, y, x);
    b_.apply(space, other_, x);
    axpby(space, y, 1.0, other_, 1.0);
  }
  /// x = A' y + B' y
  template <class Space>
  void apply_adjoint(const Space& space, const V& x, const V& y) const {
    impl::require_apart("OperatorSum", x, y);
    impl::apply_adjoint(a_, space, x, y);
    impl::apply_adjoint(b_, space, other_, y);
    axpby(space, x, 1.0, other_, 1.0);
  }

 private:
  A a_;
  B b_;
  V other_;
};

/// A B: first B, then A, with a vector of its own between them.
template <class A, class B, class V>
class OperatorProduct {
 public:
  /// `between`: a vector like those that B maps to. Local.
  OperatorProduct(const A& a, const B& b, const V& between)
      : a_(a), b_(b), between_(impl::like_value(between, "shard::operator")) {}
  /// y = A B x
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    b_.apply(space, between_, x);
    a_.apply(space, y, between_);
  }
  /// x = B' A' y
  template <class Space, class X, class Y>
  void apply_adjoint(const Space& space, const X& x, const Y& y) const {
    impl::apply_adjoint(a_, space, between_, y);
    impl::apply_adjoint(b_, space, x, between_);
  }

 private:
  A a_;
  B b_;
  V between_;
};

/// A preconditioner in the precision of another vector, `V32`: it takes and returns vectors of
/// double, and converts them to and from float, say.
template <class M, class V32>
class Converted {
 public:
  static constexpr bool is_symmetric = impl::is_symmetric<M>();  ///< as M
  /// `like`: a vector of the preconditioner's precision. Local.
  Converted(const M& m, const V32& like)
      : m_(m),
        from_(impl::like_value(like, "shard::converted")),
        to_(impl::like_value(like, "shard::converted")) {}
  /// z = M r
  template <class Space, class V>
  void apply(const Space& space, const V& z, const V& r) const {
    axpby(space, from_, 1.0, r, 0.0);
    m_.apply(space, to_, from_);
    axpby(space, z, 1.0, to_, 0.0);
  }

 private:
  M m_;
  V32 from_, to_;
};

}  // namespace shard

#endif
