// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_STENCIL_OPERATOR_HPP
#define SHARD_SOLVE_STENCIL_OPERATOR_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>

#include "shard/exchange/overlapped.hpp"
#include "shard/solve/operators.hpp"

namespace shard {

namespace impl {

/// y = A x at a point.
template <class Y, class X, class Functor>
struct ApplyStencilKernel {
  Functor functor;
  Y y;
  X x;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    y(i...) = static_cast<typename Y::value_type>(functor(x, i...));
  }
};
/// d = the diagonal of A at a point.
template <class D, class Functor>
struct StencilDiagonalKernel {
  Functor functor;
  D d;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    d(i...) = static_cast<typename D::value_type>(functor.diagonal(d, i...));
  }
};

template <class Functor>
constexpr bool is_star() {
  if constexpr (requires { Functor::is_star; })
    return Functor::is_star;
  else
    return false;
}

}  // namespace impl

/// A stencil as an operator, without a matrix: (A x)(i, j) = functor(x, i, j). The functor reads x
/// as far as x's halo, with coefficients that it holds. `apply` exchanges x's halo while it
/// computes the interior.
///
/// \code
/// struct NinePoint {
///   template <class X>
///   KOKKOS_FUNCTION double operator()(const X& x, int i, int j) const;
/// };
/// const shard::StencilOperator a(x, NinePoint{});
/// \endcode
///
/// Optional members of the functor: `static constexpr bool is_star = true` if it reads no corner
/// (fewer messages); `is_symmetric`; `diagonal(x, i, j)`, the coefficient of x(i, j). `Adjoint` is
/// the functor of A' if A isn't symmetric.
template <class Field, class Functor, class Adjoint = void>
class StencilOperator {
 public:
  using field_type                   = Field;                          ///< of x and y
  static constexpr bool is_symmetric = impl::is_symmetric<Functor>();  ///< as the functor says

  /// For fields like `like`. Collective over its mesh, as Exchange.
  StencilOperator(const Field& like, const Functor& functor)
      : functor_(functor), like_(like), halos_(plan(like)) {}
  /// The same with the functor of A'.
  template <class Other>
  requires(!std::is_void_v<Other> && std::is_same_v<Other, Adjoint>)
      StencilOperator(const Field& like, const Functor& functor, const Other& adjoint)
      : functor_(functor), adjoint_(adjoint), like_(like), halos_(plan(like)) {}

  /// y = A x; fills x's halo. Throws ArgumentError on every rank unless x and y have the partitions
  /// of the field that it was made for and no memory in common. Their strides may be any.
  template <class Space>
  void apply(const Space& space, const Field& y, const Field& x) const {
    over("shard::stencil", space, y, x,
         impl::ApplyStencilKernel<Field, Field, Functor>{functor_, y, x});
  }
  /// x = A' y; fills y's halo.
  template <class Space>
  requires(!std::is_void_v<Adjoint>) void apply_adjoint(const Space& space, const Field& x,
                                                        const Field& y) const {
    over("shard::stencil", space, x, y,
         impl::ApplyStencilKernel<Field, Field, Adjoint>{adjoint_, x, y});
  }
  /// d = the diagonal of A.
  template <class Space>
  void diagonal(const Space& space, const Field& d) const {
    impl::write_points("shard::diagonal", space, d,
                       impl::StencilDiagonalKernel<Field, Functor>{functor_, d}, like_);
  }
  /// Runs a kernel that reads x's halo over y's owned points, which it writes, and fills x's halo
  /// meanwhile.
  template <class Space, class Kernel>
  void over(const std::string& label, const Space& space, const Field& y, const Field& x,
            const Kernel& kernel) const {
    impl::require_alike("StencilOperator", like_, y, x);
    impl::require_apart("StencilOperator", y, x);
    auto pending = halos_.start(space, x);
    impl::run_overlapped<Field>(label, space, pending, y, owned_region(y),
                                impl::widths_of<Field>(Reach<>{}), kernel);
    mark_written(space, y);
  }
  /// Fills the halo that the stencil reads.
  template <class Space>
  void fill_halo(const Space& space, const Field& x) const {
    halos_(space, x);
  }
  /// The functor.
  const Functor& functor() const { return functor_; }
  /// The field that it was made for.
  const Field& like() const { return like_; }

 private:
  struct None {};
  static Exchange<Field> plan(const Field& like) {
    const Exchange<Field> all(like);
    if constexpr (impl::is_star<Functor>())
      return all.faces();
    else
      return all;
  }
  Functor functor_;
  std::conditional_t<std::is_void_v<Adjoint>, None, Adjoint> adjoint_{};
  Field like_;
  Exchange<Field> halos_;
};
/// With the functor of A'.
template <class Field, class Functor, class Adjoint>
StencilOperator(const Field&, const Functor&, const Adjoint&)
    -> StencilOperator<Field, Functor, Adjoint>;

}  // namespace shard

#endif
