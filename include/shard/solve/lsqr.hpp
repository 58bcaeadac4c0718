// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_LSQR_HPP
#define SHARD_SOLVE_LSQR_HPP

#include <Kokkos_Core.hpp>

#include <optional>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/impl/krylov.hpp"

namespace shard {

namespace impl {

/// z = weight x, 0 where the weight is, whatever x is there.
template <class Field>
struct WeightKernel {
  Field z, x, weight;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using T   = typename Field::value_type;
    const T w = weight(i...);
    z(i...)   = w == T(0) ? T(0) : w * x(i...);
  }
};

}  // namespace impl

/// LSQR (Paige and Saunders 1982): the x that minimises |A x - b|, for an operator with an adjoint
/// between vectors of different types: PETSc's KSPLSQR, Belos' "LSQR". Two messages per iteration.
/// It has converged if the residual is small, as the other methods. The status is `inconsistent` if
/// A' r is small instead, |A' r| <= relative |A| |r|: then x is the least-squares solution. A
/// second solve allocates nothing.
template <class X, class B, class A>
class LSQR {
 public:
  /// For x like `x` and b like `b`. The operator is copied. Local.
  LSQR(const X& x, const B& b, const A& a, const SolveOptions& options = {})
      : a_(a),
        progress_(options, "LSQR", false),
        r_(impl::like_value(b, "shard::krylov")),
        u_(impl::like_value(b, "shard::krylov")),
        v_(impl::like_value(x, "shard::krylov")),
        w_(impl::like_value(x, "shard::krylov")),
        y_(impl::like_value(x, "shard::krylov")) {
    if (options.nullspace != Nullspace::trivial)
      impl::throw_argument("LSQR", {"it takes no null space: from x = 0 it finds the shortest of "
                                    "the least-squares solutions without"});
  }

  /// Minimises |A x - b| from the given x. Collective. Errors as of a KrylovSolver's solve.
  template <class Space>
  SolveResult operator()(const Space& space, const X& x, const B& b) {
    impl::require_alike("LSQR", v_, x);
    impl::require_alike("LSQR", r_, b);
    impl::require_apart("LSQR", x, b);
    progress_.agree(impl::value_communicator(r_), "LSQR", 0, weights_ ? ", weights" : "");
    bool least         = false;
    const X* const one = nullptr;  // the residual falls always
    SolveResult result =
        impl::solve_by_cycles(progress_, nullspace_, product(), space, a_, x, b, r_, one, false,
                              [&](double norm) { least = cycle(space, x, norm) || least; });
    if (least &&
        (result.status == SolveStatus::stagnated || result.status == SolveStatus::breakdown))
      result.status = SolveStatus::inconsistent;
    return result;
  }
  /// Minimises the sum of weight |A x - b|^2 in place of |A x - b|: 1 / variance of observations,
  /// say. The residual's norms have the weights too. A point of weight 0 doesn't count, whatever b
  /// is there. Shares the memory of `weights`, which is like b.
  void set_weights(const B& weights) {
    impl::require_alike("LSQR", r_, weights);
    weights_  = weights;
    weighted_ = impl::like_value(weights, "shard::krylov");
  }
  /// The residual's norm at each iteration of the last solve, from 0 on.
  const std::vector<double>& history() const { return progress_.history(); }

 private:
  /// How dot products of vectors like b are summed.
  impl::InnerProduct<B> product() const {
    return {progress_.options().determinism, weights_ ? &*weights_ : nullptr, progress_.scale()};
  }
  template <class Space, class V>
  double norm_of(const Space& space, const V& v, const impl::InnerProduct<V>& product) const {
    return Kokkos::sqrt(impl::all_dots(space, product, {impl::DotOf<V>{&v, &v}})[0]);
  }
  /// v = A' u, of the adjoint in the product with weights.
  template <class Space>
  void adjoint(const Space& space, const X& v, const B& u) const {
    if (!weights_) return impl::apply_adjoint(a_, space, v, u);
    impl::for_parts(
        [&](const auto& z, const auto& from, const auto& w) {
          impl::write_points("shard::weighted", space, z,
                             impl::WeightKernel<std::remove_cvref_t<decltype(z)>>{z, from, w}, from,
                             w);
        },
        weighted_, u, *weights_);
    impl::apply_adjoint(a_, space, v, weighted_);
  }
  /// Returns whether x is the least-squares solution.
  template <class Space>
  bool cycle(const Space& space, const X& x, double norm) {
    double beta = norm;
    axpby(space, u_, 1.0 / beta, r_, 0.0);
    adjoint(space, v_, u_);
    const impl::InnerProduct<X> plain(progress_.options().determinism, nullptr, progress_.scale());
    double alpha           = norm_of(space, v_, plain);
    const double tolerance = progress_.options().relative;
    double size            = alpha * alpha;  // the Frobenius norm of the bidiagonal matrix, squared
    if (!(alpha > 0.0)) return progress_.breakdown("A'r");
    axpby(space, v_, 0.0, v_, 1.0 / alpha);
    axpby(space, w_, 1.0, v_, 0.0);
    double phi = beta, rho = alpha;
    while (true) {
      a_.apply(space, y_of_b(), v_);
      axpby(space, u_, 1.0, y_of_b(), -alpha);
      beta = norm_of(space, u_, product());
      if (beta > 0.0) axpby(space, u_, 0.0, u_, 1.0 / beta);
      adjoint(space, y_, u_);
      axpby(space, v_, 1.0, y_, -beta);
      alpha = norm_of(space, v_, plain);
      if (alpha > 0.0) axpby(space, v_, 0.0, v_, 1.0 / alpha);
      size += alpha * alpha + beta * beta;
      const double whole = Kokkos::hypot(rho, beta), c = rho / whole, s = beta / whole;
      const double theta = s * alpha, step = c * phi;
      rho = -c * alpha;
      phi = s * phi;
      axpby(space, x, step / whole, w_, 1.0);
      axpby(space, w_, 1.0, v_, -theta / whole);
      if (progress_.step(phi)) return false;
      if (alpha * Kokkos::fabs(c) <= tolerance * Kokkos::sqrt(size)) return true;
    }
  }
  /// The residual isn't needed between two checks.
  const B& y_of_b() const { return r_; }

  A a_;
  impl::SolveProgress progress_;
  impl::NullspaceBasis<B> nullspace_;  // of A': none is needed
  B r_, u_, weighted_;
  X v_, w_, y_;
  std::optional<B> weights_;
};

}  // namespace shard

#endif
