// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_KRYLOV_HPP
#define SHARD_SOLVE_IMPL_KRYLOV_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

#include "shard/solve/impl/nullspace.hpp"
#include "shard/solve/operators.hpp"
#include "shard/solve/solve_result.hpp"

namespace shard {

namespace impl {

/// What all Krylov methods share, without types of vectors: tolerances, the history, the end.
class SolveProgress {
 public:
  explicit SolveProgress(const SolveOptions& options);

  const SolveOptions& options() const { return options_; }
  /// Norms of the residual, from iteration 0 on.
  const std::vector<double>& history() const { return history_; }
  int iterations() const { return result_.iterations; }

  /// Begins a solve with this norm of b. Returns whether b is finite.
  bool begin(double rhs);
  /// A method finished an iteration with this norm of its residual. Returns whether it shall stop.
  bool step(double norm);
  /// The same of an iteration whose residual isn't known.
  bool step();
  /// A method can't continue. Returns true.
  bool breakdown(const char* what);
  /// The true residual: `norm` of the part in the operator's range, `whole` of all of it. Returns
  /// whether the solve is at its end. `retries`: whether a breakdown after progress is followed by
  /// another try.
  bool check(double norm, double whole, bool retries);
  SolveResult end() { return result_; }

 private:
  void record(double norm);

  SolveOptions options_;
  std::vector<double> history_;
  SolveResult result_;
  double tolerance_ = 0.0, before_ = 0.0;
  const char* broken_ = nullptr;
  bool first_         = true;
};

/// Solves A x = b from x by cycles of a method: each gets the true residual r, without its part
/// along the null space, and returns at its own tolerance, at a breakdown or at the limit.
template <class Space, class V, class B, class A, class Cycle>
SolveResult solve_by_cycles(SolveProgress& progress, NullspaceBasis<B>& nullspace,
                            const std::type_identity_t<InnerProduct<B>>& product,
                            const Space& space, const A& a, const V& x, const B& b, const B& r,
                            bool retries, const Cycle& cycle) {
  const auto bb = all_dots(space, product, {DotOf<B>{&b, &b}});
  if (!progress.begin(Kokkos::sqrt(bb[0]))) return progress.end();
  if (bb[0] == 0.0) {
    zero_value(space, x);
    return progress.end();
  }
  while (true) {
    a.apply(space, r, x);
    axpby(space, 1.0, b, -1.0, r);
    const double whole = nullspace.dots(space, product, {DotOf<B>{&r, &r}}, r)[0];
    double rest        = whole - nullspace.along();
    nullspace.remove(space, r);
    // most of r was along the null space: the difference is rounding
    if (rest < 1e-3 * whole) rest = all_dots(space, product, {DotOf<B>{&r, &r}})[0];
    if (progress.check(Kokkos::sqrt(rest < 0.0 ? 0.0 : rest), Kokkos::sqrt(whole), retries))
      return progress.end();
    cycle(Kokkos::sqrt(rest));
  }
}

}  // namespace impl

/// A method for A x = b with a preconditioner M: its work vectors, operators and progress. `Method`
/// has cycle(space, x, b, norm): iterations from the residual work_[0] of this norm, until
/// progress_ says to stop. `Retries`: it begins again after a breakdown.
template <class Method, class V, class A, class M, int Vectors, bool Retries = false>
class KrylovSolver {
 public:
  /// For vectors like `like`. Operator and preconditioner are copied. Local.
  KrylovSolver(const V& like, const A& a, const M& m, const SolveOptions& options = {})
      : a_(a), m_(m), progress_(options) {
    for (V& v : work_) v = impl::like_value(like, "shard::krylov");
    if (options.nullspace == Nullspace::constant) nullspace_.set_constant(like);
  }
  /// Without a preconditioner.
  KrylovSolver(const V& like, const A& a, const SolveOptions& options = {})
      : KrylovSolver(like, a, M{}, options) {}

  /// Solves A x = b from the given x. Collective.
  template <class Space>
  SolveResult operator()(const Space& space, const V& x, const V& b) {
    return impl::solve_by_cycles(
        progress_, nullspace_, product(), space, a_, x, b, work_[0], Retries,
        [&](double norm) { static_cast<Method&>(*this).cycle(space, x, b, norm); });
  }
  /// The null space of A and A', spanned by `vectors`, in the place of SolveOptions::nullspace: the
  /// rigid motions of an elastic body, say. Copies them. Collective; fences `space`. Throws
  /// ArgumentError on every rank for a vector that depends on those before it. Complex ones are
  /// spanned by real factors: pass v and i v.
  template <class Space>
  void set_nullspace(const Space& space, const std::vector<V>& vectors) {
    nullspace_.set(space, product(), vectors);
  }
  /// The dot products and norms of the solves get a weight for each point, as in weighted_dots:
  /// areas of cells, say. Then symmetric means <A x, y> = <x, A y> in this product. A point of
  /// weight 0, under a mask, doesn't count, whatever it has. Shares the memory of `weights`.
  /// Collective if there is a null space.
  template <class Space>
  void set_weights(const Space& space, const V& weights) {
    weights_ = weights;
    nullspace_.set_product(space, product());
  }
  /// The residual's norm at each iteration of the last solve, from 0 on.
  const std::vector<double>& history() const { return progress_.history(); }
  /// The options.
  const SolveOptions& options() const { return progress_.options(); }
  /// The operator A.
  const A& matrix() const { return a_; }

 protected:
  static constexpr bool is_plain = std::is_same_v<M, Identity>;  ///< without a preconditioner

  /// How dot products are summed, and their weights.
  impl::InnerProduct<V> product() const {
    return {progress_.options().determinism, weights_ ? &*weights_ : nullptr};
  }
  /// z = M r without its part along the null space; z is r without a preconditioner.
  template <class Space>
  const V& precondition(const Space& space, const V& z, const V& r) {
    if constexpr (is_plain) {
      return r;
    } else {
      m_.apply(space, z, r);
      nullspace_.project(space, product(), z);
      return z;
    }
  }
  /// Dot products, all in one message.
  template <class Space, std::size_t N>
  std::array<double, N> dots_of(const Space& space, const impl::DotOf<V> (&of)[N]) const {
    return impl::all_dots(space, product(), of);
  }

  A a_;                                ///< the operator
  M m_;                                ///< the preconditioner
  impl::SolveProgress progress_;       ///< options and history
  impl::NullspaceBasis<V> nullspace_;  ///< what is projected out
  std::optional<V> weights_;           ///< of dot products
  V work_[Vectors];                    ///< vectors of the solve
};

}  // namespace shard

#endif
