// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MATRIX_ALGEBRA_HPP
#define SHARD_SOLVE_MATRIX_ALGEBRA_HPP

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/solve/impl/product_terms.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// Matrices made from matrices: the transpose, and products, such as R A P of a coarse level. Each
/// matrix has a halo of its own, so vectors of its own; axpby copies from one matrix' vector to
/// another's.

namespace shard {

namespace impl {

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

template <class Matrix>
std::vector<EntryPlace> places_of_entries(const Matrix& a) {
  std::vector<EntryPlace> places;
  for (const auto& e : a.entries()) places.push_back({e.row, e.column});
  return places;
}

/// c = the sum of an entry's terms a b.
template <class T>
struct SumTermsKernel {
  const index_t* begin;
  const index_t* a_entry;
  const index_t* b_entry;
  const T* a;
  const T* b;
  T* c;

  KOKKOS_FUNCTION void operator()(index_t e) const {
    T sum = a[a_entry[begin[e]]] * b[b_entry[begin[e]]];
    for (index_t t = begin[e] + 1; t < begin[e + 1]; ++t) sum += a[a_entry[t]] * b[b_entry[t]];
    c[e] = sum;
  }
};

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

/// The matrix A B, which can be computed again when the values of A or B have changed: pattern
/// once, values many times. A's columns are B's rows by their ids; other ranks may own them. Each
/// element is summed in the order of A's columns' ids, so the bits don't depend on the owners. Sums
/// that are 0 stay in the pattern. Keeps two numbers for each term. Copies share the memory.
///
/// \code
/// const shard::MatrixProduct ap(mesh, a, p);
/// const shard::MatrixProduct coarse(mesh, restriction, ap.matrix());
/// // ... a.values() change
/// ap.update(space);
/// coarse.update(space);  // restriction A P
/// \endcode
template <class T, class Axis, class Row, class Middle, class Column, class Memory>
class MatrixProduct {
  using A     = SparseMatrix<T, Axis, Row, Middle, Memory>;
  using B     = SparseMatrix<T, Axis, Middle, Column, Memory>;
  using C     = SparseMatrix<T, Axis, Row, Column, Memory>;
  using Field = impl::EntryField<T, Axis, Memory>;

 public:
  /// The pattern, on the host, and the values. `mesh` is that of both. Collective over the mesh.
  /// Throws ArgumentError on every rank for a column of A that isn't a row of B.
  template <class... MeshAxes>
  MatrixProduct(const Mesh<MeshAxes...>& mesh, const A& a, const B& b)
      : MatrixProduct(
            mesh, a, b,
            impl::product_terms(mesh.template communicator<Axis>(), impl::places_of_entries(a),
                                impl::owned_ids_of(b.rows()), impl::places_of_entries(b))) {}
  /// The product.
  const C& matrix() const { return c_; }
  /// Sets the product's values from those of A and B: one exchange among neighbours and one kernel,
  /// no allocation. Collective.
  template <class Space>
  void update(const Space& space) const {
    Kokkos::deep_copy(space, b_values_.owned(), b_.values());
    exchange(space, b_values_);
    impl::launch(
        "shard::matrix_product", space, static_cast<index_t>(c_.values().extent(0)),
        impl::SumTermsKernel<T>{begin_.data(), a_entry_.data(), b_entry_.data(), a_.values().data(),
                                b_values_.origin(), c_.values().data()});
  }

 private:
  template <class MeshType>
  MatrixProduct(const MeshType& mesh, const A& a, const B& b, const impl::ProductTerms& terms)
      : a_(a),
        b_(b),
        c_(impl::matrix_between<C>("product", mesh, a.rows(), b.columns(), zeros_at(terms))),
        b_values_("shard::product", mesh,
                  {IndexSpace<impl::EntryIndices, Axis>(
                      mesh, by_owner(terms.owner, terms.place,
                                     static_cast<index_t>(b.values().extent(0))))}),
        begin_(impl::array_of<Memory>("terms", terms.begin)),
        a_entry_(impl::array_of<Memory>("terms", terms.a)),
        b_entry_(impl::array_of<Memory>("terms", terms.b)) {
    const typename Kokkos::View<T*, Memory>::execution_space space;
    update(space);
    space.fence("shard::product");
  }
  static std::vector<MatrixEntry<T>> zeros_at(const impl::ProductTerms& terms) {
    std::vector<MatrixEntry<T>> list;
    for (const impl::EntryPlace& e : terms.entries) list.push_back({e.row, e.column, T(0)});
    return list;
  }

  A a_;
  B b_;
  C c_;
  Field b_values_;
  Kokkos::View<index_t*, Memory> begin_, a_entry_, b_entry_;
};

/// The matrix A B alone: see MatrixProduct. Collective over the mesh.
///
/// \code
/// auto coarse = shard::product(mesh, shard::transposed(mesh, p), shard::product(mesh, a, p));
/// \endcode
template <class T, class Axis, class Row, class Middle, class Column, class Memory,
          class... MeshAxes>
SparseMatrix<T, Axis, Row, Column, Memory> product(
    const Mesh<MeshAxes...>& mesh, const SparseMatrix<T, Axis, Row, Middle, Memory>& a,
    const SparseMatrix<T, Axis, Middle, Column, Memory>& b) {
  return MatrixProduct(mesh, a, b).matrix();
}

}  // namespace shard

#endif
