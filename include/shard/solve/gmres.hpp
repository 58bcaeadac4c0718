// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_GMRES_HPP
#define SHARD_SOLVE_GMRES_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

namespace impl {

/// The least-squares problem of GMRES: the Hessenberg matrix, reduced by Givens rotations. S is
/// double or complex.
template <class S>
class HessenbergSystem {
 public:
  explicit HessenbergSystem(int columns);
  void begin(double norm);
  /// The column of the next vector; `below` is the entry below the diagonal. Returns the norm of
  /// the residual.
  double add(const S* column, double below);
  int columns() const { return columns_; }
  /// The coefficients of the solution; 0 for columns that are 0 but for rounding, and for those
  /// that make the coefficients so large that their rounding would exceed the residual.
  void solve(S* y) const;

 private:
  std::size_t place(int i, int j) const {
    return static_cast<std::size_t>(j) * static_cast<std::size_t>(most_) +
           static_cast<std::size_t>(i);
  }
  S& at(int i, int j) { return h_[place(i, j)]; }
  const S& at(int i, int j) const { return h_[place(i, j)]; }
  int most_, columns_ = 0;
  double norm_ = 0.0;  // at the start
  std::vector<S> h_, c_, g_;
  std::vector<double> s_;
};

/// The number of basis vectors: SolveOptions::restart, or SolveOptions::iterations if that is less.
/// Throws ArgumentError if it is above 32767, whose Hessenberg matrix takes 8 GB, twice that of
/// complex numbers.
int gmres_vectors(const SolveOptions& options);

}  // namespace impl

/// The generalised minimal residual method (Saad and Schultz 1986) for any operator: PETSc's
/// KSPGMRES, Belos' "Block GMRES". The preconditioner is applied from the right, so the residual is
/// the true one. Restarted after `SolveOptions::restart` vectors, which are orthogonalised twice by
/// classical Gram-Schmidt: two messages an iteration. `flexible`: the preconditioner may vary
/// (FGMRES, Saad 1993; as many vectors again). Of complex vectors the products a'b are complex, so
/// A and the preconditioner must be linear for complex factors. A second solve allocates nothing.
template <class V, class A, class M = Identity>
class GMRES : public KrylovSolver<GMRES<V, A, M>, V, A, M, 4, false, true> {
  using Base = KrylovSolver<GMRES, V, A, M, 4, false, true>;
  friend Base;
  using S = impl::scalar_t<V>;

 public:
  static constexpr const char* name    = "GMRES";  ///< for messages
  static constexpr bool takes_flexible = true;     ///< SolveOptions::flexible
  using Base::Base;  ///< of vectors like x, A, a preconditioner or none, options

 private:
  /// w -= the parts of w along the first `count` vectors; coefficients in `along`, and after them
  /// the square of w's norm before.
  template <class Space>
  void orthogonalise(const Space& space, const V& w, int count, std::vector<S>& along) {
    const auto n = static_cast<std::size_t>(count);
    for (std::size_t k = 0; k < n; ++k) of_[k] = {&basis_[k], &w};
    of_[n] = {&w, &w};
    impl::start_dots<S>(space, this->product(), of_.data(), count + 1, true)
        .finish(reinterpret_cast<double*>(along.data()));
    for (std::size_t k = 0; k < n; ++k) {
      pointers_[k]  = &basis_[k];
      negatives_[k] = -along[k];
    }
    impl::update_many(space, w, 1.0, negatives_.data(), pointers_.data(), count);
  }

  template <class Space>
  void cycle(const Space& space, const V& x, const V&, double norm) {
    auto& progress = this->progress_;
    const int most = restart();
    system_.begin(norm);
    axpby(space, basis_[0], 1.0 / norm, this->work_[0], 0.0);
    bool ends = false, lucky = false;
    for (int j = 0; j < most && !ends && !lucky; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const V& z = this->precondition(space, directions_.empty() ? this->work_[1] : directions_[at],
                                      basis_[at]);
      const V& w = basis_[at + 1];
      this->a_.apply(space, w, z);
      orthogonalise(space, w, j + 1, column_);
      const double before = Kokkos::real(column_[at + 1]);
      orthogonalise(space, w, j + 1, second_);
      double rest = Kokkos::real(second_[at + 1]);
      for (std::size_t k = 0; k <= at; ++k) {
        column_[k] += second_[k];
        rest -= impl::inner_product(second_[k], second_[k]);
      }
      // what is left of w is rounding: the space is invariant
      constexpr double rounding = 1e-28;
      lucky                     = !(rest > rounding * before);
      const double below        = lucky ? 0.0 : Kokkos::sqrt(rest);
      if (!lucky) axpby(space, w, 0.0, w, 1.0 / below);
      ends = progress.step(system_.add(column_.data(), below));
    }
    system_.solve(column_.data());
    const int n = system_.columns();
    if (!directions_.empty() || Base::is_plain) {
      for (int k = 0; k < n; ++k) {
        const auto at = static_cast<std::size_t>(k);
        pointers_[at] = directions_.empty() ? &basis_[at] : &directions_[at];
      }
      impl::update_many(space, x, 1.0, column_.data(), pointers_.data(), n);
    } else {
      for (int k = 0; k < n; ++k)
        pointers_[static_cast<std::size_t>(k)] = &basis_[static_cast<std::size_t>(k)];
      impl::update_many(space, this->work_[2], 0.0, column_.data(), pointers_.data(), n);
      const V& z = this->precondition(space, this->work_[1], this->work_[2]);
      axpby(space, x, 1.0, z, 1.0);
    }
  }

  std::vector<V> vectors(int count) const {
    std::vector<V> made;
    for (int k = 0; k < count; ++k)
      made.push_back(impl::like_value(this->work_[0], "shard::krylov"));
    return made;
  }
  /// Vectors of a cycle: no more than there are iterations.
  int restart() const { return impl::gmres_vectors(this->options()); }

  std::vector<V> basis_      = vectors(restart() + 1);
  std::vector<V> directions_ = vectors(this->options().flexible && !Base::is_plain ? restart() : 0);
  impl::HessenbergSystem<S> system_{restart()};
  std::vector<impl::DotOf<V>> of_ = std::vector<impl::DotOf<V>>(basis_.size() + 1);
  std::vector<S> column_ = std::vector<S>(of_.size()), second_ = column_, negatives_ = column_;
  std::vector<const V*> pointers_ = std::vector<const V*>(of_.size());
};
/// The vectors' type, the operator's, the preconditioner's.
template <class V, class A, class M>
GMRES(const V&, const A&, const M&, const SolveOptions& = {}) -> GMRES<V, A, M>;
/// Without a preconditioner.
template <class V, class A>
GMRES(const V&, const A&, const SolveOptions& = {}) -> GMRES<V, A>;

}  // namespace shard

#endif
