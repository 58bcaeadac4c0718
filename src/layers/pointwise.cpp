// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "elementwise.hpp"
#include "launch.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

struct SameValue {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T x) const {
    return x;
  }
};
struct SumOfTwo {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T a, T b) const {
    return a + b;
  }
};

template <class T>
struct CopyCellsRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from;

  void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(r.count, SameValue{}, line_of(to, r), line_of(from, r));
  }
};

template <class T>
struct AddRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from_a, from_b;

  void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(r.count, SumOfTwo{}, line_of(to, r), line_of(from_a, r), line_of(from_b, r));
  }
};

template <class Space, class T>
void PointwiseKernels<Space, T>::copy(const Space& space, const Block<T>& y,
                                      const Block<const T>& x) {
  if constexpr (is_host_v<Space>) {
    const RowSplit split = RowSplit::of(space, y);
    launch("shard::copy", space, split.items(), CopyCellsRows<T>{split, y, x});
  } else {
    map_planes("shard::copy", space, ElementwiseOp<SameValue, T, 1>{y, {x}, {}}, y);
  }
}

template <class Space, class T>
void PointwiseKernels<Space, T>::add(const Space& space, const Block<T>& y, const Block<const T>& a,
                                     const Block<const T>& b) {
  if constexpr (is_host_v<Space>) {
    const RowSplit split = RowSplit::of(space, y);
    launch("shard::add", space, split.items(), AddRows<T>{split, y, a, b});
  } else {
    map_planes("shard::add", space, ElementwiseOp<SumOfTwo, T, 2>{y, {a, b}, {}}, y);
  }
}

SHARD_KERNELS(PointwiseKernels)

}  // namespace shard::impl
