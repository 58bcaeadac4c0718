// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_PETSC_DMDA_HPP
#define SHARD_SOLVE_PETSC_DMDA_HPP

#include <mpi.h>
#include <petscdmda.h>
#include <petscvec.h>

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/petsc.hpp"

/// \file
/// PETSc's DMDA of a rectangular field, its vectors in the field's memory and copies of them.
/// Compile with PETSc's flags, as petsc.hpp.

namespace shard {

namespace impl {

/// Whether a field's type has the layout of a DMDA's local vectors: a halo of one width on both
/// sides of all dimensions, the last dimension fastest.
template <class Field>
constexpr bool has_dmda_layout() {
  bool equal = Field::rank <= 3 && std::is_same_v<typename Field::layout, Kokkos::LayoutRight>;
  for (int d = 0; d < Field::rank; ++d)
    equal =
        equal && Field::halo_lo(d) == Field::halo_lo(0) && Field::halo_hi(d) == Field::halo_lo(0);
  return equal && std::is_same_v<typename Field::value_type, PetscScalar> &&
         Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Field::memory_space>::accessible;
}

/// What keeps a field's memory from being a DMDA's local vector, or nothing.
template <class Field>
std::string not_dmda_memory(const Field& f) {
  for (int d = 0; d < Field::rank; ++d)
    if (static_cast<index_t>(f.view().extent(d)) != f.extent(d) + 2 * Field::halo_lo(d))
      return "the memory has a wider halo than the field";
  if (!f.view().span_is_contiguous()) return "the memory is padded";
  return {};
}

/// What keeps a DMDA from having this field's partition, or nothing. The same on all ranks but for
/// the last test.
template <class Field>
std::string no_dmda(const Field& f, const std::array<bool, 3>& periodic) {
  const Geometry& g = f.geometry();
  int ranks = 0, me = 0, place = 0, places = 1;
  MPI_Comm_size(f.communicator(), &ranks);
  MPI_Comm_rank(f.communicator(), &me);
  for (int d = 0; d < Field::rank; ++d) {
    const auto i       = Geometry::at(d);
    const Partition& p = g.dims[i].partition;
    place              = place * p.parts() + g.dims[i].coordinate;
    places *= p.parts();
    if (p.parts() > 1 || periodic[i])
      for (int part = 0; part < p.parts(); ++part)
        if (p.count(part) < Field::halo_lo(d))
          return "part " + text(static_cast<index_t>(part)) + " of dimension " +
                 text(static_cast<index_t>(d)) + " is smaller than the halo";
  }
  if (places != ranks) return "the field is replicated; a DMDA shards it over all ranks";
  if (place != me) return "the mesh's axes aren't in the order of the field's dimensions";
  return not_dmda_memory(f);
}

}  // namespace impl

/// A DMDA with a field's partition and halo. Its dimensions are x, y, z for the field's last to
/// first. Its local vectors have the layout of the field's memory, see petsc_local_view. Periodic
/// dimensions are DM_BOUNDARY_PERIODIC, the others DM_BOUNDARY_GHOSTED: PETSc leaves the halo
/// outside the domain as it is. Collective over the mesh. Throws ArgumentError on every rank for a
/// replicated field, a part that is smaller than the halo, mesh axes in another order than the
/// dimensions, memory that is padded or has a wider halo, and if PETSc fails.
///
/// \code
/// DM grid = shard::petsc_dmda(x);
/// Vec local = shard::petsc_local_view(x), global = nullptr;
/// DMCreateGlobalVector(grid, &global);
/// shard::copy_to_petsc(global, x);
/// DMGlobalToLocal(grid, global, INSERT_VALUES, local);  // PETSc fills x and its halo
/// \endcode
template <AnyShardedView Field>
DM petsc_dmda(const Field& f) {
  static_assert(impl::has_dmda_layout<Field>(),
                "petsc_dmda takes fields of PetscScalar of rank 1 to 3 in the host's memory, "
                "LayoutRight, with the same halo on all sides");
  const auto periodic = []<int... D>(std::integer_sequence<int, D...>) {
    return std::array<bool, 3>{std::is_same_v<typename Field::template boundary<D>, Periodic>...};
  }
  (std::make_integer_sequence<int, Field::rank>());
  impl::require_no_error(f.communicator(), "petsc_dmda", impl::no_dmda(f, periodic));
  const auto check = [](PetscErrorCode code, const char* what) {
    impl::check_petsc(code, "petsc_dmda", what);
  };
  std::array<DMBoundaryType, 3> boundary;
  boundary.fill(DM_BOUNDARY_NONE);
  std::array<PetscInt, 3> extents{1, 1, 1}, parts{1, 1, 1};
  std::array<std::vector<PetscInt>, 3> counts;
  for (std::size_t i = 0; i < Field::rank; ++i) {  // of x, y, z
    const int d        = Field::rank - 1 - static_cast<int>(i);
    const Partition& p = f.partition(d);
    boundary[i] = periodic[impl::Geometry::at(d)] ? DM_BOUNDARY_PERIODIC : DM_BOUNDARY_GHOSTED;
    extents[i]  = static_cast<PetscInt>(p.size());
    parts[i]    = p.parts();
    for (int part = 0; part < p.parts(); ++part)
      counts[i].push_back(static_cast<PetscInt>(p.count(part)));
  }
  DM made = nullptr;
  check(DMDACreate(f.communicator(), &made), "DMDACreate");
  impl::PetscOwner<DM, DMDestroy> owner(made);
  check(DMSetDimension(made, Field::rank), "DMSetDimension");
  check(DMDASetBoundaryType(made, boundary[0], boundary[1], boundary[2]), "DMDASetBoundaryType");
  check(DMDASetSizes(made, extents[0], extents[1], extents[2]), "DMDASetSizes");
  check(DMDASetNumProcs(made, parts[0], parts[1], parts[2]), "DMDASetNumProcs");
  check(DMDASetOwnershipRanges(made, counts[0].data(), Field::rank > 1 ? counts[1].data() : nullptr,
                               Field::rank > 2 ? counts[2].data() : nullptr),
        "DMDASetOwnershipRanges");
  check(DMDASetDof(made, 1), "DMDASetDof");
  check(DMDASetStencilType(made, DMDA_STENCIL_BOX), "DMDASetStencilType");
  check(DMDASetStencilWidth(made, Field::halo_lo(0)), "DMDASetStencilWidth");
  check(DMSetUp(made), "DMSetUp");
  return owner.release();
}

/// A field with its halo as a local vector of petsc_dmda(f): a view of the same memory, which the
/// field keeps. Local. Throws ArgumentError for memory of which petsc_dmda makes none, and if PETSc
/// fails.
template <AnyShardedView Field>
Vec petsc_local_view(const Field& f) {
  static_assert(impl::has_dmda_layout<Field>(),
                "petsc_local_view takes fields of which petsc_dmda makes a DMDA");
  if (const std::string wrong = impl::not_dmda_memory(f); !wrong.empty())
    impl::throw_argument("petsc_local_view", {wrong});
  Vec made = nullptr;
  impl::check_petsc(
      VecCreateSeqWithArray(PETSC_COMM_SELF, 1, static_cast<PetscInt>(f.view().size()),
                            f.view().data(), &made),
      "petsc_local_view", "VecCreateSeqWithArray");
  return made;
}

namespace impl {

/// The owned points of a field in a global vector of its DMDA.
template <class Field>
auto points_of(PetscScalar* array, const Field& f) {
  const auto owned = f.owned();
  Kokkos::LayoutRight layout;
  for (int d = 0; d < Field::rank; ++d) layout.dimension[d] = owned.extent(d);
  using Points =
      Kokkos::View<typename decltype(f.owned())::non_const_data_type, Kokkos::LayoutRight,
                   Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  return Points(array, layout);
}
template <class Field>
void check_petsc_size(Vec v, const Field& f, const char* function) {
  PetscInt size = 0;
  check_petsc(VecGetLocalSize(v, &size), function, "VecGetLocalSize");
  if (static_cast<std::size_t>(size) != f.owned().size())
    throw_argument(
        function,
        {"the vector has ", text(static_cast<index_t>(size)), " elements on this rank, the field ",
         text(static_cast<index_t>(f.owned().size())), "; pass a global vector of petsc_dmda(f)"});
}

}  // namespace impl

/// Sets a global vector of petsc_dmda(f) to the field's owned points. (DMLocalToGlobal with
/// INSERT_VALUES can't where a periodic dimension isn't sharded.) Local; fences. Throws
/// ArgumentError for another local size and if PETSc fails.
template <AnyShardedView Field>
void copy_to_petsc(Vec to, const Field& f) {
  static_assert(impl::has_dmda_layout<Field>(), "copy_to_petsc takes the fields of petsc_dmda");
  impl::check_petsc_size(to, f, "copy_to_petsc");
  PetscScalar* array = nullptr;
  impl::check_petsc(VecGetArrayWrite(to, &array), "copy_to_petsc", "VecGetArrayWrite");
  Kokkos::deep_copy(impl::points_of(array, f), f.owned());
  impl::check_petsc(VecRestoreArrayWrite(to, &array), "copy_to_petsc", "VecRestoreArrayWrite");
}
/// Sets a field's owned points to a global vector of petsc_dmda(f). Errors as copy_to_petsc.
template <AnyShardedView Field>
void copy_from_petsc(const Field& f, Vec from) {
  static_assert(impl::has_dmda_layout<Field>(), "copy_from_petsc takes the fields of petsc_dmda");
  impl::check_petsc_size(from, f, "copy_from_petsc");
  PetscScalar* array = nullptr;
  impl::check_petsc(VecGetArray(from, &array), "copy_from_petsc", "VecGetArray");
  Kokkos::deep_copy(f.owned(), impl::points_of(array, f));
  impl::check_petsc(VecRestoreArray(from, &array), "copy_from_petsc", "VecRestoreArray");
}

}  // namespace shard

#endif
