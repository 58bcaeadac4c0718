// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_CG_HPP
#define SHARD_SOLVE_CG_HPP

#include <Kokkos_Core.hpp>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

/// The method of conjugate gradients (Hestenes and Stiefel 1952) for a symmetric positive definite
/// operator and preconditioner: PETSc's KSPCG, Belos' "CG".
///
///   shard::CG cg(x, a, multigrid, {.relative = 1e-10});
///   const shard::SolveResult result = cg(space, x, b);
///
/// Two messages per iteration for sums, three with a preconditioner. `flexible`: the preconditioner
/// may vary or be slightly unsymmetric (Notay 2000; PETSc's KSPFCG). It keeps its work vectors: a
/// second solve allocates nothing. One solve at a time.
template <class V, class A, class M = Identity>
class CG : public KrylovSolver<CG<V, A, M>, V, A, M, 4> {
  using Base = KrylovSolver<CG, V, A, M, 4>;
  friend Base;

 public:
  static constexpr const char* name      = "CG";  ///< for messages
  static constexpr bool takes_flexible   = true;  ///< SolveOptions::flexible
  static constexpr bool is_for_symmetric = true;  ///< A must be symmetric
  using Base::Base;  ///< of vectors like x, A, a preconditioner or none, options

 private:
  template <class Space>
  void cycle(const Space& space, const V& x, const V&, double norm) {
    using Of            = impl::DotOf<V>;
    auto& progress      = this->progress_;
    const bool flexible = this->options().flexible;
    const V &r = this->work_[0], &p = this->work_[1], &q = this->work_[2];
    double rz = norm * norm, alpha = 0.0, before = 0.0;
    // x += alpha p is left to the pass over memory that makes the next p
    const auto finish = [&] { axpby(space, x, alpha, p, 1.0); };
    while (true) {
      const V& z  = Base::is_plain ? r : this->work_[3];
      double beta = Base::is_plain && before != 0.0 ? rz / before : 0.0;
      if constexpr (!Base::is_plain) {
        this->m_.apply(space, z, r);
        if (flexible && before != 0.0) {
          // Polak and Ribiere: r'z without the part of the old residual, which is r + alpha q
          const auto of =
              this->nullspace_.dots(space, this->product(), {Of{&r, &z}, Of{&q, &z}}, z);
          rz   = of[0];
          beta = -alpha * of[1] / before;
        } else {
          rz = this->nullspace_.dots(space, this->product(), {Of{&r, &z}}, z)[0];
          if (before != 0.0) beta = rz / before;
        }
        if (!(rz > 0.0)) {
          if (before != 0.0) finish();
          return void(progress.breakdown("r'Mr"));
        }
      }
      if (before == 0.0)
        axpby(space, p, 1.0, z, 0.0);
      else
        impl::advance(space, x, alpha, p, 1.0, z, beta);
      if constexpr (!Base::is_plain) this->nullspace_.remove(space, p);
      this->a_.apply(space, q, p);
      const double pq = this->dots_of(space, {Of{&p, &q}})[0];
      if (!(pq > 0.0)) return void(progress.breakdown("p'Ap"));
      alpha           = rz / pq;
      before          = rz;
      const double rr = impl::descend(space, this->product(), r, q, alpha);
      if (progress.step(Kokkos::sqrt(rr))) return finish();
      if constexpr (Base::is_plain) rz = rr;
    }
  }
};
/// The vectors' type, the operator's, the preconditioner's.
template <class V, class A, class M>
CG(const V&, const A&, const M&, const SolveOptions& = {}) -> CG<V, A, M>;
/// Without a preconditioner.
template <class V, class A>
CG(const V&, const A&, const SolveOptions& = {}) -> CG<V, A>;

}  // namespace shard

#endif
