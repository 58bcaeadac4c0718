// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_PIPELINED_CG_HPP
#define SHARD_SOLVE_PIPELINED_CG_HPP

#include <Kokkos_Core.hpp>

#include <tuple>
#include <type_traits>

#include "shard/solve/impl/krylov.hpp"

namespace shard {

namespace impl {

/// The eight updates of an iteration: directions, then the vectors that they change.
template <class V>
struct PipelinedKernel {
  using Wide = wide_t<typename V::value_type>;
  V x, r, u, w, p, s, q, z, m, n;
  double alpha, beta;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const auto old_u = static_cast<Wide>(u(i...)), old_w = static_cast<Wide>(w(i...));
    move(z, static_cast<Wide>(n(i...)), w, -alpha, i...);
    move(q, static_cast<Wide>(m(i...)), u, -alpha, i...);
    move(s, old_w, r, -alpha, i...);
    move(p, old_u, x, +alpha, i...);
  }

 private:
  /// direction = from + beta direction; target += a direction.
  template <class... I>
  KOKKOS_FORCEINLINE_FUNCTION void move(const V& direction, Wide from, const V& target, double a,
                                        I... i) const {
    using T = typename V::value_type;
    if (beta != 0.0) from += beta * static_cast<Wide>(direction(i...));
    direction(i...) = static_cast<T>(from);
    target(i...)    = static_cast<T>(static_cast<Wide>(target(i...)) + a * from);
  }
};

}  // namespace impl

/// Pipelined conjugate gradients (Ghysels and Vanroose 2014): PETSc's KSPPIPECG. One message per
/// iteration, in progress while the preconditioner and the operator run; for many ranks. Needs six
/// more vectors than CG. Its recurrences collect rounding errors, so every 50 iterations it
/// computes the residual and the products anew. A second solve allocates nothing.
template <class V, class A, class M = Identity>
class PipelinedCG : public KrylovSolver<PipelinedCG<V, A, M>, V, A, M, 9, true> {
  using Base = KrylovSolver<PipelinedCG, V, A, M, 9, true>;
  friend Base;

 public:
  static constexpr const char* name      = "PipelinedCG";  ///< for messages
  static constexpr bool is_for_symmetric = true;           ///< A must be symmetric
  using Base::Base;  ///< of vectors like x, A, a preconditioner or none, options

 private:
  static constexpr int replace_every = 50;

  /// z = M r without its part along the null space, also of Identity.
  template <class Space>
  void apply_m(const Space& space, const V& z, const V& r) {
    this->m_.apply(space, z, r);
    if constexpr (!Base::is_plain) this->nullspace_.project(space, this->product(), z);
  }

  template <class Space>
  void cycle(const Space& space, const V& x, const V& b, double) {
    using Of                                = impl::DotOf<V>;
    auto& progress                          = this->progress_;
    const auto& [r, u, w, p, s, q, z, m, n] = this->work_;
    apply_m(space, u, r);
    this->a_.apply(space, w, u);
    double gamma_old = 0.0, alpha = 0.0;
    for (int k = 0;; ++k) {
      const Of of[] = {Of{&r, &u}, Of{&w, &u}, Of{&r, &r}};
      auto pending  = impl::start_dots(space, this->product(), of, 3, false);
      apply_m(space, m, w);
      this->a_.apply(space, n, m);
      double sums[3];
      pending.finish(sums);
      const double gamma = sums[0], delta = sums[1];
      if (k > 0 && progress.step(Kokkos::sqrt(sums[2]))) return;
      if (!(gamma > 0.0)) return void(progress.breakdown("r'Mr"));
      const double beta = k > 0 ? gamma / gamma_old : 0.0;
      const double pap  = k > 0 ? delta - beta * gamma / alpha : delta;
      if (!(pap > 0.0)) return void(progress.breakdown("p'Ap"));
      alpha = gamma / pap;
      impl::for_parts(
          [&](const auto& px, const auto&... parts) {
            impl::write_points(
                "shard::pipelined_cg", space, px,
                impl::PipelinedKernel<std::remove_cvref_t<decltype(px)>>{px, parts..., alpha, beta},
                parts...);
            (mark_written(space, parts), ...);
          },
          x, r, u, w, p, s, q, z, m, n);
      gamma_old = gamma;
      if ((k + 1) % replace_every == 0) {
        this->a_.apply(space, r, x);
        axpby(space, r, 1.0, b, -1.0);
        this->nullspace_.project(space, this->product(), r);
        apply_m(space, u, r);
        this->a_.apply(space, w, u);
        this->a_.apply(space, s, p);
        apply_m(space, q, s);
        this->a_.apply(space, z, q);
      }
    }
  }
};
/// The vectors' type, the operator's, the preconditioner's.
template <class V, class A, class M>
PipelinedCG(const V&, const A&, const M&, const SolveOptions& = {}) -> PipelinedCG<V, A, M>;
/// Without a preconditioner.
template <class V, class A>
PipelinedCG(const V&, const A&, const SolveOptions& = {}) -> PipelinedCG<V, A>;

}  // namespace shard

#endif
