// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_IMPL_ANNOTATION_HPP
#define SHARD_ANNOTATE_IMPL_ANNOTATION_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/partition_spec.hpp"
#include "shard/collectives/impl/collectives_call.hpp"
#include "shard/annotate/device_mesh.hpp"
#include "shard/view/shard_layout.hpp"

namespace shard::impl {

/// The type-erased element type of an annotated tensor.
struct CellType {
  int rank           = 0;
  int value_size     = 0;      ///< bytes
  bool first_is_fast = false;  ///< messages hold the first dimension contiguously, not the last
};

/// The properties of an annotated tensor without its elements: the part of AnnotatedView that needs
/// no template. Without a layout it is unannotated, and this rank has the whole tensor.
struct Annotation {
  std::string label;
  CellType cell;
  std::vector<index_t> extents;  ///< of the whole tensor
  std::optional<DeviceMesh> mesh;
  PartitionSpec spec;
  std::optional<ShardLayout> layout;
  bool manual = false;  ///< the program uses the padded shard

  /// Whether this rank has the whole tensor.
  bool whole() const { return !layout || layout->sharding().replicated(); }
  ShardingType type() const;
  /// The effective sharding as XLA's text: "", "{manual}", or OpSharding::text().
  std::string text() const;
};

/// Throws unless the tensor has an annotation and isn't manual.
void require_annotation(const Annotation& about, const char* function);
/// Throws if the tensor is manual.
void require_not_manual(const Annotation& about, const char* function);
/// Collective over `mesh`; throws on every rank unless the tensor is manual.
void require_manual(const Annotation& about, const DeviceMesh& mesh, const char* function);

/// The new layout of a marking, or none if the tensor has this sharding already. Collective over
/// the mesh; the errors are those of mark_sharding (of annotate_custom_sharding if `again`), on
/// every rank.
std::optional<ShardLayout> plan_marking(const char* function, const Annotation& about,
                                        const DeviceMesh& mesh, const PartitionSpec& spec,
                                        bool again);
/// Whether the ranks' copies of a whole tensor are compared before it is sharded: SHARD_CHECK=1.
bool values_are_compared();
/// Throws AgreementError on every rank unless they have the same hash. Collective over the mesh.
void agree_on_values(const char* function, const DeviceMesh& mesh, std::uint64_t hash);
/// Throws on every rank unless all ranks call `function` for tensors of the same extents and
/// sharding. Collective over the tensor's mesh; there is one.
void agree_on(const char* function, const Annotation& about);

/// The layout of a tensor made from local shards. `shape` has the tensor's extents, or is null for
/// the sum of the shards'; `count` is the number of this rank's shards. Collective over the mesh;
/// throws on every rank.
ShardLayout plan_joining(const char* function, const DeviceMesh& mesh, const PartitionSpec& spec,
                         const CellType& cell, index_t count, const std::vector<index_t>& local,
                         const std::vector<index_t>* shape);
/// Throws on every rank unless each gives its one shard, of the padded extents, for a tensor that
/// is sharded. Collective over the tensor's mesh.
void require_loadable(const Annotation& about, const std::vector<std::vector<index_t>>& shards);

/// The replicated layout.
ShardLayout replicated_layout(const DeviceMesh& mesh, const std::vector<index_t>& extents);

/// The part of a View that begins at `begin`.
PlainView part_of(PlainView view, const std::vector<index_t>& begin,
                  const std::vector<index_t>& extent);

/// Moves the elements of annotated tensors. `Space` is an enabled execution space that can access
/// them.
template <class Space>
struct AnnotationMoves {
  /// `to` = `from`, Views of the same extents. Local, ordered on `space`.
  static void copy(const Space& space, const CellType& cell, const PlainView& to,
                   const PlainView& from);
  /// Redistributes from one layout to another. Collective, blocking. Throws ArgumentError on every
  /// rank if `wrong` isn't empty on some rank, or a rank has no memory for its messages.
  static void move(const Space& space, const char* function, const CellType& cell,
                   const DeviceMesh& mesh, const ShardLayout& want, const PlainView& to,
                   const ShardLayout& have, const PlainView& from, std::string wrong);
};

}  // namespace shard::impl

#endif
