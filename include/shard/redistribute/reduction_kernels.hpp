// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_REDUCTION_KERNELS_HPP
#define SHARD_REDISTRIBUTE_REDUCTION_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "shard/comm/rank_group.hpp"
#include "shard/redistribute/reduction_accumulator.hpp"
#include "shard/view/geometry.hpp"
#include "shard/view/local_field.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

/// Throws ArgumentError, on every rank alike, unless both fields have the same cells on the same
/// ranks.
void require_reduced_alike(std::string_view function, const Geometry& a, const Geometry& b);
/// Throws ArgumentError, on every rank alike, if the world has no cell.
void require_cells(std::string_view function, const Geometry& geometry);
/// Collective: throws ArgumentError on every rank unless each has a weight for each of its rows.
void require_row_weights(std::string_view function, const Geometry& geometry, int dim,
                         index_t weights);

/// A rank's owned cells as reductions visit them: in the order of memory, in runs of `length` cells
/// (the last one shorter). Always max_rank dimensions, the last the fastest, the first ones of
/// extent 1.
struct CellRuns {
  index_t extent[max_rank] = {1, 1, 1, 1, 1, 1};
  index_t cells            = 1;
  index_t length           = 1;

  index_t runs() const { return (cells + length - 1) / length; }

  /// Calls visit(offset in x, offset in y) for each cell of a run, and pause() after
  /// each line.
  template <class X, class Y, class Visit, class Pause>
  KOKKOS_FORCEINLINE_FUNCTION void visit(index_t run, const X& x, const Y& y, const Visit& visit,
                                         const Pause& pause) const {
    constexpr int inner = max_rank - 1;
    const index_t end   = (run + 1) * length < cells ? (run + 1) * length : cells;
    for (index_t c = run * length; c < end;) {
      index_t rest = c, at_x = 0, at_y = 0, first = 0;
      for (int d = inner; d >= 0; --d) {
        const index_t i = rest % extent[d];
        rest /= extent[d];
        if (d == inner) first = i;
        at_x += i * x.stride[d];
        at_y += i * y.stride[d];
      }
      index_t count = extent[inner] - first;
      if (count > end - c) count = end - c;
      if (count > ExactSum::most_terms) count = ExactSum::most_terms;
      for (index_t i = 0; i < count; ++i)
        visit(at_x + i * x.stride[inner], at_y + i * y.stride[inner]);
      pause();
      c += count;
    }
  }
};

/// One value for each cell, at the places of CellRuns; strides of zero where it is the same for
/// many.
template <class T>
struct CellValues {
  T* origin                = nullptr;
  index_t stride[max_rank] = {};
};

/// Where dimension d of a field stands among CellRuns' dimensions.
template <class Field>
constexpr int run_dim(int d) {
  return std::is_same_v<typename Field::layout, Kokkos::LayoutLeft> ? max_rank - 1 - d
                                                                    : max_rank - Field::rank + d;
}

template <class Field>
CellRuns cell_runs(const Field& f, index_t length) {
  CellRuns runs;
  for (int d = 0; d < Field::rank; ++d) {
    runs.extent[run_dim<Field>(d)] = f.extent(d);
    runs.cells *= f.extent(d);
  }
  runs.length = length;
  return runs;
}

/// The cells of `f`, visited in the order of a `Like`.
template <class Like, class Field>
CellValues<typename Field::value_type> cell_values(const Field& f) {
  CellValues<typename Field::value_type> values;
  values.origin = f.origin();
  for (int d = 0; d < Field::rank; ++d) values.stride[run_dim<Like>(d)] = f.stride(d);
  return values;
}

template <class T>
CellValues<const T> as_const(const CellValues<T>& v) {
  CellValues<const T> c;
  c.origin = v.origin;
  for (int d = 0; d < max_rank; ++d) c.stride[d] = v.stride[d];
  return c;
}

/// What is added up.
struct ValueTerm {
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    return static_cast<Sum>(a);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    ExactSum::add(sum, static_cast<double>(a));
  }
};
struct MagnitudeTerm {
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B) const {
    return Kokkos::fabs(static_cast<Sum>(a));
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B) const {
    ExactSum::add(sum, Kokkos::fabs(static_cast<double>(a)));
  }
};
struct ProductTerm {
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B b) const {
    return static_cast<Sum>(a) * static_cast<Sum>(b);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B b) const {
    ExactSum::add_product(sum, static_cast<double>(a), static_cast<double>(b));
  }
};
/// How many cells have a value, or that magnitude.
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

/// sums[run] = the terms of a run, one after the other.
template <class Term, class Sum, class A, class B>
struct SumRunsKernel {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  Sum* sums;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    Sum sum = 0;
    runs.visit(
        run, a, b,
        [&](index_t i, index_t j) { sum += what.template term<Sum>(a.origin[i], b.origin[j]); },
        [] {});
    sums[run] = sum;
  }
};

/// sums[run] = the terms of a run without rounding.
template <class Term, class A, class B>
struct ExactRunsKernel {
  CellRuns runs;
  Term what;
  CellValues<const A> a;
  CellValues<const B> b;
  index_t* sums;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    index_t* const sum = sums + run * ExactSum::width;
    ExactSum::clear(sum);
    runs.visit(
        run, a, b, [&](index_t i, index_t j) { what.add(sum, a.origin[i], b.origin[j]); },
        [&] { ExactSum::carry(sum); });
  }
};

/// whole[digit] = that digit of all runs.
struct MergeDigitsKernel {
  const index_t* sums;
  index_t runs;
  index_t* whole;

  KOKKOS_FUNCTION void operator()(index_t digit) const {
    index_t sum = 0;
    for (index_t r = 0; r < runs; ++r) sum += sums[r * ExactSum::width + digit];
    whole[digit] = sum;
  }
};

/// What is looked for among values.
enum class Extremum : std::uint8_t { least, greatest, greatest_magnitude };

/// The one of two that is looked for; a NaN before all, and -0 is less than +0, so that the order
/// doesn't matter.
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
    T best{};
    bool any = false;
    runs.visit(
        run, a, a,
        [&](index_t i, index_t) {
          T x = static_cast<T>(a.origin[i]);
          if constexpr (std::is_floating_point_v<T>)
            if (which == Extremum::greatest_magnitude) x = Kokkos::fabs(x);
          best = any ? pick(which, best, x) : x;
          any  = true;
        },
        [] {});
    values[run] = best;
  }
};

/// What the gradient is proportional to.
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

/// gradient = scale (rule(a) - offset); 0 where the second factor is, whatever the first.
template <class Rule, class D, class A>
struct ReductionGradientKernel {
  CellRuns runs;
  Rule rule;
  CellValues<D> gradient;
  CellValues<const A> a;
  double scale, offset;

  KOKKOS_FUNCTION void operator()(index_t run) const {
    runs.visit(
        run, gradient, a,
        [&](index_t to, index_t i) {
          const double f      = rule.at(a.origin[i]) - offset;
          gradient.origin[to] = f == 0.0 ? D(0) : static_cast<D>(scale * f);
        },
        [] {});
  }
};

}  // namespace shard::impl

#endif
