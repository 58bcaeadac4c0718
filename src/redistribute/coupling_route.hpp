// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_COUPLING_ROUTE_HPP
#define SHARD_SRC_REDISTRIBUTE_COUPLING_ROUTE_HPP

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "shard/exchange/impl/field_spec.hpp"
#include "shard/exchange/impl/route.hpp"

namespace shard::impl {

/// What all ranks know of one field: the same numbers on every rank of its mesh.
struct CoupledField {
  index_t rank = 0, kind = 0, value_size = 0, left = 0, reduction = 0;
  std::vector<index_t> partials;  ///< axes
  struct Dim {
    index_t is_index_space = 0;
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
/// One side: its mesh, and its fields.
struct CoupledSide {
  std::vector<index_t> shape;      ///< of the mesh
  std::vector<index_t> mesh_rank;  ///< by place, in the order of coordinates
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
/// The difference between the sides; empty if they fit.
std::string difference(const CoupledSide& to, const CoupledSide& from);

/// The route from `from` to `to` on rank `me`; of a coupling that adds, the route from `to` to
/// `from`, whose transpose is run. Local; for any rank.
Route route_between(const CoupledSide& to, const CoupledSide& from, int me, bool adds,
                    const std::vector<std::string>& labels);

}  // namespace shard::impl

#endif
