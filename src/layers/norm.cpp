// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <cstddef>

#include "launch.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

/// Adds `term(x)` of a row's cells into the running sums.
template <class Term>
KOKKOS_FORCEINLINE_FUNCTION void add_row(double* lane, index_t count, const Term& term) {
  const index_t whole = count - count % sum_lanes;
  for (index_t x = 0; x < whole; x += sum_lanes)
    for (int l = 0; l < sum_lanes; ++l) lane[l] += term(x + l);
  for (index_t x = whole; x < count; ++x) lane[x - whole] += term(x);
}

KOKKOS_INLINE_FUNCTION double add_lanes(const double* lane) {
  double sum = 0.0;
  for (int l = 0; l < sum_lanes; ++l) sum += lane[l];
  return sum;
}

template <class T>
struct NormMomentsKernel {
  double* moments;
  Block<const T> x;
  index_t groups, per_group;

  struct Value {
    const T* row;
    index_t step;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(row[i * step]);
    }
  };
  struct SquaredDifference {
    const T* row;
    index_t step;
    double mean;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      const double d = static_cast<double>(row[i * step]) - mean;
      return d * d;
    }
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n = item / groups, channel0 = item % groups * per_group;
    const double count    = static_cast<double>(per_group * x.cells());
    double sum[sum_lanes] = {}, squares[sum_lanes] = {};
    for (index_t c = channel0; c < channel0 + per_group; ++c)
      for (index_t z = 0; z < x.end[0]; ++z)
        for (index_t y = 0; y < x.end[1]; ++y)
          add_row(sum, x.end[2], Value{&x.at(n, c, z, y, 0), x.stride[4]});
    const double mean = count > 0.0 ? add_lanes(sum) / count : 0.0;
    for (index_t c = channel0; c < channel0 + per_group; ++c)
      for (index_t z = 0; z < x.end[0]; ++z)
        for (index_t y = 0; y < x.end[1]; ++y)
          add_row(squares, x.end[2], SquaredDifference{&x.at(n, c, z, y, 0), x.stride[4], mean});
    moments[3 * item]     = count;
    moments[3 * item + 1] = mean;
    moments[3 * item + 2] = add_lanes(squares);
  }
};

template <class T>
struct NormApplyKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  const double* statistics;
  const T* weight;
  const T* bias;
  index_t groups, per_group;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r    = split.row(item);
    const double* s = statistics + 2 * (r.n * groups + r.c / per_group);
    const T mean    = static_cast<T>(s[0]);
    const T scale =
        static_cast<T>(weight == nullptr ? s[1] : s[1] * static_cast<double>(weight[r.c]));
    const T shift   = bias == nullptr ? T(0) : bias[r.c];
    T* y            = &to.at(r.n, r.c, r.z, r.y, r.x);
    const T* x      = &from.at(r.n, r.c, r.z, r.y, r.x);
    const index_t p = to.stride[4], q = from.stride[4];
    if (p == 1 && q == 1)
      for (index_t i = 0; i < r.count; ++i) y[i] = (x[i] - mean) * scale + shift;
    else
      for (index_t i = 0; i < r.count; ++i) y[i * p] = (x[i * q] - mean) * scale + shift;
  }
};

template <class T>
struct NormPullbackSumsKernel {
  double* sums;
  Block<const T> dy, x;
  const double* statistics;
  index_t groups, per_group;

  struct Value {
    const T* row;
    index_t step;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(row[i * step]);
    }
  };
  struct Product {
    const T *dy, *x;
    index_t dy_step, x_step;
    double mean, rstd;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(dy[i * dy_step]) *
             ((static_cast<double>(x[i * x_step]) - mean) * rstd);
    }
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n = item / x.channels, c = item % x.channels;
    const double* s         = statistics + 2 * (n * groups + c / per_group);
    double first[sum_lanes] = {}, second[sum_lanes] = {};
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y) {
        const T *a = &dy.at(n, c, z, y, 0), *b = &x.at(n, c, z, y, 0);
        add_row(first, x.end[2], Value{a, dy.stride[4]});
        add_row(second, x.end[2], Product{a, b, dy.stride[4], x.stride[4], s[0], s[1]});
      }
    sums[2 * item]     = add_lanes(first);
    sums[2 * item + 1] = add_lanes(second);
  }
};

/// One group per work item: sums over its channels and, of the parameters, over the batch.
template <class T>
struct NormFoldSumsKernel {
  double* group_sums;
  T* weight_gradient;
  T* bias_gradient;
  const double* sums;
  const T* weight;
  index_t batch, channels, groups, per_group;

  KOKKOS_FUNCTION void operator()(index_t g) const {
    for (index_t n = 0; n < batch; ++n) {
      double s1 = 0.0, s2 = 0.0;
      for (index_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
        s1 += w * sums[2 * (n * channels + c)];
        s2 += w * sums[2 * (n * channels + c) + 1];
      }
      group_sums[2 * (n * groups + g)]     = s1;
      group_sums[2 * (n * groups + g) + 1] = s2;
    }
    for (index_t c = g * per_group; c < (g + 1) * per_group; ++c) {
      double db = 0.0, dw = 0.0;
      for (index_t n = 0; n < batch; ++n) {
        db += sums[2 * (n * channels + c)];
        dw += sums[2 * (n * channels + c) + 1];
      }
      if (bias_gradient != nullptr) bias_gradient[c] += static_cast<T>(db);
      if (weight_gradient != nullptr) weight_gradient[c] += static_cast<T>(dw);
    }
  }
};

template <class T>
struct NormPullbackKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> outer, from;
  const double* statistics;
  const double* group_sums;
  const T* weight;
  index_t groups, per_group;
  double cells;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r      = split.row(item);
    const index_t g   = r.n * groups + r.c / per_group;
    const double rstd = statistics[2 * g + 1];
    const T mean      = static_cast<T>(statistics[2 * g]);
    // dx = a dy - b - c (x - mean)
    const T a = static_cast<T>(weight == nullptr ? rstd : rstd * static_cast<double>(weight[r.c]));
    const T b = static_cast<T>(rstd * group_sums[2 * g] / cells);
    const T c = static_cast<T>(rstd * rstd * group_sums[2 * g + 1] / cells);
    T* dx     = &to.at(r.n, r.c, r.z, r.y, r.x);
    const T* dy = &outer.at(r.n, r.c, r.z, r.y, r.x);
    const T* x  = &from.at(r.n, r.c, r.z, r.y, r.x);
    if (to.stride[4] == 1 && outer.stride[4] == 1 && from.stride[4] == 1)
      for (index_t i = 0; i < r.count; ++i) dx[i] = a * dy[i] - b - c * (x[i] - mean);
    else
      for (index_t i = 0; i < r.count; ++i)
        dx[i * to.stride[4]] = a * dy[i * outer.stride[4]] - b - c * (x[i * from.stride[4]] - mean);
  }
};

template <class Space, class T>
void NormKernels<Space, T>::moments(const Space& space, double* moments, const Block<const T>& x,
                                    index_t groups) {
  launch("shard::norm_moments", space, x.batch * groups,
         NormMomentsKernel<T>{moments, x, groups, x.channels / groups});
}

template <class Space, class T>
void NormKernels<Space, T>::apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                                  const double* statistics, const T* weight, const T* bias,
                                  index_t groups) {
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::norm_apply", space, split.items(),
         NormApplyKernel<T>{split, y, x, statistics, weight, bias, groups, x.channels / groups});
}

template <class Space, class T>
void NormKernels<Space, T>::pullback_sums(const Space& space, double* sums,
                                          const Block<const T>& dy, const Block<const T>& x,
                                          const double* statistics, index_t groups) {
  launch("shard::norm_pullback_sums", space, x.batch * x.channels,
         NormPullbackSumsKernel<T>{sums, dy, x, statistics, groups, x.channels / groups});
}

template <class Space, class T>
void NormKernels<Space, T>::fold_sums(const Space& space, double* group_sums, T* weight_gradient,
                                      T* bias_gradient, const double* sums, const T* weight,
                                      index_t batch, index_t channels, index_t groups) {
  launch("shard::norm_fold_sums", space, groups,
         NormFoldSumsKernel<T>{group_sums, weight_gradient, bias_gradient, sums, weight, batch,
                               channels, groups, channels / groups});
}

template <class Space, class T>
void NormKernels<Space, T>::pullback(const Space& space, const Block<T>& dx,
                                     const Block<const T>& dy, const Block<const T>& x,
                                     const double* statistics, const double* group_sums,
                                     const T* weight, index_t groups, double cells) {
  const RowSplit split = RowSplit::of(space, dx);
  launch("shard::norm_pullback", space, split.items(),
         NormPullbackKernel<T>{split, dx, dy, x, statistics, group_sums, weight, groups,
                               x.channels / groups, cells});
}

double merge_moments(const double* gathered, int groups, int ranks, double eps,
                     double* statistics) {
  double cells = 0.0;
  for (int g = 0; g < groups; ++g) {
    double count = 0.0, mean = 0.0, squares = 0.0;
    for (int r = 0; r < ranks; ++r) {
      const double* one = gathered + 3 * (static_cast<std::ptrdiff_t>(r) * groups + g);
      if (one[0] == 0.0) continue;
      const double both = count + one[0], difference = one[1] - mean;
      squares += one[2] + difference * difference * (count * one[0] / both);
      mean  = count == 0.0 ? one[1] : mean + difference * (one[0] / both);
      count = both;
    }
    statistics[2 * g]     = mean;
    statistics[2 * g + 1] = 1.0 / std::sqrt((count > 0.0 ? squares / count : 0.0) + eps);
    cells                 = count;
  }
  return cells;
}

template struct NormKernels<Kokkos::DefaultExecutionSpace, float>;
template struct NormKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct NormKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct NormKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
