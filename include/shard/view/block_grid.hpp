// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_BLOCK_GRID_HPP
#define SHARD_VIEW_BLOCK_GRID_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "shard/mesh/mesh.hpp"
#include "shard/view/impl/block_table.hpp"
#include "shard/view/partition.hpp"
#include "shard/view/tiles.hpp"

/// \file
/// Fields over connected tiles, such as a cubed sphere. The tiles are divided into blocks of equal
/// extents, and each rank owns some blocks: several, one or none. A field has a dimension that
/// counts the rank's blocks and two dimensions with the points of a block and a halo around them.
/// An exchange fills the halos across the sides of blocks and the contacts of tiles.

namespace shard {

/// How a BlockGrid divides its tiles. The same on every rank.
struct BlockOptions {
  /// Cells (ny, nx) of a block, divisors of every tile's; 0: as many as tile 0 has.
  std::array<index_t, 2> block{};
  /// Whether a block is kept (default: all are), for instance because it has ocean. A dropped block
  /// has no memory; halos that lie in it are zero, as beyond an outer side.
  std::function<bool(const TileBlock&)> keep{};
  /// The work that a block makes (default: 1). Each rank gets blocks of about equal weight.
  std::function<double(const TileBlock&)> weight{};
};

namespace impl {

/// Collective over `comm`: the numbered blocks, and the part of each rank along the axis.
std::shared_ptr<const BlockTable> make_block_table(MPI_Comm comm, const Tiles& tiles,
                                                   const BlockOptions& options, int parts,
                                                   Partition& owned);
/// The partition of a field's block dimension.
Partition block_partition(std::shared_ptr<const BlockTable> table, AxisId space, At at,
                          const Partition& owned);
/// 0 to 3 for the positions that a grid has. Throws ArgumentError for others.
std::size_t block_position(At at);

}  // namespace impl

/// Blocks of a graph of tiles, sharded over the mesh axis `Axis`. It is the partition of a
/// dimension whose ShardDim has the option `Blocks<Tag>`:
///
/// \code
/// struct Sphere;
/// shard::BlockGrid<Sphere, Ranks> sphere(mesh, shard::cubed_sphere(96), {.block = {24, 48}});
/// using Field = shard::ShardedView<double****, Kokkos::LayoutRight,
///     shard::ShardDim<0, Ranks, shard::Blocks<Sphere>>,
///     shard::ShardDim<2, shard::Unsharded, shard::Halo<3>, shard::LinkedY>,
///     shard::ShardDim<3, shard::Unsharded, shard::Halo<3>, shard::LinkedX>>;
/// Field h("h", mesh, {sphere, shard::Partition::whole(32), sphere.y(), sphere.x()});
/// shard::exchange(space, h);  // h(block, level, y, x)
/// \endcode
///
/// Global indices of the block dimension are the blocks' numbers, the same on any number of ranks.
template <class Tag, class Axis>
class BlockGrid {
 public:
  /// Collective over the mesh. Throws AgreementError on every rank if the ranks give different
  /// tiles or options, ArgumentError if blocks don't divide a tile or a weight is negative.
  template <class... MeshAxes>
  BlockGrid(const Mesh<MeshAxes...>& mesh, const Tiles& tiles, const BlockOptions& options = {}) {
    const int parts = mesh.template size<Axis>();
    part_           = mesh.template coordinate<Axis>();
    table_          = impl::make_block_table(mesh.communicator(), tiles, options, parts, owned_);
    for (const At at : {At::centre, At::west, At::south, At::south_west})
      partitions_.push_back(impl::block_partition(table_, impl::axis_id<Tag>(), at, owned_));
  }

  /// The tiles.
  const Tiles& tiles() const { return table_->tiles(); }
  /// Number of blocks of all ranks.
  index_t size() const { return owned_.size(); }
  /// Number of blocks of this rank.
  index_t count() const { return owned_.count(part_); }
  /// Local block `b` of this rank.
  const TileBlock& block(index_t b) const {
    return table_->blocks()[static_cast<std::size_t>(owned_.begin(part_) + b)];
  }
  /// This rank's blocks in memory for kernels. Allocates and copies.
  template <class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  Kokkos::View<TileBlock*, Memory> blocks() const {
    Kokkos::View<TileBlock*, Memory> all(
        Kokkos::view_alloc("shard::blocks", Kokkos::WithoutInitializing),
        static_cast<std::size_t>(count()));
    const auto host = Kokkos::create_mirror_view(all);
    for (index_t b = 0; b < count(); ++b) host(static_cast<std::size_t>(b)) = block(b);
    Kokkos::deep_copy(all, host);
    return all;
  }

  /// The partition of a field's block dimension. The field's points are at the centres of cells;
  /// `at(At::west)`: on the faces across x, one more along x than cells; `at(At::south)`: on the
  /// faces across y; `at(At::south_west)`: at the corners. Throws ArgumentError for east, north and
  /// north_east: the points there are those of west, south and south_west, counted from 1.
  Partition at(At position) const { return partitions_[impl::block_position(position)]; }
  /// The partition of a block dimension whose points are at the centres.
  operator Partition() const { return partitions_[0]; }  // NOLINT(google-explicit-constructor)
  /// The partition of a field's y dimension.
  Partition y(At position = At::centre) const {
    return Partition::whole(at(position).block_space()->points_y());
  }
  /// The partition of a field's x dimension.
  Partition x(At position = At::centre) const {
    return Partition::whole(at(position).block_space()->points_x());
  }

 private:
  int part_ = 0;
  Partition owned_;
  std::shared_ptr<const impl::BlockTable> table_;
  std::vector<Partition> partitions_;
};

}  // namespace shard

#endif
