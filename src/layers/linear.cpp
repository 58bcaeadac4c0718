// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "device_linear.hpp"
#include "lanes.hpp"
#include "launch.hpp"
#include "product.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/linear_kernels.hpp"

namespace shard::impl {

/// A product on a host: a tile of columns and up to max_rows rows per work item. The tile's b is
/// gathered into a panel, whatever its strides.
template <class T>
struct ProductTiles {
  static constexpr int columns = Tile<T>::columns, max_rows = 64, panel_rows = 128;
  Product<T> p;
  index_t row_blocks, tiles;

  explicit ProductTiles(const Product<T>& product)
      : p(product),
        row_blocks((product.rows + max_rows - 1) / max_rows),
        tiles((product.columns + columns - 1) / columns) {}

  index_t items() const { return row_blocks * tiles; }

  void operator()(index_t item) const {
    const index_t column0 = item / row_blocks * columns, row0 = item % row_blocks * max_rows;
    const index_t count = std::min<index_t>(columns, p.columns - column0),
                  rows  = std::min<index_t>(max_rows, p.rows - row0);
    alignas(vector_bytes) T sums[max_rows * columns], panel[panel_rows * columns] = {};
    index_t a_offset[panel_rows], b_offset[columns], c_offset[columns];
    for (index_t j = 0; j < count; ++j) {
      b_offset[j] = p.b_column.at(column0 + j);
      c_offset[j] = p.c_column.at(column0 + j);
    }
    for (index_t i = 0; i < rows; ++i)
      std::fill_n(sums + i * columns, columns,
                  p.start == nullptr ? T(0) : p.start[(row0 + i) * p.start_row]);
    for (index_t r0 = 0; r0 < p.terms; r0 += panel_rows) {
      const index_t terms = std::min<index_t>(panel_rows, p.terms - r0);
      for (index_t r = 0; r < terms; ++r) {
        a_offset[r]   = p.a_term.at(r0 + r);
        const T* from = p.b + p.b_term.at(r0 + r);
        for (index_t j = 0; j < count; ++j) panel[r * columns + j] = from[b_offset[j]];
      }
      multiply_add_rows(rows, count, p.a + row0 * p.a_row, p.a_row, a_offset, panel,
                        EvenRows{columns}, terms, sums);
    }
    for (index_t i = 0; i < rows; ++i) {
      T* to = p.c + (row0 + i) * p.c_row;
      for (index_t j = 0; j < count; ++j) {
        const T sum     = sums[i * columns + j];
        to[c_offset[j]] = p.add ? to[c_offset[j]] + sum : sum;
      }
    }
  }
};

/// On a host, a few neighbouring elements of all rows per work item, so that memory is read in
/// lines.
template <class T>
struct RowSums {
  static constexpr int width = 16;
  T* sums;
  index_t step;
  TensorRows<const T> in;
  index_t rows;

  void operator()(index_t item) const {
    const index_t first = item * width,
                  count = in.length - first < width ? in.length - first : width;
    T sum[width]        = {};
    for (index_t r = 0; r < rows; ++r) {
      const T* row = in.origin + in.rows.at(r) + first * in.step;
      for (index_t i = 0; i < count; ++i) sum[i] += row[i * in.step];
    }
    for (index_t i = 0; i < count; ++i) sums[(first + i) * step] += sum[i];
  }
};

/// `pieces`: see multiply_on_device.
template <class Space, class T>
void multiply(const char* name, const Space& space, const Product<T>& product, bool pieces) {
  if constexpr (is_host_v<Space>) {
    const ProductTiles<T> functor{product};
    launch(name, space, functor.items(), functor);
  } else {
    multiply_on_device(name, space, product, pieces);
  }
}

template <class Space, class T>
void LinearKernels<Space, T>::contract(const Space& space, const TensorRows<T>& to,
                                       const TensorRows<const T>& from, const Matrix<const T>& w,
                                       const T* start, index_t start_step, bool add) {
  Product<T> p;
  p.c         = to.origin;
  p.a         = w.origin;
  p.b         = from.origin;
  p.start     = start;
  p.rows      = to.length;
  p.columns   = to.rows.count();
  p.terms     = from.length;
  p.c_row     = to.step;
  p.a_row     = w.row;
  p.start_row = start_step;
  p.c_column  = to.rows;
  p.b_column  = from.rows;
  p.a_term.append(from.length, w.column);
  p.b_term.append(from.length, from.step);
  p.add = add;
  multiply("shard::linear", space, p, false);
}

template <class Space, class T>
void LinearKernels<Space, T>::add_products(const Space& space, const Matrix<T>& dw,
                                           const TensorRows<const T>& dy,
                                           const TensorRows<const T>& x) {
  Product<T> p;
  p.c       = dw.origin;
  p.a       = dy.origin;
  p.b       = x.origin;
  p.rows    = dy.length;
  p.columns = x.length;
  p.terms   = x.rows.count();
  p.c_row   = dw.row;
  p.a_row   = dy.step;
  p.a_term  = dy.rows;
  p.b_term  = x.rows;
  p.c_column.append(x.length, dw.column);
  p.b_column.append(x.length, x.step);
  p.add = true;
  multiply("shard::linear_weight", space, p, true);
}

template <class Space, class T>
void LinearKernels<Space, T>::sum_rows(const Space& space, T* sums, index_t step,
                                       const TensorRows<const T>& rows) {
  if constexpr (is_host_v<Space>) {
    constexpr int width = RowSums<T>::width;
    launch("shard::linear_bias", space, (rows.length + width - 1) / width,
           RowSums<T>{sums, step, rows, rows.rows.count()});
  } else {
    sum_rows_on_device("shard::linear_bias", space, sums, step, rows);
  }
}

void require_linear_dim(const LinearTensor& a, int da, const LinearTensor& b, int db) {
  const auto name = [](const LinearTensor& t, int d) {
    return "dimension " + text(d) + " of \"" + t.label + "\"";
  };
  if (a.geometry != nullptr && b.geometry != nullptr) {
    if (a.geometry->mesh != b.geometry->mesh)
      throw_argument("linear", {"fields \"", a.label, "\" and \"", b.label,
                                "\" live on different meshes; a Linear's fields share a mesh"});
    const Partition &x = a.geometry->dims[Geometry::at(da)].partition,
                    &y = b.geometry->dims[Geometry::at(db)].partition;
    if (!(x == y))
      throw_argument("linear", {name(a, da), " has the partition ", x.describe(), " and ",
                                name(b, db), " ", y.describe(), "; they are one dimension"});
  } else if (a.extent[da] != b.extent[db]) {
    throw_argument("linear", {name(a, da), " has extent ", text(a.extent[da]), " and ", name(b, db),
                              " ", text(b.extent[db]), "; they are one dimension"});
  }
}

void require_linear_rows(const LinearTensor& a, const LinearTensor& b) {
  for (int d = 0; d < a.rank - 1; ++d) require_linear_dim(a, d, b, d);
}

template struct LinearKernels<Kokkos::DefaultExecutionSpace, float>;
template struct LinearKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct LinearKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct LinearKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
