// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "elementwise.hpp"
#include "launch.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

template <class T>
struct CopyCellsKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(
        r.count, [](T x) { return x; }, line_of(to, r), line_of(from, r));
  }
};

template <class T>
struct AddKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from_a, from_b;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(
        r.count, [](T a, T b) { return a + b; }, line_of(to, r), line_of(from_a, r),
        line_of(from_b, r));
  }
};

template <class Space, class T>
void PointwiseKernels<Space, T>::copy(const Space& space, const Block<T>& y,
                                      const Block<const T>& x) {
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::copy", space, split.items(), CopyCellsKernel<T>{split, y, x});
}

template <class Space, class T>
void PointwiseKernels<Space, T>::add(const Space& space, const Block<T>& y, const Block<const T>& a,
                                     const Block<const T>& b) {
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::add", space, split.items(), AddKernel<T>{split, y, a, b});
}

template struct PointwiseKernels<Kokkos::DefaultExecutionSpace, float>;
template struct PointwiseKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct PointwiseKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct PointwiseKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
