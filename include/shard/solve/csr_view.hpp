// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_CSR_VIEW_HPP
#define SHARD_SOLVE_CSR_VIEW_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>

#include "shard/solve/sparse_matrix.hpp"

namespace shard {

/// A rank's rows of a SparseMatrix in compressed rows (CSR), for other libraries. Made by
/// `csr_view`. Valid as long as the matrix.
template <class T, class Offset, class Memory>
struct CsrView {
  static_assert(std::is_integral_v<Offset>, "offsets of rows are integers");
  /// Whether row_map is the matrix' memory: if Offset has the size of index_t. Otherwise it is a
  /// copy. The pattern doesn't change, so a copy stays right.
  static constexpr bool shares_row_map = sizeof(Offset) == sizeof(index_t);

  Kokkos::View<const Offset*, Memory> row_map;  ///< where each row begins, and the end of the last
  Kokkos::View<const int*, Memory> columns;     ///< places: owned columns, then the halo; a view
  Kokkos::View<T*, Memory> values;              ///< a view: may be changed
  int column_count = 0;                         ///< number of places of columns

  /// Number of rows.
  int row_count() const { return static_cast<int>(row_map.extent(0)) - 1; }
};

/// This rank's rows of a matrix with offsets of a given type. Columns and values are the matrix'
/// memory; `CsrView::shares_row_map` says whether the offsets are. A copy of them fences. Local.
///
///   const auto csr = shard::csr_view<std::size_t>(a);
template <class Offset = index_t, class T, class Axis, class Row, class Column, class Memory>
CsrView<T, Offset, Memory> csr_view(const SparseMatrix<T, Axis, Row, Column, Memory>& a) {
  CsrView<T, Offset, Memory> csr;
  const auto& begin = a.row_begin();
  if constexpr (csr.shares_row_map) {
    // the signed or unsigned type of the same size has the same representation
    csr.row_map = Kokkos::View<const Offset*, Memory>(reinterpret_cast<const Offset*>(begin.data()),
                                                      begin.extent(0));
  } else {
    const Kokkos::View<Offset*, Memory> copy(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "shard::csr offsets"), begin.extent(0));
    Kokkos::deep_copy(copy, begin);
    csr.row_map = copy;
  }
  csr.columns      = a.column();
  csr.values       = a.values();
  csr.column_count = static_cast<int>(a.columns().places());
  return csr;
}

}  // namespace shard

#endif
