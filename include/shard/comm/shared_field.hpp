// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_SHARED_FIELD_HPP
#define SHARD_COMM_SHARED_FIELD_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// Memory of the mesh's shared pool, set to zero, on ranks with `wanted`, null on the others; null
/// on every rank of the node if one has no space. Collective over the mesh.
std::shared_ptr<FieldMemory> shared_memory_if(MeshState& mesh, std::size_t bytes, bool wanted);

/// Whether a field's memory can be a window: false for memory that a device accesses, because
/// windows aren't pinned.
template <class Field>
inline constexpr bool can_be_shared_v =
    std::is_same_v<typename Field::memory_space, Kokkos::HostSpace>;

/// A field like another, in shared memory on ranks that want it, ordinary on the others. Collective
/// over the mesh; local if shared memory isn't used.
template <AnyShardedView Field>
Field allocate_like(const Field& field, std::string_view label, std::optional<bool> wanted) {
  Geometry geometry = field.any_geometry().named(label);
  auto memory       = wanted
                          ? shared_memory_if(*geometry.mesh, FieldTypeOf<Field>::bytes(geometry), *wanted)
                          : nullptr;
  return FieldAccess::allocate<Field>(std::move(geometry), std::move(memory));
}

/// A new field in shared memory, if there is space. Collective over the mesh.
template <class Field>
Field allocate_in_shared(Geometry geometry) {
  static_assert(can_be_shared_v<Field>, "shared_field makes fields in host memory");
  auto memory = shared_memory_if(*geometry.mesh, FieldTypeOf<Field>::bytes(geometry), true);
  return FieldAccess::allocate<Field>(std::move(geometry), std::move(memory));
}

}  // namespace impl

/// Makes a field in memory that the ranks of a node share. An exchange reads long contiguous runs
/// directly from the owner's field, without packing. If shared memory is unavailable (one rank on
/// the node, /dev/shm too small) the field is an ordinary one, and the log gives the reason.
///
/// The memory returns to the mesh with the last copy of the field: local, in any order. A View
/// taken from the field doesn't keep it alive. Collective over the mesh; errors as the
/// constructor's.
template <AnyShardedView Field, class... MeshAxes>
Field shared_field(std::string_view label, const Mesh<MeshAxes...>& mesh,
                   const Extents<Field::rank>& extents) {
  return impl::allocate_in_shared<Field>(
      impl::FieldTypeOf<Field>::make(label, mesh, extents.n.data(), nullptr));
}

/// The same with a partition for each dimension.
template <AnyShardedView Field, class... MeshAxes>
Field shared_field(std::string_view label, const Mesh<MeshAxes...>& mesh,
                   const std::array<Partition, static_cast<std::size_t>(Field::rank)>& partitions) {
  return impl::allocate_in_shared<Field>(
      impl::FieldTypeOf<Field>::make(label, mesh, nullptr, partitions.data()));
}

/// Whether a field is in memory that the ranks of its node share.
template <AnyShardedView Field>
bool is_shared(const Field& field) {
  return impl::FieldAccess::has_memory(field);
}

}  // namespace shard

#endif
