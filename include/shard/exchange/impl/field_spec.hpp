// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_FIELD_SPEC_HPP
#define SHARD_EXCHANGE_IMPL_FIELD_SPEC_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/exchange/impl/source_ranges.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// One dimension of a field that is exchanged or moved: the partitions of source and target, and
/// the boundary.
struct DimSpec {
  Partition from;  ///< owners of the elements that are read
  Partition to;  ///< owners of the elements that are written; in a halo exchange each rank receives
                 ///< its part and the halo around it
  int coordinate = 0;  ///< of this rank along the axes that shard the dimension
  std::array<int, max_axes> axes{};
  int axis_count = 0;
  int lo = 0, hi = 0;  ///< halo; of a move see Reindexing
  BoundarySide low, high;
  bool wraps = false;  ///< in a renewal: periodic, and elements past the seam are valid as inside
  std::shared_ptr<const SourceRanges> ranges{};  ///< of a move: see Reindexing
  int layers = 0;  ///< of an index space's halo that are exchanged; 0 for other dimensions
  std::shared_ptr<const IndexHalo> moved{};  ///< of a move between index spaces: the target's owned
                                             ///< elements as a halo of the source
  bool copies = false;  ///< the last row is a NorthFold's with copies, in plans of a part too
};

/// The kind of a field's route; each has a file, src/exchange/*_route.cpp.
enum class RouteKind : std::uint8_t {
  halo,     ///< the halo, from owned elements
  renewal,  ///< the halo outside the domain, from the rank's own halo, which is valid inside
  move,     ///< owned elements, from a field of other partitions or indices
};

/// The part of the halo that an exchange fills.
enum class HaloPart : std::uint8_t {
  all,
  faces,      ///< no corners: those outside in one dimension alone
  inside,     ///< those inside the domain; the others stay as they are
  corners_x,  ///< of tiles, where a point has no image: from the halo beyond the x side
  corners_y,  ///< the same from the halo beyond the y side
  edges  ///< those outside the domain, each wanted only by the rank that owns the element at the
         ///< edge; the others count as constants, which the adjoint sets to zero. It adds them in
         ///< an order of global indices, the same for every partition.
};

/// One field of a plan.
struct FieldSpec {
  std::string label;  ///< for error messages; need not be the same on all ranks
  ValueKind kind  = ValueKind::opaque;
  int value_size  = 0;
  bool left       = false;  ///< dimension 0 is the fastest in messages, else the last
  RouteKind route = RouteKind::halo;
  HaloPart part   = HaloPart::all;
  int rank        = 0;
  int component   = 0;     ///< of a vector over tiles: 1 along x, then 2 along y; 0: none
  bool is_signed  = true;  ///< of a component: turning may change its sign
  std::array<DimSpec, max_rank> dims{};
  std::array<index_t, max_rank> from_stride{}, to_stride{};  ///< in values

  /// Everything that must be the same on all ranks, as text; without labels and strides.
  std::string describe() const;
};

/// The same of a list of fields: their number, then each; equal ones that follow each other once.
std::string describe(const std::vector<FieldSpec>& fields);

/// The fields' names, for messages about a plan.
template <class Fields>
std::string names_of(const Fields& fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "\"" : ", \"") + field.label + "\"";
  return names;
}

/// The spec of a field's halo exchange.
FieldSpec exchange_spec(const Geometry& geometry, const DimType* types, ValueKind kind,
                        int value_size, bool left, const index_t* stride);

/// How one dimension of a field follows from that of another field, in one of three ways.
///
/// By default the elements are the same.
///
/// Padded: the new dimension has `lo` elements more in front and `hi` more behind (a negative
/// number removes elements). The added elements have the boundary's values. A Periodic dimension
/// with lo = -s and hi = s is rotated by s elements.
///
/// By ranges: those elements of the new dimension that are among them are read, others stay as they
/// are.
struct Reindexing {
  int lo = 0, hi = 0;
  BoundarySide low, high;
  std::shared_ptr<const SourceRanges> ranges{};

  bool is_identity() const { return lo == 0 && hi == 0 && ranges == nullptr; }
};

/// `to` made into a move: its owned points, read from a field of other partitions or indices.
/// Throws ArgumentError if global extents differ where indices don't.
FieldSpec move_spec(const char* function, FieldSpec to, const Geometry& from,
                    const index_t* from_stride, const Reindexing* dims);

/// Where each rank's owned elements of one index space are in another one of the same ids, kept by
/// the mesh; null if the two partitions are of one space. Collective over the mesh the first time.
/// Throws ArgumentError on every rank if the ids differ or are unknown.
std::shared_ptr<const IndexHalo> index_move(MeshState& mesh, const DimGeometry& to,
                                            const DimGeometry& from);

/// A type-erased field, for the functions that find or make a plan.
struct FieldArgs {
  const Geometry* geometry = nullptr;
  const DimType* types     = nullptr;  ///< as many as it has dimensions; their axes don't count
  ValueKind kind           = ValueKind::opaque;
  int value_size           = 0;
  int layout               = 0;  ///< 0 right, 1 left, 2 strided
  std::array<index_t, max_rank> stride{};
  int component  = 0;  ///< as a FieldSpec's
  bool is_signed = true;
};

/// Throws ArgumentError: a default-constructed Exchange was used.
[[noreturn]] void throw_no_exchange();
[[noreturn]] void throw_other_memory(const char* function, const std::string& label);

/// Throws ArgumentError unless as many fields are given as a plan was made for.
void require_count(const char* function, std::size_t made_for, std::size_t given);

/// The common mesh of these fields. Throws ArgumentError if they have several.
MeshState& common_mesh(const Geometry* const* fields, int count);

/// Throws ArgumentError unless a plan for `spec` works for this field: the same extents, begins and
/// strides.
void require_served(const char* function, const FieldSpec& spec, const FieldArgs& field);
/// The same but for the strides. Returns whether they are those of `spec`.
bool require_same_extents(const char* function, const FieldSpec& spec, const FieldArgs& field);

/// Adds the properties of a field that a plan depends on: geometry, type, strides.
void add_to_key(PlanKey& key, const Geometry& geometry, const DimType* types, ValueKind kind,
                int value_size, const index_t* stride);

}  // namespace shard::impl

#endif
