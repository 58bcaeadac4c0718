// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>

#include "launch.hpp"
#include "shard/layers/impl/line_kernels.hpp"

namespace shard::impl {

/// A line's cells in a block.
template <class T>
struct CellsAlong {
  T* first;
  index_t step;
  KOKKOS_FUNCTION T& operator[](index_t i) const { return first[i * step]; }
};

/// The lines of a block.
struct LineSplit {
  index_t channels = 0, extent[3] = {}, length = 0, lines = 0;
  int dim = 0;

  template <class T>
  static LineSplit of(const Block<T>& b, int dim) {
    LineSplit s;
    s.channels = b.channels;
    s.lines    = b.batch * b.channels;
    s.dim      = dim;
    s.length   = b.extent(dim);
    for (int d = 0; d < 3; ++d) {
      s.extent[d] = d == dim ? 1 : b.extent(d);
      s.lines *= s.extent[d];
    }
    return s;
  }
  template <class T>
  KOKKOS_FUNCTION CellsAlong<T> line(const Block<T>& b, index_t item) const {
    const index_t x = item % extent[2];
    item /= extent[2];
    const index_t y = item % extent[1];
    item /= extent[1];
    const index_t z = item % extent[0];
    item /= extent[0];
    return {&b.at(item / channels, item % channels, z, y, x), b.stride[2 + dim]};
  }
};

template <class T>
struct LineExponentialsKernel {
  LineSplit split;
  double* figures;
  Block<const T> x;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto cells   = split.line(x, item);
    const double least = -Kokkos::Experimental::infinity_v<double>;
    double most = least, sum = 0.0;
    for (index_t i = 0; i < split.length; ++i) {
      const double v = static_cast<double>(cells[i]);
      most           = v > most || v != v ? v : most;  // a NaN stays
    }
    if (most != least)
      for (index_t i = 0; i < split.length; ++i)
        sum += Kokkos::exp(static_cast<double>(cells[i]) - most);
    figures[2 * item]     = most;
    figures[2 * item + 1] = sum;
  }
};

template <class T>
struct LineSoftmaxKernel {
  LineSplit split;
  Block<T> to;
  Block<const T> x;
  const double* figures;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto from = split.line(x, item);
    const auto y    = split.line(to, item);
    for (index_t i = 0; i < split.length; ++i)
      y[i] = static_cast<T>(Kokkos::exp(static_cast<double>(from[i]) - figures[2 * item]) /
                            figures[2 * item + 1]);
  }
};

template <class T>
struct LineDotsKernel {
  LineSplit split;
  double* sums;
  Block<const T> a, x;
  const double* figures;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto from = split.line(x, item), factor = split.line(a, item);
    double sum = 0.0;
    for (index_t i = 0; i < split.length; ++i)
      sum += Kokkos::exp(static_cast<double>(from[i]) - figures[2 * item]) / figures[2 * item + 1] *
             static_cast<double>(factor[i]);
    sums[item] = sum;
  }
};

template <class T>
struct LineDerivativeKernel {
  LineSplit split;
  Block<T> to;
  Block<const T> a, x;
  const double* figures;
  const double* sums;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto from = split.line(x, item), factor = split.line(a, item);
    const auto b = split.line(to, item);
    for (index_t i = 0; i < split.length; ++i)
      b[i] = static_cast<T>(Kokkos::exp(static_cast<double>(from[i]) - figures[2 * item]) /
                            figures[2 * item + 1] * (static_cast<double>(factor[i]) - sums[item]));
  }
};

template <class Space, class T>
void LineKernels<Space, T>::exponentials(const Space& space, double* figures,
                                         const Block<const T>& x, int dim) {
  const LineSplit split = LineSplit::of(x, dim);
  launch("shard::line_exponentials", space, split.lines,
         LineExponentialsKernel<T>{split, figures, x});
}

template <class Space, class T>
void LineKernels<Space, T>::softmax(const Space& space, const Block<T>& y, const Block<const T>& x,
                                    const double* figures, int dim) {
  const LineSplit split = LineSplit::of(x, dim);
  launch("shard::line_softmax", space, split.lines, LineSoftmaxKernel<T>{split, y, x, figures});
}

template <class Space, class T>
void LineKernels<Space, T>::dots(const Space& space, double* sums, const Block<const T>& a,
                                 const Block<const T>& x, const double* figures, int dim) {
  const LineSplit split = LineSplit::of(x, dim);
  launch("shard::line_dots", space, split.lines, LineDotsKernel<T>{split, sums, a, x, figures});
}

template <class Space, class T>
void LineKernels<Space, T>::derivative(const Space& space, const Block<T>& b,
                                       const Block<const T>& a, const Block<const T>& x,
                                       const double* figures, const double* sums, int dim) {
  const LineSplit split = LineSplit::of(x, dim);
  launch("shard::line_derivative", space, split.lines,
         LineDerivativeKernel<T>{split, b, a, x, figures, sums});
}

void merge_exponentials(const double* gathered, index_t lines, int ranks, double* figures) {
  for (index_t line = 0; line < lines; ++line) {
    const auto figure = [&](int r, int k) { return gathered[2 * (r * lines + line) + k]; };
    double most = figure(0, 0), sum = 0.0;
    for (int r = 1; r < ranks; ++r)
      if (const double m = figure(r, 0); m > most || m != m) most = m;
    for (int r = 0; r < ranks; ++r)
      if (figure(r, 1) != 0.0) sum += figure(r, 1) * std::exp(figure(r, 0) - most);
    figures[2 * line]     = most;
    figures[2 * line + 1] = sum;
  }
}

template struct LineKernels<Kokkos::DefaultExecutionSpace, float>;
template struct LineKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct LineKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct LineKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
