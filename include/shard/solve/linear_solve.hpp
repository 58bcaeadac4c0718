// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_LINEAR_SOLVE_HPP
#define SHARD_SOLVE_LINEAR_SOLVE_HPP

#include <Kokkos_Core.hpp>

#include <memory>

#include "shard/autodiff/operation.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/solve/operators.hpp"
#include "shard/solve/solve_result.hpp"

namespace shard {

namespace impl {

/// Throws ArgumentError unless one solver is for A and A': A is symmetric, and not in a product
/// with weights.
void require_self_adjoint(bool symmetric, bool has_weights);
/// Throws Error on every rank unless a solve converged.
void require_converged(const SolveResult& result);

/// Whether a solver solves with A' too: its method or its operator is symmetric, or it isn't one of
/// the library's.
template <class Solver>
constexpr bool solves_adjoint() {
  if constexpr (requires { typename Solver::operator_type; }) return requires {
      Solver::is_for_symmetric;
    }
  || is_symmetric<typename Solver::operator_type>();
  else return true;
}

}  // namespace impl

/// A solve as a differentiable operation: x = A^-1 b. The tangent solves with A, the adjoint with
/// A', without differentiating the iterations. Works in a chain and on a tape.
///
///   shard::LinearSolve solve(cg);                                    // symmetric A
///   shard::LinearSolve solve(gmres, shard::GMRES(x, adjoint_of(a)));  // any A
///   auto x = tape.run(solve, b);
///
/// Each solve begins from 0. Throws Error on every rank if it doesn't converge. Copies share the
/// solvers.
template <class Solver, class AdjointSolver = Solver>
class LinearSolve {
 public:
  /// Of a symmetric operator: one solver, which is copied, is for A' too.
  explicit LinearSolve(const Solver& solver)
      : solver_(std::make_shared<Solver>(solver)), adjoint_(solver_) {}
  /// With a solver for A'.
  LinearSolve(const Solver& solver, const AdjointSolver& adjoint)
      : solver_(std::make_shared<Solver>(solver)),
        adjoint_(std::make_shared<AdjointSolver>(adjoint)) {}

  /// x = A^-1 b. Collective.
  template <class Space, class X, class B>
  void apply(const Space& space, const X& x, const B& b) const {
    solve(*solver_, space, x, b);
  }
  /// tx = A^-1 tb. Collective.
  template <class Space, class TX, class TB>
  void pushforward(const Space& space, const TX& tx, const TB& tb) const {
    solve(*solver_, space, tx, tb);
  }
  /// db = A'^-1 dx, with a halo of zeros. Collective. Throws ArgumentError on every rank if there
  /// is one solver and it may not be for A': GMRES or BiCGStab of an operator that doesn't say
  /// `is_symmetric`, or a solver with weights, by which an operator is symmetric in another
  /// product.
  template <class Space, class DB, class DX>
  void pullback(const Space& space, const DB& db, const DX& dx) const {
    if (static_cast<const void*>(solver_.get()) == adjoint_.get()) {
      bool has_weights = false;
      if constexpr (requires { solver_->has_weights(); }) has_weights = solver_->has_weights();
      impl::require_self_adjoint(impl::solves_adjoint<Solver>(), has_weights);
    }
    solve(*adjoint_, space, db, dx);
    // the adjoint of an exchange would add what the solver's products left there
    impl::for_parts([&](const auto& part) { impl::zero_halo(space, part); }, db);
  }
  /// Adds to `da` the gradient with respect to the coefficients of A, -db x' in A's form: to a
  /// field like the k of a Diffusion, or to a View like the values() of a SparseMatrix. `x` is the
  /// solution and `db` what `pullback` gave. The solver's operator is such a one. Collective.
  template <class Space, class DA, class DB, class X>
  void add_coefficient_gradient(const Space& space, const DA& da, const DB& db, const X& x) const {
    solver_->matrix().add_coefficient_gradient(space, da, -1.0, db, x);
  }

 private:
  template <class S, class Space, class X, class B>
  static void solve(S& solver, const Space& space, const X& x, const B& b) {
    impl::zero_value(space, x);
    impl::require_converged(solver(space, x, b));
  }

  std::shared_ptr<Solver> solver_;
  std::shared_ptr<AdjointSolver> adjoint_;
};

}  // namespace shard

#endif
