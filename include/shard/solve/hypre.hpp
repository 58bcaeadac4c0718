// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_HYPRE_HPP
#define SHARD_SOLVE_HYPRE_HPP

#include <HYPRE.h>
#include <HYPRE_IJ_mv.h>
#include <HYPRE_parcsr_mv.h>
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/impl/consecutive_numbers.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// hypre's matrices and vectors of a SparseMatrix and its vectors, as copies. They are on the ranks
/// of the matrix' mesh axis, so each group of replicas has its own; rows are numbered by the axis'
/// coordinates, then by places. Compile and link with hypre for hosts; the caller initialises it,
/// and destroys what it gets.

namespace shard {

namespace impl {

inline void check_hypre(HYPRE_Int code, const char* function, const char* what) {
  if (code != 0) {
    HYPRE_ClearAllErrors();
    throw_argument(function,
                   {"hypre's ", what, " failed with the code ", text(static_cast<index_t>(code))});
  }
}

/// Owns what hypre made until it is given to the caller.
template <class Object, HYPRE_Int (*Destroy)(Object)>
struct HypreDelete {
  void operator()(Object object) const { Destroy(object); }
};
template <class Object, HYPRE_Int (*Destroy)(Object)>
using HypreOwner = std::unique_ptr<std::remove_pointer_t<Object>, HypreDelete<Object, Destroy>>;

/// An IJ vector for vectors like v.
template <class Vector>
HypreOwner<HYPRE_IJVector, HYPRE_IJVectorDestroy> hypre_vector(const Vector& v) {
  static_assert(Vector::rank == 1 && std::is_same_v<typename Vector::value_type, HYPRE_Complex>,
                "hypre takes vectors of HYPRE_Complex (double)");
  const auto first    = static_cast<HYPRE_BigInt>(v.begin(0)),
             last     = static_cast<HYPRE_BigInt>(v.begin(0) + v.extent(0) - 1);
  HYPRE_IJVector made = nullptr;
  check_hypre(HYPRE_IJVectorCreate(owners_of("hypre_copy", v.geometry(), 0), first, last, &made),
              "hypre_copy", "HYPRE_IJVectorCreate");
  HypreOwner<HYPRE_IJVector, HYPRE_IJVectorDestroy> owner(made);
  check_hypre(HYPRE_IJVectorSetObjectType(made, HYPRE_PARCSR), "hypre_copy",
              "HYPRE_IJVectorSetObjectType");
  return owner;
}

/// Contiguous memory for a vector's owned elements, whose stride may be another.
template <class Vector>
auto elements_like(const Vector& v) {
  return Kokkos::View<HYPRE_Complex*, typename Vector::memory_space>(
      Kokkos::view_alloc(Kokkos::WithoutInitializing, "shard::hypre"),
      static_cast<std::size_t>(v.extent(0)));
}

}  // namespace impl

/// Sets a vector of hypre, which hypre_copy made, to this one's owned elements. Collective over the
/// mesh axis; fences Kokkos.
/// Throws ArgumentError if hypre fails.
template <AnyShardedView Vector>
void copy_to_hypre(HYPRE_IJVector to, const Vector& v) {
  const auto elements = impl::elements_like(v);
  Kokkos::deep_copy(elements, v.owned());
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), elements);
  impl::check_hypre(HYPRE_IJVectorInitialize(to), "copy_to_hypre", "HYPRE_IJVectorInitialize");
  // without numbers hypre takes all of the rank's elements in their order
  impl::check_hypre(
      HYPRE_IJVectorSetValues(to, static_cast<HYPRE_Int>(v.extent(0)), nullptr, host.data()),
      "copy_to_hypre", "HYPRE_IJVectorSetValues");
  impl::check_hypre(HYPRE_IJVectorAssemble(to), "copy_to_hypre", "HYPRE_IJVectorAssemble");
}

/// Sets a vector's owned elements to those of hypre's. Fences Kokkos. Throws ArgumentError if hypre
/// fails.
template <AnyShardedView Vector>
void copy_from_hypre(const Vector& v, HYPRE_IJVector from) {
  const auto elements = impl::elements_like(v);
  const auto host     = Kokkos::create_mirror_view(elements);
  impl::check_hypre(
      HYPRE_IJVectorGetValues(from, static_cast<HYPRE_Int>(v.extent(0)), nullptr, host.data()),
      "copy_from_hypre", "HYPRE_IJVectorGetValues");
  Kokkos::deep_copy(elements, host);
  Kokkos::deep_copy(v.owned(), elements);
  mark_written(typename Vector::execution_space(), v);
}

/// A vector's owned elements as an IJ vector of type HYPRE_PARCSR: a copy. Collective over the
/// mesh axis; fences Kokkos. Throws ArgumentError if hypre fails.
template <AnyShardedView Vector>
HYPRE_IJVector hypre_copy(const Vector& v) {
  auto made = impl::hypre_vector(v);
  copy_to_hypre(made.get(), v);
  return made.release();
}

/// A matrix as an IJ matrix of type HYPRE_PARCSR: a copy. `mesh` is the matrix'. Collective over
/// the mesh; fences Kokkos. Throws ArgumentError if hypre fails.
///
/// \code
/// HYPRE_IJMatrix copy = shard::hypre_copy(mesh, a);
/// HYPRE_ParCSRMatrix rows = nullptr;
/// HYPRE_IJMatrixGetObject(copy, reinterpret_cast<void**>(&rows));  // for BoomerAMG
/// \endcode
template <class Axis, class Row, class Column, class Memory, class... MeshAxes>
HYPRE_IJMatrix hypre_copy(const Mesh<MeshAxes...>& mesh,
                          const SparseMatrix<HYPRE_Complex, Axis, Row, Column, Memory>& a) {
  impl::NumberedRows<HYPRE_BigInt, HYPRE_Complex> numbered(mesh, a);
  std::vector<HYPRE_Int> counts(numbered.counts.begin(), numbered.counts.end());
  const auto check = [](HYPRE_Int code, const char* what) {
    impl::check_hypre(code, "hypre_copy", what);
  };
  const auto begin_of = [&](const Partition& p) {
    return static_cast<HYPRE_BigInt>(p.begin(mesh.template coordinate<Axis>()));
  };
  const HYPRE_BigInt row    = begin_of(a.rows().partition()),
                     column = begin_of(a.columns().partition());
  HYPRE_IJMatrix made       = nullptr;
  check(HYPRE_IJMatrixCreate(a.communicator(), row,
                             row + static_cast<HYPRE_BigInt>(a.rows().owned()) - 1, column,
                             column + static_cast<HYPRE_BigInt>(a.columns().owned()) - 1, &made),
        "HYPRE_IJMatrixCreate");
  impl::HypreOwner<HYPRE_IJMatrix, HYPRE_IJMatrixDestroy> owner(made);
  check(HYPRE_IJMatrixSetObjectType(made, HYPRE_PARCSR), "HYPRE_IJMatrixSetObjectType");
  check(HYPRE_IJMatrixInitialize(made), "HYPRE_IJMatrixInitialize");
  check(
      HYPRE_IJMatrixSetValues(made, static_cast<HYPRE_Int>(counts.size()), counts.data(),
                              numbered.row.data(), numbered.columns.data(), numbered.values.data()),
      "HYPRE_IJMatrixSetValues");
  check(HYPRE_IJMatrixAssemble(made), "HYPRE_IJMatrixAssemble");
  return owner.release();
}

}  // namespace shard

#endif
