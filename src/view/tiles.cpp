// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs of tiles: contacts as turns and shifts of half-cell positions.
#include "shard/view/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "shard/base/error.hpp"

namespace shard {

namespace {

bool is_vertical(Side side) { return side == Side::west || side == Side::east; }
/// Whether the cells along the side are in counterclockwise order around the tile.
bool is_counterclockwise(Side side) { return side == Side::south || side == Side::east; }
/// Quarter turns from east to the direction out of the tile.
int outward(Side side) {
  constexpr int turns[] = {2, 0, 3, 1};
  return turns[static_cast<std::size_t>(side)];
}
const char* name(Side side) {
  constexpr const char* names[] = {"west", "east", "south", "north"};
  return names[static_cast<std::size_t>(side)];
}

index_t length(const Tiles& tiles, int tile, Side side) {
  return is_vertical(side) ? tiles.extent_y(tile) : tiles.extent_x(tile);
}

/// The position on a side of a distance along it, in half cells.
std::array<index_t, 2> on_side(const Tiles& tiles, int tile, Side side, index_t along) {
  switch (side) {
    case Side::west: return {along, 0};
    case Side::east: return {along, 2 * tiles.extent_x(tile)};
    case Side::south: return {0, along};
    default: return {tiles.north(tile), along};
  }
}

[[noreturn]] void refuse(const Contact& c, const std::string& wrong) {
  impl::throw_argument("Tiles",
                       {"the contact of tile ", impl::text(c.tile), " ", name(c.side), " and tile ",
                        impl::text(c.other), " ", name(c.other_side), " ", wrong});
}

/// The image of a point across a link.
TileImage across(const Tiles::Link& link, const TileImage& from) {
  const int c = quarter_cosine(link.turns), s = quarter_sine(link.turns);
  return {true, link.tile, s * from.x + c * from.y + link.y, c * from.x - s * from.y + link.x,
          (from.turns + link.turns) % 4};
}

/// The image across a side, of a point beyond it. Beyond the end of the side, the contact at that
/// end leads on.
TileImage across(const Tiles& tiles, const TileImage& from, Side side) {
  const index_t end   = 2 * length(tiles, from.tile, side),
                along = std::clamp<index_t>(is_vertical(side) ? from.y : from.x, 1, end - 1);
  for (const Tiles::Link& link : tiles.links(from.tile, side))
    if (along >= 2 * link.first && along <= 2 * link.last) return across(link, from);
  return {};
}

/// The sides beyond which a point is; `out` gets at most two.
int beyond(const Tiles& tiles, const TileImage& at, std::array<Side, 2>& out) {
  std::size_t n = 0;
  if (at.x < 0 || at.x > 2 * tiles.extent_x(at.tile)) out[n++] = at.x < 0 ? Side::west : Side::east;
  if (at.y < 0 || at.y > tiles.north(at.tile)) out[n++] = at.y < 0 ? Side::south : Side::north;
  return static_cast<int>(n);
}

/// The same point inside a tile, after at most one more crossing.
TileImage settled(const Tiles& tiles, TileImage at, int crossings) {
  std::array<Side, 2> sides{};
  while (at.exists) {
    const int count = beyond(tiles, at, sides);
    if (count == 0) return at;
    if (count == 2 || crossings-- == 0) break;
    at = across(tiles, at, sides[0]);
  }
  return {};
}

}  // namespace

Tiles::Tiles(std::vector<std::array<index_t, 2>> extents, const std::vector<Contact>& contacts)
    : extents_(std::move(extents)),
      links_(extents_.size() * 4),
      through_cells_(extents_.size(), 0) {
  for (int t = 0; t < count(); ++t)
    if (extent_y(t) < 1 || extent_x(t) < 1)
      impl::throw_argument("Tiles",
                           {"tile ", impl::text(t), " has ", impl::text(extent_y(t)), " x ",
                            impl::text(extent_x(t)), " cells; a tile has at least one cell"});
  for (const Contact& c : contacts)
    if (c.through_cells && c.tile >= 0 && c.tile < count())
      through_cells_[static_cast<std::size_t>(c.tile)] = 1;
  for (const Contact& c : contacts) {
    for (const int t : {c.tile, c.other})
      if (t < 0 || t >= count())
        refuse(c, "names tile " + impl::text(t) + " of " + impl::text(count()));
    const index_t mine   = length(*this, c.tile, c.side),
                  theirs = length(*this, c.other, c.other_side);
    if (c.cells == 0 && (mine != theirs || c.first != 0 || c.other_first != 0))
      refuse(c, "joins sides of " + impl::text(mine) + " and " + impl::text(theirs) +
                    " cells; say which cells: first, other_first, cells");
    const bool is_fold = c.tile == c.other && c.side == Side::north && c.other_side == Side::north;
    const auto meets_north = [&](int tile, Side side) {
      return side == Side::north && folds_through_cells(tile);
    };
    if (c.through_cells ? !is_fold || extent_y(c.tile) < 2
                        : meets_north(c.tile, c.side) || meets_north(c.other, c.other_side))
      refuse(c,
             "can't go with a fold through cells; such a fold joins the northern side of one "
             "tile of at least two rows with itself, and all contacts of that side have "
             "through_cells");
    const index_t cells = c.cells == 0 ? mine : c.cells;
    if (cells < 0 || c.first < 0 || c.other_first < 0 || c.first + cells > mine ||
        c.other_first + cells > theirs)
      refuse(c, "has " + impl::text(cells) + " cells from " + impl::text(c.first) + " and " +
                    impl::text(c.other_first) + " on; the sides have " + impl::text(mine) +
                    " and " + impl::text(theirs));
    const bool reversed = is_counterclockwise(c.side) == is_counterclockwise(c.other_side);
    const auto add      = [&](int tile, Side side, index_t first, int other, Side other_side,
                         index_t other_first) {
      Link link;
      link.first   = first;
      link.last    = first + cells;
      link.tile    = other;
      link.turns   = (outward(other_side) + 6 - outward(side)) % 4;
      const auto a = on_side(*this, tile, side, 2 * first);
      const auto b = on_side(*this, other, other_side, 2 * (other_first + (reversed ? cells : 0)));
      const int cosine = quarter_cosine(link.turns), sine = quarter_sine(link.turns);
      link.y     = b[0] - (sine * a[1] + cosine * a[0]);
      link.x     = b[1] - (cosine * a[1] - sine * a[0]);
      auto& list = links_[static_cast<std::size_t>(tile) * 4 + static_cast<std::size_t>(side)];
      const auto place = std::find_if(list.begin(), list.end(),
                                           [&](const Link& l) { return l.last > link.first; });
      if (place != list.end() && place->first < link.last)
        refuse(c, "joins cells of tile " + impl::text(tile) + " " + name(side) +
                           " that have another contact, from cell " +
                           impl::text(std::max(place->first, link.first)) + " on");
      list.insert(place, link);
    };
    add(c.tile, c.side, c.first, c.other, c.other_side, c.other_first);
    if (c.tile != c.other || c.side != c.other_side || c.first != c.other_first)
      add(c.other, c.other_side, c.other_first, c.tile, c.side, c.first);
  }
}

index_t Tiles::smallest() const {
  index_t least = extents_.empty() ? 0 : extents_.front()[0];
  for (const auto& e : extents_) least = std::min({least, e[0], e[1]});
  return least;
}

bool Tiles::folds_through_cells() const {
  return std::find(through_cells_.begin(), through_cells_.end(), 1) != through_cells_.end();
}

bool Tiles::swaps_axes() const {
  for (const auto& side : links_)
    for (const Link& link : side)
      if (link.turns % 2 != 0) return true;
  return false;
}

std::uint64_t Tiles::hash() const {
  std::uint64_t hash =
      impl::hash_bytes(extents_.data(), extents_.size() * sizeof(extents_[0]), impl::hash_seed);
  for (const auto& side : links_)
    for (const Link& l : side) {
      const index_t words[] = {&side - links_.data(), l.first, l.last, l.tile, l.turns, l.y, l.x};
      hash                  = impl::hash_bytes(words, sizeof(words), hash);
    }
  return impl::hash_bytes(through_cells_.data(), through_cells_.size(), hash);
}

TileImage image_of(const Tiles& tiles, int tile, index_t y, index_t x) {
  const TileImage at{true, tile, y, x, 0};
  std::array<Side, 2> sides{};
  const int count = beyond(tiles, at, sides);
  if (count == 0) return at;
  const TileImage one = settled(tiles, across(tiles, at, sides[0]), count - 1);
  if (count == 1) return one;
  const TileImage two = settled(tiles, across(tiles, at, sides[1]), 1);
  return one == two ? one : TileImage{};
}

std::vector<TileImage> places_of(const Tiles& tiles, int tile, index_t y, index_t x) {
  std::vector<TileImage> places{{true, tile, y, x, 0}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TileImage at   = places[i];
    const auto continue_ = [&](Side side, bool on, index_t along) {
      if (!on) return;
      for (const Tiles::Link& link : tiles.links(at.tile, side)) {
        if (along < 2 * link.first || along > 2 * link.last) continue;
        const TileImage there = across(link, at);
        const auto same       = [&](const TileImage& p) {
          return p.tile == there.tile && p.y == there.y && p.x == there.x;
        };
        if (std::none_of(places.begin(), places.end(), same)) places.push_back(there);
      }
    };
    continue_(Side::west, at.x == 0, at.y);
    continue_(Side::east, at.x == 2 * tiles.extent_x(at.tile), at.y);
    continue_(Side::south, at.y == 0, at.x);
    continue_(Side::north, at.y == tiles.north(at.tile), at.x);
  }
  return places;
}

Tiles cubed_sphere(index_t n) {
  std::vector<Contact> contacts;
  for (int p = 0; p < 6; ++p) {
    const int next = (p + 1) % 6, second = (p + 2) % 6;
    if (p % 2 == 0) {
      contacts.push_back({.tile = p, .side = Side::east, .other = next, .other_side = Side::west});
      contacts.push_back(
          {.tile = p, .side = Side::north, .other = second, .other_side = Side::west});
    } else {
      contacts.push_back(
          {.tile = p, .side = Side::east, .other = second, .other_side = Side::south});
      contacts.push_back(
          {.tile = p, .side = Side::north, .other = next, .other_side = Side::south});
    }
  }
  return {std::vector<std::array<index_t, 2>>(6, {n, n}), contacts};
}

std::array<double, 3> cubed_sphere_point(index_t n, int tile, double y, double x) {
  constexpr double axes[6][3][3] = {
      {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},   {{0, 1, 0}, {-1, 0, 0}, {0, 0, 1}},
      {{0, 0, 1}, {-1, 0, 0}, {0, -1, 0}}, {{-1, 0, 0}, {0, 0, -1}, {0, -1, 0}},
      {{0, -1, 0}, {0, 0, -1}, {1, 0, 0}}, {{0, 0, -1}, {0, 1, 0}, {1, 0, 0}}};
  constexpr double quarter = 0.78539816339744830962;
  const auto size          = static_cast<double>(n);
  const double a = std::tan(quarter * (x / size - 1)), b = std::tan(quarter * (y / size - 1));
  const double length = std::sqrt(1 + a * a + b * b);
  std::array<double, 3> point{};
  for (std::size_t k = 0; k < 3; ++k)
    point[k] = (axes[tile][0][k] + a * axes[tile][1][k] + b * axes[tile][2][k]) / length;
  return point;
}

Tiles torus(index_t ny, index_t nx) {
  return {{{ny, nx}},
          {{.tile = 0, .side = Side::east, .other = 0, .other_side = Side::west},
           {.tile = 0, .side = Side::north, .other = 0, .other_side = Side::south}}};
}

Tiles channel(index_t ny, index_t nx) {
  return {{{ny, nx}}, {{.tile = 0, .side = Side::east, .other = 0, .other_side = Side::west}}};
}

Tiles tripolar(index_t ny, index_t nx, Pivot pivot) {
  std::vector<Contact> contacts{
      {.tile = 0, .side = Side::east, .other = 0, .other_side = Side::west}};
  const auto fold = [&](index_t first, index_t cells) {
    contacts.push_back({.tile          = 0,
                        .side          = Side::north,
                        .other         = 0,
                        .other_side    = Side::north,
                        .first         = first,
                        .other_first   = first,
                        .cells         = cells,
                        .through_cells = pivot != Pivot::f_point});
  };
  // column i is opposite to -i about t_point, to nx - 1 - i about the others
  const index_t first = pivot == Pivot::t_point ? 1 : 0;
  if (first == 1) fold(0, 1);
  if (nx > first) fold(first, nx - first);
  return {{{ny, nx}}, contacts};
}

}  // namespace shard
