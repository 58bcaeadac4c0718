// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_REFINEMENT_HPP
#define SHARD_SOLVE_REFINEMENT_HPP

#include <Kokkos_Core.hpp>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

/// Iterative refinement (Wilkinson 1963): residuals in the precision of x, corrections by a solver
/// for vectors of a lower one. So most of the work moves half of the memory, and x has all digits.
///
///   shard::CG inner(single, a_of_floats, {.relative = 1e-4});   // for fields of float
///   shard::Refinement solver(x, a, inner, {.relative = 1e-12});
///   const shard::SolveResult result = solver(space, x, b);
///
/// The inner solver begins from 0 with a residual of norm 1 (by the outer weights, if there are
/// any). Each correction reduces the residual by its tolerance: 1e-3 to 1e-5 in float. `iterations`
/// counts the inner solver's iterations; the limit is checked after each correction. The history
/// has the norm after each correction by the inner solver's residual. If no correction helps any
/// more, the solve has stagnated, and x is the best one. With a null space the inner solver needs
/// its own too. A second solve allocates nothing.
template <class V, class A, class Inner>
class Refinement : public KrylovSolver<Refinement<V, A, Inner>, V, A, Identity, 2, false, true> {
  using Base = KrylovSolver<Refinement, V, A, Identity, 2, false, true>;
  friend Base;
  using Correction = typename Inner::vector_type;

 public:
  static constexpr const char* name = "Refinement";  ///< for messages
  /// For vectors like `like`, with a copy of the inner solver, which shares the memory of its
  /// vectors: don't run both at once. Local. Throws ArgumentError, on every rank, unless the inner
  /// solver's vectors have the points of `like`.
  Refinement(const V& like, const A& a, const Inner& inner, const SolveOptions& options = {})
      : Base(like, a, options),
        inner_(inner),
        residual_(impl::like_value(inner.like(), "shard::refinement")),
        correction_(impl::like_value(inner.like(), "shard::refinement")) {
    impl::require_alike(name, like, inner.like());
  }

 private:
  template <class Space>
  void cycle(const Space& space, const V& x, const V&, double scaled) {
    auto& progress    = this->progress_;
    const double norm = scaled / progress.scale();
    axpby(space, residual_, 1.0 / norm, this->work_[0], 0.0);
    impl::zero_value(space, correction_);
    const SolveResult result = inner_(space, correction_, residual_);
    if (result.iterations == 0 || result.status == SolveStatus::not_finite)
      return void(progress.breakdown("the inner solve"));
    axpby(space, x, norm, correction_, 1.0);
    for (int i = 1; i < result.iterations; ++i) progress.step();
    progress.step(scaled * result.residual);
  }

  Inner inner_;
  Correction residual_, correction_;
};
/// The vectors' type, the operator's, the inner solver's.
template <class V, class A, class Inner>
Refinement(const V&, const A&, const Inner&, const SolveOptions& = {}) -> Refinement<V, A, Inner>;

}  // namespace shard

#endif
