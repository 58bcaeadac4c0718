// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_PETSC_HPP
#define SHARD_SOLVE_PETSC_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <petscmat.h>
#include <petscvec.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// PETSc's Mat and Vec of a SparseMatrix and its vectors. PETSc numbers rows by ranks, then by
/// places. Compile with PETSc's flags; the caller initialises PETSc, and destroys what it gets. For
/// memory that the host can read.

namespace shard {

namespace impl {

inline void check_petsc(PetscErrorCode code, const char* function, const char* what) {
  if (code != PETSC_SUCCESS)
    throw_argument(function,
                   {"PETSc's ", what, " failed with the code ", text(static_cast<index_t>(code))});
}

/// PETSc's number of each place: this rank's own, and those of its halo by an exchange.
template <class Tag, class Axis, class MeshType>
std::vector<PetscInt> petsc_numbers(const MeshType& mesh, const IndexSpace<Tag, Axis>& space) {
  using Numbers = ShardedView<std::int64_t*, Kokkos::LayoutRight, ShardDim<0, Axis, Indices<Tag>>,
                              Kokkos::HostSpace>;
  const Numbers numbers("numbers", mesh, {space.partition()});
  for (index_t i = 0; i < space.owned(); ++i)
    numbers(static_cast<int>(i)) = numbers.to_global(0, i);
  exchange(Kokkos::DefaultHostExecutionSpace(), numbers);
  Kokkos::DefaultHostExecutionSpace().fence("shard::petsc: numbers");
  std::vector<PetscInt> all;
  for (index_t i = 0; i < space.places(); ++i)
    all.push_back(static_cast<PetscInt>(numbers(static_cast<int>(i))));
  return all;
}

}  // namespace impl

/// A vector's owned elements as a Vec: a view of the same memory, which the vector keeps.
/// Collective over the mesh. Throws ArgumentError if PETSc fails.
template <AnyShardedView Vector>
Vec petsc_view(const Vector& v) {
  static_assert(
      Vector::rank == 1 && std::is_same_v<typename Vector::value_type, PetscScalar> &&
          Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Vector::memory_space>::accessible,
      "petsc_view takes vectors of PetscScalar in the host's memory");
  Vec made = nullptr;
  impl::check_petsc(VecCreateMPIWithArray(v.communicator(), 1, static_cast<PetscInt>(v.extent(0)),
                                          PETSC_DECIDE, v.origin(), &made),
                    "petsc_view", "VecCreateMPIWithArray");
  return made;
}

/// A matrix as a Mat of type MATAIJ: a copy. `mesh` is the matrix'. Collective over the mesh.
/// Throws ArgumentError if PETSc fails.
///
/// \code
/// Mat copy = shard::petsc_copy(mesh, a);
/// Vec from = shard::petsc_view(x), to = shard::petsc_view(y);
/// MatMult(copy, from, to);  // y = A x
/// \endcode
template <class Axis, class Row, class Column, class Memory, class... MeshAxes>
Mat petsc_copy(const Mesh<MeshAxes...>& mesh,
               const SparseMatrix<PetscScalar, Axis, Row, Column, Memory>& a) {
  const auto own     = impl::petsc_numbers(mesh, a.rows());
  const auto numbers = impl::petsc_numbers(mesh, a.columns());
  const Kokkos::HostSpace host;
  const auto begin  = Kokkos::create_mirror_view_and_copy(host, a.row_begin());
  const auto column = Kokkos::create_mirror_view_and_copy(host, a.column());
  const auto value  = Kokkos::create_mirror_view_and_copy(host, a.values());
  std::vector<PetscInt> rows, columns;
  for (std::size_t r = 0; r + 1 < begin.extent(0); ++r)
    for (index_t e = begin(r); e < begin(r + 1); ++e) {
      rows.push_back(own[r]);
      columns.push_back(numbers[static_cast<std::size_t>(column(e))]);
    }
  const auto check = [](PetscErrorCode code, const char* what) {
    impl::check_petsc(code, "petsc_copy", what);
  };
  Mat made = nullptr;
  check(MatCreate(a.communicator(), &made), "MatCreate");
  check(MatSetSizes(made, static_cast<PetscInt>(a.rows().owned()),
                    static_cast<PetscInt>(a.columns().owned()), PETSC_DETERMINE, PETSC_DETERMINE),
        "MatSetSizes");
  check(MatSetType(made, MATAIJ), "MatSetType");
  check(MatSetPreallocationCOO(made, static_cast<PetscCount>(rows.size()), rows.data(),
                               columns.data()),
        "MatSetPreallocationCOO");
  check(MatSetValuesCOO(made, value.data(), INSERT_VALUES), "MatSetValuesCOO");
  return made;
}

}  // namespace shard

#endif
