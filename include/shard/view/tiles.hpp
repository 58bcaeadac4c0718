// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_TILES_HPP
#define SHARD_VIEW_TILES_HPP

#include <array>
#include <cstdint>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/view/boundary.hpp"

/// \file
/// Graphs of tiles: rectangular grids that are joined at their sides, such as the six tiles of a
/// cubed sphere. A field over such a graph is divided into blocks: view/block_grid.hpp.
///
/// Positions are in half cells. A tile of ny x nx cells has y from 0 to 2 ny and x from 0 to 2 nx.
/// Centres of cells are at (odd, odd), faces across x at (odd, even), faces across y at (even,
/// odd), corners at (even, even), each as (y, x).

namespace shard {

/// A side of a tile: x = 0, x = 2 nx, y = 0, y = 2 ny.
enum class Side : std::uint8_t { west, east, south, north };

/// Joins cells along a side of one tile with as many along a side of another tile, or of the same
/// one. It holds in both directions, so each is given once. All tiles have right-handed axes (x,
/// y), and two sides can be joined in only one way that keeps them so: east and west or north and
/// south in the same order, east and east in reverse order, and so on.
struct Contact {
  int tile            = 0;           ///< a tile
  Side side           = Side::east;  ///< its side
  int other           = 0;           ///< the tile beyond it
  Side other_side     = Side::west;  ///< and the side of that
  index_t first       = 0;           ///< first cell along the side
  index_t other_first = 0;           ///< first cell along the other side
  index_t cells       = 0;           ///< their number; 0: both whole sides
  /// Fold the northern side of a tile on itself through the centres of its last row of cells, not
  /// along the edge: half of that row is a copy of the other half. For all contacts of the side.
  bool through_cells = false;
};

/// Where a point of a tile, or beyond its sides, is inside a tile.
struct TileImage {
  bool exists = false;  ///< false beyond a side without contact, and where corners have no cell
  int tile    = 0;      ///< the tile
  index_t y   = 0;      ///< the position there along y, in half cells
  index_t x   = 0;      ///< the same along x
  int turns   = 0;      ///< quarter turns from the axes of that tile to those of the asking one

  /// Whether all members are equal.
  friend bool operator==(const TileImage&, const TileImage&) = default;
};

/// The cosine of a number of quarter turns, 0 to 3. With source = R target + t the
/// matrix R is ((cos, -sin), (sin, cos)) for (x, y), and the components of a vector are u = cos u'
/// + sin v', v = -sin u' + cos v'.
constexpr int quarter_cosine(int turns) { return turns == 0 ? 1 : turns == 2 ? -1 : 0; }
/// The sine of a number of quarter turns, 0 to 3.
constexpr int quarter_sine(int turns) { return turns == 1 ? 1 : turns == 3 ? -1 : 0; }

/// A graph of tiles: their extents and contacts. A value, the same on every rank.
class Tiles {
 public:
  /// No tiles.
  Tiles() = default;
  /// `extents`: the cells (ny, nx) of each tile. Sides without a contact are outer boundaries.
  /// Throws ArgumentError for a tile without cells, a tile or cells that don't exist, sides of
  /// different lengths, and cells that have two contacts.
  Tiles(std::vector<std::array<index_t, 2>> extents, const std::vector<Contact>& contacts);

  /// Number of tiles.
  int count() const { return static_cast<int>(extents_.size()); }
  /// Cells of a tile along y.
  index_t extent_y(int tile) const { return extents_[static_cast<std::size_t>(tile)][0]; }
  /// Cells of a tile along x.
  index_t extent_x(int tile) const { return extents_[static_cast<std::size_t>(tile)][1]; }
  /// Where a tile ends in the north, in half cells: 2 extent_y, or 1 less if a fold is through the
  /// last row of cells.
  index_t north(int tile) const { return 2 * extent_y(tile) - (folds_through_cells(tile) ? 1 : 0); }
  /// Whether a tile's northern side is folded through the centres of its last cells.
  bool folds_through_cells(int tile) const {
    return through_cells_[static_cast<std::size_t>(tile)] != 0;
  }
  /// The same of some tile.
  bool folds_through_cells() const;
  /// The smallest extent of all tiles: the widest halo that fields over them can have.
  index_t smallest() const;
  /// Whether some contact exchanges the x and the y axis.
  bool swaps_axes() const;
  /// Equal for equal graphs.
  std::uint64_t hash() const;

  /// For the library's own use: a contact as one of its two tiles sees it.
  struct Link {
    index_t first = 0;  ///< first cell along the side
    index_t last  = 0;  ///< and last one
    int tile      = 0;  ///< beyond it
    int turns     = 0;  ///< source = R target + (x, y)
    index_t y     = 0;  ///< of the shift, in half cells
    index_t x     = 0;  ///< the same along x
  };
  /// For the library's own use: the contacts of a side, in order.
  const std::vector<Link>& links(int tile, Side side) const {
    return links_[static_cast<std::size_t>(tile) * 4 + static_cast<std::size_t>(side)];
  }

 private:
  std::vector<std::array<index_t, 2>> extents_;
  std::vector<std::vector<Link>> links_;  // four for each tile
  std::vector<char> through_cells_;       // of each tile's north
};

/// The source of the point (y, x) of a tile, in half cells: itself inside the tile, the other
/// tile's point beyond a contact. A point beyond two sides is reached across either; if the two
/// ways don't lead to the same point (the corners of a cube), it has no source. Plans, tests and
/// pictures use this one map. The point is at most one tile away.
TileImage image_of(const Tiles& tiles, int tile, index_t y, index_t x);

/// All places of a point inside a tile, itself first: points on a contact are in several tiles.
std::vector<TileImage> places_of(const Tiles& tiles, int tile, index_t y, index_t x);

/// The six tiles of n x n cells of a cubed sphere, joined as those of FV3, GEOS, MITgcm and
/// Oceananigans: east of tile 0 is tile 1, north of it is tile 2.
Tiles cubed_sphere(index_t n);
/// A point of a cubed sphere's tile on the unit sphere, of the equiangular grid: position (y, x) in
/// half cells, which may be fractions, in a tile of n x n cells. Tile 0 is around +X, its x axis
/// towards +Y, its y axis towards +Z.
std::array<double, 3> cubed_sphere_point(index_t n, int tile, double y, double x);
/// One tile, periodic along both dimensions.
Tiles torus(index_t ny, index_t nx);
/// One tile, periodic along x.
Tiles channel(index_t ny, index_t nx);
/// One tile, periodic along x, whose northern side is folded on itself as by a NorthFold of this
/// pivot: about corners of cells, in the middle of the side and at its ends (`f_point`), or through
/// the last row of cells about centres of them (`t_point`) or eastern faces (`u_point`).
Tiles tripolar(index_t ny, index_t nx, Pivot pivot = Pivot::f_point);

}  // namespace shard

#endif
