// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Placement of the fields between a model's layers in one allocation.
#include "shard/model/arena.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace shard::impl {

int Lifetimes::add(index_t bytes) {
  Piece piece;
  piece.bytes = (bytes + align - 1) / align * align;
  pieces_.push_back(piece);
  return static_cast<int>(pieces_.size()) - 1;
}

void Lifetimes::begin(int piece) {
  if (piece < 0) return;
  Piece& p  = pieces_[static_cast<std::size_t>(piece)];
  p.readers = 1;
  ++now_;
  p.spans.push_back({now_, std::numeric_limits<int>::max()});
}

void Lifetimes::hold(int piece) {
  if (piece >= 0) ++pieces_[static_cast<std::size_t>(piece)].readers;
}

void Lifetimes::end(int piece) {
  if (piece < 0) return;
  Piece& p = pieces_[static_cast<std::size_t>(piece)];
  if (--p.readers == 0) p.spans.back().end = ++now_;
}

index_t Lifetimes::apart() const {
  index_t sum = 0;
  for (const Piece& p : pieces_) sum += p.bytes;
  return sum;
}

bool Lifetimes::Piece::in_use(int time) const {
  return spans.empty() || std::any_of(spans.begin(), spans.end(), [&](const Span& s) {
           return s.begin <= time && time <= s.end;
         });
}

bool Lifetimes::Piece::meets(const Piece& other) const {
  if (spans.empty() || other.spans.empty()) return true;
  // if two spans overlap, one begins within the other
  const auto begins_in = [](const Piece& a, const Piece& b) {
    return std::any_of(a.spans.begin(), a.spans.end(),
                       [&](const Span& s) { return b.in_use(s.begin); });
  };
  return begins_in(*this, other) || begins_in(other, *this);
}

index_t Lifetimes::most_alive() const {
  index_t most        = 0;
  const auto alive_at = [&](int time) {
    index_t alive = 0;
    for (const Piece& p : pieces_)
      if (p.in_use(time)) alive += p.bytes;
    most = std::max(most, alive);
  };
  alive_at(0);
  for (const Piece& p : pieces_)  // the maximum is reached where a span begins
    for (const Span& s : p.spans) alive_at(s.begin);
  return most;
}

/// A backtracking search: buffers in order of first use, each at the low or the high end of the
/// free memory (a chain's adjoints alternate).
struct Lifetimes::Search {
  std::vector<Piece>& pieces;
  std::vector<std::size_t> order;
  index_t limit;
  int tries_left = 20000;

  /// The lowest or the highest free place for a buffer, -1 if there is none.
  index_t free_place(std::size_t position, bool low) const {
    const Piece& piece = pieces[order[position]];
    std::vector<std::pair<index_t, index_t>> taken;
    for (std::size_t i = 0; i < position; ++i) {
      const Piece& other = pieces[order[i]];
      if (other.bytes > 0 && other.meets(piece))
        taken.emplace_back(other.offset, other.offset + other.bytes);
    }
    std::sort(taken.begin(), taken.end());
    index_t place = -1, from = 0;
    taken.emplace_back(limit, limit);
    for (const auto& [begin, end] : taken) {
      if (begin - from >= piece.bytes) {
        place = low ? from : begin - piece.bytes;
        if (low) return place;
      }
      from = std::max(from, end);
    }
    return place;
  }

  bool fit(std::size_t position) {
    if (position == order.size()) return true;
    Piece& piece           = pieces[order[position]];
    const bool first_low   = position % 2 == 0;
    const index_t places[] = {free_place(position, first_low), free_place(position, !first_low)};
    for (int i = 0; i < (places[0] == places[1] ? 1 : 2); ++i) {
      if (places[i] < 0 || --tries_left < 0) return false;
      piece.offset = places[i];
      if (fit(position + 1)) return true;
    }
    return false;
  }
};

void Lifetimes::place() {
  Search search{pieces_, std::vector<std::size_t>(pieces_.size()), most_alive()};
  std::iota(search.order.begin(), search.order.end(), std::size_t{0});
  std::stable_sort(search.order.begin(), search.order.end(), [&](std::size_t a, std::size_t b) {
    return pieces_[a].first() < pieces_[b].first();
  });
  bytes_ = search.limit;
  if (!search.fit(0)) place_by_size();
}

/// Places the largest buffers first, each as low as possible.
void Lifetimes::place_by_size() {
  Search search{pieces_, std::vector<std::size_t>(pieces_.size()), apart()};
  std::iota(search.order.begin(), search.order.end(), std::size_t{0});
  std::stable_sort(search.order.begin(), search.order.end(), [&](std::size_t a, std::size_t b) {
    return pieces_[a].bytes > pieces_[b].bytes;
  });
  bytes_ = 0;
  for (std::size_t i = 0; i < search.order.size(); ++i) {
    Piece& piece = pieces_[search.order[i]];
    piece.offset = search.free_place(i, true);
    bytes_       = std::max(bytes_, piece.offset + piece.bytes);
  }
}

}  // namespace shard::impl
