// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_LINEAR_KERNELS_HPP
#define SHARD_LAYERS_IMPL_LINEAR_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <string_view>
#include <type_traits>

#include "shard/layers/impl/kernels.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard::impl {

/// The offset of element i of several merged dimensions, the last dimension fastest.
struct Offsets {
  index_t extent[max_rank] = {}, stride[max_rank] = {};
  int dims = 0;

  /// Appends a dimension, the fastest; merges it with the last one if both are contiguous.
  void append(index_t n, index_t step) {
    if (dims > 0 && stride[dims - 1] == n * step) {
      extent[dims - 1] *= n;
      stride[dims - 1] = step;
    } else {
      extent[dims] = n;
      stride[dims] = step;
      ++dims;
    }
  }
  index_t count() const {
    index_t n = 1;
    for (int d = 0; d < dims; ++d) n *= extent[d];
    return n;
  }
  KOKKOS_FUNCTION index_t at(index_t i) const {
    index_t offset = 0;
    for (int d = dims - 1; d > 0; --d) {
      offset += i % extent[d] * stride[d];
      i /= extent[d];
    }
    return dims > 0 ? offset + i * stride[0] : 0;
  }
};

/// A tensor's owned points as rows along its last dimension.
template <class T>
struct TensorRows {
  T* origin = nullptr;
  Offsets rows;
  index_t length = 1, step = 1;
};

template <class Tensor>
TensorRows<typename Tensor::value_type> rows_of(const Tensor& t) {
  constexpr int rank = static_cast<int>(Tensor::rank);
  TensorRows<typename Tensor::value_type> rows;
  const auto extent = [&](int d) {
    if constexpr (is_sharded_view_v<Tensor>)
      return t.extent(d);
    else
      return static_cast<index_t>(t.extent(static_cast<std::size_t>(d)));
  };
  if constexpr (is_sharded_view_v<Tensor>)
    rows.origin = t.origin();
  else
    rows.origin = t.data();
  for (int d = 0; d < rank - 1; ++d) rows.rows.append(extent(d), static_cast<index_t>(t.stride(d)));
  rows.length = extent(rank - 1);
  rows.step   = static_cast<index_t>(t.stride(rank - 1));
  return rows;
}

/// A matrix with any strides.
template <class T>
struct Matrix {
  T* origin      = nullptr;
  index_t row    = 0;  ///< from one row to the next
  index_t column = 0;  ///< from one column to the next
};

template <class Tensor>
Matrix<typename Tensor::value_type> matrix_of(const Tensor& t) {
  static_assert(static_cast<int>(Tensor::rank) == 2, "a Linear's weight has two dimensions");
  return {rows_of(t).origin, static_cast<index_t>(t.stride(0)), static_cast<index_t>(t.stride(1))};
}

/// Kernels of Linear, compiled in src/layers for float and double. They are asynchronous on
/// `space`.
template <class Space, class T>
struct LinearKernels : RequireLayerKernels<Space> {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "the layers' kernels are compiled for float and double");

  /// to(row, m) = start(m) + sum over ascending n of from(row, n) w(m, n), see Product; without
  /// start: zeros. With `add`: to(row, m) += that sum.
  static void contract(const Space& space, const TensorRows<T>& to, const TensorRows<const T>& from,
                       const Matrix<const T>& w, const T* start, index_t start_step,
                       bool add = false);
  /// dw(m, n) += sum over rows, ascending, of dy(row, m) x(row, n); on a device, and in sum_rows,
  /// the sums of pieces of fixed length.
  static void add_products(const Space& space, const Matrix<T>& dw, const TensorRows<const T>& dy,
                           const TensorRows<const T>& x);
  /// sums[i * step] += sum over the rows, ascending, of element i of each.
  static void sum_rows(const Space& space, T* sums, index_t step, const TensorRows<const T>& rows);
};

template <class T>
TensorRows<const std::remove_const_t<T>> as_const(const TensorRows<T>& t) {
  return {t.origin, t.rows, t.length, t.step};
}

template <class T>
Matrix<const std::remove_const_t<T>> as_const(const Matrix<T>& m) {
  return {m.origin, m.row, m.column};
}

/// One of Linear's tensors for the checks: a field, or a View where `geometry` is null.
struct LinearTensor {
  std::string label;
  const Geometry* geometry = nullptr;
  int rank                 = 0;
  index_t extent[max_rank] = {};  ///< on this rank
};

template <class Tensor>
LinearTensor linear_tensor(const Tensor& t) {
  LinearTensor tensor;
  tensor.rank = static_cast<int>(Tensor::rank);
  if constexpr (is_sharded_view_v<Tensor>) {
    tensor.geometry = &t.any_geometry();
    tensor.label    = t.label();
    for (int d = 0; d < tensor.rank; ++d) tensor.extent[d] = t.extent(d);
  } else {
    tensor.label = t.label();
    for (int d = 0; d < tensor.rank; ++d)
      tensor.extent[d] = static_cast<index_t>(t.extent(static_cast<std::size_t>(d)));
  }
  return tensor;
}

/// Throws ArgumentError unless dimension `da` of one tensor is dimension `db` of the other: the
/// same partition if both are fields on one mesh, the same extent if one is a View.
void require_linear_dim(const LinearTensor& a, int da, const LinearTensor& b, int db);
/// The same for all dimensions but the last.
void require_linear_rows(const LinearTensor& a, const LinearTensor& b);

}  // namespace shard::impl

#endif
