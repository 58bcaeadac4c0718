// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_CELL_RUNS_HPP
#define SHARD_REDUCE_IMPL_CELL_RUNS_HPP

#include <Kokkos_Core.hpp>

#include <optional>

#include "shard/reduce/impl/copies.hpp"

namespace shard::impl {

/// A rank's owned elements in memory order, divided into runs of `length` elements (the last one
/// shorter). Always max_rank dimensions, the last the fastest; leading ones have extent 1.
struct CellRuns {
  index_t extent[max_rank] = {1, 1, 1, 1, 1, 1};
  index_t cells            = 1;
  index_t length           = 1;
  Copies copies{};  ///< elements that are left out

  index_t runs() const { return (cells + length - 1) / length; }

  /// Calls line(offset in x, offset in y, cells) for each part of a line of elements in a run,
  /// without copies.
  template <class X, class Y, class Line>
  KOKKOS_FORCEINLINE_FUNCTION void lines(index_t run, const X& x, const Y& y,
                                         const Line& line) const {
    constexpr int inner     = max_rank - 1;
    index_t left            = cells - run * length;
    index_t index[max_rank] = {}, at_x = 0, at_y = 0, rest = run * length;
    if (left > length) left = length;
    for (int d = inner; d >= 0 && rest > 0; --d) {
      index[d] = rest % extent[d];
      rest /= extent[d];
      at_x += index[d] * x.stride[d];
      at_y += index[d] * y.stride[d];
    }
    while (left > 0) {
      index_t count = extent[inner] - index[inner];
      if (count > left) count = left;
      const index_t first = index[inner];
      copies.parts(inner, index, first, first + count, [&](index_t begin, index_t end) {
        line(at_x + (begin - first) * x.stride[inner], at_y + (begin - first) * y.stride[inner],
             end - begin);
      });
      left -= count;
      at_x -= index[inner] * x.stride[inner];
      at_y -= index[inner] * y.stride[inner];
      index[inner] = 0;
      for (int d = inner - 1; d >= 0; --d) {
        at_x += x.stride[d];
        at_y += y.stride[d];
        if (++index[d] < extent[d]) break;
        at_x -= extent[d] * x.stride[d];
        at_y -= extent[d] * y.stride[d];
        index[d] = 0;
      }
    }
  }

  /// Calls visit(offset in x, offset in y) for each element of a run.
  template <class X, class Y, class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void visit(index_t run, const X& x, const Y& y,
                                         const Visit& visit) const {
    constexpr int inner = max_rank - 1;
    lines(run, x, y, [&](index_t at_x, index_t at_y, index_t count) {
      for (index_t i = 0; i < count; ++i)
        visit(at_x + i * x.stride[inner], at_y + i * y.stride[inner]);
    });
  }
};

/// One value for each element, indexed as CellRuns; a stride of zero repeats a value.
template <class T>
struct CellValues {
  T* origin                = nullptr;
  index_t stride[max_rank] = {};
};

/// The same elements in the same order as a three-dimensional box, so that the elements of a run of
/// `length` are near each other; none if that is impossible.
template <class A, class B>
std::optional<BoxStrides<2>> box_of_runs(CellRuns runs, CellValues<A> a, CellValues<B> b,
                                         index_t length) {
  if (runs.copies.any()) return std::nullopt;
  int at = max_rank - 1;
  for (int d = max_rank - 2; d >= 0; --d) {
    const index_t n = runs.extent[d];
    if (n == 1) continue;
    const bool joins = runs.extent[at] == 1 || (a.stride[d] == runs.extent[at] * a.stride[at] &&
                                                b.stride[d] == runs.extent[at] * b.stride[at]);
    if (joins && runs.extent[at] != 1) {
      runs.extent[at] *= n;
    } else {
      if (!joins) --at;
      runs.extent[at] = n;
      a.stride[at]    = a.stride[d];
      b.stride[at]    = b.stride[d];
    }
    if (d != at) runs.extent[d] = 1;
  }
  constexpr int first = max_rank - 3, last = max_rank - 1;
  if (at < first) return std::nullopt;
  const bool long_line = at == last && runs.extent[last] >> 31 != 0;
  if (long_line) {  // divided into planes of lines of 2^20 elements
    constexpr index_t part = index_t{1} << 20;
    runs.extent[last - 1] = runs.extent[last] = part;
    const auto widen                          = [](index_t* stride) {
      stride[last - 1] = part * stride[last];
      stride[first]    = part * stride[last - 1];
    };
    widen(a.stride);
    widen(b.stride);
  }
  BoxStrides<2> box{};
  for (int d = 0; d < 3; ++d) {
    box.extent[d]    = runs.extent[first + d];
    box.stride[0][d] = a.stride[first + d];
    box.stride[1][d] = b.stride[first + d];
  }
  box = box.merged();
  if (!box.are_short(length)) return std::nullopt;
  return box;
}

template <class Field>
CellRuns cell_runs(const Field& f, index_t length) {
  CellRuns runs;
  for (int d = 0; d < Field::rank; ++d) {
    runs.extent[run_dim<Field>(d)] = f.extent(d);
    runs.cells *= f.extent(d);
  }
  runs.length = length;
  runs.copies = copies_of(f);
  return runs;
}

/// The elements of `f`, visited in the order of a `Like`.
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

}  // namespace shard::impl

#endif
