// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdint>

#include "launch.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

/// ((c0 r + c1) r + c2) r + ..., written out, so that compilers vectorise the loop around it.
template <class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION T horner(T r, T sum, Rest... rest) {
  ((sum = sum * r + static_cast<T>(rest)), ...);
  return sum;
}

/// x held within +-limit. On the bits, whose order is that of the magnitudes: compilers make
/// branches of comparisons of floating-point numbers. A NaN becomes the limit.
KOKKOS_FORCEINLINE_FUNCTION double held(double x, double limit) {
  const auto bits          = Kokkos::bit_cast<std::uint64_t>(x),
             most          = Kokkos::bit_cast<std::uint64_t>(limit);
  const std::uint64_t size = bits & ~(std::uint64_t{1} << 63);
  return Kokkos::bit_cast<double>((bits & (std::uint64_t{1} << 63)) | (size < most ? size : most));
}
KOKKOS_FORCEINLINE_FUNCTION float held(float x, float limit) {
  const auto bits          = Kokkos::bit_cast<std::uint32_t>(x),
             most          = Kokkos::bit_cast<std::uint32_t>(limit);
  const std::uint32_t size = bits & ~(std::uint32_t{1} << 31);
  return Kokkos::bit_cast<float>((bits & (std::uint32_t{1} << 31)) | (size < most ? size : most));
}

/// exp(x) by x = n ln 2 + r and Taylor's series in r (|r| <= ln 2 / 2), to the last place or so:
/// without branches, so that compilers vectorise it. Beyond +-700 (double) and +-87 (float) it
/// stays at the values there.
KOKKOS_FORCEINLINE_FUNCTION double exponential(double x) {
  x                     = held(x, 700.0);
  constexpr double turn = 0x1.8p52;  // added, it rounds to an integer, which stands in the low bits
  const double shifted  = x * 1.4426950408889634 + turn;
  const double n        = shifted - turn;
  const double r        = (x - n * 0x1.62e42fefap-1) - n * 0x1.cf79abc9e3b3ap-40;
  const double p        = horner(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
                                 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0);
  return p * Kokkos::bit_cast<double>((Kokkos::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
}

KOKKOS_FORCEINLINE_FUNCTION float exponential(float x) {
  x                    = held(x, 87.0f);
  constexpr float turn = 0x1.8p23f;
  const float shifted  = x * 1.44269504f + turn;
  const float n        = shifted - turn;
  const float r        = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float p = horner(r, 1.0f / 5040.0f, 1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                         0.5f, 1.0f, 1.0f);
  return p * Kokkos::bit_cast<float>((Kokkos::bit_cast<std::uint32_t>(shifted) + 127) << 23);
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

/// The cells of one work item in a block.
template <class T>
struct Line {
  T* cells;
  index_t step;
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION Line<T> line_of(const Block<T>& b, const RowSplit::Row& r) {
  return {&b.at(r.n, r.c, r.z, r.y, r.x), b.stride[4]};
}

/// to[i] = f(from[i]...) for `count` cells; unit steps in a loop of their own, which compilers
/// vectorise.
template <class T, class F, class... From>
KOKKOS_FORCEINLINE_FUNCTION void map_line(index_t count, const F& f, Line<T> to,
                                          Line<From>... from) {
  if (to.step == 1 && ((from.step == 1) && ...))
    for (index_t i = 0; i < count; ++i) to.cells[i] = f(from.cells[i]...);
  else
    for (index_t i = 0; i < count; ++i) to.cells[i * to.step] = f(from.cells[i * from.step]...);
}

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
struct SiluKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(
        r.count, [](T x) { return x * sigmoid(x); }, line_of(to, r), line_of(from, r));
  }
};

template <class T>
struct SiluPullbackKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> outer, from;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r        = split.row(item);
    const auto gradient = [](T dy, T x) {
      const T s = sigmoid(x);
      return dy * (s * (T(1) + x * (T(1) - s)));
    };
    map_line(r.count, gradient, line_of(to, r), line_of(outer, r), line_of(from, r));
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
void PointwiseKernels<Space, T>::silu(const Space& space, const Block<T>& y,
                                      const Block<const T>& x) {
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::silu", space, split.items(), SiluKernel<T>{split, y, x});
}

template <class Space, class T>
void PointwiseKernels<Space, T>::silu_pullback(const Space& space, const Block<T>& dx,
                                               const Block<const T>& dy, const Block<const T>& x) {
  const RowSplit split = RowSplit::of(space, dx);
  launch("shard::silu_pullback", space, split.items(), SiluPullbackKernel<T>{split, dx, dy, x});
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
