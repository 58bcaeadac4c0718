// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_CHEBYSHEV_SOLVER_HPP
#define SHARD_SOLVE_CHEBYSHEV_SOLVER_HPP

#include <Kokkos_Core.hpp>

#include <string>

#include "shard/base/impl/same_options.hpp"
#include "shard/base/error.hpp"
#include "shard/solve/eigenvalues.hpp"
#include "shard/solve/impl/krylov.hpp"

namespace shard {

/// The Chebyshev iteration (Golub and Varga 1961) for a symmetric positive definite operator and
/// preconditioner: PETSc's KSPCHEBYSHEV. It needs bounds of the eigenvalues of M A: all of them in
/// [smallest, largest], because it diverges for a larger one, and then stops as stagnated. No sums
/// but the norm of the residual, every ten iterations; the history has these. A second solve
/// allocates nothing.
///
///   const shard::Jacobi m(space, x, a);
///   auto bounds = shard::eigenvalue_bounds(space, x, a, m, 20);  // estimates, inside the spectrum
///   shard::ChebyshevSolver solver(x, a, m, {0.9 * bounds.smallest, 1.1 * bounds.largest});
template <class V, class A, class M = Identity>
class ChebyshevSolver : public KrylovSolver<ChebyshevSolver<V, A, M>, V, A, M, 4> {
  using Base = KrylovSolver<ChebyshevSolver, V, A, M, 4>;
  friend Base;

 public:
  static constexpr const char* name      = "ChebyshevSolver";  ///< for messages
  static constexpr bool is_for_symmetric = true;               ///< A must be symmetric
  /// For vectors like `like`. Throws ArgumentError unless 0 < smallest < largest. Local.
  ChebyshevSolver(const V& like, const A& a, const M& m, const EigenvalueBounds& bounds,
                  const SolveOptions& options = {})
      : Base(like, a, m, options), bounds_(bounds) {
    if (!(bounds.smallest > 0.0) || !(bounds.largest > bounds.smallest))
      impl::throw_argument("ChebyshevSolver",
                           {"the bounds of the eigenvalues must be 0 < smallest < largest"});
  }
  /// Without a preconditioner.
  ChebyshevSolver(const V& like, const A& a, const EigenvalueBounds& bounds,
                  const SolveOptions& options = {})
      : ChebyshevSolver(like, a, M{}, bounds, options) {}

  /// The bounds as text, which ranks compare.
  std::string numbers() const {
    return ", " + impl::text_of({{"smallest", bounds_.smallest}, {"largest", bounds_.largest}});
  }

 private:
  static constexpr int norm_every = 10;

  template <class Space>
  void cycle(const Space& space, const V& x, const V&, double norm) {
    auto& progress = this->progress_;
    const V &r = this->work_[0], &d = this->work_[1], &q = this->work_[2];
    const double centre = 0.5 * (bounds_.largest + bounds_.smallest),
                 half   = 0.5 * (bounds_.largest - bounds_.smallest);
    double rho          = half / centre;
    axpby(space, d, 1.0 / centre, this->precondition(space, this->work_[3], r), 0.0);
    for (int k = 1;; ++k) {
      this->a_.apply(space, q, d);
      bool ends = false;
      if (k % norm_every == 0) {
        const double now = Kokkos::sqrt(impl::descend(space, this->product(), r, q, 1.0));
        ends             = progress.step(now) || now > growth * norm;
      } else {
        axpby(space, r, -1.0, q, 1.0);
        ends = progress.step();
      }
      if (ends) return axpby(space, x, 1.0, d, 1.0);
      const double next = 1.0 / (2.0 * centre / half - rho);
      impl::advance(space, x, 1.0, d, 2.0 * next / half,
                    this->precondition(space, this->work_[3], r), next * rho);
      rho = next;
    }
  }

  static constexpr double growth = 100.0;  ///< of the residual, which says that it diverges
  EigenvalueBounds bounds_;
};
/// The vectors' type, the operator's, the preconditioner's.
template <class V, class A, class M>
ChebyshevSolver(const V&, const A&, const M&, const EigenvalueBounds&, const SolveOptions& = {})
    -> ChebyshevSolver<V, A, M>;
/// Without a preconditioner.
template <class V, class A>
ChebyshevSolver(const V&, const A&, const EigenvalueBounds&, const SolveOptions& = {})
    -> ChebyshevSolver<V, A>;

}  // namespace shard

#endif
