// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_CG_HPP
#define SHARD_SOLVE_CG_HPP

#include <Kokkos_Core.hpp>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

namespace impl {

/// x += alpha p, r -= alpha q.
template <class V>
struct StepBothKernel {
  V x, r, p, q;
  double alpha;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using T = typename V::value_type;
    x(i...) = static_cast<T>(static_cast<double>(x(i...)) + alpha * static_cast<double>(p(i...)));
    r(i...) = static_cast<T>(static_cast<double>(r(i...)) - alpha * static_cast<double>(q(i...)));
  }
};

}  // namespace impl

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
class CG : public impl::KrylovSolver<V, A, M, 4> {
  using Base = impl::KrylovSolver<V, A, M, 4>;

 public:
  /// For vectors like `like`. Operator and preconditioner are copied. Local.
  CG(const V& like, const A& a, const M& m, const SolveOptions& options = {})
      : Base(like, a, m, options) {}
  /// Without a preconditioner.
  CG(const V& like, const A& a, const SolveOptions& options = {})
      : Base(like, a, Identity{}, options) {}

  /// Solves A x = b from the given x. Collective.
  template <class Space>
  SolveResult operator()(const Space& space, const V& x, const V& b) {
    return impl::solve_by_cycles(this->progress_, space, this->a_, x, b, this->work_[0], false,
                                 [&](double norm) { cycle(space, x, norm); });
  }

 private:
  template <class Space>
  void cycle(const Space& space, const V& x, double norm) {
    using Of       = impl::DotOf<V>;
    auto& progress = this->progress_;
    const V &r = this->work_[0], &p = this->work_[1], &q = this->work_[2];
    constexpr bool plain = std::is_same_v<M, Identity>;
    const double points  = impl::vector_points(x);
    double rz = norm * norm, mean = 0.0, beta = 0.0, alpha = 0.0, before = 0.0;
    while (true) {
      const V& z = this->precondition(space, this->work_[3], r);
      if constexpr (!plain) {
        const bool again = beta != 0.0 || before != 0.0;
        const V& other   = again && progress.options().flexible ? q : r;
        if (progress.singular()) {
          const auto of = this->dots_of(space, {Of{&r, &z}, Of{&other, &z}, Of{&z, nullptr}});
          rz            = of[0];
          beta          = of[1];
          mean          = of[2] / points;
        } else if (progress.options().flexible) {
          const auto of = this->dots_of(space, {Of{&r, &z}, Of{&other, &z}});
          rz            = of[0];
          beta          = of[1];
        } else {
          rz = this->dots_of(space, {Of{&r, &z}})[0];
        }
        if (!(rz > 0.0)) return void(progress.breakdown("r'Mr"));
        // Polak and Ribiere: r'z without the part of the old residual, which is r + alpha q
        beta = !again ? 0.0 : progress.options().flexible ? -alpha * beta / before : rz / before;
      } else {
        beta = before == 0.0 ? 0.0 : rz / before;
      }
      const double one      = 1.0;
      const V* const from[] = {&z};
      impl::update_some<1>(space, p, beta, &one, from, -mean);
      this->a_.apply(space, q, p);
      const double pq = this->dots_of(space, {Of{&p, &q}})[0];
      if (!(pq > 0.0)) return void(progress.breakdown("p'Ap"));
      alpha = rz / pq;
      impl::for_parts(
          [&](const auto& px, const auto& pr, const auto& pp, const auto& pa) {
            parallel_for(
                "shard::cg", space, owned_region(px),
                impl::StepBothKernel<std::remove_cvref_t<decltype(px)>>{px, pr, pp, pa, alpha});
          },
          x, r, p, q);
      before          = rz;
      const double rr = this->dots_of(space, {Of{&r, &r}})[0];
      if (progress.step(Kokkos::sqrt(rr))) return;
      if constexpr (plain) rz = rr;
    }
  }
};

}  // namespace shard

#endif
