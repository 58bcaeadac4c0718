// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MINRES_HPP
#define SHARD_SOLVE_MINRES_HPP

#include <Kokkos_Core.hpp>

#include <utility>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

/// The minimal residual method (Paige and Saunders 1975) for a symmetric operator that may be
/// indefinite, with a symmetric positive definite preconditioner: PETSc's KSPMINRES, Belos'
/// "MINRES". Two messages per iteration. With a preconditioner the history is an estimate: the
/// method minimises another norm. A second solve allocates nothing.
template <class V, class A, class M = Identity>
class MINRES : public KrylovSolver<MINRES<V, A, M>, V, A, M, 8> {
  using Base = KrylovSolver<MINRES, V, A, M, 8>;
  friend Base;

 public:
  static constexpr const char* name      = "MINRES";  ///< for messages
  static constexpr bool is_for_symmetric = true;      ///< A must be symmetric
  using Base::Base;  ///< of vectors like x, A, a preconditioner or none, options

 private:
  template <class Space>
  const V& preconditioned(const Space& space, const V& z, const V& v) {
    if constexpr (Base::is_plain) {
      axpby(space, z, 1.0, v, 0.0);
    } else {
      this->precondition(space, z, v);
    }
    return z;
  }

  template <class Space>
  void cycle(const Space& space, const V& x, const V&, double norm) {
    using Of       = impl::DotOf<V>;
    auto& progress = this->progress_;
    auto& work     = this->work_;
    // handles, which change places; v is the residual at first
    V v = work[0], v_old = work[1], v_new = work[2], z = work[3], z_new = work[4], w = work[5],
      w_old = work[6], w_new = work[7];
    preconditioned(space, z, v);
    double gamma = this->dots_of(space, {Of{&z, &v}})[0];
    if (!(gamma > 0.0)) return void(progress.breakdown("r'Mr"));
    gamma                     = Kokkos::sqrt(gamma);
    const double unit         = norm / gamma;  // from the preconditioner's norm to the residual's
    constexpr double rounding = 1e-15;
    double size               = 0.0;  // of the tridiagonal matrix' elements, in A's units
    double gamma_old = 1.0, eta = gamma, s_old = 0.0, s = 0.0, c_old = 1.0, c = 1.0;
    for (bool begins = true;; begins = false) {
      axpby(space, z, 0.0, z, 1.0 / gamma);
      this->a_.apply(space, v_new, z);
      const double delta = this->dots_of(space, {Of{&v_new, &z}})[0];
      if (begins)
        axpby(space, v_new, -delta / gamma, v, 1.0);
      else
        update(space, v_new, -delta / gamma, v, -gamma / gamma_old, v_old, 1.0);
      preconditioned(space, z_new, v_new);
      const double square = this->dots_of(space, {Of{&z_new, &v_new}})[0];
      const double next   = square > 0.0 ? Kokkos::sqrt(square) : 0.0;
      size                = Kokkos::fmax(size, Kokkos::fmax(Kokkos::fabs(delta), next));
      const double most   = rounding * size;
      if (!(square >= 0.0) && !(square > -most * most)) return void(progress.breakdown("v'Mv"));
      const double a0 = c * delta - c_old * s * gamma, a1 = Kokkos::hypot(a0, next),
                   a2 = s * delta + c_old * c * gamma, a3 = s_old * gamma;
      if (!(a1 > 0.0)) return void(progress.breakdown("the tridiagonal matrix"));
      c_old = std::exchange(c, a0 / a1);
      s_old = std::exchange(s, next / a1);
      if (begins)
        axpby(space, w_new, 1.0 / a1, z, 0.0);
      else {
        update(space, w_new, 1.0 / a1, z, -a2 / a1, w, 0.0);
        if (a3 != 0.0) axpby(space, w_new, -a3 / a1, w_old, 1.0);
      }
      axpby(space, x, c * eta, w_new, 1.0);
      eta *= -s;
      if (progress.step(Kokkos::fabs(eta) * unit)) return;
      if (!(next > most)) return;  // the space is invariant
      gamma_old = std::exchange(gamma, next);
      swap_in(v_old, v, v_new);
      swap_in(w_old, w, w_new);
      std::swap(z, z_new);
    }
  }
  /// old, now, next = now, next, old.
  static void swap_in(V& old, V& now, V& next) {
    std::swap(old, now);
    std::swap(now, next);
  }
};
/// The vectors' type, the operator's, the preconditioner's.
template <class V, class A, class M>
MINRES(const V&, const A&, const M&, const SolveOptions& = {}) -> MINRES<V, A, M>;
/// Without a preconditioner.
template <class V, class A>
MINRES(const V&, const A&, const SolveOptions& = {}) -> MINRES<V, A>;

}  // namespace shard

#endif
