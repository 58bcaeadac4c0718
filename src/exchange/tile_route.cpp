// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes of fields over blocks of connected tiles.
#include <algorithm>
#include <string>
#include <vector>

#include "segments.hpp"
#include "shard/base/error.hpp"
#include "shard/view/impl/block_table.hpp"

namespace shard::impl {

namespace {

/// Points of a block and its halo whose sources are in one block, in order. Indices are local: y
/// and x count from the first point of the block that is written, or read.
struct TileBox {
  index_t y = 0, x = 0, rows = 1, columns = 1;
  BlockPoint source;      ///< of the first point, as indices; no block: a constant
  bool other    = false;  ///< the source is the other component of the vector
  bool negative = false;

  bool same_source(const TileBox& b) const {
    return source.block == b.source.block && source.turns == b.source.turns && other == b.other &&
           negative == b.negative;
  }
};

/// A field over blocks.
class TiledField {
 public:
  explicit TiledField(const FieldSpec& spec) : spec_(spec) {
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim = spec.dims[Geometry::at(d)];
      if (const BlockSpace* found = dim.to.block_space()) {
        blocks_ = found;
        block_  = d;
      }
      if (dim.low.kind == BoundaryKind::linked_y) y_ = d;
      if (dim.low.kind == BoundaryKind::linked_x) x_ = d;
    }
  }

  int block() const { return block_; }
  int y() const { return y_; }
  int x() const { return x_; }
  const BlockSpace& blocks() const { return *blocks_; }
  const DimSpec& dim(int d) const { return spec_.dims[Geometry::at(d)]; }
  /// Calls use(box) for the halo of a block and its copies of shared points, in an order that
  /// doesn't depend on the rank.
  template <class Use>
  void for_boxes(index_t block, const Use& use) const {
    std::vector<TileBox> open, row;  // boxes that the next row may continue; those of this row
    for (index_t j = -dim(y_).lo; j < blocks_->points_y() + dim(y_).hi; ++j) {
      row.clear();
      append_row(block, j, row);
      std::vector<TileBox> next;
      std::size_t o = 0;
      for (TileBox& box : row) {
        while (o < open.size() && open[o].x < box.x) use(open[o++]);
        if (o < open.size() && continues(open[o], box, open[o].rows, 0) &&
            open[o].columns == box.columns) {
          box.y      = open[o].y;
          box.rows   = open[o].rows + 1;
          box.source = open[o].source;
          ++o;
        }
        next.push_back(box);
      }
      while (o < open.size()) use(open[o++]);
      open = std::move(next);
    }
    for (const TileBox& box : open) use(box);
  }

  /// Blocks that may read something of this rank's blocks.
  std::vector<index_t> readers() const {
    const Partition& parts = dim(block_).to;
    std::vector<index_t> found;
    if (parts.parts() == 1) return found;
    const index_t width = std::max({dim(y_).lo, dim(y_).hi, dim(x_).lo, dim(x_).hi}) + 1;
    for (index_t b = parts.begin(dim(block_).coordinate); b < parts.end(dim(block_).coordinate);
         ++b)
      found.push_back(b);
    // a shared point's owner may be a neighbour's neighbour
    for (int hops = blocks_->shares_points() ? 2 : 1; hops > 0; --hops) {
      std::vector<index_t> next;
      for (const index_t b : found) {
        const auto around = blocks_->table->around(b, width);
        next.insert(next.end(), around.begin(), around.end());
      }
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      found = std::move(next);
    }
    return found;
  }

  Piece piece_of(const TileBox& box, index_t block, int owner, int wanting, int field,
                 int peer) const {
    Piece piece;
    piece.field = field;
    piece.peer  = peer;
    piece.step.fill(1);
    for (int d = 0; d < spec_.rank; ++d)
      piece.extent[Geometry::at(d)] = dim(d).to.count(dim(d).coordinate);
    const auto b = Geometry::at(block_), y = Geometry::at(y_), x = Geometry::at(x_);
    piece.target[b] = block - dim(block_).to.begin(wanting);
    piece.target[y] = box.y;
    piece.target[x] = box.x;
    piece.extent[b] = 1;
    piece.extent[y] = box.rows;
    piece.extent[x] = box.columns;
    if (box.source.block < 0) return piece;
    piece.source[b] = box.source.block - dim(block_).from.begin(owner);
    piece.source[y] = box.source.y;
    piece.source[x] = box.source.x;
    piece.negative  = box.negative;
    piece.partner   = box.other ? (spec_.component == 1 ? 1 : -1) : 0;
    const int turns = box.source.turns;
    if (turns % 2 != 0) {
      piece.along[y] = static_cast<std::int8_t>(x_);
      piece.along[x] = static_cast<std::int8_t>(y_);
    }
    piece.step[x] = static_cast<std::int8_t>(turns < 2 ? 1 : -1);
    piece.step[y] = static_cast<std::int8_t>(turns == 0 || turns == 3 ? 1 : -1);
    return piece;
  }

 private:
  /// Whether `next` is `rows` and `columns` after the first point of `box`, and its source too.
  static bool continues(const TileBox& box, const TileBox& next, index_t rows, index_t columns) {
    if (next.y != box.y + rows || next.x != box.x + columns || !box.same_source(next)) return false;
    if (box.source.block < 0) return true;
    const int c = quarter_cosine(box.source.turns), s = quarter_sine(box.source.turns);
    return next.source.x == box.source.x + c * columns - s * rows &&
           next.source.y == box.source.y + s * columns + c * rows;
  }

  void append_row(index_t block, index_t j, std::vector<TileBox>& row) const {
    const index_t rows = blocks_->points_y(), columns = blocks_->points_x();
    const index_t margin = blocks_->shares_points() ? 1 : 0;  // of own points, that may be copies
    for (index_t i = -dim(x_).lo; i < columns + dim(x_).hi; ++i) {
      if (j >= margin && j < rows - margin && i == margin && i < columns - margin)
        i = columns - margin;  // the block's own
      if (i >= columns + dim(x_).hi) break;
      const bool outside_y = j < 0 || j >= rows, outside_x = i < 0 || i >= columns;
      if (outside_y && outside_x && spec_.part == HaloPart::faces) continue;
      TileBox box;
      box.y              = j;
      box.x              = i;
      const bool corners = spec_.part == HaloPart::corners_x || spec_.part == HaloPart::corners_y;
      if (corners && !(outside_y && outside_x)) continue;
      const index_t y = 2 * j + (blocks_->on_y_faces() ? 0 : 1),
                    x = 2 * i + (blocks_->on_x_faces() ? 0 : 1);
      BlockPoint at =
          corners ? blocks_->table->beside_corner(block, y, x, spec_.part == HaloPart::corners_x)
                  : blocks_->table->owner_of(block, y, x);
      if (corners && at.block < 0) continue;
      if (at.block == block && at.y == y && at.x == x) continue;  // its own
      at.y       = at.y >> 1;  // even positions are faces, odd ones centres; rounded down
      at.x       = at.x >> 1;
      box.source = at;
      if (at.block < 0) box.source = BlockPoint{};
      if (at.block >= 0 && spec_.component != 0) {
        const int c = quarter_cosine(at.turns), s = quarter_sine(at.turns);
        box.other    = c == 0;
        box.negative = spec_.is_signed && (c != 0 ? c : spec_.component == 1 ? s : -s) < 0;
      }
      if (!row.empty() && continues(row.back(), box, 0, row.back().columns))
        ++row.back().columns;
      else
        row.push_back(box);
    }
  }

  const FieldSpec& spec_;
  const BlockSpace* blocks_ = nullptr;
  int block_ = 0, y_ = 0, x_ = 0;
};

}  // namespace

bool is_tiled(const FieldSpec& spec) {
  for (int d = 0; d < spec.rank; ++d)
    if (is_linked(spec.dims[Geometry::at(d)].low.kind)) return true;
  return false;
}

void require_pairs(const std::vector<FieldSpec>& fields) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const FieldSpec& spec = fields[f];
    if (!is_tiled(spec)) {
      if (spec.component != 0)
        throw_argument("Exchange", {"field \"", spec.label,
                                    "\" is a component of a vector and is not over blocks; only "
                                    "tiles turn vectors: exchange it by itself"});
      continue;
    }
    const BlockSpace& blocks = TiledField(spec).blocks();
    const bool on_face       = blocks.at == At::west || blocks.at == At::south;
    if (spec.component == 0 && on_face && blocks.table->tiles().swaps_axes())
      throw_argument("Exchange",
                     {"field \"", spec.label,
                      "\" is on faces, which contacts of the tiles exchange with those across the "
                      "other axis; exchange it with its partner: vector_of(u, v)"});
    if (spec.part == HaloPart::corners_x || spec.part == HaloPart::corners_y) {
      const TiledField tiled(spec);
      const DimSpec &y = tiled.dim(tiled.y()), &x = tiled.dim(tiled.x());
      if (y.lo != x.lo || y.lo != y.hi || x.lo != x.hi || y.lo > blocks.table->extent_y() ||
          x.lo > blocks.table->extent_x())
        throw_argument("Exchange::corners",
                       {"field \"", spec.label, "\" has a halo of ", text(y.lo), " + ", text(y.hi),
                        " along y and ", text(x.lo), " + ", text(x.hi),
                        " along x; a corner is filled from a halo as wide as itself, not wider "
                        "than a block: give both dimensions the same Halo<n>"});
    }
    if (spec.component != 1) continue;
    const FieldSpec& other     = fields[f + 1];
    const BlockSpace& of_other = TiledField(other).blocks();
    const At swapped           = blocks.at == At::west    ? At::south
                                 : blocks.at == At::south ? At::west
                                                          : blocks.at;
    bool alike                 = of_other.at == swapped && &*of_other.table == &*blocks.table &&
                 spec.left == other.left && spec.value_size == other.value_size;
    for (int d = 0; d < spec.rank && alike; ++d) {
      const DimSpec &a = spec.dims[Geometry::at(d)], &b = other.dims[Geometry::at(d)];
      if (!is_linked(a.low.kind))
        alike = a.to.size() == b.to.size() && a.coordinate == b.coordinate;
    }
    if (!alike)
      throw_argument("Exchange",
                     {"the components \"", spec.label, "\" and \"", other.label,
                      "\" differ; they are over one BlockGrid with the same extents, at "
                      "one position or on the faces across x and across y"});
  }
}

void append_tiles(const MeshState& mesh, const FieldSpec& spec, int field, Route& route) {
  const TiledField tiled(spec);
  route.fields[static_cast<std::size_t>(field)].shares_points = tiled.blocks().shares_points();
  const DimSpec& blocks                                       = tiled.dim(tiled.block());
  const int me = mesh.rank(), part = blocks.coordinate;
  const auto rank_at = [&](int of_part) {
    return rank_of(mesh, spec, [&](int d) {
      return d == tiled.block() ? of_part : spec.dims[Geometry::at(d)].coordinate;
    });
  };
  for (index_t b = blocks.to.begin(part); b < blocks.to.end(part); ++b)
    tiled.for_boxes(b, [&](const TileBox& box) {
      if (box.source.block < 0) {
        route.fills.push_back(tiled.piece_of(box, b, part, part, field, me));
        return;
      }
      const int owner = blocks.from.owner(box.source.block), peer = rank_at(owner);
      (peer == me ? route.locals : route.receives)
          .push_back(tiled.piece_of(box, b, owner, part, field, peer));
    });
  for (const index_t b : tiled.readers()) {
    const int wanting = blocks.to.owner(b);
    if (wanting == part) continue;
    tiled.for_boxes(b, [&](const TileBox& box) {
      if (box.source.block < 0 || blocks.from.owner(box.source.block) != part) return;
      route.sends.push_back(tiled.piece_of(box, b, part, wanting, field, rank_at(wanting)));
    });
  }
}

}  // namespace shard::impl
