// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_PETSC_HPP
#define SHARD_SOLVE_PETSC_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <petscmat.h>
#include <petscvec.h>

#include <memory>
#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/solve/impl/consecutive_numbers.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// PETSc's Mat and Vec of a SparseMatrix and its vectors.
/// PETSc's objects are on the ranks of the matrix' mesh axis, so each group of replicas has its
/// own; rows are numbered by the axis' coordinates, then by places. Compile with PETSc's flags; the
/// caller initialises PETSc, and destroys what it gets. For memory that the host can read.

namespace shard {

namespace impl {

inline void check_petsc(PetscErrorCode code, const char* function, const char* what) {
  if (code != PETSC_SUCCESS)
    throw_argument(function,
                   {"PETSc's ", what, " failed with the code ", text(static_cast<index_t>(code))});
}

/// Owns what PETSc made until it is given to the caller.
template <class Object, PetscErrorCode (*Destroy)(Object*)>
struct PetscDelete {
  void operator()(Object object) const { static_cast<void>(Destroy(&object)); }
};
template <class Object, PetscErrorCode (*Destroy)(Object*)>
using PetscOwner = std::unique_ptr<std::remove_pointer_t<Object>, PetscDelete<Object, Destroy>>;

}  // namespace impl

/// A vector's owned elements as a Vec: a view of the same memory, which the vector keeps.
/// Collective over the mesh axis. Throws ArgumentError on every rank for elements with a stride,
/// and if PETSc fails.
template <AnyShardedView Vector>
Vec petsc_view(const Vector& v) {
  static_assert(
      Vector::rank == 1 && std::is_same_v<typename Vector::value_type, PetscScalar> &&
          Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Vector::memory_space>::accessible,
      "petsc_view takes vectors of PetscScalar in the host's memory");
  const MPI_Comm comm = impl::owners_of("petsc_view", v.geometry(), 0);
  impl::require_contiguous(comm, "petsc_view", v.geometry(), v.extent(0), v.stride(0));
  Vec made = nullptr;
  impl::check_petsc(VecCreateMPIWithArray(comm, 1, static_cast<PetscInt>(v.extent(0)), PETSC_DECIDE,
                                          v.origin(), &made),
                    "petsc_view", "VecCreateMPIWithArray");
  return made;
}

/// A matrix as a Mat of type MATAIJ: a copy. `mesh` is the matrix'. Collective over the mesh;
/// fences Kokkos. Throws ArgumentError if PETSc fails.
///
/// \code
/// Mat copy = shard::petsc_copy(mesh, a);
/// Vec from = shard::petsc_view(x), to = shard::petsc_view(y);
/// MatMult(copy, from, to);  // y = A x
/// \endcode
template <class Axis, class Row, class Column, class Memory, class... MeshAxes>
Mat petsc_copy(const Mesh<MeshAxes...>& mesh,
               const SparseMatrix<PetscScalar, Axis, Row, Column, Memory>& a) {
  impl::NumberedRows<PetscInt, PetscScalar> numbered(mesh, a);
  const auto check = [](PetscErrorCode code, const char* what) {
    impl::check_petsc(code, "petsc_copy", what);
  };
  Mat made = nullptr;
  check(MatCreate(a.communicator(), &made), "MatCreate");
  impl::PetscOwner<Mat, MatDestroy> owner(made);
  check(MatSetSizes(made, static_cast<PetscInt>(a.rows().owned()),
                    static_cast<PetscInt>(a.columns().owned()), PETSC_DETERMINE, PETSC_DETERMINE),
        "MatSetSizes");
  check(MatSetType(made, MATAIJ), "MatSetType");
  check(MatSetPreallocationCOO(made, static_cast<PetscCount>(numbered.rows.size()),
                               numbered.rows.data(), numbered.columns.data()),
        "MatSetPreallocationCOO");
  check(MatSetValuesCOO(made, numbered.values.data(), INSERT_VALUES), "MatSetValuesCOO");
  return owner.release();
}

}  // namespace shard

#endif
