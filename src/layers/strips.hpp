// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_STRIPS_HPP
#define SHARD_SRC_LAYERS_STRIPS_HPP

#include <algorithm>
#include <type_traits>

#include "shard/layers/impl/kernels.hpp"
#include "vector_functions.hpp"

/// \file
/// Softmax and layer norm on a host. A strip has `strip_width` neighbouring lines, or one line in
/// pieces of that length. Loops over its width have a fixed count and no branches, so that
/// compilers vectorise them.

namespace shard::impl {

inline constexpr int strip_width = 64;

/// Rows of `strip_width` values. `across` is the step within a row, `along` the step between rows.
/// The first `count` values of each row exist; of the last row, the first `last`.
template <class T>
struct Strip {
  T* first;
  index_t along, across, length;
  int count, last;

  /// `lines` neighbouring lines of `length` cells.
  static Strip side_by_side(T* first, index_t length, index_t along, index_t across, int lines) {
    return {first, along, across, length, lines, lines};
  }
  /// One line, divided into pieces.
  static Strip pieces(T* first, index_t length, index_t step) {
    const index_t rows = (length + strip_width - 1) / strip_width;
    return {first, strip_width * step, step,
            rows,  strip_width,        static_cast<int>(length - (rows - 1) * strip_width)};
  }

  int held(index_t row) const { return row + 1 == length ? last : count; }
  bool whole(index_t row) const { return across == 1 && held(row) == strip_width; }
  /// Pointer to a row's values: in place, or, for a partial or strided row, copied to the buffer
  /// and filled up with `rest`.
  const T* load(index_t row, std::remove_const_t<T> rest, std::remove_const_t<T>* buffer) const {
    const T* const from = first + row * along;
    if (whole(row)) return from;
    const int n = held(row);
    for (int j = 0; j < n; ++j) buffer[j] = from[j * across];
    std::fill(buffer + n, buffer + strip_width, rest);
    return buffer;
  }
  /// Prefetches this row of the next strip. A strip has more rows than the hardware prefetcher has
  /// streams.
  void ask_next(index_t row) const {
#if defined(__GNUC__)
    constexpr index_t line = 64 / static_cast<index_t>(sizeof(T));
    if (across != 1) return;
    for (index_t i = 0; i < strip_width; i += line)
      __builtin_prefetch(first + row * along + strip_width + i);
#endif
  }
  /// Pointer to write a row's values to: in place, or the buffer, which `store` copies.
  T* target(index_t row, T* buffer) const { return whole(row) ? first + row * along : buffer; }
  void store(index_t row, const T* values) const {
    if (whole(row)) return;
    T* const to = first + row * along;
    for (int j = 0, n = held(row); j < n; ++j) to[j * across] = values[j];
  }
};

template <class T>
Strip<const T> as_const(const Strip<T>& s) {
  return {s.first, s.along, s.across, s.length, s.count, s.last};
}

/// Reduces the values of a strip's width, or another power of two, to one, by halves, so that
/// compilers vectorise the loops.
template <int Width = strip_width, class T, class Join>
T folded(const T* values, const Join& join) {
  if constexpr (Width == 1) {
    return values[0];
  } else {
    T joined[Width / 2];
    for (int j = 0; j < Width / 2; ++j) joined[j] = join(values[j], values[j + Width / 2]);
    return folded<Width / 2>(joined, join);
  }
}
template <class T>
T sum_of(const T* values) {
  return folded(values, [](T a, T b) { return a + b; });
}

/// The maximum of each line of a strip, and sums of exp(x - maximum).
template <class T>
struct StripStatistics {
  static constexpr int width = strip_width;
  static constexpr T none    = -Kokkos::Experimental::infinity_v<T>;

  /// Rows that are summed in T, before their sum is added in double: conversions of each value
  /// would take half of the time.
  static constexpr index_t block = 16;

  T most[width]     = {};
  double sum[width] = {}, dot[width] = {};

  void find_maxima(const Strip<const T>& x) {
    T buffer[width];
    std::fill_n(most, width, none);
    for (index_t i = 0; i < x.length; ++i) {
      const T* const v = x.load(i, none, buffer);
      for (int j = 0; j < width; ++j) most[j] = v[j] > most[j] ? v[j] : most[j];
    }
  }
  /// For a single line: the maximum over its pieces.
  void join_maxima() {
    std::fill_n(most, width, folded(most, [](T a, T b) { return a > b ? a : b; }));
  }
  /// Replaces a maximum of -infinity by 0, so that x - maximum isn't NaN.
  void make_finite() {
    for (int j = 0; j < width; ++j) most[j] = most[j] == none ? T(0) : most[j];
  }
  void add_exponentials(const Strip<const T>& x) {
    T buffer[width], here[width];
    in_blocks(x.length, [&](index_t i, T* part, T*) {
      x.ask_next(i);
      add_row(x.load(i, none, buffer), here, part);
    });
  }
  /// The same; stores the exponentials to `to`.
  void add_exponentials(const Strip<const T>& x, const Strip<T>& to) {
    T buffer[width], result[width];
    in_blocks(x.length, [&](index_t i, T* part, T*) {
      x.ask_next(i);
      add_row(x.load(i, none, buffer), to.target(i, result), part);
      to.store(i, result);
    });
  }
  /// sum += exponential, dot += exponential * a. Stores the exponentials of each row to
  /// `exponentials` unless it is null.
  void add_dots(const Strip<const T>& x, const Strip<const T>& a, T* exponentials) {
    T buffer[width], factors[width], here[width];
    in_blocks(x.length, [&](index_t i, T* part, T* dots) {
      x.ask_next(i);
      a.ask_next(i);
      const T* const f = a.load(i, T(0), factors);
      T* const e       = exponentials == nullptr ? here : exponentials + i * width;
      add_row(x.load(i, none, buffer), e, part);
      for (int j = 0; j < width; ++j) dots[j] += e[j] * f[j];
    });
  }

 private:
  void add_row(const T* x, T* to, T* part) const {
    for (int j = 0; j < width; ++j) {
      const T e = exponential_of_part(x[j] - most[j]);
      part[j] += e;
      to[j] = e;
    }
  }
  /// Calls add(row, part of sum, part of dot) for all rows.
  template <class Add>
  void in_blocks(index_t rows, const Add& add) {
    for (index_t first = 0; first < rows; first += block) {
      T part[width] = {}, dots[width] = {};
      for (index_t i = first; i < std::min(rows, first + block); ++i) add(i, part, dots);
      for (int j = 0; j < width; ++j) sum[j] += static_cast<double>(part[j]);
      for (int j = 0; j < width; ++j) dot[j] += static_cast<double>(dots[j]);
    }
  }
};

/// to = f(j, x, more...) for all values of strips; j is the place in the row, f = function(row).
template <class T, class Function, class... More>
void map_rows(const Function& function, const Strip<T>& to, const Strip<const T>& x,
              const More&... more) {
  T result[strip_width], buffers[1 + sizeof...(More)][strip_width];
  for (index_t i = 0; i < to.length; ++i) {
    to.ask_next(i);
    T* const y      = to.target(i, result);
    const auto& f   = function(i);
    int k           = 0;
    const auto each = [&](const T* v, const auto*... others) {
      for (int j = 0; j < strip_width; ++j) y[j] = f(j, v[j], others[j]...);
    };
    const T* const rows[] = {x.load(i, T(0), buffers[k++]), more.load(i, T(0), buffers[k++])...};
    if constexpr (sizeof...(More) == 0)
      each(rows[0]);
    else
      each(rows[0], rows[1]);
    to.store(i, result);
  }
}

/// The same with one function for all rows.
template <class T, class F, class... Strips>
void map_strip(const F& f, const Strip<T>& to, const Strips&... from) {
  map_rows([&f](index_t) -> const F& { return f; }, to, from...);
}

}  // namespace shard::impl

#endif
