// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_INDEX_HALO_HPP
#define SHARD_VIEW_IMPL_INDEX_HALO_HPP

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/view/impl/partition_space.hpp"

namespace shard {
class Partition;
}

namespace shard::impl {

/// Consecutive elements of an index space's halo, and where they are owned. Places are local
/// indices: the owned elements first, then the halo.
struct IndexRun {
  index_t part   = 0;  ///< the other rank's coordinate: the owner, or the one whose halo it is
  index_t source = 0;  ///< place at the owner
  index_t target = 0;  ///< place in the halo
  index_t count  = 0;
  index_t layer  = 1;
};

/// The halo of an index space on this rank. Both ends list the runs of one pair of ranks in the
/// same order: by layer, then by place in the halo.
struct IndexHalo : PartitionSpace {
  std::vector<std::int64_t> ids;  ///< of all places; empty if the space was made by owners
  index_t owned    = 0;
  index_t interior = 0;                  ///< the first owned places, which read no halo
  std::vector<index_t> layer_end;        ///< places up to layer l, l = 0 (the owned ones), 1, ...
  std::vector<IndexRun> received, sent;  ///< sorted by part
  std::vector<IndexRun> unowned;         ///< places that no rank owns
  std::uint64_t elements = 0;  ///< a hash of all ranks' owned ids, the same on every rank; 0 if
                               ///< the space was made by owners

  index_t halo() const { return layer_end.back() - owned; }
};

/// What the caller of an index space's constructor gives.
struct IndexInput {
  bool by_ids = true;
  std::vector<std::int64_t> ids;  ///< of all places, or
  std::vector<int> owner;         ///< the owner of each place of the halo,
  std::vector<index_t> place;     ///< and its place there
  index_t owned    = 0;
  index_t interior = 0;
  std::vector<int> layers;              ///< of each place of the halo; empty: all 1
  bool unowned_allowed = false;         ///< ids that no rank owns, and the owner -1
  const char* function = "IndexSpace";  ///< in messages
};

/// Places up to a layer. Throws ArgumentError for a layer that the space doesn't have.
index_t places_up_to(const IndexHalo& halo, int layer);
/// The halo of a space's partition. Throws ArgumentError for that of a space made by default.
const IndexHalo& made_halo(const Partition& partition);
/// The first place of each id, -1 for those that aren't on this rank.
std::vector<index_t> places_of(const IndexHalo& halo, const std::vector<std::int64_t>& ids);

/// Collective over `comm`, the ranks along the axis in order. Throws ArgumentError on every rank.
std::shared_ptr<const IndexHalo> make_index_halo(MPI_Comm comm, AxisId space,
                                                 const IndexInput& input);

}  // namespace shard::impl

#endif
