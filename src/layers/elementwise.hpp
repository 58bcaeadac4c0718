// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ELEMENTWISE_HPP
#define SHARD_SRC_LAYERS_ELEMENTWISE_HPP

#include <Kokkos_Core.hpp>

#include "device_sums.hpp"
#include "launch.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "vector_functions.hpp"

namespace shard::impl {

/// The cells of one work item: equidistant in memory.
template <class T>
struct Line {
  T* cells;
  index_t step;
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION Line<T> line_of(const Block<T>& b, const RowSplit::Row& r) {
  return {&b.at(r.n, r.c, r.z, r.y, r.x), b.stride[4]};
}

/// to[i] = f(from[i]...) for `count` cells. The loop of unit steps is separate, so that compilers
/// vectorise it.
template <class T, class F, class... From>
KOKKOS_FORCEINLINE_FUNCTION void map_line(index_t count, const F& f, Line<T> to,
                                          Line<From>... from) {
  if (to.step == 1 && ((from.step == 1) && ...))
    for (index_t i = 0; i < count; ++i) to.cells[i] = f(from.cells[i]...);
  else
    for (index_t i = 0; i < count; ++i) to.cells[i * to.step] = f(from.cells[i * from.step]...);
}

/// to = f(from...) on a device.
template <class F, class T, int From>
struct ElementwiseOp {
  Block<T> to;
  Block<const T> from[From];
  F f;

  struct Cell {
    index_t to;
    T from[From];
  };
  struct Plane {
    T* to;
    const T* from[From];
    F f;
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      Cell cell;
      cell.to = at.offset[0];
      for (int i = 0; i < From; ++i) cell.from[i] = from[i][at.offset[1 + i]];
      return cell;
    }
    KOKKOS_FORCEINLINE_FUNCTION void store(const Cell& cell) const {
      if constexpr (From == 1)
        to[cell.to] = f(cell.from[0]);
      else if constexpr (From == 2)
        to[cell.to] = f(cell.from[0], cell.from[1]);
      else if constexpr (From == 3)
        to[cell.to] = f(cell.from[0], cell.from[1], cell.from[2]);
      else
        to[cell.to] = f(cell.from[0], cell.from[1], cell.from[2], cell.from[3]);
    }
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c) const {
    Plane p;
    p.to = plane_of(to, n, c);
    for (int i = 0; i < From; ++i) p.from[i] = plane_of(from[i], n, c);
    p.f = f;
    return p;
  }
  BoxStrides<1 + From> box() const {
    if constexpr (From == 1)
      return plane_box(to, from[0]).merged();
    else if constexpr (From == 2)
      return plane_box(to, from[0], from[1]).merged();
    else if constexpr (From == 3)
      return plane_box(to, from[0], from[1], from[2]).merged();
    else
      return plane_box(to, from[0], from[1], from[2], from[3]).merged();
  }
};

}  // namespace shard::impl

#endif
