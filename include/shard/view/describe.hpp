// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_DESCRIBE_HPP
#define SHARD_VIEW_DESCRIBE_HPP

#include <string>
#include <utility>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/view/shard_layout.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// Pictures of which rank or device has which part of a tensor. All functions are local and return
/// the same on every rank.

namespace shard {

/// A picture as data: a grid of boxes for two dimensions (the first two sharded ones), each with
/// its owners.
struct ShardPicture {
  using Range = std::pair<index_t, index_t>;  ///< indices [first, second) of one dimension

  std::vector<std::string> facts;  ///< extents, partitions, halos and bytes, a line each
  int row_dim    = -1;             ///< dimension that runs downwards, or -1
  int column_dim = -1;             ///< dimension that runs to the right, or -1
  std::vector<Range> rows;         ///< shards of row_dim; one empty range if row_dim is -1
  std::vector<Range> columns;      ///< shards of column_dim, likewise
  /// The owners of each box, row by row: "0", "0,1" for replicas, "0 / 4" if other dimensions are
  /// sharded too, "(3)" for an empty box.
  std::vector<std::string> holders;

  /// The picture as text: facts, then the boxes. Of many rows and columns the middle is omitted.
  std::string text() const;
};

/// The picture of a layout; devices are the mesh's. Sizes are in bytes if `value_bytes` isn't 0,
/// else in points.
ShardPicture shard_picture(const ShardLayout& layout, index_t value_bytes = 0);

namespace impl {

/// `types`: the type's properties of each dimension.
ShardPicture shard_picture(const Geometry& geometry, const DimType* types, index_t value_bytes);

}  // namespace impl

/// The picture of a field; devices are the ranks of its communicator. Local. Throws ArgumentError
/// for a default-constructed field.
template <AnyShardedView Field>
ShardPicture shard_picture(const Field& field) {
  return impl::shard_picture(field.any_geometry(), impl::FieldTypeOf<Field>::types.data(),
                             static_cast<index_t>(sizeof(typename Field::value_type)));
}

/// A field as text: extents, partitions, halos, boundaries, bytes per rank, and a picture of which
/// rank owns what, as jax.debug.visualize_array_sharding draws it. Local; the same on every rank.
/// Throws ArgumentError for a default-constructed field.
template <AnyShardedView Field>
std::string describe(const Field& field) {
  return shard_picture(field).text();
}

/// The part of a tensor on each device, as text with a picture. Sizes are in bytes if `value_bytes`
/// isn't 0, else in points.
std::string describe(const ShardLayout& layout, index_t value_bytes = 0);

/// The same for a tensor of these extents under a sharding. Errors as ShardLayout's.
std::string describe(const OpSharding& sharding, const std::vector<index_t>& extents,
                     index_t value_bytes = 0);

}  // namespace shard

#endif
