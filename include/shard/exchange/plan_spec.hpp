// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_PLAN_SPEC_HPP
#define SHARD_EXCHANGE_PLAN_SPEC_HPP

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/exchange/value_kind.hpp"
#include "shard/view/geometry.hpp"

namespace shard::impl {

/// One dimension of what a plan moves: who owns the cells that are read, who wants which cells, and
/// what lies beyond the world.
struct DimSpec {
  Partition from;  ///< owners of the cells that are read
  Partition to;    ///< owners of the cells that are written; each rank wants its part and the halo
                   ///< around it
  int coordinate = 0;  ///< of this rank along the axes that cut the dimension
  std::array<int, max_axes> axes{};
  int axis_count = 0;
  int lo = 0, hi = 0;
  BoundarySide low, high;
  bool wraps  = false;  ///< in a renewal: periodic, and past the seam cells are as good as inside
  bool padded = false;  ///< `to` is a partition of the world with lo cells more before it and hi
                        ///< after it (fewer, where these are negative); there is no halo
  int comb = 1;         ///< of padded: see Reindexing
};

/// Which cells of the halo a plan is about.
enum class HaloPart : std::uint8_t {
  all,
  inside,  ///< those inside the world; the others stay as they are
  edges    ///< those beyond the world, each wanted only by the rank that owns the cell at the edge;
         ///< the others count as constants, which the transpose sets to zero. It adds images in an
         ///< order of global indices, the same for every partition.
};

/// One field of a plan.
struct FieldSpec {
  std::string label;  ///< for messages; the only thing here that ranks need not agree about
  ValueKind kind = ValueKind::opaque;
  int value_size = 0;
  bool left      = false;  ///< dimension 0 is the fastest in messages, else the last
  bool move      = false;  ///< the owned cells are moved too; else a halo exchange within one field
  bool faces     = false;  ///< no corners: cells outside in one dimension alone
  bool renewal   = false;  ///< only cells beyond the world, read from the rank's own halo, which is
                           ///< taken as valid inside the world, where that has their image
  HaloPart part = HaloPart::all;
  int rank      = 0;
  std::array<DimSpec, max_rank> dims{};
  std::array<index_t, max_rank> from_stride{}, to_stride{};  ///< in values

  /// Everything that must be the same on all ranks, in words; labels and strides need not be.
  std::string describe() const;
};

/// The spec of a field's halo exchange.
FieldSpec exchange_spec(const Geometry& geometry, const DimType* types, ValueKind kind,
                        int value_size, bool left, const index_t* stride);

/// `to` made into a move: its owned cells, read from a field of other partitions. Throws
/// ArgumentError if the global extents differ.
FieldSpec move_spec(FieldSpec to, const Geometry& from, const index_t* from_stride);

/// How one dimension of a field is that of another: with lo cells more before it and hi after it
/// (fewer, where negative), which have the values that are there beyond the world; a Periodic one
/// with lo = -s, hi = s is turned by s cells. Or combed into `comb` equal stretches, N / comb cells
/// each: part r of the new dimension, [comb a, comb b), holds cells [a, b) of each stretch, stretch
/// by stretch.
struct Reindexing {
  int lo = 0, hi = 0;
  BoundarySide low, high;
  int comb = 1;
};

/// `to` made into a move that reads a field of other indices: its owned cells alone.
FieldSpec reindexed_spec(FieldSpec to, const Geometry& from, const index_t* from_stride,
                         const Reindexing* dims);

/// A field as the functions that find or make a plan see it, whatever its type.
struct FieldArgs {
  const Geometry* geometry = nullptr;
  const DimType* types     = nullptr;  ///< as many as it has dimensions; their axes don't count
  ValueKind kind           = ValueKind::opaque;
  int value_size           = 0;
  int layout               = 0;  ///< 0 right, 1 left, 2 strided
  std::array<index_t, max_rank> stride{};
};

/// Throws ArgumentError: an Exchange that was made by default was asked to do something.
[[noreturn]] void throw_no_exchange();

/// The mesh that all these fields live on. Throws ArgumentError if they don't.
MeshState& common_mesh(const Geometry* const* fields, int count);

/// Throws ArgumentError unless a plan that was made for `spec` can move this field: the same
/// extents, begins and strides.
void require_served(const char* function, const FieldSpec& spec, const FieldArgs& field);

/// What decides whether a plan made for some fields serves this one too: geometry, type, strides.
void add_to_key(PlanKey& key, const Geometry& geometry, const DimType* types, ValueKind kind,
                int value_size, const index_t* stride);

/// A run of wanted cells along one dimension and where their values are.
struct Segment {
  int owner      = 0;      ///< coordinate of the rank that owns the source
  index_t source = 0;      ///< global index of the source of the first cell
  index_t target = 0;      ///< global index of the first cell; beyond the world in an outer halo
  index_t count  = 0;      ///< cells
  int step       = 1;      ///< of the source from cell to cell: +1, or -1 where reflected
  bool crossed   = false;  ///< an odd number of poles lies between
  bool odd       = false;  ///< the sign changes
  int longitude  = -1;     ///< the dimension that turns where poles are crossed
  bool turned    = false;  ///< half the globe is added to the source, because a fold in another
                           ///< dimension was crossed
  bool identity = false;   ///< the owned cells of the rank itself
  bool halo     = false;   ///< outside of the rank's own cells
  bool constant = false;   ///< no source: the boundary's value
  BoundaryValue value{};
  bool beyond = false;      ///< in a renewal: the cells lie beyond the world
  bool near   = false;      ///< in a renewal: the source is among the cells of the rank that wants
                            ///< them, its halo included,
  index_t near_source = 0;  ///< here
};

/// The segments of what the rank with this coordinate wants along a dimension, in the order of
/// their targets.
std::vector<Segment> segments_of(const DimSpec& dim, int coordinate, bool turned);

/// A box of wanted cells with one source: a segment in each dimension.
struct PlanBox {
  int field = 0;
  int peer  = 0;  ///< rank in the mesh's communicator
  std::array<Segment, max_rank> segments{};
  bool odd = false;
  BoundaryValue value{};  ///< of a constant
};

/// What one rank has to do for one field.
struct PlanBoxes {
  std::vector<PlanBox> receives;  ///< cells here, sources at a peer
  std::vector<PlanBox>
      sends;  ///< cells at a peer, sources here; for each peer in the order of its receives
  std::vector<PlanBox> locals;     ///< cells and sources here
  std::vector<PlanBox> constants;  ///< cells here, no source
};

/// The boxes of field number `field` on this rank of the mesh. Local: computed from partitions
/// alone.
PlanBoxes boxes_of(const MeshState& mesh, const FieldSpec& spec, int field);

}  // namespace shard::impl

#endif
