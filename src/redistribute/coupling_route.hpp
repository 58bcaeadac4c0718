// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_COUPLING_ROUTE_HPP
#define SHARD_SRC_REDISTRIBUTE_COUPLING_ROUTE_HPP

#include <mpi.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/exchange/impl/field_spec.hpp"
#include "shard/exchange/impl/route.hpp"

namespace shard::impl {

/// What all ranks know of one field: the same numbers on every rank of its mesh.
struct CoupledField {
  index_t rank = 0, kind = 0, value_size = 0, left = 0, reduction = 0;
  std::vector<index_t> partials;  ///< axes
  struct Dim {
    index_t space     = 0;       ///< 1 + its number in the side's `spaces`; 0: none
    index_t tile_axis = 0;       ///< 1: along y of tiles, 2: along x
    std::vector<index_t> begin;  ///< of each part, and the size
    std::vector<index_t> axes;
  };
  std::vector<Dim> dims;

  bool is_partial(index_t axis) const { return contains(partials, axis); }
  bool is_sharded(index_t axis) const {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const Dim& dim) { return contains(dim.axes, axis); });
  }
  static bool contains(const std::vector<index_t>& list, index_t axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  }
};
/// An index space, or the blocks of tiles, of fields of one side.
struct CoupledSpace {
  index_t is_tiles = 0;
  index_t at = 0, rows = 0, columns = 0;  ///< of a block: where its points are, and its cells
  std::vector<index_t> blocks;            ///< tile, first row and first column of each
};
/// One side: its mesh, and its fields.
struct CoupledSide {
  std::vector<index_t> shape;      ///< of the mesh
  std::vector<index_t> mesh_rank;  ///< by place, in the order of coordinates
  std::vector<CoupledSpace> spaces;
  std::vector<CoupledField> fields;
  // not described
  std::vector<int> rank;          ///< of the coupling, by the mesh's rank; -1: not in it
  std::vector<index_t> place_of;  ///< by the coupling's rank; -1: not on this side

  /// Sets the last two, for a coupling of so many ranks.
  void set_ranks(std::vector<int> by_mesh_rank, int ranks);

  index_t places() const { return static_cast<index_t>(mesh_rank.size()); }
  /// Coordinates of a place.
  std::array<index_t, max_axes> coordinates(index_t place) const {
    std::array<index_t, max_axes> c{};
    for (std::size_t a = shape.size(); a-- > 0; place /= shape[a]) c[a] = place % shape[a];
    return c;
  }
  const CoupledSpace& space_of(const CoupledField::Dim& dim) const {
    return spaces[static_cast<std::size_t>(dim.space) - 1];
  }
  /// The part of a dimension that a place has.
  index_t part_at(const CoupledField::Dim& dim, index_t place) const {
    const auto c = coordinates(place);
    index_t part = 0;
    for (const index_t axis : dim.axes)
      part = part * shape[static_cast<std::size_t>(axis)] + c[static_cast<std::size_t>(axis)];
    return part;
  }
  int rank_at(index_t place) const {
    return rank[static_cast<std::size_t>(mesh_rank[static_cast<std::size_t>(place)])];
  }
};

/// The side of these fields, which share a mesh; empty for none. Local, without `rank`.
CoupledSide side_of(const std::vector<FieldArgs>& fields);
/// A side as numbers, and back; without `rank`.
std::vector<index_t> numbers_of(const CoupledSide& side);
CoupledSide side_from(std::vector<index_t> numbers);

/// Puts the dimensions of the fields into the order of those of the other side.
void permute_dims(CoupledSide& side, const std::vector<int>& permute, std::string& wrong);
/// Elements that a part of `from` and a part of `to` have in common, along the matched dimensions.
struct CommonBox {
  std::array<index_t, 3> source{}, target{}, extent{1, 1, 1};
};
/// By part of `from` and part of `to`, those of one rank; in the same order on both ranks.
using CommonBoxes = std::map<std::pair<index_t, index_t>, std::vector<CommonBox>>;
/// How the dimensions of a field are matched that aren't matched each by its indices: that of an
/// index space, by ids; those of the block, y and x of tiles together. The first one is sharded.
struct Matching {
  std::vector<std::size_t> dims;
  std::shared_ptr<const CommonBoxes> boxes;

  bool has(std::size_t d) const { return std::find(dims.begin(), dims.end(), d) != dims.end(); }
};
/// The matching of each field. Collective over `comm`, whose ranks are those of the sides. Sets
/// `wrong` on some rank if the sides differ in cells; throws ArgumentError on every rank if they
/// differ in ids.
/// \param to,from this rank's fields; the dimensions of `from` are permuted
std::vector<Matching> matchings_of(MPI_Comm comm, const CoupledSide& to_side,
                                   const CoupledSide& from_side, const std::vector<FieldArgs>& to,
                                   const std::vector<FieldArgs>& from,
                                   const std::vector<int>& permute, std::string& wrong);

/// The difference between the sides; empty if they fit.
std::string difference(const CoupledSide& to, const CoupledSide& from);

/// The route from `from` to `to` on rank `me`; of a coupling that adds, the route from `to` to
/// `from`, whose transpose is run. Local; for any rank.
/// \param every_replica of a replicated `from` every replica sends to every rank: for a transpose
///        in which each gets the sum
Route route_between(const CoupledSide& to, const CoupledSide& from, int me, bool adds,
                    const std::vector<std::string>& labels,
                    const std::vector<Matching>& matchings = {}, bool every_replica = false);
/// What differs between two descriptions of a side, that of rank `a` first; empty if nothing does.
std::string disagreement(const CoupledSide& side_a, int a, const CoupledSide& side_b, int b);

}  // namespace shard::impl

#endif
