// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_SEGMENTS_HPP
#define SHARD_SRC_EXCHANGE_SEGMENTS_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "shard/exchange/impl/route.hpp"

namespace shard::impl {

/// Elements of a dimension that another dimension's segment goes together with: all of them
/// (`all`), or those that a fold or a boundary by index chooses or moves.
struct Turn {
  enum class Kind : std::uint8_t {
    all,
    half,      ///< moved by half the globe (a PoleFold)
    opposite,  ///< in reverse order, moved to `first` - index (a NorthFold)
    kept,      ///< those of a row on the fold that are no copies
    copied,    ///< the others of that row, moved to `first` - index
    range      ///< the indices [first, last) of ByIndex
  };
  Kind kind     = Kind::all;
  index_t first = 0, last = 0;

  friend bool operator==(const Turn&, const Turn&) = default;
  /// The source of index i of n, or -1 if it isn't among the elements.
  index_t source(index_t i, index_t n) const;
};

/// Consecutive elements that a rank wants along one dimension, and where their values are. Indices
/// are global.
struct Segment {
  int owner      = 0;  ///< coordinate of the rank that owns the source
  index_t source = 0;  ///< of the first element
  index_t target = 0;  ///< of the first element; outside the domain in an outer halo
  index_t count  = 0;
  int step       = 1;      ///< of the source from element to element: +1, or -1 where reflected
  int longitude  = -1;     ///< the dimension of which it goes together with some elements only
  Turn with      = {};     ///< those elements
  bool odd       = false;  ///< the sign changes
  Turn turned    = {};     ///< the elements that these are: another dimension's fold or ByIndex
  bool constant  = false;  ///< no source: the boundary's value
  BoundaryValue value{};
  /// Of a renewal: the first source in the own range or halo of the rank that wants it, if it is
  /// there.
  std::optional<index_t> near{};
};

/// A segment and the coordinate of the rank that wants it.
struct Wanted {
  int coordinate;
  Segment segment;
};

/// One segment for each dimension: a piece.
using Choice = std::array<const Wanted*, max_rank>;

/// The segments of a field along each dimension: those that this rank wants (`here`), and those
/// that any rank wants of what this rank owns (`there`).
struct SegmentLists {
  std::array<std::vector<Wanted>, max_rank> here, there;
};

/// Appends [first, last) of a domain of `n` elements, cut where the owner changes, at the ends of
/// the rank's own range [begin, end), and where sources aren't neighbours.
void append_inside(const DimSpec& dim, index_t n, index_t begin, index_t end, const Turn& turned,
                   index_t first, index_t last, std::vector<Segment>& segments);
/// Appends [first, last), outside the domain on one side. Neighbouring elements with neighbouring
/// sources at one owner become one segment.
void append_outside(const DimSpec& dim, index_t n, const BoundarySide& side, const Turn& turned,
                    index_t first, index_t last, std::vector<Segment>& segments);
/// Appends [first, last), which may be inside and outside of the domain. The rank's own range is
/// [begin, end).
void append_range(const DimSpec& dim, index_t n, index_t begin, index_t end, const Turn& turned,
                  index_t first, index_t last, std::vector<Segment>& segments);

/// Calls use(first, last) for ranges of targets in the domain that contain those whose sources
/// are among [begin, end).
template <class Use>
void for_targets(const Turn& turned, index_t n, index_t begin, index_t end, const Use& use) {
  using Kind = Turn::Kind;
  if (turned.kind != Kind::half && turned.kind != Kind::opposite && turned.kind != Kind::copied)
    return use(begin, end);
  const index_t first =
      ((turned.kind == Kind::half ? begin - n / 2 : turned.first - end + 1) % n + n) % n;
  const index_t last = first + (end - begin);
  use(first, std::min(last, n));
  if (last > n) use(0, last - n);
}

/// Coordinates of the ranks whose wanted range [to.begin - below, to.end + above) meets
/// [first, last).
void append_overlapping(const DimSpec& dim, index_t below, index_t above, index_t first,
                        index_t last, std::vector<int>& coordinates);

/// The elements of dimension `d` that segments of other dimensions go together with; all of them
/// first.
std::vector<Turn> turns_of(const FieldSpec& spec, int d);

/// Appends the segments of an index space: those of this rank's halo, and of what other ranks have
/// in theirs of this rank's elements.
void append_index_halo(const DimSpec& dim, std::vector<Wanted>& here, std::vector<Wanted>& there);

/// The same of a move between two index spaces.
void append_index_move(const DimSpec& dim, std::vector<Wanted>& here, std::vector<Wanted>& there);

/// Makes the lists from the segments that a rank wants along a dimension,
/// `segments(dim, coordinate, turned)`, and the ranks that may want something of this one,
/// `candidates(dim, turned)`.
template <class Segments, class Candidates>
SegmentLists segment_lists(const FieldSpec& spec, const Segments& segments,
                           const Candidates& candidates) {
  SegmentLists lists;
  for (int d = 0; d < spec.rank; ++d) {
    const auto i       = Geometry::at(d);
    const DimSpec& dim = spec.dims[i];
    if (dim.moved) {
      append_index_move(dim, lists.here[i], lists.there[i]);
      continue;
    }
    if (dim.layers > 0) {
      append_index_halo(dim, lists.here[i], lists.there[i]);
      continue;
    }
    for (const Turn& turned : turns_of(spec, d)) {
      for (const Segment& s : segments(dim, dim.coordinate, turned))
        lists.here[i].push_back({dim.coordinate, s});
      for (const int q : candidates(dim, turned))
        for (const Segment& s : segments(dim, q, turned))
          if (!s.constant && s.owner == dim.coordinate) lists.there[i].push_back({q, s});
    }
  }
  return lists;
}

/// Whether each dimension's segment has the elements that those of the others go together with.
bool turns_agree(const FieldSpec& spec, const Choice& choice);

/// Calls visit(choice) for all products of one segment for each dimension whose turns agree, in
/// lexicographic order: the order of pieces in messages, on both ends alike.
template <class Visit>
void for_choices(const FieldSpec& spec, const std::array<std::vector<Wanted>, max_rank>& lists,
                 const Visit& visit, Choice& choice, int d = 0) {
  if (d < spec.rank && d < max_rank) {  // the second to tell the compiler where it ends
    for (const Wanted& w : lists[Geometry::at(d)]) {
      choice[Geometry::at(d)] = &w;
      for_choices(spec, lists, visit, choice, d + 1);
    }
    return;
  }
  if (!turns_agree(spec, choice)) return;
  visit(choice);
}
template <class Visit>
void for_choices(const FieldSpec& spec, const std::array<std::vector<Wanted>, max_rank>& lists,
                 const Visit& visit) {
  Choice choice{};
  for_choices(spec, lists, visit, choice);
}

/// Whether the elements that are wanted along dimension `d` are in the rank's halo.
bool is_halo(const FieldSpec& spec, const Choice& choice, int d);

/// The rank whose coordinates along the axes of a FieldSpec or a Geometry are coordinate(d), and
/// along all other axes this rank's.
template <class Field, class Coordinate>
int rank_of(const MeshState& mesh, const Field& spec, const Coordinate& coordinate) {
  std::array<int, max_axes> place{};
  for (int a = 0; a < mesh.axes(); ++a) place[Geometry::at(a)] = mesh.coordinate(a);
  for (int d = 0; d < spec.rank; ++d) {
    const auto& dim = spec.dims[Geometry::at(d)];
    int rest        = coordinate(d);
    for (int a = dim.axis_count - 1; a >= 0; --a) {
      const int axis            = dim.axes[Geometry::at(a)];
      place[Geometry::at(axis)] = rest % mesh.extent(axis);
      rest /= mesh.extent(axis);
    }
  }
  return mesh.rank_at(place.data());
}
/// The rank that owns a piece's source, and the one that wants it.
int owner_of(const MeshState& mesh, const FieldSpec& spec, const Choice& choice);
int wanting(const MeshState& mesh, const FieldSpec& spec, const Choice& choice);

/// The piece of a choice.
Piece piece_of(const FieldSpec& spec, const Choice& choice, int field, int peer);

/// Appends the pieces of a field: of each choice for which `wants(choice)` holds. Calls
/// made(choice, list) when one was appended to a list, but for fills.
template <class Wants, class Made>
void append_pieces(const MeshState& mesh, const FieldSpec& spec, int field,
                   const SegmentLists& lists, const Wants& wants, Route& route, const Made& made) {
  const int me = mesh.rank();
  for_choices(spec, lists.here, [&](const Choice& choice) {
    if (!wants(choice)) return;
    for (int d = 0; d < spec.rank; ++d)
      if (const Segment& s = choice[Geometry::at(d)]->segment; s.constant) {
        route.fills.push_back(piece_of(spec, choice, field, me));
        route.fills.back().value = s.value;
        return;
      }
    const int owner = owner_of(mesh, spec, choice);
    auto& list      = owner == me ? route.locals : route.receives;
    list.push_back(piece_of(spec, choice, field, owner));
    made(choice, list);
  });
  for_choices(spec, lists.there, [&](const Choice& choice) {
    const int peer = wanting(mesh, spec, choice);
    if (peer == me || !wants(choice)) return;
    route.sends.push_back(piece_of(spec, choice, field, peer));
    made(choice, route.sends);
  });
}

/// The segments of a rank's range and halo, and the ranks whose halo may want something of this
/// one.
std::vector<Segment> halo_segments(const DimSpec& dim, int coordinate, const Turn& turned);
std::vector<int> halo_candidates(const DimSpec& dim, const Turn& turned);

/// Appends the pieces of one field. Each kind of route has a file of its own.
void append_halo(const MeshState& mesh, const FieldSpec& spec, int field, Route& route);
/// Of fields over blocks of connected tiles.
bool is_tiled(const FieldSpec& spec);
/// Throws ArgumentError for vectors whose components don't fit, and for a component by itself where
/// contacts exchange it with the other.
void require_pairs(const std::vector<FieldSpec>& fields);
void append_tiles(const MeshState& mesh, const FieldSpec& spec, int field, Route& route);
void append_renewal(const MeshState& mesh, const FieldSpec& spec, int field, Route& route);
void append_move(const MeshState& mesh, const FieldSpec& spec, int field, Route& route);

}  // namespace shard::impl

#endif
