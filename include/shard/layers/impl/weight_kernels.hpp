// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_WEIGHT_KERNELS_HPP
#define SHARD_LAYERS_IMPL_WEIGHT_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/parameters.hpp"

namespace shard::impl {

/// A contiguous weight as a matrix: one of its dimensions, 0 or 1, is the rows, and the columns are
/// the others in their order.
struct WeightMatrix {
  index_t rows = 0, columns = 0;
  index_t row = 0, inner = 1, outer = 0;

  static WeightMatrix of(const ParameterShape& shape, int dim) {
    WeightMatrix m;
    m.rows         = shape.extents[static_cast<std::size_t>(dim)];
    index_t beyond = 1;
    for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < shape.extents.size(); ++d)
      beyond *= shape.extents[d];
    m.columns = m.rows > 0 ? shape.count() / m.rows : 0;
    m.row     = beyond;
    m.inner   = beyond > 0 ? beyond : 1;
    m.outer   = m.rows * beyond;
    return m;
  }
  /// The place of element (i, j).
  KOKKOS_INLINE_FUNCTION index_t at(index_t i, index_t j) const {
    return j / inner * outer + i * row + j % inner;
  }
};

/// Weights that are functions of other parameters, and the pullbacks, which add to gradients.
/// Sums run in order, in double. Compiled in src/layers for float and double; asynchronous on
/// `space`.
template <class Space, class T>
struct WeightKernels : RequireLayerKernels<Space> {
  /// to[i] = sum over j of w[i][j] v[j]
  static void times(const Space& space, double* to, const WeightMatrix& m, const T* w,
                    const double* v);
  /// to[j] = sum over i of w[i][j] u[i]
  static void transposed_times(const Space& space, double* to, const WeightMatrix& m, const T* w,
                               const double* u);
  /// to[i] = sum over j of a[i][j] b[i][j], or its square root.
  static void row_dots(const Space& space, double* to, const WeightMatrix& m, const T* a,
                       const T* b, bool root);
  /// to[0] = the sum of a[i] b[i]; b may be null: the sum of a.
  static void dot(const Space& space, double* to, const double* a, const double* b, index_t count);
  /// v /= max(its 2-norm, eps)
  static void normalise(const Space& space, double* v, index_t count, double eps);

  /// weight = w / sigma[0]
  static void spectral(const Space& space, T* weight, const WeightMatrix& m, const T* w,
                       const double* sigma);
  /// dw += (dweight - along[0] u v') / sigma[0]
  static void pull_spectral(const Space& space, T* dw, const WeightMatrix& m, const T* dweight,
                            const double* along, const double* u, const double* v,
                            const double* sigma);
  /// weight[i] = g[i] v[i] / norm[i]
  static void scale_rows(const Space& space, T* weight, const WeightMatrix& m, const T* v,
                         const T* g, const double* norm);
  /// dg[i] += along[i] / norm[i], dv[i] += g[i] / norm[i] (dweight[i] - along[i] / norm[i]^2 v[i]),
  /// where along[i] is the sum of dweight[i] v[i].
  static void pull_rows(const Space& space, T* dv, T* dg, const WeightMatrix& m, const T* dweight,
                        const double* along, const T* v, const T* g, const double* norm);
  /// weight = base + scale B A, where A is [rank, columns] and B is [rows, rank].
  static void low_rank(const Space& space, T* weight, const WeightMatrix& m, const double* base,
                       const T* a, const T* b, index_t rank, double scale);
  /// Rows of `to`, from `first` on, are those of a part.
  static void place_rows(const Space& space, T* to, const WeightMatrix& m, index_t first,
                         const T* part, const WeightMatrix& of);
  /// part += rows of w, from `first` on
  static void add_rows(const Space& space, T* part, const WeightMatrix& of, const T* w,
                       const WeightMatrix& m, index_t first);
  /// da += scale B' dweight, db += scale dweight A'
  static void pull_low_rank(const Space& space, T* da, T* db, const WeightMatrix& m,
                            const T* dweight, const T* a, const T* b, index_t rank, double scale);
};

}  // namespace shard::impl

#endif
