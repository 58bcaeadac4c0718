// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <type_traits>

#include "launch.hpp"
#include "shard/layers/impl/weight_kernels.hpp"

namespace shard::impl {

/// to = w v, or w' v.
template <class T, bool Transposed>
struct WeightTimesKernel {
  double* to;
  WeightMatrix m;
  const T* w;
  const double* v;
  KOKKOS_FUNCTION void operator()(index_t i) const {
    const index_t terms = Transposed ? m.rows : m.columns;
    double sum          = 0.0;
    for (index_t j = 0; j < terms; ++j)
      sum += static_cast<double>(w[Transposed ? m.at(j, i) : m.at(i, j)]) * v[j];
    to[i] = sum;
  }
};

template <class T>
struct WeightRowDotsKernel {
  double* to;
  WeightMatrix m;
  const T* a;
  const T* b;
  bool root;
  KOKKOS_FUNCTION void operator()(index_t i) const {
    double sum = 0.0;
    for (index_t j = 0; j < m.columns; ++j) {
      const index_t at = m.at(i, j);
      sum += static_cast<double>(a[at]) * static_cast<double>(b[at]);
    }
    to[i] = root ? Kokkos::sqrt(sum) : sum;
  }
};

// One work item: the vectors have as many values as a layer has channels, times the window.
struct WeightDotKernel {
  double* to;
  const double* a;
  const double* b;
  index_t count;
  KOKKOS_FUNCTION void operator()(index_t) const {
    double sum = 0.0;
    for (index_t i = 0; i < count; ++i) sum += b != nullptr ? a[i] * b[i] : a[i];
    to[0] = sum;
  }
};

struct NormaliseVectorKernel {
  double* v;
  index_t count;
  double eps;
  KOKKOS_FUNCTION void operator()(index_t) const {
    double sum = 0.0;
    for (index_t i = 0; i < count; ++i) sum += v[i] * v[i];
    const double norm = Kokkos::sqrt(sum), by = norm > eps ? norm : eps;
    for (index_t i = 0; i < count; ++i) v[i] /= by;
  }
};

template <class T>
struct SpectralWeightKernel {
  T* weight;
  const T* w;
  const double* sigma;
  KOKKOS_FUNCTION void operator()(index_t at) const {
    weight[at] = static_cast<T>(static_cast<double>(w[at]) / sigma[0]);
  }
};

template <class T>
struct PullSpectralKernel {
  T* dw;
  WeightMatrix m;
  const T* dweight;
  const double* along;
  const double* u;
  const double* v;
  const double* sigma;
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t i = item / m.columns, j = item % m.columns, at = m.at(i, j);
    dw[at] +=
        static_cast<T>((static_cast<double>(dweight[at]) - along[0] * u[i] * v[j]) / sigma[0]);
  }
};

template <class T>
struct ScaleRowsKernel {
  T* weight;
  WeightMatrix m;
  const T* v;
  const T* g;
  const double* norm;
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t i = item / m.columns, at = m.at(i, item % m.columns);
    weight[at] = static_cast<T>(static_cast<double>(v[at]) * (static_cast<double>(g[i]) / norm[i]));
  }
};

template <class T>
struct PullRowsKernel {
  T* dv;
  T* dg;
  WeightMatrix m;
  const T* dweight;
  const double* along;
  const T* v;
  const T* g;
  const double* norm;
  KOKKOS_FUNCTION void operator()(index_t i) const {
    const double size = norm[i], factor = static_cast<double>(g[i]) / size,
                 part = along[i] / (size * size);
    dg[i] += static_cast<T>(along[i] / size);
    for (index_t j = 0; j < m.columns; ++j) {
      const index_t at = m.at(i, j);
      dv[at] += static_cast<T>(
          factor * (static_cast<double>(dweight[at]) - part * static_cast<double>(v[at])));
    }
  }
};

template <class T>
struct LowRankKernel {
  T* weight;
  WeightMatrix m;
  const double* base;
  const T* a;
  const T* b;
  index_t rank;
  double scale;
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t i = item / m.columns, j = item % m.columns, at = m.at(i, j);
    double sum = 0.0;
    for (index_t r = 0; r < rank; ++r)
      sum += static_cast<double>(b[i * rank + r]) * static_cast<double>(a[r * m.columns + j]);
    weight[at] = static_cast<T>(base[at] + scale * sum);
  }
};

template <class T>
struct PullLowRankAKernel {
  T* da;
  WeightMatrix m;
  const T* dweight;
  const T* b;
  index_t rank;
  double scale;
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t r = item / m.columns, j = item % m.columns;
    double sum = 0.0;
    for (index_t i = 0; i < m.rows; ++i)
      sum += static_cast<double>(b[i * rank + r]) * static_cast<double>(dweight[m.at(i, j)]);
    da[item] += static_cast<T>(scale * sum);
  }
};

template <class T>
struct PullLowRankBKernel {
  T* db;
  WeightMatrix m;
  const T* dweight;
  const T* a;
  index_t rank;
  double scale;
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t i = item / rank, r = item % rank;
    double sum = 0.0;
    for (index_t j = 0; j < m.columns; ++j)
      sum += static_cast<double>(dweight[m.at(i, j)]) * static_cast<double>(a[r * m.columns + j]);
    db[item] += static_cast<T>(scale * sum);
  }
};

/// to = part, or part += to: rows of a matrix from `first` on.
template <class T, bool Adds>
struct WeightRowsKernel {
  std::conditional_t<Adds, const T, T>* whole;
  WeightMatrix m;
  index_t first;
  std::conditional_t<Adds, T, const T>* part;
  WeightMatrix of;
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t i = item / of.columns, j = item % of.columns;
    if constexpr (Adds)
      part[of.at(i, j)] += whole[m.at(first + i, j)];
    else
      whole[m.at(first + i, j)] = part[of.at(i, j)];
  }
};

template <class Space, class T>
void WeightKernels<Space, T>::times(const Space& space, double* to, const WeightMatrix& m,
                                    const T* w, const double* v) {
  launch("shard::weight times", space, m.rows, WeightTimesKernel<T, false>{to, m, w, v});
}

template <class Space, class T>
void WeightKernels<Space, T>::transposed_times(const Space& space, double* to,
                                               const WeightMatrix& m, const T* w, const double* u) {
  launch("shard::weight transposed times", space, m.columns,
         WeightTimesKernel<T, true>{to, m, w, u});
}

template <class Space, class T>
void WeightKernels<Space, T>::row_dots(const Space& space, double* to, const WeightMatrix& m,
                                       const T* a, const T* b, bool root) {
  launch("shard::weight row dots", space, m.rows, WeightRowDotsKernel<T>{to, m, a, b, root});
}

template <class Space, class T>
void WeightKernels<Space, T>::dot(const Space& space, double* to, const double* a, const double* b,
                                  index_t count) {
  launch("shard::weight dot", space, 1, WeightDotKernel{to, a, b, count});
}

template <class Space, class T>
void WeightKernels<Space, T>::normalise(const Space& space, double* v, index_t count, double eps) {
  launch("shard::normalise vector", space, 1, NormaliseVectorKernel{v, count, eps});
}

template <class Space, class T>
void WeightKernels<Space, T>::spectral(const Space& space, T* weight, const WeightMatrix& m,
                                       const T* w, const double* sigma) {
  launch("shard::spectral weight", space, m.rows * m.columns,
         SpectralWeightKernel<T>{weight, w, sigma});
}

template <class Space, class T>
void WeightKernels<Space, T>::pull_spectral(const Space& space, T* dw, const WeightMatrix& m,
                                            const T* dweight, const double* along, const double* u,
                                            const double* v, const double* sigma) {
  launch("shard::pull spectral weight", space, m.rows * m.columns,
         PullSpectralKernel<T>{dw, m, dweight, along, u, v, sigma});
}

template <class Space, class T>
void WeightKernels<Space, T>::scale_rows(const Space& space, T* weight, const WeightMatrix& m,
                                         const T* v, const T* g, const double* norm) {
  launch("shard::scale rows", space, m.rows * m.columns, ScaleRowsKernel<T>{weight, m, v, g, norm});
}

template <class Space, class T>
void WeightKernels<Space, T>::pull_rows(const Space& space, T* dv, T* dg, const WeightMatrix& m,
                                        const T* dweight, const double* along, const T* v,
                                        const T* g, const double* norm) {
  launch("shard::pull rows", space, m.rows,
         PullRowsKernel<T>{dv, dg, m, dweight, along, v, g, norm});
}

template <class Space, class T>
void WeightKernels<Space, T>::low_rank(const Space& space, T* weight, const WeightMatrix& m,
                                       const double* base, const T* a, const T* b, index_t rank,
                                       double scale) {
  launch("shard::low rank", space, m.rows * m.columns,
         LowRankKernel<T>{weight, m, base, a, b, rank, scale});
}

template <class Space, class T>
void WeightKernels<Space, T>::pull_low_rank(const Space& space, T* da, T* db, const WeightMatrix& m,
                                            const T* dweight, const T* a, const T* b, index_t rank,
                                            double scale) {
  launch("shard::pull low rank A", space, rank * m.columns,
         PullLowRankAKernel<T>{da, m, dweight, b, rank, scale});
  launch("shard::pull low rank B", space, m.rows * rank,
         PullLowRankBKernel<T>{db, m, dweight, a, rank, scale});
}

template <class Space, class T>
void WeightKernels<Space, T>::place_rows(const Space& space, T* to, const WeightMatrix& m,
                                         index_t first, const T* part, const WeightMatrix& of) {
  launch("shard::place_rows", space, of.rows * of.columns,
         WeightRowsKernel<T, false>{to, m, first, part, of});
}
template <class Space, class T>
void WeightKernels<Space, T>::add_rows(const Space& space, T* part, const WeightMatrix& of,
                                       const T* w, const WeightMatrix& m, index_t first) {
  launch("shard::add_rows", space, of.rows * of.columns,
         WeightRowsKernel<T, true>{w, m, first, part, of});
}

SHARD_KERNELS(WeightKernels)

}  // namespace shard::impl
