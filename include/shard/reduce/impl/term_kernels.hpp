// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_TERM_KERNELS_HPP
#define SHARD_REDUCE_IMPL_TERM_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "shard/reduce/impl/reduction_kernels.hpp"
#include "shard/view/partial.hpp"

namespace shard::impl {

/// The number of values of a term: a number, or several in a Kokkos::Array.
template <class Term>
inline constexpr int term_values = 1;
template <class T, std::size_t N>
inline constexpr int term_values<Kokkos::Array<T, N>> = static_cast<int>(N);

/// The reduction of each value of a term; without `Ops` all are sums.
template <class... Ops>
struct TermOps {
  KOKKOS_FUNCTION static constexpr ReductionKind of(int n) {
    constexpr ReductionKind list[] = {ReductionKind::sum, reduction_kind<Ops, double>()...};
    return sizeof...(Ops) == 0 ? ReductionKind::sum : list[n + 1];
  }
};

KOKKOS_FORCEINLINE_FUNCTION double combine(ReductionKind kind, double a, double b) {
  if (kind == ReductionKind::sum) return a + b;
  return pick(kind == ReductionKind::max ? Extremum::greatest : Extremum::least, a, b);
}
/// The value of no elements.
KOKKOS_INLINE_FUNCTION double neutral(ReductionKind kind) {
  if (kind == ReductionKind::sum) return 0.0;
  constexpr double infinite = Kokkos::Experimental::infinity_v<double>;
  return kind == ReductionKind::max ? -infinite : infinite;
}

/// The copies of a field whose type has none.
struct NoCopies {};

/// True for a functor that also writes: its write_first(i, j, ...) is called once for each element,
/// before the element's term is read. So an update and a sum of what it wrote are one pass over
/// memory. Specialised for such functors of the library: a user's one may have a member with this
/// name.
template <class Functor>
inline constexpr bool writes_v = false;

/// True for a functor whose prefetch(i, j, ...) prefetches what the term of an element reads: of
/// fields with the value type and the layout of the field that is reduced. Specialised as writes_v.
template <class Functor>
inline constexpr bool prefetches_v = false;

/// A functor's terms at a field's owned elements, by their number in memory order; copies of other
/// elements are left out.
template <class Field, class Functor>
struct FieldTerms {
  static constexpr int rank = Field::rank;
  static_assert(
      takes_indices_v<rank, Functor>,
      "the functor of reduce needs operator()(int i, int j, ...) const with one index for "
      "each dimension of the field; it returns its value and has no reference argument, "
      "unlike that of Kokkos::parallel_reduce");
  static constexpr bool has_copies = may_have_copies_v<Field>;
  static constexpr int inner =
      std::is_same_v<typename Field::layout, Kokkos::LayoutLeft> ? 0 : rank - 1;
  template <int... D>
  static auto term(std::integer_sequence<int, D...>)
      -> std::remove_cvref_t<decltype(std::declval<const Functor&>()((D + 0)...))>;
  using Term                   = decltype(term(std::make_integer_sequence<int, rank>{}));
  static constexpr int count   = term_values<Term>;
  static constexpr bool writes = writes_v<Functor>;
  static_assert(!writes || (!has_copies && count == 1),
                "copies are left out, and a device reads several values in several threads");
  struct Values {
    double v[count];
  };

  Functor functor;
  index_t cells = 1;
  int extent[rank];
  std::conditional_t<has_copies, Copies, NoCopies> copies;

  /// Throws ArgumentError on every rank if some rank owns 2^31 points or more along a dimension.
  FieldTerms(const Field& field, const Functor& f) : functor(f) {
    require_int_indices("reduce", field.geometry());
    if constexpr (has_copies) copies = copies_of(field);
    for (int d = 0; d < rank; ++d) {
      extent[d] = static_cast<int>(field.extent(d));
      cells *= field.extent(d);
    }
  }

  /// The indices of an element.
  template <class Number>
  KOKKOS_FORCEINLINE_FUNCTION void place(Number number, int* index) const {
    for (int k = 0; k < rank; ++k) {
      const int d  = inner == 0 ? k : rank - 1 - k;
      const auto n = static_cast<Number>(extent[d]);
      index[d]     = static_cast<int>(number % n);
      number /= n;
    }
  }
  /// The term at these indices, with `i` in place of the inner one.
  KOKKOS_FORCEINLINE_FUNCTION Values at(const int* index, int i) const {
    return at(index, i, std::make_integer_sequence<int, rank>{});
  }
  /// The term of one element, on a device: a 64-bit division takes a hundred instructions.
  KOKKOS_FORCEINLINE_FUNCTION Values at(index_t number) const {
    int index[rank];
    if (number >> 32 == 0)
      place(static_cast<std::uint32_t>(number), index);
    else
      place(static_cast<std::uint64_t>(number), index);
    write(index, index[inner], 1);
    return at(index, index[inner]);
  }
  /// Lets the functor prefetch `n` elements of a line, which may be beyond its end, on a host.
  void prefetch(const int* index, int first, int n) const {
    if constexpr (prefetches_v<Functor>) {
      constexpr std::size_t cache_line = 64, size = sizeof(typename Field::value_type);
      constexpr int in_line = size < cache_line ? static_cast<int>(cache_line / size) : 1;
      for (int i = 0; i < n; i += in_line)
        prefetch_at(index, first + i, std::make_integer_sequence<int, rank>{});
    }
  }
  /// What the functor writes at `n` elements of a line, from the inner index `first` on.
  KOKKOS_FORCEINLINE_FUNCTION void write(const int* index, int first, int n) const {
    if constexpr (writes) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC ivdep
#endif
      for (int i = 0; i < n; ++i)
        write_at(index, first + i, std::make_integer_sequence<int, rank>{});
    }
  }
  /// Whether it is a copy.
  KOKKOS_FORCEINLINE_FUNCTION bool is_copy(index_t number) const {
    if constexpr (has_copies) {
      int index[rank];
      place(static_cast<std::uint64_t>(number), index);
      index_t run_index[max_rank] = {};
      for (int d = 0; d < rank; ++d) run_index[run_dim<Field>(d)] = index[d];
      return copies.has(run_index);
    } else {
      return false;
    }
  }
  /// Calls line(indices, first inner index, elements) for the parts of lines in [begin, end),
  /// without copies.
  template <class Line>
  KOKKOS_FORCEINLINE_FUNCTION void lines(index_t begin, index_t end, const Line& line) const {
    while (begin < end) {
      int index[rank];
      place(begin, index);
      const index_t left = end - begin;
      int n              = extent[inner] - index[inner];
      if (n > left) n = static_cast<int>(left);
      if constexpr (has_copies) {
        index_t run_index[max_rank] = {};
        for (int d = 0; d < rank; ++d) run_index[run_dim<Field>(d)] = index[d];
        copies.parts(max_rank - 1, run_index, index[inner], index[inner] + n,
                     [&](index_t first, index_t last) {
                       line(index, static_cast<int>(first), static_cast<int>(last - first));
                     });
      } else {
        line(index, index[inner], n);
      }
      begin += n;
    }
  }

 private:
  template <int... D>
  void prefetch_at(const int* index, int i, std::integer_sequence<int, D...>) const {
    functor.prefetch((D == inner ? i : index[D])...);
  }
  template <int... D>
  KOKKOS_FORCEINLINE_FUNCTION void write_at(const int* index, int i,
                                            std::integer_sequence<int, D...>) const {
    functor.write_first((D == inner ? i : index[D])...);
  }
  template <int... D>
  KOKKOS_FORCEINLINE_FUNCTION Values at(const int* index, int i,
                                        std::integer_sequence<int, D...>) const {
    const Term t = functor((D == inner ? i : index[D])...);
    Values values;
    if constexpr (std::is_arithmetic_v<Term>)
      values.v[0] = static_cast<double>(t);
    else
      for (int n = 0; n < count; ++n)
        values.v[n] = static_cast<double>(t[static_cast<std::size_t>(n)]);
    return values;
  }
};

/// values[count * item + n] = value n of a part of the elements: on a host a run of `length`, in
/// interleaved accumulators, so that compilers vectorise; on a device every `length`-th element,
/// so that neighbouring threads read neighbouring elements.
template <class Terms, class Ops, bool Strided>
struct ReduceTermsKernel {
  static constexpr int count = Terms::count;
  static constexpr int lanes = Strided || count > 8 ? 1
                                                    : 32 / (count <= 1   ? 1
                                                            : count <= 2 ? 2
                                                            : count <= 4 ? 4
                                                                         : 8);
  Terms terms;
  index_t length;
  double* values;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    double sums[count][lanes];
    for (int n = 0; n < count; ++n)
      for (int l = 0; l < lanes; ++l) sums[n][l] = neutral(Ops::of(n));
    if constexpr (Strided) {
      for (index_t c = item; c < terms.cells; c += length)
        if (!terms.is_copy(c)) add(sums, 0, terms.at(c));
    } else {
      const index_t begin = item * length, left = terms.cells - begin;
      terms.lines(begin, begin + (left < length ? left : length),
                  [&](const int* index, int first, int cells) {
                    terms.write(index, first, cells);
                    int i = 0;
                    for (; i + lanes <= cells; i += lanes)
                      for (int l = 0; l < lanes; ++l) add(sums, l, terms.at(index, first + i + l));
                    for (int l = 0; i < cells; ++i, ++l) add(sums, l, terms.at(index, first + i));
                  });
    }
    for (int n = 0; n < count; ++n) {
      for (int half = lanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l)
          sums[n][l] = combine(Ops::of(n), sums[n][l], sums[n][l + half]);
      values[item * count + n] = sums[n][0];
    }
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[count][lanes], int l,
                                       const typename Terms::Values& term) const {
    for (int n = 0; n < count; ++n) sums[n][l] = combine(Ops::of(n), sums[n][l], term.v[n]);
  }
};

/// result[n] = value n of all parts, and of what is there if `adds`; on a host.
template <class Ops>
struct CombineParts {
  const double* values;
  index_t parts;
  int count;
  bool adds;
  double* result;

  void operator()(index_t n) const {
    const ReductionKind kind = Ops::of(static_cast<int>(n));
    double sum               = neutral(kind);
    for (index_t p = 0; p < parts; ++p) sum = combine(kind, sum, values[p * count + n]);
    result[n] = adds ? combine(kind, result[n], sum) : sum;
  }
};
/// The same by one team for each value, on a device.
template <class Ops>
struct CombinePartsTeamKernel {
  CombineParts<Ops> all;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int n = team.league_rank(), t = team.team_rank(), threads = team.team_size();
    const ReductionKind kind = Ops::of(n);
    double* const scratch    = team_memory(team, threads);
    double sum               = neutral(kind);
    for (index_t p = t; p < all.parts; p += threads)
      sum = combine(kind, sum, all.values[p * all.count + n]);
    scratch[t] = sum;
    team.team_barrier();
    for (int half = threads / 2; half > 0; half /= 2) {  // teams are powers of 2
      if (t < half) scratch[t] = combine(kind, scratch[t], scratch[t + half]);
      team.team_barrier();
    }
    if (t == 0) all.result[n] = all.adds ? combine(kind, all.result[n], scratch[0]) : scratch[0];
  }
};

/// sums[part][n] = the exact sum of value n of every `parts`-th element, on a device.
template <class Terms>
struct ExactTermsKernel {
  Terms terms;
  index_t parts;
  index_t* sums;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t part = item % parts, n = item / parts;
    index_t* const sum = sums + (part * Terms::count + n) * ExactSum::width;
    index_t added      = 0;
    ExactSum::clear(sum);
    for (index_t c = part; c < terms.cells; c += parts) {
      if (terms.is_copy(c)) continue;
      ExactSum::add(sum, terms.at(c).v[n]);
      if (++added % ExactSum::most_terms == 0) ExactSum::carry(sum);
    }
    ExactSum::carry(sum);
  }
};

/// The same of a run of elements, on a host.
template <class Terms>
struct FoldedTerms {
  static constexpr int count = Terms::count;
  static constexpr int ahead = 256;  ///< elements: a sum's instructions let few loads run ahead
  Terms terms;
  index_t length;
  index_t* sums;

  void operator()(index_t run) const { add(run, std::make_integer_sequence<int, count>{}); }

 private:
  template <int... N>
  void add(index_t run, std::integer_sequence<int, N...>) const {
    FoldedSum sum[] = {FoldedSum(sums + (run * count + N) * ExactSum::width)...};
    double values[count][FoldedSum::part];
    index_t filled     = 0;
    const auto deposit = [&] {
      (sum[N].add(values[N], filled), ...);
      filled = 0;
    };
    const index_t begin = run * length, left = terms.cells - begin;
    terms.lines(begin, begin + (left < length ? left : length),
                [&](const int* index, int first, int cells) {
                  for (int i = 0; i < cells;) {
                    int some = static_cast<int>(FoldedSum::part - filled);
                    if (some > cells - i) some = cells - i;
                    terms.prefetch(index, first + i + ahead, some);
                    terms.write(index, first + i, some);
                    for (int c = 0; c < some; ++c) {
                      const auto term = terms.at(index, first + i + c);
                      ((values[N][filled + c] = term.v[N]), ...);
                    }
                    i += some;
                    filled += some;
                    if (filled == FoldedSum::part) deposit();
                  }
                });
    deposit();
    (sum[N].finish(), ...);
  }
};

}  // namespace shard::impl

#endif
