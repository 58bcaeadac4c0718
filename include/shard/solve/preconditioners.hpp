// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_PRECONDITIONERS_HPP
#define SHARD_SOLVE_PRECONDITIONERS_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/reduce/reduce.hpp"
#include "shard/solve/operators.hpp"

namespace shard {

namespace impl {

/// The steps e of Richardson's iteration x += e D^-1 (b - A x) that make it Chebyshev's for
/// eigenvalues of D^-1 A in [low, high]: 1 / roots of the polynomial, in the order of Leja (each
/// the farthest from those before, by the product of distances), which doesn't amplify rounding
/// errors.
std::vector<double> chebyshev_steps(double low, double high, int steps);

/// z += e (r - az) / diagonal; from 0 if `zero`, without reading z and az.
template <class Field>
struct ScaledStepKernel {
  Field z, az, r, diagonal;
  double e;
  bool zero;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using Wide      = wide_t<typename Field::value_type>;
    const Wide from = zero ? Wide(0.0) : static_cast<Wide>(z(i...));
    const Wide rest = static_cast<Wide>(r(i...)) - (zero ? Wide(0.0) : static_cast<Wide>(az(i...)));
    z(i...)         = static_cast<typename Field::value_type>(from +
                                                      e * rest / static_cast<Wide>(diagonal(i...)));
  }
};
/// 1 where an element is 0 or NaN.
template <class Field>
struct ZeroTerm {
  Field d;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    const auto x = d(i...);
    return x == decltype(x)(0) || x != x ? 1.0 : 0.0;
  }
};

/// z += e (r - az) / diagonal, from 0 if `zero`.
template <class Space, class V>
void scaled_step(const Space& space, const V& z, const V& az, double e, const V& r,
                 const V& diagonal, bool zero) {
  for_parts(
      [&](const auto& pz, const auto& pa, const auto& pr, const auto& p) {
        write_points("shard::scaled_step", space, pz,
                     ScaledStepKernel<std::remove_cvref_t<decltype(pz)>>{pz, pa, pr, p, e, zero},
                     pa, pr, p);
      },
      z, az, r, diagonal);
}
/// Chebyshev's iteration with the diagonal on A z = r, from z or from 0. `az` is for products.
template <class Space, class A, class V>
void chebyshev(const Space& space, const A& a, const std::vector<double>& steps, const V& z,
               const V& az, const V& r, const V& diagonal, bool zero) {
  for (const double e : steps) {
    if (!zero) a.apply(space, az, z);
    scaled_step(space, z, az, e, r, diagonal, zero);
    zero = false;
  }
}

/// The diagonal of `a`, to be divided by. Throws ArgumentError on every rank for a zero or a NaN.
template <class Space, class V, class A>
V divisor_of(const char* function, const Space& space, const V& like, const A& a) {
  const V diagonal = like_value(like, "shard::diagonal");
  a.diagonal(space, diagonal);
  for_parts(
      [&](const auto& d) {
        if (reduce(space, d, ZeroTerm<std::remove_cvref_t<decltype(d)>>{d}) > 0.0)
          throw_argument(function, {"the operator's diagonal is 0 or NaN somewhere: it can't be "
                                    "divided by"});
      },
      diagonal);
  return diagonal;
}

}  // namespace impl

/// z = r / diagonal(A): PETSc's PCJACOBI.
template <class V>
class Jacobi {
 public:
  static constexpr bool is_symmetric = true;  ///< A' = A
  /// Takes the diagonal of `a`, for vectors like `like`. Collective. Throws ArgumentError on every
  /// rank if it has a zero or a NaN.
  template <class Space, class A>
  Jacobi(const Space& space, const V& like, const A& a)
      : diagonal_(impl::divisor_of("Jacobi", space, like, a)) {}
  /// An error that says what is missing.
  template <class A>
  Jacobi(const V&, const A&) {
    static_assert(!std::is_same_v<A, A>,
                  "Jacobi computes the diagonal, so it needs an execution-space instance first: "
                  "Jacobi(space, like, a)");
  }
  /// z = r / diagonal; z may be r. Throws ArgumentError on every rank for vectors of other
  /// partitions.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
    impl::scaled_step(space, z, z, 1.0, r, diagonal_, true);
  }

 private:
  V diagonal_;
};

/// Choices of Chebyshev. Eigenvalues are those of D^-1 A, with the diagonal D.
struct ChebyshevOptions {
  int steps       = 3;    ///< products with A, plus one
  double largest  = 2.0;  ///< bound of the largest eigenvalue; 2 if A is diagonally dominant
  double smallest = 0.1;  ///< those from here on are reduced; of a smoother a part of them
};

/// A fixed number of steps of the Chebyshev iteration with the diagonal: PETSc's KSPCHEBYSHEV as a
/// preconditioner or smoother. It is a polynomial of A, so it needs no sums, and is symmetric if A
/// is. `eigenvalue_bounds` estimates the eigenvalues.
template <class V, class A>
class Chebyshev {
 public:
  static constexpr bool is_symmetric = impl::is_symmetric<A>();  ///< as A
  /// For vectors like `like`. Collective; errors as Jacobi, and AgreementError on every rank if the
  /// ranks' options differ.
  template <class Space>
  Chebyshev(const Space& space, const V& like, const A& a, const ChebyshevOptions& options = {})
      : a_(agreed(a, like, options)),
        steps_(impl::chebyshev_steps(options.smallest, options.largest, options.steps)),
        diagonal_(impl::divisor_of("Chebyshev", space, like, a)),
        az_(impl::like_value(like, "shard::chebyshev")) {}
  /// z = the iteration's result from 0 for A z = r; z isn't r.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
    impl::require_operands("Chebyshev", z, r);
    impl::chebyshev(space, a_, steps_, z, az_, r, diagonal_, true);
  }

 private:
  static const A& agreed(const A& a, const V& like, const ChebyshevOptions& options) {
    impl::require_same_options(
        impl::value_communicator(like), "Chebyshev",
        {{"steps", options.steps}, {"largest", options.largest}, {"smallest", options.smallest}});
    return a;
  }
  A a_;
  std::vector<double> steps_;
  V diagonal_, az_;
};

}  // namespace shard

#endif
