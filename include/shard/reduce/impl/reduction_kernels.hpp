// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_REDUCTION_KERNELS_HPP
#define SHARD_REDUCE_IMPL_REDUCTION_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "shard/base/impl/team_sums.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/reduce/impl/cell_runs.hpp"
#include "shard/reduce/impl/folded_sum.hpp"
#include "shard/reduce/impl/reduction_accumulator.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/impl/local_field.hpp"

namespace shard::impl {

/// Throws ArgumentError, on every rank, if the field has no element on any rank.
void require_cells(std::string_view function, const Geometry& geometry);
/// Collective: throws ArgumentError on every rank unless each has a weight for each of its rows.
void require_row_weights(std::string_view function, const Geometry& geometry, int dim,
                         index_t weights);

/// Calls use(x) with doubles whose exact sum is `a`: two for a 64-bit integer.
template <class A, class Use>
KOKKOS_FORCEINLINE_FUNCTION void for_doubles(A a, const Use& use) {
  if constexpr (std::is_integral_v<A> && sizeof(A) == 8) {
    const A low = a & A(0xffffffff);
    use(static_cast<double>(a - low));
    use(static_cast<double>(low));
  } else {
    use(static_cast<double>(a));
  }
}

/// The terms of a sum: left(a), or the products left(a) right(b).
struct ValueTerm {
  static constexpr bool is_product = false;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return static_cast<double>(a);
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    return static_cast<Sum>(a);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    for_doubles(a, [&](double x) { ExactSum::add(sum, x); });
  }
};
struct MagnitudeTerm {
  static constexpr bool is_product = false;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return Kokkos::fabs(static_cast<double>(a));
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    return Kokkos::fabs(static_cast<Sum>(a));
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    for_doubles(a, [&](double x) { ExactSum::add(sum, a < A(0) ? -x : x); });
  }
};
struct ProductTerm {
  static constexpr bool is_product = true;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return static_cast<double>(a);
  }
  template <class B>
  KOKKOS_FORCEINLINE_FUNCTION double right(B b) const {
    return static_cast<double>(b);
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B b) const {
    return static_cast<Sum>(a) * static_cast<Sum>(b);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B b) const {
    for_doubles(
        a, [&](double x) { for_doubles(b, [&](double y) { ExactSum::add_product(sum, x, y); }); });
  }
};
/// (a - centre)^2
struct DeviationTerm {
  static constexpr bool is_product = true;
  double centre;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double left(A a) const {
    return static_cast<double>(a) - centre;
  }
  template <class B>
  KOKKOS_FORCEINLINE_FUNCTION double right(B b) const {
    return left(b);
  }
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    const double d = left(a);
    return d * d;
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    ExactSum::add_product(sum, left(a), left(a));
  }
};
/// 1 if a element has a value, or that magnitude, else 0.
template <class T>
struct CountTerm {
  T value;
  bool magnitude;
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    T x = static_cast<T>(a);
    if constexpr (std::is_floating_point_v<T>)
      if (magnitude) x = Kokkos::fabs(x);
    return x == value ? Sum(1) : Sum(0);
  }
};

/// sums[run] = the sum of a run's terms. Several accumulators are interleaved along each line, so
/// that compilers vectorise the loop.
template <class Term, class Sum, class A, class B, int Lanes>
struct SumRunsKernel {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  Sum* sums;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    const index_t step_a = a.stride[max_rank - 1], step_b = b.stride[max_rank - 1];
    Sum sum[Lanes] = {};
    runs.lines(run, a, b, [&](index_t i, index_t j, index_t count) {
      if (step_a == 1 && step_b == 1)
        add(sum, a.origin + i, b.origin + j, count, One{}, One{});
      else
        add(sum, a.origin + i, b.origin + j, count, step_a, step_b);
    });
    for (int half = Lanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) sum[l] += sum[l + half];
    sums[run] = sum[0];
  }

 private:
  struct One {
    KOKKOS_FUNCTION constexpr operator index_t() const { return 1; }
  };

  template <class StepA, class StepB>
  KOKKOS_FORCEINLINE_FUNCTION void add(Sum (&sum)[Lanes], const A* x, const B* y, index_t count,
                                       StepA step_a, StepB step_b) const {
    index_t i      = 0;
    const auto one = [&](int l) {
      sum[l] += what.template term<Sum>(x[(i + l) * step_a], y[(i + l) * step_b]);
    };
    for (; i + Lanes <= count; i += Lanes)
      for (int l = 0; l < Lanes; ++l) one(l);
    const int rest = static_cast<int>(count - i);
    for (int l = 0; l < rest; ++l) one(l);
  }
};

/// sums[team] = the sum of a run's terms, on a device: by a team, with consecutive threads on
/// consecutive elements.
template <class Term, class Sum, class A, class B>
struct SumRunsTeamKernel {
  CellRuns runs;
  BoxCells<2, int> cells;
  Term what;
  const A* a;
  const B* b;
  Sum* sums;

  struct Pair {
    A x;
    B y;
  };
  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const index_t begin = static_cast<index_t>(team.league_rank()) * runs.length;
    const index_t end   = begin + runs.length < runs.cells ? begin + runs.length : runs.cells;
    Sum sum[1]          = {};
    for_own_cells(
        cells, begin + team.team_rank(), end, team.team_size(),
        [&](const BoxCells<2, int>::Cell& cell) {
          return Pair{a[cell.offset[0]], b[cell.offset[1]]};
        },
        [&](const Pair& pair) { sum[0] += what.template term<Sum>(pair.x, pair.y); });
    team_sum(team, team_memory<Sum>(team, team.team_size()), sum);
    if (team.team_rank() == 0) sums[team.league_rank()] = sum[0];
  }
};

/// *whole = the sums of all runs, by one team.
template <class Sum>
struct SumTeamsKernel {
  const Sum* sums;
  index_t runs;
  Sum* whole;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    Sum sum[1] = {};
    for (index_t r = team.team_rank(); r < runs; r += team.team_size()) sum[0] += sums[r];
    team_sum(team, team_memory<Sum>(team, team.team_size()), sum);
    if (team.team_rank() == 0) *whole = sum[0];
  }
};

/// sums[run] = the exact sum of a run's terms, for a device.
template <class Term, class A, class B>
struct ExactRunsKernel {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  index_t* sums;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    constexpr index_t doubles = 4;  // per term: a 64-bit integer is two doubles
    index_t* const sum        = sums + run * ExactSum::width;
    index_t terms             = 0;
    ExactSum::clear(sum);
    runs.visit(run, a, b, [&](index_t i, index_t j) {
      what.add(sum, a.origin[i], b.origin[j]);
      if (++terms % (ExactSum::most_terms / doubles) == 0) ExactSum::carry(sum);
    });
    ExactSum::carry(sum);
  }
};

/// The same on a host, with few, long work items.
template <class Term, class A, class B>
struct FoldedRuns {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  index_t* sums;

  void operator()(index_t run) const {
    const index_t step_a = a.stride[max_rank - 1], step_b = b.stride[max_rank - 1];
    FoldedSum sum(sums + run * ExactSum::width);
    double left[FoldedSum::block], right[FoldedSum::block];
    index_t filled = 0;
    runs.lines(run, a, b, [&](index_t i, index_t j, index_t count) {
      const A* const x = a.origin + i;
      const B* const y = b.origin + j;
      for (index_t c = 0; c < count;) {
        index_t some = FoldedSum::block - filled;
        if (some > count - c) some = count - c;
        for (index_t n = 0; n < some; ++n) {
          left[filled + n] = what.left(x[(c + n) * step_a]);
          if constexpr (Term::is_product) right[filled + n] = what.right(y[(c + n) * step_b]);
        }
        c += some;
        filled += some;
        if (filled == FoldedSum::block) add(sum, left, right, filled);
      }
    });
    add(sum, left, right, filled);
    sum.finish();
  }

 private:
  static void add(FoldedSum& sum, const double* left, const double* right, index_t& filled) {
    if constexpr (Term::is_product)
      sum.add_products(left, right, filled);
    else
      sum.add(left, filled);
    filled = 0;
  }
};

/// whole[digit] = that digit of all runs, of one or several exact sums; added to what is there if
/// `adds`.
struct MergeDigitsKernel {
  const index_t* sums;
  index_t runs, digits;
  bool adds;
  index_t* whole;

  KOKKOS_FUNCTION void operator()(index_t digit) const {
    index_t sum = adds ? whole[digit] : 0;
    for (index_t r = 0; r < runs; ++r) sum += sums[r * digits + digit];
    whole[digit] = sum;
  }
};

/// The kind of extremum.
enum class Extremum : std::uint8_t { least, greatest, greatest_magnitude };

/// The extremum of two values. NaN takes precedence, and -0 is less than +0, so the result doesn't
/// depend on the order.
template <class T>
KOKKOS_INLINE_FUNCTION T pick(Extremum which, T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  const bool least = which == Extremum::least;
  if (a < b) return least ? a : b;
  if (b < a) return least ? b : a;
  if constexpr (std::is_floating_point_v<T>) return Kokkos::signbit(a) == least ? a : b;
  return a;
}

/// values[run] = the extremum of a run.
template <class T, class A>
struct ExtremumRunsKernel {
  CellRuns runs;
  Extremum which;
  CellValues<const A> a;
  T* values;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    // of a run of copies: the value that loses against any other
    T best = which == Extremum::least      ? Kokkos::reduction_identity<T>::min()
             : which == Extremum::greatest ? Kokkos::reduction_identity<T>::max()
                                           : T(0);
    runs.visit(run, a, a, [&](index_t i, index_t) {
      T x = static_cast<T>(a.origin[i]);
      if constexpr (std::is_floating_point_v<T>)
        if (which == Extremum::greatest_magnitude) x = Kokkos::fabs(x);
      best = pick(which, best, x);
    });
    values[run] = best;
  }
};

/// The factor of a constant gradient.
struct ConstantRule {
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A) const {
    return 1.0;
  }
};
struct SignRule {
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    return a != a ? static_cast<double>(a) : a > A(0) ? 1.0 : a < A(0) ? -1.0 : 0.0;
  }
};
struct ValueRule {
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    return static_cast<double>(a);
  }
};
struct DeviationRule {
  double centre;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    return static_cast<double>(a) - centre;
  }
};
/// 1 where the value is the extremum, with its sign for a magnitude.
template <class T>
struct ExtremumRule {
  T value;
  bool magnitude;
  template <class A>
  KOKKOS_FORCEINLINE_FUNCTION double at(A a) const {
    const T x = static_cast<T>(a);
    if (x == value) return 1.0;
    if constexpr (std::is_floating_point_v<T>)
      if (magnitude && x == -value) return -1.0;
    return 0.0;
  }
};

/// gradient = scale (rule(a) - offset); 0 if the second factor is 0, also for an infinite or NaN
/// scale.
template <class Rule, class D, class A>
struct ReductionGradientKernel {
  CellRuns runs;
  Rule rule;
  CellValues<D> gradient;
  CellValues<const A> a;
  double scale, offset;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    runs.visit(run, gradient, a, [&](index_t to, index_t i) {
      const double f      = rule.at(a.origin[i]) - offset;
      gradient.origin[to] = f == 0.0 ? D(0) : static_cast<D>(scale * f);
    });
  }
};

}  // namespace shard::impl

#endif
