// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_BLOCK_TABLE_HPP
#define SHARD_VIEW_IMPL_BLOCK_TABLE_HPP

#include <memory>
#include <string>
#include <vector>

#include "shard/view/boundary.hpp"
#include "shard/view/impl/partition_space.hpp"
#include "shard/view/tiles.hpp"

namespace shard {

/// A block of a BlockGrid: its tile and the first of its cells there.
struct TileBlock {
  int tile  = 0;  ///< its tile
  index_t y = 0;  ///< the first cell along y
  index_t x = 0;  ///< the first cell along x
};

namespace impl {

/// The block that owns a point, and the point's position from the block's first corner, in half
/// cells.
struct BlockPoint {
  index_t block = -1;  ///< -1: no block
  index_t y = 0, x = 0;
  int turns = 0;  ///< see TileImage
};

/// The blocks of a graph of tiles, all ranks', in the order of their numbers.
class BlockTable {
 public:
  /// `ny` x `nx` cells a block, 0: as many as tile 0 has. No block has a number yet. Throws
  /// ArgumentError if the blocks don't divide the tiles.
  BlockTable(Tiles tiles, index_t ny, index_t nx);
  /// Gives numbers to the blocks in this list, in its order; the others are dropped.
  void set_blocks(std::vector<TileBlock> blocks);

  /// All blocks of the tiles, along a space-filling curve in each tile.
  std::vector<TileBlock> all() const;

  const Tiles& tiles() const { return tiles_; }
  index_t extent_y() const { return ny_; }
  index_t extent_x() const { return nx_; }
  const std::vector<TileBlock>& blocks() const { return blocks_; }

  /// The owner of a point of a block, or around it, given in half cells from the block's first
  /// corner. A point that several blocks have belongs to the lowest tile, y, x, block.
  BlockPoint owner_of(index_t block, index_t y, index_t x) const;
  /// For a point of the halo without image where three tiles meet: the point of the block's own
  /// halo, beyond its x or its y side, that a quarter turn about the corner takes there. No block
  /// for other points.
  BlockPoint beside_corner(index_t block, index_t y, index_t x, bool beyond_x) const;
  /// The blocks that have a cell at a distance of at most `width` cells from a block, or a point of
  /// its edges: those that it may exchange halos with. Sorted.
  std::vector<index_t> around(index_t block, index_t width) const;
  std::uint64_t hash() const;

 private:
  /// The blocks that have a point inside a tile, in half cells.
  template <class Use>
  void each_block(const TileImage& at, const Use& use) const;

  Tiles tiles_;
  index_t ny_ = 1, nx_ = 1;
  std::vector<index_t> first_;   // of each tile, in number_
  std::vector<index_t> number_;  // of each block of the tiles, row by row; -1: dropped
  std::vector<TileBlock> blocks_;
};

/// What the partition of a field's block dimension has beside its begins.
struct BlockSpace : PartitionSpace {
  std::shared_ptr<const BlockTable> table;
  At at = At::centre;

  bool on_x_faces() const { return at == At::west || at == At::south_west; }
  bool on_y_faces() const { return at == At::south || at == At::south_west; }
  /// Whether some points are in several blocks, or twice in one.
  bool shares_points() const { return at != At::centre || table->tiles().folds_through_cells(); }
  index_t points_y() const { return table->extent_y() + (on_y_faces() ? 1 : 0); }
  index_t points_x() const { return table->extent_x() + (on_x_faces() ? 1 : 0); }
};

/// Number of blocks of each of `parts` ranks: consecutive blocks with about equal weights.
std::vector<index_t> shares_of(const std::vector<double>& weights, int parts);

}  // namespace impl
}  // namespace shard

#endif
