// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_BOX_ROUTE_HPP
#define SHARD_SRC_EXCHANGE_BOX_ROUTE_HPP

#include <array>
#include <vector>

#include "shard/exchange/impl/jobs.hpp"
#include "shard/exchange/impl/route.hpp"

/// \file
/// Routes of boxes: redistributions, collectives, zigzag sequences and annotated tensors. Halo
/// exchanges make theirs in halo_route.cpp.

namespace shard::impl {

/// A box of indices; empty if an extent is 0.
struct PieceBox {
  std::array<index_t, max_rank> begin{}, extent{};

  index_t elements(int rank) const;
  friend bool operator==(const PieceBox&, const PieceBox&) = default;
};
PieceBox intersection(const PieceBox& a, const PieceBox& b, int rank);

/// Part `part` of `parts` of a box, divided along the slowest dimension with enough rows, else
/// along the longest. `left`: dimension 0 is the fastest.
PieceBox part_of(PieceBox box, int rank, bool left, index_t part, index_t parts);

/// A route that is run to its end at once, and the reduction of contributions if it combines.
struct TransferStep {
  Route route;
  bool combines = false;  ///< the route is the transpose's, run backwards
  Reduction reduction{};
};

/// Makes a step of boxes of local indices: what this rank sends, receives, keeps and sets to zero.
/// Both ends list the boxes of one message in the same order.
class BoxRoute {
 public:
  /// `field` describes all fields of the step; `fields` how many there are. A step that combines
  /// needs a reduction.
  explicit BoxRoute(const RouteField& field, int fields = 1, const Reduction* reduction = nullptr);

  /// Sends a box of the field that is read to a peer, or receives one of the field that is written.
  /// `order`: of contributions to one value.
  void send(int peer, const PieceBox& read, int field = 0);
  void receive(int peer, const PieceBox& written, int order = 0, int field = 0);
  /// A copy on this rank.
  void keep(const PieceBox& read, const PieceBox& written, int order = 0, int field = 0);
  /// Sets a box of the written field to zero before anything else is written.
  void clear(const PieceBox& written, int field = 0);

  TransferStep step();

 private:
  Piece piece(int peer, const PieceBox* read, const PieceBox* written, int order, int field) const;
  bool is_empty(const PieceBox& box) const;

  TransferStep step_;
};

/// The list of a single step.
std::vector<TransferStep> one_step(BoxRoute route);

}  // namespace shard::impl

#endif
