// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes of boxes: redistributions, collectives, sequences, annotated tensors.
#include "box_route.hpp"

#include <algorithm>
#include <utility>

namespace shard::impl {

namespace {

constexpr index_t enough_rows = 64;

}  // namespace

index_t PieceBox::elements(int rank) const {
  index_t n = 1;
  for (int d = 0; d < rank; ++d) n *= extent[Geometry::at(d)];
  return n;
}

PieceBox intersection(const PieceBox& a, const PieceBox& b, int rank) {
  PieceBox box;
  for (int d = 0; d < rank; ++d) {
    const auto i        = Geometry::at(d);
    const index_t begin = std::max(a.begin[i], b.begin[i]);
    const index_t end   = std::min(a.begin[i] + a.extent[i], b.begin[i] + b.extent[i]);
    box.begin[i]        = begin;
    box.extent[i]       = std::max(end - begin, index_t{0});
  }
  return box;
}

PieceBox part_of(PieceBox box, int rank, bool left, index_t part, index_t parts) {
  int longest = 0;
  for (int k = 0; k < rank; ++k) {
    const int d     = left ? rank - 1 - k : k;
    const index_t n = box.extent[Geometry::at(d)];
    if (n > box.extent[Geometry::at(longest)]) longest = d;
    if (n >= enough_rows) {
      longest = d;
      break;
    }
  }
  index_t &begin = box.begin[Geometry::at(longest)], &extent = box.extent[Geometry::at(longest)];
  const index_t first = extent * part / parts, last = extent * (part + 1) / parts;
  begin += first;
  extent = last - first;
  return box;
}

BoxRoute::BoxRoute(const RouteField& field, int fields, const Reduction* reduction) {
  step_.route.fields.assign(static_cast<std::size_t>(fields), field);
  for (RouteField& f : step_.route.fields) f.move = true;
  step_.combines = reduction != nullptr;
  if (reduction != nullptr) step_.reduction = *reduction;
}

bool BoxRoute::is_empty(const PieceBox& box) const {
  return box.elements(step_.route.fields.front().rank) == 0;
}

/// A route that runs backwards reads its targets and writes its sources.
Piece BoxRoute::piece(int peer, const PieceBox* read, const PieceBox* written, int order,
                      int field) const {
  Piece p;
  p.field  = field;
  p.peer   = peer;
  p.order  = order;
  p.extent = (read != nullptr ? read : written)->extent;
  p.step.fill(1);
  if (read != nullptr) (step_.combines ? p.target : p.source) = read->begin;
  if (written != nullptr) (step_.combines ? p.source : p.target) = written->begin;
  return p;
}

void BoxRoute::send(int peer, const PieceBox& read, int field) {
  if (is_empty(read)) return;
  (step_.combines ? step_.route.receives : step_.route.sends)
      .push_back(piece(peer, &read, nullptr, 0, field));
}

void BoxRoute::receive(int peer, const PieceBox& written, int order, int field) {
  if (is_empty(written)) return;
  (step_.combines ? step_.route.sends : step_.route.receives)
      .push_back(piece(peer, nullptr, &written, order, field));
}

void BoxRoute::keep(const PieceBox& read, const PieceBox& written, int order, int field) {
  if (!is_empty(written)) step_.route.locals.push_back(piece(-1, &read, &written, order, field));
}

void BoxRoute::clear(const PieceBox& written, int field) {
  if (!is_empty(written)) step_.route.fills.push_back(piece(-1, nullptr, &written, 0, field));
}

TransferStep BoxRoute::step() {
  for (auto* pieces : {&step_.route.sends, &step_.route.receives})
    std::stable_sort(pieces->begin(), pieces->end(), [](const Piece& a, const Piece& b) {
      return std::pair(a.peer, a.field) < std::pair(b.peer, b.field);
    });
  return std::move(step_);
}

std::vector<TransferStep> one_step(BoxRoute route) {
  std::vector<TransferStep> steps;
  steps.push_back(route.step());
  return steps;
}

}  // namespace shard::impl
