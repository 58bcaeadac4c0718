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

template <class T>
struct SquareErrorKernel {
  double* sums;
  Block<const T> y, target;
  const double* weights;
  int row_dim;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n = item / y.channels, c = item % y.channels;
    double lane[sum_lanes] = {};
    for (index_t i = y.begin[0]; i < y.end[0]; ++i)
      for (index_t j = y.begin[1]; j < y.end[1]; ++j) {
        const T *a = &y.at(n, c, i, j, 0), *b = &target.at(n, c, i, j, 0);
        const index_t count = y.end[2], whole = count - count % sum_lanes, p = y.stride[4],
                      q = target.stride[4];
        if (row_dim == 2) {
          for (index_t x = 0; x < count; ++x) {
            const double e = static_cast<double>(a[x * p]) - static_cast<double>(b[x * q]);
            lane[x % sum_lanes] += weights[x] * (e * e);
          }
          continue;
        }
        const double w = weights[row_dim == 0 ? i : j];
        for (index_t x = 0; x < whole; x += sum_lanes)
          for (int l = 0; l < sum_lanes; ++l) {
            const double e =
                static_cast<double>(a[(x + l) * p]) - static_cast<double>(b[(x + l) * q]);
            lane[l] += w * (e * e);
          }
        for (index_t x = whole; x < count; ++x) {
          const double e = static_cast<double>(a[x * p]) - static_cast<double>(b[x * q]);
          lane[x - whole] += w * (e * e);
        }
      }
    double sum = 0.0;
    for (int l = 0; l < sum_lanes; ++l) sum += lane[l];
    sums[item] = sum;
  }
};

template <class T>
struct SquareErrorPullbackKernel {
  RowSplit split;
  Block<T> dy;
  Block<const T> y, target;
  const double* weights;
  int row_dim;
  double scale;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const double w = scale * weights[row_dim == 0 ? r.z : row_dim == 1 ? r.y : x];
      dy.at(r.n, r.c, r.z, r.y, x) =
          static_cast<T>(w * (static_cast<double>(y.at(r.n, r.c, r.z, r.y, x)) -
                              static_cast<double>(target.at(r.n, r.c, r.z, r.y, x))));
    }
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

template <class Space, class T>
void PointwiseKernels<Space, T>::square_error(const Space& space, double* sums,
                                              const Block<const T>& y, const Block<const T>& target,
                                              const double* row_weights, int dims) {
  launch("shard::square_error", space, y.batch * y.channels,
         SquareErrorKernel<T>{sums, y, target, row_weights, 3 - dims});
}

template <class Space, class T>
void PointwiseKernels<Space, T>::square_error_pullback(const Space& space, const Block<T>& dy,
                                                       const Block<const T>& y,
                                                       const Block<const T>& target,
                                                       const double* row_weights, int dims,
                                                       double scale) {
  const RowSplit split = RowSplit::of(space, dy);
  launch("shard::square_error_pullback", space, split.items(),
         SquareErrorPullbackKernel<T>{split, dy, y, target, row_weights, 3 - dims, scale});
}

template struct PointwiseKernels<Kokkos::DefaultExecutionSpace, float>;
template struct PointwiseKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct PointwiseKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct PointwiseKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
