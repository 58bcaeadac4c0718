// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <string>

#include "device_error.hpp"
#include "launch.hpp"
#include "row_sums.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/error_kernels.hpp"

namespace shard::impl {

/// A row of one or several fields, and the term that is summed over it.
template <class T, class F>
struct ErrorValue {
  const T *y, *target;
  index_t y_step, target_step;
  F f;
  KOKKOS_FUNCTION double operator()(index_t i) const {
    return f.value(static_cast<double>(y[i * y_step]) -
                   static_cast<double>(target[i * target_step]));
  }
};
template <class T, class F>
struct ErrorTangent {
  const T *ty, *y, *target;
  index_t ty_step, y_step, target_step;
  F f;
  KOKKOS_FUNCTION double operator()(index_t i) const {
    return f.derivative(static_cast<double>(y[i * y_step]) -
                        static_cast<double>(target[i * target_step])) *
           static_cast<double>(ty[i * ty_step]);
  }
};
template <class T>
struct AnomalyProduct {
  const T *a, *b, *climatology;
  index_t a_step, b_step, climatology_step;
  KOKKOS_FUNCTION double operator()(index_t i) const {
    const double c = static_cast<double>(climatology[i * climatology_step]);
    return (static_cast<double>(a[i * a_step]) - c) * (static_cast<double>(b[i * b_step]) - c);
  }
};

/// A term times the weight of the row, or of each cell.
template <class Term>
struct WeighedRow {
  Term term;
  double weight;
  KOKKOS_FUNCTION double operator()(index_t i) const { return weight * term(i); }
};
template <class Term>
struct WeighedCells {
  Term term;
  const double* weights;
  KOKKOS_FUNCTION double operator()(index_t i) const { return weights[i] * term(i); }
};

/// Adds the weighted terms of a row to the running sums.
template <class Term>
KOKKOS_FORCEINLINE_FUNCTION void add_weighed(double* lane, index_t count, const double* weights,
                                             int row_dim, index_t z, index_t y, const Term& term) {
  if (row_dim == 2)
    add_row(lane, count, WeighedCells<Term>{term, weights});
  else
    add_row(lane, count, WeighedRow<Term>{term, weights[row_dim == 0 ? z : y]});
}

template <class T, class F>
struct ErrorSumsRows {
  double* sums;
  Block<const T> y, target;
  const double* weights;
  int row_dim;
  F f;

  void operator()(index_t item) const {
    const index_t n = item / y.channels, c = item % y.channels;
    double lane[sum_lanes] = {};
    for (index_t i = 0; i < y.end[0]; ++i)
      for (index_t j = 0; j < y.end[1]; ++j)
        add_weighed(lane, y.end[2], weights, row_dim, i, j,
                    ErrorValue<T, F>{&y.at(n, c, i, j, 0), &target.at(n, c, i, j, 0), y.stride[4],
                                     target.stride[4], f});
    sums[item] = add_lanes(lane);
  }
};

template <class T, class F>
struct ErrorTangentRows {
  double* sums;
  Block<const T> ty, y, target;
  const double* weights;
  int row_dim;
  F f;

  void operator()(index_t item) const {
    const index_t n = item / y.channels, c = item % y.channels;
    double lane[sum_lanes] = {};
    for (index_t i = 0; i < y.end[0]; ++i)
      for (index_t j = 0; j < y.end[1]; ++j)
        add_weighed(lane, y.end[2], weights, row_dim, i, j,
                    ErrorTangent<T, F>{&ty.at(n, c, i, j, 0), &y.at(n, c, i, j, 0),
                                       &target.at(n, c, i, j, 0), ty.stride[4], y.stride[4],
                                       target.stride[4], f});
    sums[item] = add_lanes(lane);
  }
};

template <class T, class F>
struct ErrorDerivativeRows {
  RowSplit split;
  Block<T> dy;
  Block<const T> y, target;
  const double* weights;
  int row_dim;
  double scale;
  F f;

  void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const double w = scale * weights[row_dim == 0 ? r.z : row_dim == 1 ? r.y : x];
      dy.at(r.n, r.c, r.z, r.y, x) =
          static_cast<T>(w * f.derivative(static_cast<double>(y.at(r.n, r.c, r.z, r.y, x)) -
                                          static_cast<double>(target.at(r.n, r.c, r.z, r.y, x))));
    }
  }
};

template <class T>
struct CorrelationSumsRows {
  double* sums;
  Block<const T> y, target, climatology;
  const double* weights;
  int row_dim;

  void operator()(index_t item) const {
    const index_t n = item / y.channels, c = item % y.channels;
    double lane[3][sum_lanes] = {};
    for (index_t i = 0; i < y.end[0]; ++i)
      for (index_t j = 0; j < y.end[1]; ++j) {
        const T *a = &y.at(n, c, i, j, 0), *b = &target.at(n, c, i, j, 0),
                *m      = &climatology.at(n, c, i, j, 0);
        const index_t p = y.stride[4], q = target.stride[4], s = climatology.stride[4];
        add_weighed(lane[0], y.end[2], weights, row_dim, i, j, AnomalyProduct<T>{a, b, m, p, q, s});
        add_weighed(lane[1], y.end[2], weights, row_dim, i, j, AnomalyProduct<T>{a, a, m, p, p, s});
        add_weighed(lane[2], y.end[2], weights, row_dim, i, j, AnomalyProduct<T>{b, b, m, q, q, s});
      }
    for (int k = 0; k < 3; ++k) sums[3 * item + k] = add_lanes(lane[k]);
  }
};

template <class Use>
void with_error_function(const ErrorTerm& term, const Use& use) {
  switch (term.f) {
    case ErrorFunction::square: return use(SquareFunction{term.delta});
    case ErrorFunction::absolute: return use(AbsoluteFunction{term.delta});
    case ErrorFunction::huber: return use(HuberFunction{term.delta});
  }
}

template <class Space, class T>
void ErrorKernels<Space, T>::sums(const Space& space, const ErrorTerm& term, double* sums,
                                  const Block<const T>& y, const Block<const T>& target,
                                  const double* row_weights, int dims, double* parts) {
  with_error_function(term, [&](const auto& f) {
    using F = std::remove_cvref_t<decltype(f)>;
    if constexpr (is_host_v<Space>)
      launch("shard::error_sums", space, y.batch * y.channels,
             ErrorSumsRows<T, F>{sums, y, target, row_weights, 3 - dims, f});
    else
      sum_planes("shard::error_sums", space, ErrorTerms<T, F>{y, target, row_weights, 3 - dims, f},
                 y, sums, parts);
  });
}

template <class Space, class T>
void ErrorKernels<Space, T>::tangent_sums(const Space& space, const ErrorTerm& term, double* sums,
                                          const Block<const T>& ty, const Block<const T>& y,
                                          const Block<const T>& target, const double* row_weights,
                                          int dims, double* parts) {
  with_error_function(term, [&](const auto& f) {
    using F = std::remove_cvref_t<decltype(f)>;
    if constexpr (is_host_v<Space>)
      launch("shard::error_tangent", space, y.batch * y.channels,
             ErrorTangentRows<T, F>{sums, ty, y, target, row_weights, 3 - dims, f});
    else
      sum_planes("shard::error_tangent", space,
                 ErrorTangentTerms<T, F>{ty, y, target, row_weights, 3 - dims, f}, y, sums, parts);
  });
}

template <class Space, class T>
void ErrorKernels<Space, T>::derivative(const Space& space, const ErrorTerm& term,
                                        const Block<T>& dy, const Block<const T>& y,
                                        const Block<const T>& target, const double* row_weights,
                                        int dims, double scale) {
  with_error_function(term, [&](const auto& f) {
    using F = std::remove_cvref_t<decltype(f)>;
    if constexpr (is_host_v<Space>) {
      const RowSplit split = RowSplit::of(space, dy);
      launch("shard::error_derivative", space, split.items(),
             ErrorDerivativeRows<T, F>{split, dy, y, target, row_weights, 3 - dims, scale, f});
    } else {
      map_planes("shard::error_derivative", space,
                 ErrorDerivativeOp<T, F>{dy, y, target, row_weights, 3 - dims, scale, f}, dy);
    }
  });
}

template <class Space, class T>
void ErrorKernels<Space, T>::correlation_sums(const Space& space, double* sums,
                                              const Block<const T>& y, const Block<const T>& target,
                                              const Block<const T>& climatology,
                                              const double* row_weights, int dims, double* parts) {
  if constexpr (is_host_v<Space>)
    launch("shard::correlation_sums", space, y.batch * y.channels,
           CorrelationSumsRows<T>{sums, y, target, climatology, row_weights, 3 - dims});
  else
    sum_planes("shard::correlation_sums", space,
               CorrelationTerms<T>{y, target, climatology, row_weights, 3 - dims}, y, sums, parts);
}

double checked_delta(double delta) {
  if (!(delta > 0.0))
    throw_argument("Huber", {"delta is ", std::to_string(delta), "; it is above 0"});
  return delta;
}

SHARD_KERNELS(ErrorKernels)

}  // namespace shard::impl
