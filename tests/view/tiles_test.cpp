// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Connected tiles: cubed spheres against geometry and against a table of contacts, planes that are
// cut into turned tiles against plain coordinates, on any number of blocks and ranks.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace tiles_test {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

struct Ranks;
struct Grid;

/// [block, level, y, x], with other halos on each side.
using Field = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Ranks, Blocks<Grid>>,
                          ShardDim<2, Unsharded, Halo<1, 2>, LinkedY>,
                          ShardDim<3, Unsharded, Halo<2, 1>, LinkedX>, Kokkos::HostSpace>;
/// (x, y, block)
using Numbers = ShardedView<int***, Kokkos::LayoutLeft, ShardDim<0, Unsharded, Halo<4>, LinkedX>,
                            ShardDim<1, Unsharded, Halo<4>, LinkedY>,
                            ShardDim<2, Ranks, Blocks<Grid>>, Kokkos::HostSpace>;
using Atlas   = BlockGrid<Grid, Ranks>;

constexpr index_t levels = 2;

Field field(const char* label, const Mesh<Ranks>& mesh, const Atlas& grid, At at = At::centre) {
  return Field(label, mesh, {grid.at(at), Partition::whole(levels), grid.y(at), grid.x(at)});
}
Numbers numbers(const char* label, const Mesh<Ranks>& mesh, const Atlas& grid, At at) {
  return Numbers(label, mesh, {grid.x(at), grid.y(at), grid.at(at)});
}

/// Positions of a point along y and x from a block's first corner, in half cells.
bool on_y(At at) { return at == At::south || at == At::south_west; }
bool on_x(At at) { return at == At::west || at == At::south_west; }

struct OneKernel {
  KOKKOS_FUNCTION double operator()(int, int, int) const { return 1; }
};

int total(int mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}

// ---------------------------------------------------------------------------------------------
// Cubed spheres

using Point = std::array<double, 3>;
std::array<long, 3> rounded(const Point& p) {
  return {std::lround(p[0] * 1e9), std::lround(p[1] * 1e9), std::lround(p[2] * 1e9)};
}
double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// A cell beside a tile's side, and the position of the middle of its edge on the side.
struct EdgeCell {
  int tile;
  Side side;
  index_t along;
};
constexpr std::array<Side, 4> all_sides{Side::west, Side::east, Side::south, Side::north};

std::array<double, 2> on_side(index_t n, Side side, double along) {
  const auto end = 2.0 * static_cast<double>(n);
  switch (side) {
    case Side::west: return {along, 0};
    case Side::east: return {along, end};
    case Side::south: return {0, along};
    default: return {end, along};
  }
}
Point edge_point(index_t n, const EdgeCell& e, double shift) {
  const auto p = on_side(n, e.side, 2.0 * static_cast<double>(e.along) + 1 + shift);
  return cubed_sphere_point(n, e.tile, p[0], p[1]);
}

/// The geometry of a cubed sphere's halos, without contacts: the cells on both sides of an edge
/// are those for which it is at the same place.
class Sphere {
 public:
  explicit Sphere(index_t cells) : n(cells) {
    for (int t = 0; t < 6; ++t)
      for (const Side side : all_sides)
        for (index_t k = 0; k < n; ++k) {
          const EdgeCell e{t, side, k};
          edges_[rounded(edge_point(n, e, 0))].push_back(e);
        }
  }
  /// The other cell at an edge.
  EdgeCell beyond(const EdgeCell& e) const {
    const auto& both = edges_.at(rounded(edge_point(n, e, 0)));
    EXPECT_EQ(both.size(), 2U);
    return both[0].tile == e.tile && both[0].side == e.side ? both[1] : both[0];
  }
  /// +1 if cells along both sides are in the same order.
  int order(const EdgeCell& a, const EdgeCell& b) const {
    Point along_a = edge_point(n, a, 0.5), along_b = edge_point(n, b, 0.5);
    const Point middle = edge_point(n, a, 0);
    for (std::size_t k = 0; k < 3; ++k) {
      along_a[k] -= middle[k];
      along_b[k] -= middle[k];
    }
    return dot(along_a, along_b) > 0 ? 1 : -1;
  }
  const index_t n;

 private:
  std::map<std::array<long, 3>, std::vector<EdgeCell>> edges_;
};

struct Cell {
  int tile;
  index_t y, x;
};
Cell inwards(index_t n, const EdgeCell& e, index_t depth) {
  switch (e.side) {
    case Side::west: return {e.tile, e.along, depth};
    case Side::east: return {e.tile, e.along, n - 1 - depth};
    case Side::south: return {e.tile, depth, e.along};
    default: return {e.tile, n - 1 - depth, e.along};
  }
}

double value(const Cell& c, index_t level, int component) {
  return static_cast<double>(c.tile * 100000 + c.y * 1000 + c.x * 10 + level * 3 + component + 1);
}
/// Component out of the tile at a side, and along the side, from (u, v) and back.
std::array<double, 2> out_and_along(Side side, double u, double v) {
  switch (side) {
    case Side::west: return {-u, v};
    case Side::east: return {u, v};
    case Side::south: return {-v, u};
    default: return {v, u};
  }
}
std::array<double, 2> components(Side side, double out, double along) {
  switch (side) {
    case Side::west: return {-out, along};
    case Side::east: return {out, along};
    case Side::south: return {along, -out};
    default: return {along, out};
  }
}

TEST(Tiles, HalosOfACubedSphereAreTheCellsBeyondTheEdges) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (const std::array<index_t, 2> block :
       {std::array<index_t, 2>{0, 0}, {2, 6}, {6, 3}, {3, 2}, {2, 1}}) {
    const Sphere sphere(6);
    const Atlas grid(mesh, cubed_sphere(6), {.block = block});
    const Field h = field("h", mesh, grid), u = field("u", mesh, grid), v = field("v", mesh, grid);
    const auto ny = h.extent(2), nx = h.extent(3);
    ASSERT_EQ(grid.size() * ny * nx, 6 * 36);
    for (const Field* f : {&h, &u, &v}) Kokkos::deep_copy(f->view(), -1.0);
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t l = 0; l < levels; ++l)
        for (index_t j = 0; j < ny; ++j)
          for (index_t i = 0; i < nx; ++i) {
            const TileBlock& at = grid.block(b);
            const Cell c{at.tile, at.y + j, at.x + i};
            h(b, l, j, i) = value(c, l, 0);
            u(b, l, j, i) = value(c, l, 1);
            v(b, l, j, i) = value(c, l, 2);
          }
    exchange(Space(), h, vector_of(u, v));
    int wrong = 0, missing = 0;
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t l = 0; l < levels; ++l)
        for (index_t j = -1; j < ny + 2; ++j)
          for (index_t i = -2; i < nx + 1; ++i) {
            const TileBlock& at = grid.block(b);
            const Cell c{at.tile, at.y + j, at.x + i};
            const bool low_x = c.x < 0, low_y = c.y < 0, beyond_x = low_x || c.x >= 6,
                       beyond_y = low_y || c.y >= 6;
            std::array<double, 3> expected{value(c, l, 0), value(c, l, 1), value(c, l, 2)};
            if (beyond_x && beyond_y) {
              ++missing;
              expected = {0, 0, 0};
            } else if (beyond_x || beyond_y) {
              const EdgeCell here{c.tile,
                                  beyond_x ? (low_x ? Side::west : Side::east)
                                           : (low_y ? Side::south : Side::north),
                                  beyond_x ? c.y : c.x};
              const EdgeCell there = sphere.beyond(here);
              const index_t depth =
                  beyond_x ? (low_x ? -1 - c.x : c.x - 6) : (low_y ? -1 - c.y : c.y - 6);
              const Cell source = inwards(6, there, depth);
              const auto of = out_and_along(there.side, value(source, l, 1), value(source, l, 2));
              const auto uv = components(here.side, -of[0], sphere.order(here, there) * of[1]);
              expected      = {value(source, l, 0), uv[0], uv[1]};
            }
            wrong += h(b, l, j, i) == expected[0] ? 0 : 1;
            wrong += u(b, l, j, i) == expected[1] ? 0 : 1;
            wrong += v(b, l, j, i) == expected[2] ? 0 : 1;
          }
    EXPECT_EQ(total(wrong), 0) << block[0] << " x " << block[1];
    if (block[0] == 0) {
      EXPECT_EQ(total(missing), 6 * 3 * 3 * levels);
    }
  }
}

TEST(Tiles, PointsOnBothSidesOfAContactAreAtOnePlace) {
  for (const index_t n : {1, 4, 8}) {
    const Tiles tiles = cubed_sphere(n);
    for (const At at : {At::centre, At::west, At::south, At::south_west}) {
      std::map<std::array<long, 3>, std::set<std::tuple<int, index_t, index_t>>> points;
      for (int t = 0; t < 6; ++t)
        for (index_t y = on_y(at) ? 0 : 1; y <= 2 * n; y += 2)
          for (index_t x = on_x(at) ? 0 : 1; x <= 2 * n; x += 2) {
            const Point p =
                cubed_sphere_point(n, t, static_cast<double>(y), static_cast<double>(x));
            for (const TileImage& q : places_of(tiles, t, y, x)) {
              const Point other =
                  cubed_sphere_point(n, q.tile, static_cast<double>(q.y), static_cast<double>(q.x));
              for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(p[k], other[k], 1e-15);
              points[rounded(p)].insert({q.tile, q.y, q.x});
            }
          }
      if (at == At::centre) {
        EXPECT_EQ(points.size(), static_cast<std::size_t>(6 * n * n));
      }
      if (at == At::south_west) {
        EXPECT_EQ(points.size(), static_cast<std::size_t>(6 * n * n + 2));
      }
      // faces across x of one tile are faces across y of another at half of the cube's edges
      int x_x = 0, y_y = 0, x_y = 0;
      for (const auto& [where, places] : points) {
        if (places.size() < 2) continue;
        int across_y = 0;
        for (const auto& [t, y, x] : places) across_y += y % 2 == 0 ? 1 : 0;
        if (at == At::west) (across_y == 0 ? x_x : x_y) += 1;
        if (at == At::south) (across_y == 2 ? y_y : x_y) += 1;
      }
      const int edge = static_cast<int>(n);
      if (at == At::west) {
        EXPECT_EQ((std::array{x_x, x_y}), (std::array{3 * edge, 6 * edge}));
      }
      if (at == At::south) {
        EXPECT_EQ((std::array{y_y, x_y}), (std::array{3 * edge, 6 * edge}));
      }
    }
  }
}

/// The table of contacts of a cubed sphere: source (x', y') of a point (x, y) beyond a side.
struct Source {
  int tile;
  index_t x, y;
  int u_from, v_from;  ///< +1 u', -1 -u', +2 v', -2 -v'
};
Source beyond_side(index_t n, int p, char side, index_t x, index_t y) {
  const index_t l = 2 * n;
  const auto tile = [&](int d) { return (p + d + 6) % 6; };
  if (p % 2 == 0) switch (side) {
      case 'E': return {tile(1), x - l, y, 1, 2};
      case 'W': return {tile(-2), l - y, l + x, 2, -1};
      case 'N': return {tile(2), y - l, l - x, -2, 1};
      default: return {tile(-1), x, l + y, 1, 2};
    }
  switch (side) {
    case 'E': return {tile(2), l - y, x - l, 2, -1};
    case 'W': return {tile(-1), l + x, y, 1, 2};
    case 'N': return {tile(1), x, y - l, 1, 2};
    default: return {tile(-2), l + y, l - x, -2, 1};
  }
}

/// The lowest place of a point on the edge of a tile, by plain search, and the components there.
Source owner(index_t n, Source at) {
  std::vector<Source> all{at};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto& [side, is] :
         {std::pair{'E', all[i].x == 2 * n}, std::pair{'W', all[i].x == 0},
          std::pair{'N', all[i].y == 2 * n}, std::pair{'S', all[i].y == 0}}) {
      if (!is) continue;
      Source next      = beyond_side(n, all[i].tile, side, all[i].x, all[i].y);
      const auto chain = [&](int of) {  // of the previous place's components
        const int inner = std::abs(of) == 1 ? next.u_from : next.v_from;
        return of < 0 ? -inner : inner;
      };
      const int u = chain(all[i].u_from), v = chain(all[i].v_from);
      next.u_from     = u;
      next.v_from     = v;
      const auto same = [&](const Source& s) {
        return s.tile == next.tile && s.x == next.x && s.y == next.y;
      };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(next);
    }
  return *std::min_element(all.begin(), all.end(), [](const Source& a, const Source& b) {
    return std::tie(a.tile, a.y, a.x) < std::tie(b.tile, b.y, b.x);
  });
}

// case E7 of Oceananigans' issues 1669 and 3324
template <int Width>
int wrong_numbers(const Mesh<Ranks>& mesh, const Atlas& grid, index_t n, At at_u, At at_v) {
  const bool pair = at_u != at_v || at_u == At::centre || at_u == At::south_west;
  const Numbers u = numbers("u", mesh, grid, at_u), v = numbers("v", mesh, grid, at_v);
  const auto number = [](int tile, index_t j, index_t i, bool is_v) {
    return static_cast<int>(tile * 1000000 + j * 1000 + i * 2 + (is_v ? 1 : 0) + 7);
  };
  for (const Numbers* f : {&u, &v}) {
    Kokkos::deep_copy(f->view(), -5);
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t j = 0; j < f->extent(1); ++j)
        for (index_t i = 0; i < f->extent(0); ++i)
          (*f)(i, j, b) =
              number(grid.block(b).tile, grid.block(b).y + j, grid.block(b).x + i, f == &v);
  }
  const Exchange halos(vector_of(u, v));
  halos.template width<Halo<Width>>()(Space());
  int wrong = pair ? 0 : 1;
  for (const bool is_v : {false, true}) {
    const Numbers& f = is_v ? v : u;
    const At at      = is_v ? at_v : at_u;
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t j = -Width; j < f.extent(1) + Width; ++j)
        for (index_t i = -Width; i < f.extent(0) + Width; ++i) {
          const TileBlock& block = grid.block(b);
          const index_t x        = 2 * (block.x + i) + (on_x(at) ? 0 : 1),
                        y        = 2 * (block.y + j) + (on_y(at) ? 0 : 1);
          const char side_x      = x < 0       ? 'W'
                                   : x > 2 * n ? 'E'
                                               : ' ',
                     side_y      = y < 0       ? 'S'
                                   : y > 2 * n ? 'N'
                                               : ' ';
          int expected           = 0;
          if (side_x == ' ' || side_y == ' ') {
            Source s{block.tile, x, y, 1, 2};
            if (side_x != ' ' || side_y != ' ')
              s = beyond_side(n, block.tile, side_x != ' ' ? side_x : side_y, x, y);
            s              = owner(n, s);
            const int from = is_v ? s.v_from : s.u_from;
            expected = number(s.tile, s.y / 2, s.x / 2, std::abs(from) == 2) * (from < 0 ? -1 : 1);
          }
          wrong += f(i, j, b) == expected ? 0 : 1;
        }
  }
  return wrong;
}

TEST(Tiles, AllPositionsOfACellHaveTheNumbersOfTheTable) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr index_t n = 4;
  for (const std::array<index_t, 2> block : {std::array<index_t, 2>{4, 4}, {2, 4}, {1, 2}}) {
    const Atlas grid(mesh, cubed_sphere(n), {.block = block});
    for (const auto& [u, v] :
         {std::pair{At::centre, At::centre}, std::pair{At::west, At::south},
          std::pair{At::south, At::west}, std::pair{At::south_west, At::south_west}}) {
      EXPECT_EQ(total(wrong_numbers<1>(mesh, grid, n, u, v)), 0) << block[0] << block[1];
      if (block[0] == 1) continue;  // many small pieces take time
      EXPECT_EQ(total(wrong_numbers<3>(mesh, grid, n, u, v)), 0) << block[0] << block[1];
      EXPECT_EQ(total(wrong_numbers<4>(mesh, grid, n, u, v)), 0) << block[0] << block[1];
    }
  }
}

// case E8: NDSL's issue 81, C-grid u in the halo of tile 0, counted from 1
TEST(Tiles, AVectorsHaloIsThatOfTheIssueOnAnyBlocks) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (const index_t n : {12, 9})
    for (const index_t cuts : {1, 3}) {
      const Atlas grid(mesh, cubed_sphere(n), {.block = {n / cuts, n / cuts}});
      const Numbers u = numbers("u", mesh, grid, At::west), v = numbers("v", mesh, grid, At::south);
      for (index_t b = 0; b < grid.count(); ++b)
        for (index_t j = 0; j <= n / cuts; ++j)
          for (index_t i = 0; i < n / cuts; ++i)
            v(i, j, b) =
                static_cast<int>((grid.block(b).tile) * 10000 + (grid.block(b).x + i + 1) * 100 +
                                 grid.block(b).y + j + 1);
      exchange(Space(), vector_of(u, v));
      const index_t j = n == 12 ? 1 : 6;  // from 1
      for (index_t b = 0; b < grid.count(); ++b) {
        const TileBlock& block = grid.block(b);
        const index_t row      = j - 1 - block.y;
        if (block.tile != 0 || block.x != 0 || row < 0 || row >= n / cuts) continue;
        for (index_t k = 0; k < 3; ++k)
          EXPECT_EQ(u(k - 3, row, b), 40000 + (n == 12 ? 1200 : 400) + n - 2 + k);
      }
    }
}

// ---------------------------------------------------------------------------------------------
// Planes, cut into tiles that are turned

/// A plane of cells, periodic or not, cut into tiles with axes of their own.
struct Plane {
  index_t ny, nx;
  bool wraps_y, wraps_x;
  struct Tile {
    index_t y, x, ny, nx;  // in the plane
    int turns;             // its x axis is the plane's, turned
  };
  std::vector<Tile> tiles;
  Tiles graph;
  index_t unit;  ///< the largest block that divides all tiles is unit x unit

  Plane(std::mt19937_64& random, index_t block) : unit(block) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    wraps_y          = below(2) == 0;
    wraps_x          = below(2) == 0;
    std::vector<index_t> rows, columns;
    for (int r = 1 + below(2); r > 0; --r) rows.push_back(block * (1 + below(2)));
    for (int c = 1 + below(3); c > 0; --c) columns.push_back(block * (1 + below(2)));
    ny = nx = 0;
    for (const index_t c : columns) nx += c;
    std::vector<std::vector<int>> at;
    for (const index_t r : rows) {
      at.emplace_back();
      index_t x = 0;
      for (const index_t c : columns) {
        at.back().push_back(static_cast<int>(tiles.size()));
        tiles.push_back({ny, x, r, c, below(4)});
        x += c;
      }
      ny += r;
    }
    std::vector<std::array<index_t, 2>> extents;
    for (const Tile& t : tiles)
      extents.push_back(t.turns % 2 == 0 ? std::array{t.ny, t.nx} : std::array{t.nx, t.ny});
    // which side of a turned tile is the plane's
    const auto side = [&](int tile, int outward) {
      constexpr Side sides[] = {Side::east, Side::north, Side::west, Side::south};
      return sides[(outward - tiles[static_cast<std::size_t>(tile)].turns + 4) % 4];
    };
    std::vector<Contact> contacts;
    const auto join = [&](int a, int b, int outward) {
      Contact c{.tile       = a,
                .side       = side(a, outward),
                .other      = b,
                .other_side = side(b, (outward + 2) % 4)};
      if (below(2) == 0) {
        std::swap(c.tile, c.other);
        std::swap(c.side, c.other_side);
      }
      contacts.push_back(c);
    };
    const int r = static_cast<int>(rows.size()), k = static_cast<int>(columns.size());
    const auto tile = [&](int i, int j) {
      return at[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    };
    for (int i = 0; i < r; ++i)
      for (int j = 0; j < k; ++j) {
        if (j + 1 < k || wraps_x) join(tile(i, j), tile(i, (j + 1) % k), 0);
        if (i + 1 < r || wraps_y) join(tile(i, j), tile((i + 1) % r, j), 1);
      }
    graph = Tiles(extents, contacts);
  }

  /// A tile's point as the plane's, in half cells, inside the plane where that wraps.
  std::array<index_t, 2> place(int tile, index_t y, index_t x) const {
    const Tile& t = tiles[static_cast<std::size_t>(tile)];
    const int c = quarter_cosine(t.turns), s = quarter_sine(t.turns);
    const index_t w = 2 * t.nx, h = 2 * t.ny;
    // the tile's first corner in the plane
    const index_t x0 = 2 * t.x + (t.turns == 1 || t.turns == 2 ? w : 0),
                  y0 = 2 * t.y + (t.turns == 2 || t.turns == 3 ? h : 0);
    index_t px = x0 + c * x - s * y, py = y0 + s * x + c * y;
    if (wraps_x) px = ((px % (2 * nx)) + 2 * nx) % (2 * nx);
    if (wraps_y) py = ((py % (2 * ny)) + 2 * ny) % (2 * ny);
    return {py, px};
  }
  bool has(const std::array<index_t, 2>& p) const {
    return p[0] >= 0 && p[0] <= 2 * ny && p[1] >= 0 && p[1] <= 2 * nx;
  }
};

double scalar(const std::array<index_t, 2>& p, index_t level) {
  return static_cast<double>((p[0] * 131 + p[1] * 37 + level * 11) % 257 + 1);
}
/// The components along a tile's axes of a vector of the plane.
std::array<double, 2> vector(const std::array<index_t, 2>& p, index_t level, int turns) {
  const double u = scalar(p, level + 5), v = -scalar(p, level + 9);
  const int c = quarter_cosine(turns), s = quarter_sine(turns);
  return {c * u + s * v, -s * u + c * v};
}

TEST(Tiles, FiftyGraphsOfTurnedTilesHaveThePlanesValues) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::mt19937_64 random(shard::testing::seed());  // the same on every rank
  std::mt19937_64 values_of(shard::testing::seed() + static_cast<unsigned>(mesh.rank()) + 1);
  for (int trial = 0; trial < 50; ++trial) {
    const index_t unit = 2 + static_cast<index_t>(random() % 3);
    const Plane plane(random, unit);
    const auto salt  = random();
    const bool drops = trial % 3 == 0;
    const auto kept  = [&](const TileBlock& b) {
      return !drops ||
             (static_cast<unsigned>(b.tile * 7 + b.y * 3 + b.x) * 2654435761U + salt) % 5 != 0;
    };
    BlockOptions options{.block = {unit, unit}, .keep = kept};
    if (trial % 4 == 1) options.weight = [](const TileBlock& b) { return b.tile == 0 ? 5.0 : 0.5; };
    const Atlas grid(mesh, plane.graph, options);
    const At positions[][2] = {{At::centre, At::centre},
                               {At::west, At::south},
                               {At::south, At::west},
                               {At::south_west, At::south_west}};
    const auto [at_u, at_v] = positions[trial % 4];
    const At at_h           = trial % 2 == 0 ? At::centre : At::south_west;
    // all points of kept blocks in the plane
    std::set<std::array<index_t, 2>> points;
    for (int t = 0; t < plane.graph.count(); ++t)
      for (index_t y = 0; y < plane.graph.extent_y(t); y += unit)
        for (index_t x = 0; x < plane.graph.extent_x(t); x += unit) {
          if (!kept({t, y, x})) continue;
          for (index_t j = 0; j <= 2 * unit; ++j)
            for (index_t i = 0; i <= 2 * unit; ++i)
              points.insert(plane.place(t, 2 * y + j, 2 * x + i));
        }
    // in shared memory pieces are read in place
    const bool in_place = trial % 5 == 2;
    const auto made     = [&](const char* label, At at) {
      return in_place
                     ? shared_field<Field>(
                       label, mesh, {grid.at(at), Partition::whole(levels), grid.y(at), grid.x(at)})
                     : field(label, mesh, grid, at);
    };
    const Field h = made("h", at_h), u = made("u", at_u), v = made("v", at_v);
    Tuning tuning;
    if (in_place) tuning.direct_run = 1;
    const auto visit = [&](const Field& f, At at, bool halo, const auto& use) {
      const index_t lo_y = halo ? 1 : 0, hi_y = halo ? 2 : 0, lo_x = halo ? 2 : 0,
                    hi_x = halo ? 1 : 0;
      for (index_t b = 0; b < grid.count(); ++b)
        for (index_t l = 0; l < levels; ++l)
          for (index_t j = -lo_y; j < f.extent(2) + hi_y; ++j)
            for (index_t i = -lo_x; i < f.extent(3) + hi_x; ++i) {
              const TileBlock& block = grid.block(b);
              const auto p    = plane.place(block.tile, 2 * (block.y + j) + (on_y(at) ? 0 : 1),
                                            2 * (block.x + i) + (on_x(at) ? 0 : 1));
              const int turns = plane.tiles[static_cast<std::size_t>(block.tile)].turns;
              use(f(b, l, j, i), p, l, turns);
            }
    };
    for (const Field* f : {&h, &u, &v}) Kokkos::deep_copy(f->view(), -1.0);
    visit(h, at_h, false, [](double& x, const auto& p, index_t l, int) { x = scalar(p, l); });
    visit(u, at_u, false,
          [](double& x, const auto& p, index_t l, int turns) { x = vector(p, l, turns)[0]; });
    visit(v, at_v, false,
          [](double& x, const auto& p, index_t l, int turns) { x = vector(p, l, turns)[1]; });
    const Exchange halos(tuning, vector_of(u, v), h);
    halos(Space());
    int wrong        = 0;
    const auto check = [&](double x, const auto& p, double expected) {
      wrong += x == (plane.has(p) && points.contains(p) ? expected : 0.0) ? 0 : 1;
    };
    visit(h, at_h, true,
          [&](double x, const auto& p, index_t l, int) { check(x, p, scalar(p, l)); });
    visit(u, at_u, true, [&](double x, const auto& p, index_t l, int turns) {
      check(x, p, vector(p, l, turns)[0]);
    });
    visit(v, at_v, true, [&](double x, const auto& p, index_t l, int turns) {
      check(x, p, vector(p, l, turns)[1]);
    });
    EXPECT_EQ(total(wrong), 0) << "trial " << trial;

    // each point counts once
    const auto distinct = [&](At at) {
      index_t n = 0;
      for (const auto& p : points) {
        const bool odd_y = p[0] % 2 != 0, odd_x = p[1] % 2 != 0;
        n += (at == At::centre       ? odd_y && odd_x
              : at == At::south_west ? !odd_y && !odd_x
                                     : odd_y != odd_x)  // on faces, of both kinds
                 ? 1
                 : 0;
      }
      return static_cast<double>(levels * n);
    };
    for (const Field* f : {&h, &u, &v}) Kokkos::deep_copy(f->view(), 1.0);
    EXPECT_EQ(sum(Space(), h), distinct(at_h)) << "trial " << trial;
    EXPECT_EQ(sum(Space(), u) + sum(Space(), v), (at_u == at_v ? 2 : 1) * distinct(at_u))
        << "trial " << trial;

    // the adjoint is the transpose, exactly, because all numbers are integers
    double sums[2]              = {0, 0};
    const Field* const fields[] = {&u, &v, &h};
    std::vector<Field> x, y;
    const auto fill = [&](const Field& f) {
      visit(f, At::centre, true, [&](double& value, const auto&, index_t, int) {
        value = static_cast<double>(values_of() % 19) - 9;
      });
    };
    for (const Field* f : fields) {
      x.push_back(f->like("x"));
      y.push_back(f->like("y"));
      fill(x.back());
      fill(y.back());
      Kokkos::deep_copy(f->view(), x.back().view());
    }
    halos(Space());
    const auto add = [&](double& sum, const Field& a, const Field& b, bool halo) {
      std::vector<double> values;
      visit(a, At::centre, halo,
            [&](double value, const auto&, index_t, int) { values.push_back(value); });
      std::size_t k = 0;
      visit(b, At::centre, halo,
            [&](double value, const auto&, index_t, int) { sum += value * values[k++]; });
    };
    for (std::size_t f = 0; f < 3; ++f) add(sums[0], *fields[f], y[f], true);
    halos.adjoint(Space(), vector_of(y[0], y[1]), y[2]);
    for (std::size_t f = 0; f < 3; ++f) {
      add(sums[1], x[f], y[f], false);
      double left = 0;
      add(left, y[f], y[f], true);
      add(left, y[f], y[f], false);
      double own = 0;
      add(own, y[f], y[f], false);
      EXPECT_EQ(left, 2 * own) << "the halo is zero after the adjoint";
    }
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sums[0], sums[1]) << "trial " << trial;
  }
}

TEST(Tiles, ATripolarGridIsThatOfANorthFold) {
  // rows beyond the fold are in reverse order, vectors change their signs
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Atlas grid(mesh, tripolar(4, 6), {.block = {2, 3}});
  const Field h = field("h", mesh, grid), u = field("u", mesh, grid, At::west),
              v  = field("v", mesh, grid, At::south);
  const auto set = [&](const Field& f) {
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t j = 0; j < f.extent(2); ++j)
        for (index_t i = 0; i < f.extent(3); ++i)
          f(b, 0, j, i) =
              static_cast<double>((grid.block(b).y + j) * 100 + (grid.block(b).x + i) % 6 + 1);
  };
  set(h), set(u), set(v);
  exchange(Space(), h, vector_of(u, v));
  for (index_t b = 0; b < grid.count(); ++b) {
    if (grid.block(b).y == 0) continue;
    for (index_t i = -2; i < 4; ++i) {
      const index_t g = ((grid.block(b).x + i) % 6 + 6) % 6;
      for (index_t k = 0; k < 2; ++k) {
        EXPECT_EQ(h(b, 0, 2 + k, i), static_cast<double>((3 - k) * 100 + 5 - g + 1));
        EXPECT_EQ(u(b, 0, 2 + k, i), -static_cast<double>((3 - k) * 100 + (6 - g) % 6 + 1));
        EXPECT_EQ(v(b, 0, 3 + k, i), -static_cast<double>((3 - k) * 100 + 5 - g + 1));
      }
      // the row on the fold: half of it are copies
      EXPECT_EQ(v(b, 0, 2, i), static_cast<double>(g < 3 ? 400 + g + 1 : -(400 + 5 - g + 1)));
    }
  }
}

/// Fields of all positions folded about a pivot: halo, and the copies in the last row, on tiles and
/// by the NorthFold of a rectangular field.
template <Pivot P, At Position>
void compare_with_a_north_fold(const Mesh<Ranks>& mesh, index_t rows, index_t columns,
                               const std::array<index_t, 2>& block) {
  using Folded = ShardedView<
      double**, Kokkos::LayoutRight,
      ShardDim<0, Unsharded, Halo<2>, Sides<Zero, NorthFold<1, P, Position, Parity::odd>>>,
      ShardDim<1, Unsharded, Halo<2>, Periodic>, Kokkos::HostSpace>;
  const Atlas grid(mesh, tripolar(rows, columns, P), {.block = block});
  const bool more = on_y(Position) && P == Pivot::f_point;  // the row on the northern edge
  Folded whole("whole", mesh, {rows + (more ? 1 : 0), columns});
  for (index_t j = 0; j < whole.extent(0); ++j)
    for (index_t i = 0; i < columns; ++i)
      whole(j, i) = static_cast<double>((j * 131 + i * 37) % 257 + 1);
  exchange(Space(), whole);
  const Field t = field("t", mesh, grid, Position), s = field("s", mesh, grid, Position);
  for (const Field* f : {&t, &s}) Kokkos::deep_copy(f->view(), -7.0);
  for (index_t b = 0; b < grid.count(); ++b)
    for (index_t l = 0; l < levels; ++l)
      for (index_t j = 0; j < t.extent(2); ++j)
        for (index_t i = 0; i < t.extent(3); ++i) {
          const index_t row = grid.block(b).y + j, column = (grid.block(b).x + i) % columns;
          t(b, l, j, i) = s(b, l, j, i) = static_cast<double>((row * 131 + column * 37) % 257 + 1);
        }
  const auto number_of_wrong = [&](const Field& f) {
    int wrong = 0;
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t l = 0; l < levels; ++l)
        for (index_t j = -1; j < f.extent(2) + 2; ++j)
          for (index_t i = -2; i < f.extent(3) + 1; ++i) {
            const index_t row    = grid.block(b).y + j,
                          column = ((grid.block(b).x + i) % columns + columns) % columns;
            if (row >= whole.extent(0) + 2) continue;  // the rectangle's halo ends
            const double expected = row < 0 ? 0.0 : whole(row, column);
            wrong += f(b, l, j, i) == expected ? 0 : 1;
            if (f(b, l, j, i) != expected && wrong == 1)
              ADD_FAILURE() << "at (" << row << ", " << column << "): " << f(b, l, j, i)
                            << " instead of " << expected;
          }
    return wrong;
  };
  if (Position == At::centre || Position == At::south_west) {
    // both components at one position
    exchange(Space(), vector_of(t, s));
    EXPECT_EQ(total(number_of_wrong(t) + number_of_wrong(s)), 0);
    // each point of the grid counts once
    EXPECT_EQ(dot(Space(), t, t), levels * dot(Space(), whole, whole));
    EXPECT_EQ(sum(Space(), t), levels * sum(Space(), whole));
    EXPECT_EQ(mean(Space(), t), mean(Space(), whole));
  } else {
    const At other = Position == At::west ? At::south : At::west;
    const Field v  = field("v", mesh, grid, other);
    Position == At::west ? exchange(Space(), vector_of(t, v)) : exchange(Space(), vector_of(v, t));
    EXPECT_EQ(total(number_of_wrong(t)), 0);
    EXPECT_EQ(sum(Space(), t), levels * sum(Space(), whole));
  }
}

template <Pivot P>
void compare_all_positions(const Mesh<Ranks>& mesh) {
  const std::array<std::array<index_t, 2>, 4> layouts{{{4, 6}, {2, 3}, {1, 2}, {4, 1}}};
  for (const std::array<index_t, 2>& block : layouts) {
    SCOPED_TRACE(::testing::Message() << "blocks of " << block[0] << " x " << block[1]);
    compare_with_a_north_fold<P, At::centre>(mesh, 4, 6, block);
    compare_with_a_north_fold<P, At::west>(mesh, 4, 6, block);
    compare_with_a_north_fold<P, At::south>(mesh, 4, 6, block);
    compare_with_a_north_fold<P, At::south_west>(mesh, 4, 6, block);
  }
  compare_with_a_north_fold<P, At::centre>(mesh, 4, 5, {2, 5});
}

TEST(Tiles, FoldsAboutAllPivotsAreThoseOfANorthFold) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  compare_all_positions<Pivot::f_point>(mesh);
  compare_all_positions<Pivot::t_point>(mesh);
  compare_all_positions<Pivot::u_point>(mesh);
  // the adjoint of a field whose last row of cells is folded
  const Atlas grid(mesh, tripolar(4, 6, Pivot::t_point), {.block = {2, 3}});
  const Numbers ones = numbers("ones", mesh, grid, At::centre);
  Kokkos::deep_copy(ones.view(), 1);
  const Exchange halos(ones);
  halos.shared().adjoint(Space());
  int places = 0, owners = 0;
  for (index_t b = 0; b < grid.count(); ++b)
    for (index_t j = 0; j < ones.extent(1); ++j)
      for (index_t i = 0; i < ones.extent(0); ++i) {
        places += ones(i, j, b);
        owners += ones(i, j, b) > 0 ? 1 : 0;
      }
  EXPECT_EQ(total(places), 24);
  EXPECT_EQ(total(owners), 22) << "two of the folded row's six cells are copies";
}

TEST(Tiles, CheckpointsHaveBlocksByTheirNumbers) {
  const shard::testing::ScratchFile file("tiles");
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  // other weights are other owners, as on another number of ranks
  const auto grid_of = [&](double last) {
    return Atlas(mesh, cubed_sphere(4), {.block = {2, 4}, .weight = [=](const TileBlock& b) {
                                           return b.tile == 5 ? last : 1.0;
                                         }});
  };
  const Atlas one = grid_of(1), other = grid_of(20);
  const auto number = [](const TileBlock& at, index_t l, index_t j, index_t i) {
    return static_cast<double>(at.tile * 1000 + (at.y + j) * 100 + (at.x + i) * 10 + l + 1);
  };
  for (const At at : {At::centre, At::west}) {
    const Field saved = field("saved", mesh, one, at), loaded = field("loaded", mesh, other, at);
    const auto each = [](const Field& f, const auto& use) {
      for (index_t b = 0; b < f.extent(0); ++b)
        for (index_t l = 0; l < levels; ++l)
          for (index_t j = 0; j < f.extent(2); ++j)
            for (index_t i = 0; i < f.extent(3); ++i) use(f(b, l, j, i), b, l, j, i);
    };
    each(saved, [&](double& x, index_t b, index_t l, index_t j, index_t i) {
      x = number(one.block(b), l, j, i);
    });
    Checkpoint to(MPI_COMM_WORLD), from(MPI_COMM_WORLD);
    to.add("h", saved);
    from.add("h", loaded);
    to.save(file.path());
    from.load(file.path());
    int wrong = 0;
    each(loaded, [&](double& x, index_t b, index_t l, index_t j, index_t i) {
      wrong += x == number(other.block(b), l, j, i) ? 0 : 1;
    });
    EXPECT_EQ(total(wrong), 0);
  }
}

/// The points of a cube's grid by their place on the sphere, for the sums of what is shared.
TEST(Tiles, PointsOnEdgesHaveOneOwnerAndCanBeSummed) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr index_t n = 4;
  for (const index_t cut : {1, 2, 4}) {
    const Atlas grid(mesh, cubed_sphere(n), {.block = {n / cut, n}});
    const Numbers f = numbers("f", mesh, grid, At::south_west);
    const Numbers u = numbers("u", mesh, grid, At::west), v = numbers("v", mesh, grid, At::south);
    const Exchange shared = Exchange(f, vector_of(u, v)).shared();
    const auto own        = [&](const Numbers& t, const auto& use) {
      for (index_t b = 0; b < grid.count(); ++b)
        for (index_t j = 0; j < t.extent(1); ++j)
          for (index_t i = 0; i < t.extent(0); ++i) use(t(i, j, b), b, j, i);
    };
    for (const Numbers* t : {&f, &u, &v}) Kokkos::deep_copy(t->view(), 1);
    // multiplicities at the owners
    shared.adjoint(Space());
    int corners = 0, all = 0;
    own(f, [&](int x, index_t, index_t, index_t) {
      corners += x > 0 ? 1 : 0;
      all += x;
    });
    EXPECT_EQ(total(corners), 6 * n * n + 2);
    EXPECT_EQ(total(all), grid.size() * f.extent(0) * f.extent(1));
    // and at all places of a point after the values went back
    shared(Space());
    int wrong = 0;
    std::map<std::array<long, 3>, int> places;
    for (int t = 0; t < 6; ++t)
      for (index_t y = 0; y < n; y += n / cut)
        for (index_t j = 0; j <= n / cut; ++j)
          for (index_t i = 0; i <= n; ++i)
            ++places[rounded(cubed_sphere_point(n, t, 2.0 * static_cast<double>(y + j),
                                                2.0 * static_cast<double>(i)))];
    own(f, [&](int x, index_t b, index_t j, index_t i) {
      const TileBlock& at = grid.block(b);
      wrong +=
          x == places.at(rounded(cubed_sphere_point(n, at.tile, 2.0 * static_cast<double>(at.y + j),
                                                    2.0 * static_cast<double>(i))))
              ? 0
              : 1;
    });
    // halos were not written
    for (index_t b = 0; b < grid.count(); ++b)
      wrong += f(-1, 1, b) == 1 && u(1, -2, b) == 1 ? 0 : 1;
    EXPECT_EQ(total(wrong), 0);
    // reductions count each point once
    const auto distinct = static_cast<index_t>(6 * n * n + 2);
    for (const Numbers* t : {&f, &u, &v}) Kokkos::deep_copy(t->view(), 3);
    EXPECT_EQ(sum(Space(), f), 3 * distinct);
    EXPECT_EQ(sum(Space(), u) + sum(Space(), v), 3 * 12 * n * n);
    EXPECT_EQ(mean(Space(), f), 3.0);
    EXPECT_EQ(dot(Space(), f, f), 9 * distinct);
    EXPECT_EQ(sum<Determinism::ordered>(Space(), f), 3 * distinct);
    EXPECT_EQ(reduce(Space(), f, OneKernel{}), static_cast<double>(distinct));
    EXPECT_EQ(reduce<Determinism::ordered>(Space(), f, OneKernel{}), static_cast<double>(distinct));
    const Field g = field("g", mesh, grid, At::south_west), dg = g.like("dg");
    Kokkos::deep_copy(g.view(), 1.0);
    const auto mask = impl::mask_of_copies(grid.at(At::south_west), mesh.rank());
    for (index_t b = 0; b < grid.count(); ++b)  // copies hold what mustn't count
      for (index_t l = 0; l < levels; ++l)
        for (index_t j = 0; j < g.extent(2); ++j)
          for (index_t i = 0; i < g.extent(3); ++i)
            if (mask[static_cast<std::size_t>((b * g.extent(2) + j) * g.extent(3) + i)] != 0)
              g(b, l, j, i) = 1e9;
    EXPECT_EQ(sum(Space(), g), static_cast<double>(levels * distinct));
    EXPECT_EQ(max(Space(), g), 1.0);
    EXPECT_EQ(norm1(Space(), g), static_cast<double>(levels * distinct));
    Kokkos::deep_copy(dg.view(), 7.0);
    mean_pullback(Space(), dg, static_cast<double>(levels * distinct));
    int ones = 0, zeros = 0;
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t l = 0; l < levels; ++l)
        for (index_t j = 0; j < g.extent(2); ++j)
          for (index_t i = 0; i < g.extent(3); ++i) {
            ones += dg(b, l, j, i) == 1.0 ? 1 : 0;
            zeros += dg(b, l, j, i) == 0.0 ? 1 : 0;
          }
    EXPECT_EQ(total(ones), levels * distinct);
    EXPECT_EQ(total(ones + zeros), levels * grid.size() * f.extent(0) * f.extent(1));
  }
}

// at the south-west corner u(i, 0) = v(1, i) for one way, v(0, j) = u(j, 1) for the other, as in
// Oceananigans, where points are counted from 1
TEST(Tiles, CornersAreTurnedFromTheOwnHalo) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr index_t n = 8;
  const Atlas grid(mesh, cubed_sphere(n), {.block = {4, 8}});
  const Numbers h = numbers("h", mesh, grid, At::centre), u = h.like("u"), v = h.like("v");
  int next = 0;
  for (const Numbers* t : {&h, &u, &v})
    for (index_t b = 0; b < grid.count(); ++b)
      for (index_t j = 0; j < 4; ++j)
        for (index_t i = 0; i < 8; ++i) (*t)(i, j, b) = 1 + (next++ * 7919) % 1000;
  const Exchange halos(h, vector_of(u, v));
  halos(Space());
  int wrong = 0, corners = 0;
  for (const bool along_x : {true, false}) {
    const auto fill = along_x ? halos.corners<LinkedX>() : halos.corners<LinkedY>();
    fill(Space());
    for (index_t b = 0; b < grid.count(); ++b)
      for (const bool west : {true, false}) {
        const bool south = grid.block(b).y == 0;  // the other corners are inside a tile's edge
        for (index_t p = 0; p < 4; ++p)
          for (index_t q = 0; q < 4; ++q) {
            // p cells beyond x, q beyond y; in the halo q beyond one side, p along it
            const index_t i = west ? -1 - p : 8 + p, j = south ? -1 - q : 4 + q;
            const index_t si = along_x ? (west ? -1 - q : 8 + q) : (west ? q : 7 - q),
                          sj = along_x ? (south ? p : 3 - p) : (south ? -1 - p : 4 + p);
            const bool first = (west == south) != along_x;  // (u, v) = (v', -u')
            wrong += h(i, j, b) == h(si, sj, b) ? 0 : 1;
            wrong += u(i, j, b) == (first ? 1 : -1) * v(si, sj, b) ? 0 : 1;
            wrong += v(i, j, b) == (first ? -1 : 1) * u(si, sj, b) ? 0 : 1;
            ++corners;
          }
      }
  }
  EXPECT_EQ(total(wrong), 0);
  EXPECT_EQ(total(corners), 2 * 24 * 16);
  // the adjoint adds to the halo that was read
  for (const Numbers* t : {&h, &u, &v}) Kokkos::deep_copy(t->view(), 1);
  halos.corners<LinkedX>().adjoint(Space());
  for (index_t b = 0; b < grid.count(); ++b) {
    const index_t j = grid.block(b).y == 0 ? 0 : 3, out = j == 0 ? -1 : 4;
    EXPECT_EQ(h(-1, j, b), 2);
    EXPECT_EQ(h(-1, out, b), 0);
    EXPECT_EQ(u(-1, j, b) + v(-1, j, b), 2) << "one grows, the other shrinks";
  }
  const Field narrow = field("narrow", mesh, grid);
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)Exchange(narrow).corners<LinkedX>(); }),
               {"halo of 1 + 2 along y", "Halo<n>"});
}

struct StarKernel {
  Field h, u, v, out;
  KOKKOS_FUNCTION void operator()(int b, int l, int j, int i) const {
    out(b, l, j, i) = h(b, l, j - 1, i) + 3 * h(b, l, j + 1, i) + 5 * h(b, l, j, i - 1) +
                      7 * h(b, l, j, i + 1) + 11 * u(b, l, j, i) + 13 * u(b, l, j, i + 1) +
                      17 * v(b, l, j, i) + 19 * v(b, l, j + 1, i);
  }
};

TEST(Tiles, OverlapComputesWhatFollowsAnExchange) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Atlas grid(mesh, cubed_sphere(12), {.block = {12, 6}});
  const Field h = field("h", mesh, grid), u = field("u", mesh, grid, At::west),
              v = field("v", mesh, grid, At::south), plain = h.like("plain"), over = h.like("over");
  const auto reset = [&] {
    for (const Field* f : {&h, &u, &v}) {
      Kokkos::deep_copy(f->view(), -77.0);
      for (index_t b = 0; b < grid.count(); ++b)
        for (index_t l = 0; l < levels; ++l)
          for (index_t j = 0; j < f->extent(2); ++j)
            for (index_t i = 0; i < f->extent(3); ++i)
              (*f)(b, l, j, i) =
                  static_cast<double>((grid.block(b).tile * 31 + j * 7 + i * 3 + l) % 101);
    }
  };
  const Exchange halos(h, vector_of(u, v));
  reset();
  halos(Space());
  parallel_for("star", Space(), owned_region(plain), StarKernel{h, u, v, plain});
  reset();
  overlapped("star", Space(), halos, h, StarKernel{h, u, v, over}, Reach<Halo<1>, Halo<1>>{});
  int wrong = 0;
  for (index_t b = 0; b < grid.count(); ++b)
    for (index_t l = 0; l < levels; ++l)
      for (index_t j = 0; j < 12; ++j)
        for (index_t i = 0; i < 6; ++i) wrong += plain(b, l, j, i) == over(b, l, j, i) ? 0 : 1;
  EXPECT_EQ(total(wrong), 0);
}

TEST(Tiles, LengthsKeepTheirSigns) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Atlas grid(mesh, cubed_sphere(3));
  const Field dx = field("dx", mesh, grid), dy = field("dy", mesh, grid);
  Kokkos::deep_copy(dx.view(), 2.0);
  Kokkos::deep_copy(dy.view(), 3.0);
  exchange(Space(), lengths_of(dx, dy));
  for (index_t b = 0; b < grid.count(); ++b) {
    const bool turned = grid.block(b).tile % 2 == 0;
    EXPECT_EQ(dx(b, 0, 1, -1), turned ? 3.0 : 2.0);
    EXPECT_EQ(dy(b, 0, 1, -1), turned ? 2.0 : 3.0);
    EXPECT_EQ(dx(b, 0, 1, 3), turned ? 2.0 : 3.0);
  }
}

TEST(Tiles, WorkIsSharedByWeightAndRanksMayHaveNoBlocks) {
  EXPECT_EQ(impl::shares_of({1, 1, 1, 1, 1, 1}, 3), (std::vector<index_t>{2, 2, 2}));
  EXPECT_EQ(impl::shares_of({5, 1, 1, 1, 1, 1}, 2), (std::vector<index_t>{1, 5}));
  EXPECT_EQ(impl::shares_of({1}, 3), (std::vector<index_t>{0, 1, 0}));
  EXPECT_EQ(impl::shares_of({0, 0}, 2), (std::vector<index_t>{1, 1}));
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Atlas grid(mesh, cubed_sphere(4), {.keep = [](const TileBlock& b) { return b.tile != 3; }});
  EXPECT_EQ(grid.size(), 5);
  EXPECT_EQ(total(static_cast<int>(grid.count())), 5);
  const Field h = field("h", mesh, grid);
  Kokkos::deep_copy(h.owned(), 1.0);
  EXPECT_EQ(sum(Space(), h), 5.0 * 16 * levels);
  exchange(Space(), h);
  // tile 3 is east of tiles 1 and 2
  for (index_t b = 0; b < grid.count(); ++b) {
    EXPECT_EQ(h(b, 0, 1, 4), grid.block(b).tile == 1 || grid.block(b).tile == 2 ? 0.0 : 1.0)
        << grid.block(b).tile;
  }
}

TEST(Tiles, WrongUseIsAnError) {
  const auto tiles = [](const std::vector<Contact>& contacts) {
    return message_thrown_by<ArgumentError>([&] { Tiles({{4, 6}, {4, 4}}, contacts); });
  };
  expect_parts(tiles({{.tile = 0, .side = Side::east, .other = 2, .other_side = Side::west}}),
               {"shard::Tiles", "tile 2 of 2"});
  expect_parts(tiles({{.tile = 0, .side = Side::north, .other = 1, .other_side = Side::south}}),
               {"sides of 6 and 4 cells", "first, other_first, cells"});
  expect_parts(
      tiles({{.tile = 0, .side = Side::north, .other = 1, .other_side = Side::south, .cells = 5}}),
      {"5 cells", "6 and 4"});
  expect_parts(tiles({{.tile = 0, .side = Side::east, .other = 1, .other_side = Side::west},
                      {.tile = 1, .side = Side::west, .other = 1, .other_side = Side::east}}),
               {"tile 1 west", "another contact"});
  expect_parts(tiles({{.tile          = 0,
                       .side          = Side::north,
                       .other         = 1,
                       .other_side    = Side::south,
                       .cells         = 4,
                       .through_cells = true}}),
               {"fold through cells", "northern side of one tile"});
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 Atlas(mesh, torus(4, 6), {.block = {2, 4}});
               }),
               {"2 x 4 cells", "tile 0 of 4 x 6"});
  const Atlas grid(mesh, cubed_sphere(4));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 Field("h", mesh, {grid, Partition::whole(2), grid.y(), Partition::whole(5)});
               }),
               {"dimension 3 has extent 5", "4 points along x"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Atlas small(mesh, cubed_sphere(1));
                 field("h", mesh, small);
               }),
               {"halo of 1 + 2", "smallest tile has 1"});
  const Field u = field("u", mesh, grid, At::west), v = field("v", mesh, grid, At::south);
  expect_parts(message_thrown_by<ArgumentError>([&] { exchange(Space(), u); }),
               {"\"u\" is on faces", "vector_of(u, v)"});
  expect_parts(message_thrown_by<ArgumentError>([&] { exchange(Space(), vector_of(u, u)); }),
               {"components \"u\" and \"u\" differ"});
  exchange(Space(), vector_of(u, v));
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)grid.at(At::east); }),
               {"BlockGrid::at"});
}

}  // namespace tiles_test
