// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_PRECONDITIONERS_HPP
#define SHARD_SOLVE_PRECONDITIONERS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/reduce/reduce.hpp"
#include "shard/solve/operators.hpp"

namespace shard {

namespace impl {

/// The steps e of Richardson's iteration x += e D^-1 (b - A x) that make it Chebyshev's for
/// eigenvalues of D^-1 A in [low, high]: 1 / roots of the polynomial, in the order of Leja (each
/// the farthest from those before, by the product of distances), which doesn't amplify rounding
/// errors.
std::vector<double> chebyshev_steps(double low, double high, int steps);
/// Throws AgreementError on every rank unless all ranks have these options. Collective.
void require_same_steps(MPI_Comm comm, int steps, double largest, double smallest);

/// z = c z + e r / diagonal. Doesn't read z if c is 0.
template <class Field>
struct ScaledStepKernel {
  Field z, r, diagonal;
  double c, e;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using Wide = wide_t<typename Field::value_type>;
    Wide to    = e * static_cast<Wide>(r(i...)) / static_cast<Wide>(diagonal(i...));
    if (c != 0.0) to += c * static_cast<Wide>(z(i...));
    z(i...) = static_cast<typename Field::value_type>(to);
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

/// A diagonal, and the step that divides by it.
template <class V>
class DiagonalScaling {
 public:
  template <class Space, class A>
  DiagonalScaling(const char* function, const Space& space, const V& like, const A& a)
      : diagonal_(like_value(like, "shard::diagonal")) {
    a.diagonal(space, diagonal_);
    for_parts(
        [&](const auto& d) {
          if (reduce(space, d, ZeroTerm<std::remove_cvref_t<decltype(d)>>{d}) > 0.0)
            throw_argument(function, {"the operator's diagonal is 0 or NaN somewhere: it can't be "
                                      "divided by"});
        },
        diagonal_);
  }
  /// z = c z + e r / diagonal
  template <class Space>
  void step(const Space& space, double c, const V& z, double e, const V& r) const {
    for_parts(
        [&](const auto& pz, const auto& pr, const auto& p) {
          write_points("shard::scaled_step", space, pz,
                       ScaledStepKernel<std::remove_cvref_t<decltype(pz)>>{pz, pr, p, c, e}, pr, p);
        },
        z, r, diagonal_);
  }

 private:
  V diagonal_;
};

}  // namespace impl

/// z = r / diagonal(A): PETSc's PCJACOBI.
template <class V>
class Jacobi {
 public:
  static constexpr bool is_symmetric = true;  ///< A' = A
  /// Takes the diagonal of `a`, for vectors like `like`. Collective. Throws ArgumentError on every
  /// rank if it has a zero or a NaN.
  template <class Space, class A>
  Jacobi(const Space& space, const V& like, const A& a) : scaling_("Jacobi", space, like, a) {}
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
    scaling_.step(space, 0.0, z, 1.0, r);
  }

 private:
  impl::DiagonalScaling<V> scaling_;
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
        scaling_("Chebyshev", space, like, a),
        rest_(impl::like_value(like, "shard::chebyshev")) {}
  /// z = the iteration's result from 0 for A z = r; z isn't r.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
    impl::require_operands("Chebyshev", z, r);
    scaling_.step(space, 0.0, z, steps_[0], r);
    for (std::size_t k = 1; k < steps_.size(); ++k) {
      a_.apply(space, rest_, z);
      axpby(space, rest_, 1.0, r, -1.0);
      scaling_.step(space, 1.0, z, steps_[k], rest_);
    }
  }

 private:
  static const A& agreed(const A& a, const V& like, const ChebyshevOptions& options) {
    impl::require_same_steps(impl::value_communicator(like), options.steps, options.largest,
                             options.smallest);
    return a;
  }
  A a_;
  std::vector<double> steps_;
  impl::DiagonalScaling<V> scaling_;
  V rest_;
};

}  // namespace shard

#endif
