// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_BICGSTAB_HPP
#define SHARD_SOLVE_BICGSTAB_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

/// The stabilised biconjugate gradient method (van der Vorst 1992) for any operator, with little
/// memory: PETSc's KSPBCGS, Belos' "BICGSTAB". The preconditioner is applied from the right. Two
/// products with A and three messages per iteration. For real vectors. After a breakdown it starts
/// again from the true residual if there was progress; where r'AMr = 0 for this residual r, as for
/// a rotation by a right angle, there is none. A second solve allocates nothing.
template <class V, class A, class M = Identity>
class BiCGStab : public KrylovSolver<BiCGStab<V, A, M>, V, A, M, 8, true, true> {
  using Base = KrylovSolver<BiCGStab, V, A, M, 8, true, true>;
  friend Base;
  static_assert(
      std::is_floating_point_v<typename impl::FirstPart<V>::type::value_type>,
      "BiCGStab is for real vectors: products of complex ones are real numbers here, with "
      "which it breaks down; use GMRES");

 public:
  static constexpr const char* name = "BiCGStab";  ///< for messages
  using Base::Base;  ///< of vectors like x, A, a preconditioner or none, options

 private:
  template <class Space>
  void cycle(const Space& space, const V& x, const V&, double norm) {
    using Of       = impl::DotOf<V>;
    auto& progress = this->progress_;
    const V &r = this->work_[0], &shadow = this->work_[1], &p = this->work_[2], &v = this->work_[3],
            &t         = this->work_[4];
    const double first = norm;
    double rho = norm * norm, alpha = 0.0, omega = 0.0, beta = 0.0;
    axpby(space, shadow, 1.0, r, 0.0);
    constexpr double tiny = 1e-15;
    while (true) {
      // p = r + beta (p - omega v)
      if (beta == 0.0)
        axpby(space, p, 1.0, r, 0.0);
      else
        update(space, p, 1.0, r, -beta * omega, v, beta);
      const V& y = this->precondition(space, this->work_[5], p);
      this->a_.apply(space, v, y);
      const auto along = this->dots_of(space, {Of{&shadow, &v}, Of{&v, &v}});
      if (!(Kokkos::fabs(along[0]) > tiny * first * Kokkos::sqrt(along[1])))
        return void(progress.breakdown("r0'AMp"));
      alpha = rho / along[0];
      axpby(space, r, -alpha, v, 1.0);
      const V& z = this->precondition(space, this->work_[6], r);
      this->a_.apply(space, t, z);
      const auto ts = this->dots_of(space, {Of{&t, &r}, Of{&t, &t}, Of{&r, &r}});
      if (ts[1] == 0.0) {
        axpby(space, x, alpha, y, 1.0);
        if (!progress.step(Kokkos::sqrt(ts[2]))) progress.breakdown("t't");
        return;
      }
      omega = ts[0] / ts[1];
      update(space, x, alpha, y, omega, z, 1.0);
      axpby(space, r, -omega, t, 1.0);
      const auto of  = this->dots_of(space, {Of{&r, &r}, Of{&shadow, &r}});
      const double n = Kokkos::sqrt(of[0]);
      if (progress.step(n)) return;
      if (!(Kokkos::fabs(of[1]) > tiny * first * n)) return void(progress.breakdown("r0'r"));
      if (!(Kokkos::fabs(ts[0]) > tiny * Kokkos::sqrt(ts[1]) * Kokkos::sqrt(ts[2])))
        return void(progress.breakdown("omega"));
      beta = of[1] / rho * (alpha / omega);
      rho  = of[1];
    }
  }
};
/// The vectors' type, the operator's, the preconditioner's.
template <class V, class A, class M>
BiCGStab(const V&, const A&, const M&, const SolveOptions& = {}) -> BiCGStab<V, A, M>;
/// Without a preconditioner.
template <class V, class A>
BiCGStab(const V&, const A&, const SolveOptions& = {}) -> BiCGStab<V, A>;

}  // namespace shard

#endif
