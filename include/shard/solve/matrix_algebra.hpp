// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MATRIX_ALGEBRA_HPP
#define SHARD_SOLVE_MATRIX_ALGEBRA_HPP

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/solve/impl/multiply_entries.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// Matrices made from matrices: the transpose, and products, such as R A P of a coarse level. Each
/// matrix has a halo of its own, so vectors of its own; axpby copies from one matrix' vector to
/// another's.

namespace shard {

namespace impl {

template <class Tag, class Axis>
std::vector<std::int64_t> owned_ids_of(const IndexSpace<Tag, Axis>& space) {
  const auto& ids = ids_of(space);
  return {ids.begin(), ids.begin() + space.owned()};
}

/// A matrix with the rows of one space and the columns of another, on the same ranks.
template <class Matrix, class MeshType, class Row, class Column, class Axis, class Entries>
Matrix matrix_between(const char* function, const MeshType& mesh, const IndexSpace<Row, Axis>& rows,
                      const IndexSpace<Column, Axis>& columns, const Entries& entries) {
  const auto row_ids = owned_ids_of(rows), column_ids = owned_ids_of(columns);
  if constexpr (std::is_same_v<Row, Column>) {
    require_no_error(mesh.template communicator<Axis>(), function,
                     row_ids == column_ids
                         ? std::string()
                         : "rows and columns are of one type, and this rank's ids of them differ; "
                           "distribute them in the same way, or give them different types");
    return {mesh, row_ids, entries};
  } else {
    return {mesh, row_ids, column_ids, entries};
  }
}

}  // namespace impl

/// The transpose A' as a matrix of its own (complex values are conjugated): each row is on the rank
/// that owns A's column. Products with it have the same bits for all owners, which apply_adjoint
/// hasn't. `mesh` is A's. Collective over the mesh.
template <class T, class Axis, class Row, class Column, class Memory, class... MeshAxes>
SparseMatrix<T, Axis, Column, Row, Memory> transposed(
    const Mesh<MeshAxes...>& mesh, const SparseMatrix<T, Axis, Row, Column, Memory>& a) {
  auto entries = a.entries();
  for (auto& e : entries) {
    std::swap(e.row, e.column);
    e.value = impl::conjugate(e.value);
  }
  return impl::matrix_between<SparseMatrix<T, Axis, Column, Row, Memory>>(
      "transposed", mesh, a.columns(), a.rows(), entries);
}

/// The matrix A B. A's columns are B's rows by their ids; other ranks may own them. Each element is
/// summed in the order of A's columns' ids, so the bits don't depend on the owners. Sums that are
/// 0 stay in the pattern. Computed on the host. `mesh` is that of both. Collective over the mesh.
/// Throws ArgumentError on every rank for a column of A that isn't a row of B.
///
/// \code
/// auto coarse = shard::product(mesh, shard::transposed(mesh, p), shard::product(mesh, a, p));
/// \endcode
template <class T, class Axis, class Row, class Middle, class Column, class Memory,
          class... MeshAxes>
SparseMatrix<T, Axis, Row, Column, Memory> product(
    const Mesh<MeshAxes...>& mesh, const SparseMatrix<T, Axis, Row, Middle, Memory>& a,
    const SparseMatrix<T, Axis, Middle, Column, Memory>& b) {
  const auto entries = impl::multiply_entries(mesh.template communicator<Axis>(), a.entries(),
                                              impl::owned_ids_of(b.rows()), b.entries());
  return impl::matrix_between<SparseMatrix<T, Axis, Row, Column, Memory>>("product", mesh, a.rows(),
                                                                          b.columns(), entries);
}

}  // namespace shard

#endif
