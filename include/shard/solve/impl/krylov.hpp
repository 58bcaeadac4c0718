// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_KRYLOV_HPP
#define SHARD_SOLVE_IMPL_KRYLOV_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/solve/impl/largest.hpp"
#include "shard/solve/impl/nullspace.hpp"
#include "shard/solve/operators.hpp"
#include "shard/solve/solve_result.hpp"

namespace shard {

namespace impl {

/// What all Krylov methods share, without types of vectors: tolerances, the history, the end. It is
/// given norms of scaled vectors (`set_scale`); the caller's result has norms without the scale.
class SolveProgress {
 public:
  /// Throws ArgumentError for options that can't be used, and for those that the method ignores.
  SolveProgress(const SolveOptions& options, const char* method, bool may_be_flexible);

  const SolveOptions& options() const { return options_; }
  /// Norms of the residual, from iteration 0 on.
  const std::vector<double>& history() const { return history_; }
  int iterations() const { return result_.iterations; }

  /// Begins a solve with this norm of b. Returns whether b is finite.
  bool begin(double rhs);
  /// The scale of the products that norms come from.
  void set_scale(double scale) { scale_ = scale; }
  double scale() const { return scale_; }
  /// Throws AgreementError on every rank unless all ranks have the same options, null spaces of as
  /// many vectors, and so on (`more`). Collective the first time, then nothing.
  void agree(MPI_Comm comm, const char* method, std::size_t null_vectors, const std::string& more);
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
  /// Sets the result to the residual `whole` of an earlier x, which the caller has restored.
  void restore(double whole) { result_.residual = whole; }
  SolveResult end() { return result_; }

 private:
  void record(double norm);
  bool is_idle(double norm);

  SolveOptions options_;
  std::vector<double> history_;
  SolveResult result_;
  double tolerance_ = 0.0, before_ = 0.0, scale_ = 1.0;
  double begun_ = 0.0, least_ = 0.0;  // the residual of this cycle: first, least
  int least_at_       = 0;            // iteration
  const char* broken_ = nullptr;
  bool first_ = true, was_idle_ = false, is_agreed_ = false;
};

/// Solves A x = b from x by cycles of a method: each gets the true residual r, without its part
/// along the null space, and returns at its own tolerance, at a breakdown or at the limit. `best`,
/// unless null, is for a copy of x: then x never ends with a larger residual than it began with.
template <class Space, class V, class B, class A, class Cycle>
SolveResult solve_by_cycles(SolveProgress& progress, NullspaceBasis<B>& nullspace,
                            std::type_identity_t<InnerProduct<B>> product, const Space& space,
                            const A& a, const V& x, const B& b, const B& r, const V* best,
                            bool retries, const Cycle& cycle) {
  const ScaledNorm of_b = norm_of(space, product, b);
  if (!progress.begin(of_b.norm)) return progress.end();
  if (of_b.norm == 0.0) {
    nullspace.keep(space, product, x);
    return progress.end();
  }
  const auto set_scale = [&](double scale) {
    progress.set_scale(scale);
    nullspace.set_scale(space, scale);
    product.scale = scale;
  };
  set_scale(of_b.scale);
  double least = -1.0, least_whole = 0.0;
  while (true) {
    a.apply(space, r, x);
    axpby(space, r, 1.0, b, -1.0);
    const auto square = [&] { return nullspace.dots(space, product, {DotOf<B>{&r, &r}}, r)[0]; };
    double whole      = square();
    if (!has_digits(whole)) {
      set_scale(scale_of(space, r, product.weight));
      whole = square();
    }
    double rest = whole - nullspace.along();
    nullspace.remove(space, r);
    // most of r was along the null space: the difference is rounding
    if (rest < 1e-3 * whole) rest = all_dots(space, product, {DotOf<B>{&r, &r}})[0];
    const double norm = Kokkos::sqrt(rest < 0.0 ? 0.0 : rest);
    const bool ends   = progress.check(norm, Kokkos::sqrt(whole), retries);
    if (best != nullptr) {
      const double now = norm / product.scale;
      if (least < 0.0 || now <= least) {
        least       = now;
        least_whole = Kokkos::sqrt(whole) / product.scale;
        if (!ends) axpby(space, *best, 1.0, x, 0.0);
      } else if (ends) {
        axpby(space, x, 1.0, *best, 0.0);
        progress.restore(least_whole);
      }
    }
    if (ends) {
      set_scale(1.0);
      return progress.end();
    }
    cycle(norm);
  }
}

}  // namespace impl

/// A method for A x = b with a preconditioner M: its work vectors, operators and progress. `Method`
/// has cycle(space, x, b, norm): iterations from the residual work_[0] of this norm, until
/// progress_ says to stop. `Retries`: it begins again after a breakdown. `KeepsBest`: the last work
/// vector is a copy of the best x, for methods whose residual may grow. A Method has `name`, and
/// `takes_flexible` if SolveOptions::flexible is for it, `is_for_symmetric` if A must be symmetric.
template <class Method, class V, class A, class M, int Vectors, bool Retries = false,
          bool KeepsBest = false>
class KrylovSolver {
 public:
  using operator_type = A;  ///< of the operator
  using vector_type   = V;  ///< of x and b

  /// For vectors like `like`. Operator and preconditioner are copied. Local.
  KrylovSolver(const V& like, const A& a, const M& m, const SolveOptions& options = {})
      : a_(a),
        m_(m),
        progress_(
            options, Method::name, requires { Method::takes_flexible; }) {
    for (V& v : work_) v = impl::like_value(like, "shard::krylov");
    if (options.nullspace == Nullspace::constant) nullspace_.set_constant(like);
  }
  /// Without a preconditioner.
  KrylovSolver(const V& like, const A& a, const SolveOptions& options = {})
      : KrylovSolver(like, a, M{}, options) {}

  /// Solves A x = b from the given x. Collective. Throws ArgumentError on every rank if x or b
  /// hasn't the points of the solver's vectors or they share memory, and in the first solve
  /// AgreementError on every rank if the ranks' options differ.
  template <class Space>
  SolveResult operator()(const Space& space, const V& x, const V& b) {
    constexpr bool fits = impl::applies_to_v<const A, Space, V> && impl::applies_to_v<M, Space, V>;
    static_assert(fits,
                  "apply of the operator or of the preconditioner doesn't take the solver's "
                  "vectors: make the solver, x and b of the field type that they were made for");
    if constexpr (fits) {  // otherwise one message is enough
      impl::require_alike(Method::name, work_[0], x, b);
      impl::require_apart(Method::name, x, b);
      agree();
      return impl::solve_by_cycles(
          progress_, nullspace_, product(), space, a_, x, b, work_[0],
          KeepsBest ? &work_[Vectors - 1] : nullptr, Retries,
          [&](double norm) { static_cast<Method&>(*this).cycle(space, x, b, norm); });
    }
    return {};
  }
  /// The null space of A and A', spanned by `vectors`, in the place of SolveOptions::nullspace: the
  /// rigid motions of an elastic body, say. Copies them. Collective; fences `space`. Throws
  /// ArgumentError on every rank for a vector that depends on those before it, AgreementError for
  /// options or numbers of vectors that differ between ranks. Complex ones are spanned by real
  /// factors: pass v and i v.
  template <class Space>
  void set_nullspace(const Space& space, const std::vector<V>& vectors) {
    agree();
    impl::require_agreement(comm(), "set_nullspace",
                            impl::text(static_cast<index_t>(vectors.size())) + " vectors");
    for (const V& v : vectors) impl::require_alike("set_nullspace", work_[0], v);
    nullspace_.set(space, product(), vectors);
  }
  /// The dot products and norms of the solves get a weight for each point, as in weighted_dots:
  /// areas of cells, say. Then symmetric means <A x, y> = <x, A y> in this product. A point of
  /// weight 0, under a mask, doesn't count, whatever it has. Shares the memory of `weights`.
  /// Collective; AgreementError as in a solve.
  template <class Space>
  void set_weights(const Space& space, const V& weights) {
    impl::require_alike("set_weights", work_[0], weights);
    agree();
    weights_ = weights;
    nullspace_.set_product(space, product());
  }
  /// The residual's norm at each iteration of the last solve, from 0 on.
  const std::vector<double>& history() const { return progress_.history(); }
  /// The options.
  const SolveOptions& options() const { return progress_.options(); }
  /// The operator A.
  const A& matrix() const { return a_; }
  /// A vector like x and b. Its values are the solver's own: don't write them.
  const V& like() const { return work_[0]; }
  /// Whether there are weights.
  bool has_weights() const { return weights_.has_value(); }

 protected:
  static constexpr bool is_plain = std::is_same_v<M, Identity>;  ///< without a preconditioner

  /// How dot products are summed, and their weights.
  impl::InnerProduct<V> product() const {
    return {progress_.options().determinism, weights_ ? &*weights_ : nullptr, progress_.scale()};
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

  MPI_Comm comm() const { return impl::value_communicator(work_[0]); }  ///< of the vectors' mesh
  /// Compares the options with the other ranks', once.
  void agree() {
    std::string more;
    if constexpr (requires(const Method& method) { method.numbers(); })
      more = static_cast<const Method&>(*this).numbers();
    progress_.agree(comm(), Method::name, nullspace_.size(), more);
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
