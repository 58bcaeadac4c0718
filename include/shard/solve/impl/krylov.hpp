// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_KRYLOV_HPP
#define SHARD_SOLVE_IMPL_KRYLOV_HPP

#include <Kokkos_Core.hpp>

#include <string_view>
#include <type_traits>
#include <vector>

#include "shard/solve/operators.hpp"
#include "shard/solve/solve_result.hpp"

namespace shard::impl {

/// What all Krylov methods share, without types of vectors: tolerances, the history, the end.
class SolveProgress {
 public:
  explicit SolveProgress(const SolveOptions& options);

  const SolveOptions& options() const { return options_; }
  /// Norms of the residual, from iteration 0 on.
  const std::vector<double>& history() const { return history_; }
  int iterations() const { return result_.iterations; }
  double tolerance() const { return tolerance_; }
  bool singular() const { return options_.nullspace == Nullspace::constant; }

  /// Begins a solve with this norm of b. Returns whether b is finite.
  bool begin(double rhs);
  /// A method finished an iteration with this norm of its residual. Returns whether it shall stop.
  bool step(double norm);
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

/// sqrt of a sum of squares without the part that constants have.
inline double range_norm(double squares, double sum, double points) {
  const double rest = squares - sum * (sum / points);
  return Kokkos::sqrt(rest > 0.0 || rest != rest ? rest : 0.0);
}

/// Solves A x = b from x by cycles of a method: each gets the true residual r and returns at its
/// own tolerance, at a breakdown or at the limit.
template <class Space, class V, class B, class A, class Cycle>
SolveResult solve_by_cycles(SolveProgress& progress, const Space& space, const A& a, const V& x,
                            const B& b, const B& r, bool retries, const Cycle& cycle) {
  const Determinism order = progress.options().determinism;
  const double points     = vector_points(b);
  const auto bb           = all_dots(space, order, {DotOf<B>{&b, &b}});
  if (!progress.begin(Kokkos::sqrt(bb[0]))) return progress.end();
  if (bb[0] == 0.0) {
    zero_value(space, x);
    return progress.end();
  }
  while (true) {
    a.apply(space, r, x);
    axpby(space, 1.0, b, -1.0, r);
    double norm = 0.0, whole = 0.0;
    if (progress.singular()) {
      const auto of         = all_dots(space, order, {DotOf<B>{&r, &r}, DotOf<B>{&r, nullptr}});
      whole                 = Kokkos::sqrt(of[0]);
      norm                  = range_norm(of[0], of[1], points);
      const B* const self[] = {&r};
      const double one      = 1.0;
      update_some<1>(space, r, 0.0, &one, self, -of[1] / points);
    } else {
      const auto of = all_dots(space, order, {DotOf<B>{&r, &r}});
      norm = whole = Kokkos::sqrt(of[0]);
    }
    if (progress.check(norm, whole, retries)) return progress.end();
    cycle(norm);
  }
}

/// The work vectors and the operators of a method for A x = b with a preconditioner M.
template <class V, class A, class M, int Vectors>
class KrylovSolver {
 public:
  /// The residual's norm at each iteration of the last solve, from 0 on.
  const std::vector<double>& history() const { return progress_.history(); }
  /// The options.
  const SolveOptions& options() const { return progress_.options(); }

 protected:
  KrylovSolver(const V& like, const A& a, const M& m, const SolveOptions& options)
      : a_(a), m_(m), progress_(options) {
    for (V& v : work_) v = like_value(like, "shard::krylov");
  }
  Determinism order() const { return progress_.options().determinism; }
  /// z = M r; z is r without a preconditioner.
  template <class Space>
  const V& precondition(const Space& space, const V& z, const V& r) const {
    if constexpr (std::is_same_v<M, Identity>) {
      return r;
    } else {
      m_.apply(space, z, r);
      return z;
    }
  }
  template <class Space, std::size_t N>
  std::array<double, N> dots_of(const Space& space, const DotOf<V> (&of)[N]) const {
    return all_dots(space, order(), of);
  }
  /// Takes the mean out of v, if constants are the null space.
  template <class Space>
  void project(const Space& space, const V& v) const {
    if (!progress_.singular()) return;
    const auto sum        = dots_of(space, {DotOf<V>{&v, nullptr}});
    const V* const self[] = {&v};
    const double one      = 1.0;
    update_some<1>(space, v, 0.0, &one, self, -sum[0] / vector_points(v));
  }

  A a_;
  M m_;
  SolveProgress progress_;
  V work_[Vectors];
};

}  // namespace shard::impl

#endif
