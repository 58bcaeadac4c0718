// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of tiles: numbers, owners, and the block that owns a point.
#include "shard/view/block_grid.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

namespace {

/// The position along a Morton curve.
std::uint64_t curve(std::uint64_t row, std::uint64_t column) {
  std::uint64_t code = 0;
  for (unsigned bit = 0; bit < 32; ++bit)
    code |= (column >> bit & 1U) << (2 * bit) | (row >> bit & 1U) << (2 * bit + 1);
  return code;
}

}  // namespace

BlockTable::BlockTable(Tiles tiles, index_t ny, index_t nx) : tiles_(std::move(tiles)) {
  ny_            = ny == 0 && tiles_.count() > 0 ? tiles_.extent_y(0) : ny;
  nx_            = nx == 0 && tiles_.count() > 0 ? tiles_.extent_x(0) : nx;
  index_t blocks = 0;
  for (int t = 0; t < tiles_.count(); ++t) {
    if (ny_ < 1 || nx_ < 1 || tiles_.extent_y(t) % ny_ != 0 || tiles_.extent_x(t) % nx_ != 0)
      throw_argument("BlockGrid",
                     {"blocks of ", text(ny_), " x ", text(nx_), " cells don't divide ", "tile ",
                      text(t), " of ", text(tiles_.extent_y(t)), " x ", text(tiles_.extent_x(t)),
                      " cells; give extents that divide those of every tile"});
    first_.push_back(blocks);
    blocks += tiles_.extent_y(t) / ny_ * (tiles_.extent_x(t) / nx_);
  }
  number_.assign(static_cast<std::size_t>(blocks), -1);
}

std::vector<TileBlock> BlockTable::all() const {
  std::vector<TileBlock> blocks;
  for (int t = 0; t < tiles_.count(); ++t)
    for (index_t y = 0; y < tiles_.extent_y(t); y += ny_)
      for (index_t x = 0; x < tiles_.extent_x(t); x += nx_) blocks.push_back({t, y, x});
  const auto place = [&](const TileBlock& b) {
    return std::pair(b.tile, curve(static_cast<std::uint64_t>(b.y / ny_),
                                   static_cast<std::uint64_t>(b.x / nx_)));
  };
  std::sort(blocks.begin(), blocks.end(),
            [&](const TileBlock& a, const TileBlock& b) { return place(a) < place(b); });
  return blocks;
}

void BlockTable::set_blocks(std::vector<TileBlock> blocks) {
  blocks_ = std::move(blocks);
  std::fill(number_.begin(), number_.end(), -1);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const TileBlock& b = blocks_[i];
    number_[static_cast<std::size_t>(first_[static_cast<std::size_t>(b.tile)] +
                                     b.y / ny_ * (tiles_.extent_x(b.tile) / nx_) + b.x / nx_)] =
        static_cast<index_t>(i);
  }
}

template <class Use>
void BlockTable::each_block(const TileImage& at, const Use& use) const {
  const index_t rows = tiles_.extent_y(at.tile) / ny_, columns = tiles_.extent_x(at.tile) / nx_;
  // a point between two blocks is in both
  const auto range = [](index_t p, index_t n, index_t count) {
    return std::pair(std::max<index_t>((p - 1) / (2 * n), 0), std::min(p / (2 * n), count - 1));
  };
  const auto [row, last_row]       = range(at.y, ny_, rows);
  const auto [column, last_column] = range(at.x, nx_, columns);
  for (index_t r = row; r <= last_row; ++r)
    for (index_t c = column; c <= last_column; ++c) {
      const index_t number = number_[static_cast<std::size_t>(
          first_[static_cast<std::size_t>(at.tile)] + r * columns + c)];
      if (number >= 0) use(BlockPoint{number, at.y - 2 * r * ny_, at.x - 2 * c * nx_, at.turns});
    }
}

BlockPoint BlockTable::owner_of(index_t block, index_t y, index_t x) const {
  const TileBlock& b = blocks_[static_cast<std::size_t>(block)];
  const TileImage at = image_of(tiles_, b.tile, 2 * b.y + y, 2 * b.x + x);
  BlockPoint owner;
  if (!at.exists) return owner;
  TileImage of_owner;
  const auto consider = [&](const TileImage& place) {
    each_block(place, [&](const BlockPoint& p) {
      const auto key = [](const TileImage& i, const BlockPoint& q) {
        return std::tuple(i.tile, i.y, i.x, q.block);
      };
      if (owner.block >= 0 && key(of_owner, owner) <= key(place, p)) return;
      owner    = p;
      of_owner = place;
    });
  };
  const bool on_edge = at.y == 0 || at.x == 0 || at.y == tiles_.north(at.tile) ||
                       at.x == 2 * tiles_.extent_x(at.tile);
  if (!on_edge) {
    consider(at);
    return owner;
  }
  for (TileImage place : places_of(tiles_, at.tile, at.y, at.x)) {
    place.turns = (place.turns + at.turns) % 4;
    consider(place);
  }
  return owner;
}

BlockPoint BlockTable::beside_corner(index_t block, index_t y, index_t x, bool beyond_x) const {
  const TileBlock& b   = blocks_[static_cast<std::size_t>(block)];
  const index_t tile_y = 2 * b.y + y, tile_x = 2 * b.x + x, end_y = 2 * tiles_.extent_y(b.tile),
                end_x    = 2 * tiles_.extent_x(b.tile);
  const index_t corner_y = std::clamp<index_t>(tile_y, 0, end_y),
                corner_x = std::clamp<index_t>(tile_x, 0, end_x);
  if (tile_y == corner_y || tile_x == corner_x || image_of(tiles_, b.tile, tile_y, tile_x).exists ||
      !image_of(tiles_, b.tile, tile_y, std::clamp<index_t>(tile_x, 1, end_x - 1)).exists ||
      !image_of(tiles_, b.tile, std::clamp<index_t>(tile_y, 1, end_y - 1), tile_x).exists)
    return {};
  const bool diagonal = (tile_y < 0) == (tile_x < 0);  // south-west and north-east
  const int turns = diagonal == beyond_x ? 3 : 1, s = quarter_sine(turns);
  return {block, corner_y - 2 * b.y + s * (tile_x - corner_x),
          corner_x - 2 * b.x - s * (tile_y - corner_y), turns};
}

std::vector<index_t> BlockTable::around(index_t block, index_t width) const {
  std::vector<index_t> found;
  const TileBlock& b = blocks_[static_cast<std::size_t>(block)];
  const auto look    = [&](index_t y, index_t x) {
    const TileImage at = image_of(tiles_, b.tile, 2 * b.y + y, 2 * b.x + x);
    if (!at.exists) return;
    const auto add = [&](const TileImage& place) {
      each_block(place, [&](const BlockPoint& p) {
        if (found.empty() || found.back() != p.block) found.push_back(p.block);
      });
    };
    for (const TileImage& place : places_of(tiles_, at.tile, at.y, at.x)) add(place);
  };
  for (index_t y = -width; y < ny_ + width; ++y)
    for (index_t x = -width; x < nx_ + width; ++x) {
      if (y >= 0 && y < ny_ - 1 && x == 0) x = nx_;  // the last row may be folded on itself
      look(2 * y + 1, 2 * x + 1);
    }
  for (index_t y = 0; y <= ny_; ++y)
    for (index_t x = 0; x <= nx_; x += y == 0 || y == ny_ ? 1 : nx_) look(2 * y, 2 * x);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::uint64_t BlockTable::hash() const {
  std::uint64_t hash = tiles_.hash();
  hash               = hash_bytes(&ny_, sizeof(ny_), hash);
  hash               = hash_bytes(&nx_, sizeof(nx_), hash);
  return hash_bytes(number_.data(), number_.size() * sizeof(index_t), hash);
}

namespace {

/// Whether a point of a block, by its indices, is a copy.
bool is_copy(const BlockSpace& space, index_t block, index_t j, index_t i) {
  const index_t y = 2 * j + (space.on_y_faces() ? 0 : 1), x = 2 * i + (space.on_x_faces() ? 0 : 1);
  const BlockPoint owner = space.table->owner_of(block, y, x);
  return owner.block != block || owner.y != y || owner.x != x;
}
/// Calls use(j, i) for the points on the edges of a block: others have no copies.
template <class Use>
void for_edge(const BlockSpace& space, const Use& use) {
  const index_t ny = space.points_y(), nx = space.points_x();
  for (index_t j = 0; j < ny; ++j)
    for (index_t i = 0; i < nx; i += j == 0 || j == ny - 1 || nx == 1 ? 1 : nx - 1) use(j, i);
}

}  // namespace

bool has_shared_points(const Geometry& geometry, int block_dim) {
  return geometry.dims[Geometry::at(block_dim)].partition.block_space()->shares_points();
}

std::vector<std::uint8_t> mask_of_copies(const Partition& blocks, int part) {
  const BlockSpace& space = *blocks.block_space();
  const index_t nx = space.points_x(), points = space.points_y() * nx;
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(blocks.count(part) * points), 0);
  for (index_t b = 0; b < blocks.count(part); ++b)
    for_edge(space, [&](index_t j, index_t i) {
      if (is_copy(space, blocks.begin(part) + b, j, i))
        mask[static_cast<std::size_t>(b * points + j * nx + i)] = 1;
    });
  return mask;
}

double share_of_owners(const Partition& blocks) {
  const BlockSpace& space = *blocks.block_space();
  index_t copies          = 0;
  for (index_t b = 0; b < blocks.size(); ++b)
    for_edge(space, [&](index_t j, index_t i) { copies += is_copy(space, b, j, i) ? 1 : 0; });
  const auto all = static_cast<double>(blocks.size() * space.points_y() * space.points_x());
  return all > 0 ? (all - static_cast<double>(copies)) / all : 1;
}

std::vector<index_t> shares_of(const std::vector<double>& weights, int parts) {
  std::vector<index_t> counts(static_cast<std::size_t>(parts), 0);
  double total = 0;
  for (const double w : weights) total += w;
  double before = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double middle =
        total > 0 ? (before + 0.5 * weights[i]) / total
                  : (static_cast<double>(i) + 0.5) / static_cast<double>(weights.size());
    before += weights[i];
    const int owner = std::clamp(static_cast<int>(middle * parts), 0, parts - 1);
    ++counts[static_cast<std::size_t>(owner)];
  }
  return counts;
}

std::shared_ptr<const BlockTable> make_block_table(MPI_Comm comm, const Tiles& tiles,
                                                   const BlockOptions& options, int parts,
                                                   Partition& owned) {
  std::shared_ptr<BlockTable> table;
  std::string wrong;
  try {
    table = std::make_shared<BlockTable>(tiles, options.block[0], options.block[1]);
    std::vector<TileBlock> kept;
    std::vector<double> weights;
    for (const TileBlock& b : table->all()) {
      if (options.keep && !options.keep(b)) continue;
      kept.push_back(b);
      weights.push_back(options.weight ? options.weight(b) : 1.0);
      if (!(weights.back() >= 0) || !std::isfinite(weights.back()))
        throw_argument("BlockGrid",
                       {"the weight of the block at (", text(b.y), ", ", text(b.x), ") of tile ",
                        text(b.tile), " is not a number from 0 on; give the work that it makes"});
    }
    table->set_blocks(std::move(kept));
    owned = Partition::explicit_counts(shares_of(weights, parts));
  } catch (const ArgumentError& e) {
    wrong = e.what();
  }
  require_agreement(comm, "BlockGrid",
                    wrong.empty() ? owned.describe() + ", blocks number " +
                                        text(static_cast<index_t>(table->hash() >> 1))
                                  : wrong);
  if (!wrong.empty()) throw ArgumentError(wrong);
  return table;
}

std::size_t block_position(At at) {
  switch (at) {
    case At::centre: return 0;
    case At::west: return 1;
    case At::south: return 2;
    case At::south_west: return 3;
    default:
      throw_argument("BlockGrid::at",
                     {"points of blocks are counted from west and south: the positions are centre, "
                      "west, south and south_west; the last point of west is the eastern face of "
                      "the last cell"});
  }
}

Partition block_partition(std::shared_ptr<const BlockTable> table, AxisId space, At at,
                          const Partition& owned) {
  auto blocks        = std::make_shared<BlockSpace>();
  blocks->has_blocks = true;
  blocks->space      = space;
  blocks->at         = at;
  blocks->identity   = hash_bytes(&at, sizeof(at), table->hash());
  blocks->table      = std::move(table);
  return with_space(owned, std::move(blocks));
}

}  // namespace shard::impl
