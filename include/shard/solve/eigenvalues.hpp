// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_EIGENVALUES_HPP
#define SHARD_SOLVE_EIGENVALUES_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/operators.hpp"

namespace shard {

namespace impl {

/// A value in [-1, 1) that depends on the global indices only.
template <class Field>
struct HashedValuesKernel {
  Field v;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[]  = {i...};
    std::uint64_t bits = 0x9e3779b97f4a7c15ULL;
    for (int d = 0; d < Field::rank; ++d) {
      bits ^= static_cast<std::uint64_t>(v.to_global(d, index[d]));
      bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    }
    v(i...) =
        static_cast<typename Field::value_type>(static_cast<double>(bits >> 11) * 0x1.0p-52 - 1.0);
  }
};

/// The smallest and the largest eigenvalue of a symmetric tridiagonal matrix, by bisection.
std::pair<double, double> tridiagonal_extremes(const std::vector<double>& diagonal,
                                               const std::vector<double>& beside);

}  // namespace impl

/// Estimates of the smallest and the largest eigenvalue.
struct EigenvalueBounds {
  double smallest = 0;  ///< at least the smallest eigenvalue
  double largest  = 0;  ///< at most the largest one
};

/// Estimates the extreme eigenvalues of M A, for a symmetric A and a symmetric positive definite M
/// (default: the identity), from `steps` steps of Lanczos' method in the form of conjugate
/// gradients. The start depends on global indices only, and sums are exact: the result is the same
/// for every number of ranks. The estimates are inside the spectrum; the largest is usually within
/// 10 % after 10 steps. Allocates four vectors. Collective. Throws AgreementError on every rank if
/// the ranks give different numbers of steps.
template <class Space, class V, class A, class M = Identity>
EigenvalueBounds eigenvalue_bounds(const Space& space, const V& like, const A& a, const M& m = {},
                                   int steps = 10) {
  using Of = impl::DotOf<V>;
  impl::require_agreement(impl::value_communicator(like), "eigenvalue_bounds",
                          impl::text(index_t{steps}) + " steps");
  const V r = impl::like_value(like, "shard::lanczos"), z = impl::like_value(like, "z"),
          p = impl::like_value(like, "p"), q = impl::like_value(like, "q");
  const auto dot = [&](const V& u, const V& v) {
    return impl::all_dots(space, Determinism::ordered, {Of{&u, &v}})[0];
  };
  impl::for_parts(
      [&](const auto& part) {
        impl::write_points("shard::lanczos", space, part,
                           impl::HashedValuesKernel<std::remove_cvref_t<decltype(part)>>{part});
      },
      r);
  std::vector<double> diagonal, beside;
  double alpha = 1.0, beta = 0.0, before = 0.0, first = 0.0;
  for (int k = 0; k < steps; ++k) {
    m.apply(space, z, r);
    const double rz = dot(r, z);
    if (k == 0) first = rz;
    if (!(rz > 1e-28 * first)) break;  // the space is invariant
    beta = k == 0 ? 0.0 : rz / before;
    axpby(space, p, 1.0, z, beta);
    a.apply(space, q, p);
    const double pq = dot(p, q);
    if (pq == 0.0) break;
    if (k > 0) beside.push_back(Kokkos::sqrt(beta) / alpha);
    diagonal.push_back(beta / alpha + pq / rz);
    alpha = rz / pq;
    axpby(space, r, -alpha, q, 1.0);
    before = rz;
  }
  const auto [low, high] = impl::tridiagonal_extremes(diagonal, beside);
  return {low, high};
}

}  // namespace shard

#endif
