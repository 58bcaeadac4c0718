// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements that two sides of a coupling have in common where an index doesn't say it: by the ids of
// an index space, or by tile, row and column of blocks.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coupling_route.hpp"
#include "shard/base/error.hpp"
#include "shard/view/impl/index_halo.hpp"

namespace shard::impl {

namespace {

/// This rank's part of a dimension; -1 if it isn't on the side.
index_t own_part(const CoupledSide& side, const CoupledField::Dim& dim, int me) {
  const index_t place = side.place_of[static_cast<std::size_t>(me)];
  return place < 0 ? -1 : side.part_at(dim, place);
}

/// Both ranks of a pair list their boxes in the order of targets.
std::shared_ptr<const CommonBoxes> in_order(CommonBoxes boxes) {
  for (auto& [parts, list] : boxes)
    std::sort(list.begin(), list.end(),
              [](const CommonBox& a, const CommonBox& b) { return a.target < b.target; });
  return std::make_shared<const CommonBoxes>(std::move(boxes));
}

/// One side's ids, as this rank knows them.
struct CoupledIds {
  const CoupledSide* side;
  const CoupledField::Dim* dim;
  std::vector<std::int64_t> owned;  ///< of this rank; empty if it isn't on the side

  /// Of the ranks that own the same ids, along other axes, one answers for them.
  bool answers(int me) const {
    const index_t place = side->place_of[static_cast<std::size_t>(me)];
    if (place < 0) return false;
    const auto c = side->coordinates(place);
    for (std::size_t a = 0; a < side->shape.size(); ++a)
      if (!CoupledField::contains(dim->axes, static_cast<index_t>(a)) && c[a] != 0) return false;
    return true;
  }
};

/// Where this rank's ids of `asked` are on the side `asking`: its place there, and here.
std::shared_ptr<const IndexHalo> places_of(MPI_Comm comm, int me, const CoupledIds& answering,
                                           const CoupledIds& asking) {
  IndexInput input;
  if (answering.answers(me)) input.ids = answering.owned;
  input.owned = static_cast<index_t>(input.ids.size());
  input.ids.insert(input.ids.end(), asking.owned.begin(), asking.owned.end());
  input.function = "Coupling";
  return make_index_halo(comm, nullptr, input);
}

/// Boxes of the ranks that share ids with this one, both those that send and those that receive:
/// each side asks the other.
CommonBoxes boxes_of_ids(MPI_Comm comm, int me, const CoupledIds& to, const CoupledIds& from) {
  CommonBoxes boxes;
  const auto part_of = [](const CoupledIds& ids, index_t rank) {
    return own_part(*ids.side, *ids.dim, static_cast<int>(rank));
  };
  const auto senders   = places_of(comm, me, from, to);
  const auto receivers = places_of(comm, me, to, from);
  const index_t own_to = part_of(to, me), own_from = part_of(from, me);
  for (const IndexRun& run : senders->received)
    boxes[{part_of(from, run.part), own_to}].push_back(
        {{run.source}, {run.target - senders->owned}, {run.count, 1, 1}});
  for (const IndexRun& run : receivers->received)
    if (const index_t part = part_of(to, run.part); part != own_to)
      boxes[{own_from, part}].push_back(
          {{run.target - receivers->owned}, {run.source}, {run.count, 1, 1}});
  return boxes;
}

/// The blocks of one side, by tile, row and column in units of a block.
class CoupledTiles {
 public:
  struct Block {
    index_t part, local, y, x;
  };
  CoupledTiles(const CoupledSide& side, const CoupledField::Dim& dim)
      : space_(side.space_of(dim)), begin_(dim.begin) {
    for (index_t b = 0; b < size(); ++b)
      number_[{at(b, 0), at(b, 1) / space_.rows, at(b, 2) / space_.columns}] = b;
  }
  index_t begin(index_t part) const { return begin_[static_cast<std::size_t>(part)]; }
  index_t tile(index_t b) const { return at(b, 0); }
  Block block(index_t b) const {
    const auto part = std::upper_bound(begin_.begin(), begin_.end(), b) - begin_.begin() - 1;
    return {part, b - begin(part), at(b, 1), at(b, 2)};
  }
  index_t rows() const { return space_.rows; }
  index_t columns() const { return space_.columns; }
  /// Calls use(block) for the blocks that have cells of this box of a tile.
  template <class Use>
  void each(index_t tile, index_t y, index_t x, index_t ny, index_t nx, const Use& use) const {
    for (index_t j = y / rows(); j * rows() < y + ny; ++j)
      for (index_t i = x / columns(); i * columns() < x + nx; ++i)
        if (const auto found = number_.find({tile, j, i}); found != number_.end())
          use(block(found->second));
  }

 private:
  index_t size() const { return static_cast<index_t>(space_.blocks.size() / 3); }
  index_t at(index_t b, index_t n) const {
    return space_.blocks[static_cast<std::size_t>(3 * b + n)];
  }

  const CoupledSpace& space_;
  const std::vector<index_t>& begin_;
  std::map<std::array<index_t, 3>, index_t> number_;
};

/// Boxes of this rank's blocks with those of the other side. Sets `wrong` if the other side lacks
/// a cell of them.
CommonBoxes boxes_of_tiles(const CoupledTiles& to, index_t own_to, const CoupledTiles& from,
                           index_t own_from, std::string& wrong) {
  CommonBoxes boxes;
  const auto side = [&](const CoupledTiles& own, index_t part, const CoupledTiles& other,
                        bool is_from) {
    if (part < 0) return;
    for (index_t b = own.begin(part); b < own.begin(part + 1); ++b) {
      const auto here = own.block(b);
      index_t cells   = 0;
      other.each(own.tile(b), here.y, here.x, own.rows(), own.columns(), [&](const auto& there) {
        const index_t y = std::max(here.y, there.y), x = std::max(here.x, there.x);
        const index_t ny = std::min(here.y + own.rows(), there.y + other.rows()) - y;
        const index_t nx = std::min(here.x + own.columns(), there.x + other.columns()) - x;
        cells += ny * nx;
        const auto &source = is_from ? here : there, &target = is_from ? there : here;
        if (is_from && target.part == own_to) return;  // that of the other call
        boxes[{source.part, target.part}].push_back({{source.local, y - source.y, x - source.x},
                                                     {target.local, y - target.y, x - target.x},
                                                     {1, ny, nx}});
      });
      if (cells != own.rows() * own.columns() && wrong.empty())
        wrong = std::string("the side ") + (is_from ? "`from`" : "`to`") + " has cells of tile " +
                text(own.tile(b)) + " that the other side doesn't have: of a block from row " +
                text(here.y) + " and column " + text(here.x) + " on, " + text(cells) + " of " +
                text(own.rows() * own.columns()) + " cells are on both sides";
    }
  };
  side(to, own_to, from, false);
  side(from, own_from, to, true);
  return boxes;
}

bool same_blocks(const CoupledSpace& a, const CoupledSpace& b) {
  return a.at == b.at && a.rows == b.rows && a.columns == b.columns && a.blocks == b.blocks;
}

/// The owned ids of a field's dimension. Sets `wrong` if they aren't known.
std::vector<std::int64_t> ids_of(const FieldArgs& field, std::size_t d, std::string& wrong) {
  const IndexHalo& space = *field.geometry->dims[d].partition.index_halo();
  if (static_cast<index_t>(space.ids.size()) < space.owned) {
    wrong = "the index space of \"" + field.geometry->label +
            "\" was described by owners; to couple fields of two spaces, describe both by global "
            "ids";
    return {};
  }
  return {space.ids.begin(), space.ids.begin() + space.owned};
}

}  // namespace

std::vector<Matching> matchings_of(MPI_Comm comm, const CoupledSide& to_side,
                                   const CoupledSide& from_side, const std::vector<FieldArgs>& to,
                                   const std::vector<FieldArgs>& from,
                                   const std::vector<int>& permute, std::string& wrong) {
  int me = 0;
  check_mpi(MPI_Comm_rank(comm, &me), "MPI_Comm_rank");
  std::vector<Matching> matchings(to_side.fields.size());
  std::map<std::pair<index_t, index_t>, std::shared_ptr<const CommonBoxes>> known;  // by spaces
  for (std::size_t f = 0; f < matchings.size(); ++f) {
    const auto& dims = to_side.fields[f].dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].space == 0) continue;
      const auto& source        = from_side.fields[f].dims[d];
      const CoupledSpace &space = to_side.space_of(dims[d]), &other = from_side.space_of(source);
      Matching& matching = matchings[f];
      if (space.is_tiles != 0 && same_blocks(space, other)) continue;  // by their numbers
      matching.dims = {d};
      auto& boxes   = known[{dims[d].space, source.space}];
      if (space.is_tiles != 0) {
        for (const index_t axis : {1, 2})
          for (std::size_t e = 0; e < dims.size(); ++e)
            if (dims[e].tile_axis == axis) matching.dims.push_back(e);
        if (matching.dims.size() != 3 || space.at != 0 || other.at != 0)
          wrong = "field " + text(static_cast<index_t>(f)) +
                  " has other blocks of its tiles on the two sides; this needs fields with LinkedY "
                  "and LinkedX whose points are at the centres of cells";
        else if (!boxes)
          boxes =
              in_order(boxes_of_tiles({to_side, dims[d]}, own_part(to_side, dims[d], me),
                                      {from_side, source}, own_part(from_side, source, me), wrong));
      } else if (!boxes) {
        CoupledIds targets{&to_side, &dims[d], {}}, sources{&from_side, &source, {}};
        std::string unknown;
        if (f < to.size()) targets.owned = ids_of(to[f], d, unknown);
        if (f < from.size())
          sources.owned =
              ids_of(from[f], permute.empty() ? d : static_cast<std::size_t>(permute[d]), unknown);
        require_no_error(comm, "Coupling", unknown);
        boxes = in_order(boxes_of_ids(comm, me, targets, sources));
      }
      matching.boxes = boxes;
    }
  }
  return matchings;
}

void require_in_place(const FieldArgs& other, const FieldArgs& field, bool is_in_use) {
  constexpr const char* function = "Coupling::set_fields";
  const Geometry &was = *other.geometry, &is = *field.geometry;
  const auto refuse = [&](const std::string& why) {
    throw_argument(function, {"field \"", is.label, "\" ", why, "\"", was.label,
                              "\", for which the coupling was made; make another Coupling"});
  };
  if (is_in_use)
    throw_argument(function, {"the message of \"", was.label, "\" is under way; set \"", is.label,
                              "\" before it is started"});
  if (is.mesh != was.mesh) refuse("is on another mesh than ");
  for (int d = 0; d < was.rank; ++d) {
    const auto i = Geometry::at(d);
    if (!(is.dims[i].partition == was.dims[i].partition))
      refuse("has in dimension " + text(d) + " the partition " + is.dims[i].partition.describe() +
             ", not " + was.dims[i].partition.describe() + " as ");
    if (field.stride[i] != other.stride[i])
      refuse("has in dimension " + text(d) + " a stride of " + text(field.stride[i]) + ", not " +
             text(other.stride[i]) + " as ");
  }
}

}  // namespace shard::impl
