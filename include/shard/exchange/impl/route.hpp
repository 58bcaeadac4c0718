// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_ROUTE_HPP
#define SHARD_EXCHANGE_IMPL_ROUTE_HPP

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/exchange/impl/field_spec.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// A box of elements that goes from one rank to another, or stays on its rank. Indices are local:
/// they count from the first owned element of the rank that reads, or writes, them. A halo is at
/// -1 and at the extent.
struct Piece {
  int field = 0;
  int peer  = 0;  ///< rank in the mesh's communicator; unused in local pieces and fills
  std::array<index_t, max_rank>
      source{};  ///< the element that the first target element is read from
  std::array<index_t, max_rank> target{};
  std::array<index_t, max_rank> extent{};
  std::array<std::int8_t, max_rank> step{};  ///< of the source from element to element: +1 or -1
  std::array<std::int8_t, max_rank> along{
      0, 1, 2,
      3, 4, 5};       ///< the dimension of the source along which it moves, where axes are turned
  int partner   = 0;  ///< the source is this many fields further: a vector's other component
  bool negative = false;  ///< the sign changes
  int order     = 0;      ///< the adjoint adds pieces in this order, equal ones as they are listed
  BoundaryValue value{};  ///< of a fill

  int source_field() const { return field + partner; }
};

/// A field of a route, whatever its type.
struct RouteField {
  std::string label;
  ValueKind kind = ValueKind::opaque;
  int value_size = 0;
  int rank       = 0;
  bool left      = false;      ///< dimension 0 is the fastest in messages, else the last
  bool move      = false;      ///< source and target are different fields: the adjoint adds to the
                               ///< source and doesn't zero the target
  bool shares_points = false;  ///< copies of points that several blocks have are written too
  std::array<index_t, max_rank> owned{};  ///< elements of the field that is written, on this rank
};

/// The pieces that one rank sends, receives, copies and fills. Made from partitions, without
/// communication, for any rank. Pieces are sorted by peer, then by field; the pieces that one rank
/// sends to another are those that the other receives from it, in the same order.
struct Route {
  std::vector<RouteField> fields;
  std::vector<Piece> sends, receives;
  std::vector<Piece> locals;  ///< sources and targets on this rank
  std::vector<Piece> fills;   ///< no source: a constant
};

/// The route of these fields on this rank of the mesh. Local.
Route route_of(const MeshState& mesh, const std::vector<FieldSpec>& fields);

}  // namespace shard::impl

#endif
