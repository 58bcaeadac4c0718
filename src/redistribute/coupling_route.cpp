// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes between the shards of two meshes, from descriptions of both sides.
#include "coupling_route.hpp"

#include <utility>

#include "shard/base/error.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"
#include "shard/view/impl/block_table.hpp"
#include "shard/view/impl/index_halo.hpp"
#include "shard/view/partial.hpp"

namespace shard::impl {

void throw_no_coupling() {
  throw_argument("Coupling",
                 {"this coupling was made by default; assign one that was made for fields"});
}

namespace {

/// Writes and reads the numbers of a description.
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(std::vector<index_t> all) : all_(std::move(all)) {}
  template <class Visit>
  static void visit(CoupledSide& side, const Visit& visit) {
    visit.list(side.shape);
    visit.list(side.mesh_rank);
    visit.structs(side.spaces, [&](CoupledSpace& space) {
      for (index_t* n : {&space.is_tiles, &space.at, &space.rows, &space.columns}) visit.number(*n);
      visit.list(space.blocks);
    });
    visit.structs(side.fields, [&](CoupledField& f) {
      for (index_t* n : {&f.rank, &f.kind, &f.value_size, &f.left, &f.reduction}) visit.number(*n);
      visit.list(f.partials);
      visit.structs(f.dims, [&](CoupledField::Dim& d) {
        visit.number(d.space);
        visit.number(d.tile_axis);
        visit.list(d.begin);
        visit.list(d.axes);
      });
    });
  }
  const std::vector<index_t>& all() const { return all_; }
  void put(index_t number) { all_.push_back(number); }
  index_t take() { return all_[next_++]; }

 private:
  std::vector<index_t> all_;
  std::size_t next_ = 0;
};
struct Writer {
  Numbers& numbers;
  void number(index_t& n) const { numbers.put(n); }
  void list(std::vector<index_t>& l) const {
    numbers.put(static_cast<index_t>(l.size()));
    for (const index_t n : l) numbers.put(n);
  }
  template <class T, class Use>
  void structs(std::vector<T>& l, const Use& use) const {
    numbers.put(static_cast<index_t>(l.size()));
    for (T& t : l) use(t);
  }
};
struct Reader {
  Numbers& numbers;
  void number(index_t& n) const { n = numbers.take(); }
  void list(std::vector<index_t>& l) const {
    l.resize(static_cast<std::size_t>(numbers.take()));
    for (index_t& n : l) n = numbers.take();
  }
  template <class T, class Use>
  void structs(std::vector<T>& l, const Use& use) const {
    l.resize(static_cast<std::size_t>(numbers.take()));
    for (T& t : l) use(t);
  }
};

struct IndexBox {
  std::array<index_t, max_rank> begin{}, end{};
};
IndexBox box_at(const CoupledSide& side, const CoupledField& field, index_t place) {
  IndexBox box;
  for (std::size_t d = 0; d < field.dims.size(); ++d) {
    const auto part = static_cast<std::size_t>(side.part_at(field.dims[d], place));
    box.begin[d]    = field.dims[d].begin[part];
    box.end[d]      = field.dims[d].begin[part + 1];
  }
  return box;
}

/// The parts of one side that have elements in common with a part of the other.
std::vector<index_t> common_parts(const CommonBoxes& boxes, index_t part, bool is_from) {
  std::vector<index_t> found;
  for (const auto& [parts, list] : boxes)
    if ((is_from ? parts.first : parts.second) == part)
      found.push_back(is_from ? parts.second : parts.first);
  return found;
}

/// Calls use(place) for the places of a side whose shards have points of a box, in the matched
/// dimensions for those of these parts.
template <class Use>
void for_places(const CoupledSide& side, const CoupledField& field, const IndexBox& box,
                const Matching& matching, const std::vector<index_t>& matched, const Use& use) {
  struct Digit {  // the parts of a dimension that have points of the box; all of a free axis
    std::vector<index_t> parts;
    std::vector<index_t> axes;
  };
  std::vector<Digit> digits;
  const auto add = [&](index_t first, index_t last, const std::vector<index_t>& axes) {
    digits.push_back({{}, axes});
    for (index_t part = first; part <= last; ++part) digits.back().parts.push_back(part);
  };
  for (std::size_t d = 0; d < field.dims.size(); ++d) {
    if (matching.has(d)) {
      if (d == matching.dims.front()) digits.push_back({matched, field.dims[d].axes});
      continue;
    }
    if (box.begin[d] >= box.end[d]) return;
    const std::vector<index_t>& begin = field.dims[d].begin;
    const auto part                   = [&](index_t i) {
      return std::upper_bound(begin.begin(), begin.end(), i) - begin.begin() - 1;
    };
    add(part(box.begin[d]), part(box.end[d] - 1), field.dims[d].axes);
  }
  for (std::size_t a = 0; a < side.shape.size(); ++a)
    if (const auto axis = static_cast<index_t>(a); !field.is_sharded(axis))
      add(0, side.shape[a] - 1, {axis});
  for (const Digit& digit : digits)
    if (digit.parts.empty()) return;
  std::vector<std::size_t> at(digits.size(), 0);
  for (std::size_t k = 0; k < digits.size();) {
    std::array<index_t, max_axes> c{};
    for (std::size_t n = 0; n < digits.size(); ++n) {
      index_t part = digits[n].parts[at[n]];
      for (std::size_t a = digits[n].axes.size(); a-- > 0;) {
        const auto axis = static_cast<std::size_t>(digits[n].axes[a]);
        c[axis]         = part % side.shape[axis];
        part /= side.shape[axis];
      }
    }
    index_t place = 0;
    for (std::size_t a = 0; a < side.shape.size(); ++a) place = place * side.shape[a] + c[a];
    use(place);
    for (k = 0; k < digits.size() && at[k] + 1 == digits[k].parts.size(); ++k) at[k] = 0;
    if (k < digits.size()) ++at[k];
  }
}

/// Whether a place of `from` sends to a rank. Of replicas one sends: the rank's own if it has one,
/// else they are assigned in turn. Of a Partial sum every contribution is sent.
bool serves(const CoupledSide& from, const CoupledField& field, index_t place, index_t own_place,
            int receiver) {
  const auto c   = from.coordinates(place);
  const auto own = own_place >= 0 ? from.coordinates(own_place) : c;
  for (std::size_t a = 0; a < from.shape.size(); ++a) {
    const auto axis = static_cast<index_t>(a);
    if (field.is_sharded(axis) || field.is_partial(axis)) continue;
    if (c[a] != (own_place >= 0 ? own[a] : receiver % from.shape[a])) return false;
  }
  return true;
}

/// Whether a place of `to` receives: of a Partial sum one along each of its axes.
bool takes(const CoupledSide& to, const CoupledField& field, index_t place) {
  const auto c = to.coordinates(place);
  return std::all_of(field.partials.begin(), field.partials.end(),
                     [&](index_t axis) { return c[static_cast<std::size_t>(axis)] == 0; });
}

bool has_tiles(const CoupledSide& side, const CoupledField& field) {
  return std::any_of(field.dims.begin(), field.dims.end(), [&](const CoupledField::Dim& dim) {
    return dim.space != 0 && side.space_of(dim).is_tiles != 0;
  });
}

CoupledSpace described_tiles(const BlockSpace& space) {
  CoupledSpace tiles{
      1, static_cast<index_t>(space.at), space.table->extent_y(), space.table->extent_x(), {}};
  for (const TileBlock& block : space.table->blocks())
    for (const index_t n : {static_cast<index_t>(block.tile), block.y, block.x})
      tiles.blocks.push_back(n);
  return tiles;
}

}  // namespace

CoupledSide side_of(const std::vector<FieldArgs>& fields) {
  CoupledSide side;
  if (fields.empty()) return side;
  const MeshState& mesh = *fields.front().geometry->mesh;
  for (int a = 0; a < mesh.axes(); ++a) side.shape.push_back(mesh.extent(a));
  side.mesh_rank.resize(static_cast<std::size_t>(mesh.size()));
  for (index_t place = 0; place < mesh.size(); ++place) {
    const auto c = side.coordinates(place);
    int place_of[max_axes];
    for (std::size_t a = 0; a < max_axes; ++a) place_of[a] = static_cast<int>(c[a]);
    side.mesh_rank[static_cast<std::size_t>(place)] = mesh.rank_at(place_of);
  }
  std::vector<const PartitionSpace*> known;
  const auto number = [&](const PartitionSpace* space, const CoupledSpace& described) {
    if (space == nullptr) return index_t{0};
    const auto found = std::find(known.begin(), known.end(), space) - known.begin();
    if (static_cast<std::size_t>(found) == known.size()) {
      known.push_back(space);
      side.spaces.push_back(described);
    }
    return static_cast<index_t>(found) + 1;
  };
  for (const FieldArgs& args : fields) {
    const PartialAxes& partials = args.geometry->partials;
    CoupledField field{args.geometry->rank,
                       static_cast<index_t>(args.kind),
                       args.value_size,
                       args.layout == 1 ? 1 : 0,
                       static_cast<index_t>(partials.reduction),
                       {partials.axes.begin(), partials.axes.begin() + partials.count},
                       {}};
    for (int d = 0; d < args.geometry->rank; ++d) {
      const DimGeometry& dim = args.geometry->dims[Geometry::at(d)];
      CoupledField::Dim described;
      described.space = number(dim.partition.index_halo(), {});
      if (const BlockSpace* blocks = dim.partition.block_space())
        described.space = number(blocks, described_tiles(*blocks));
      const BoundaryKind low = args.types[d].low.kind;
      described.tile_axis    = low == BoundaryKind::linked_y   ? 1
                               : low == BoundaryKind::linked_x ? 2
                                                               : 0;
      for (int r = 0; r <= dim.partition.parts(); ++r)
        described.begin.push_back(dim.partition.begin(r));
      for (int a = 0; a < dim.axis_count; ++a) described.axes.push_back(dim.axes[Geometry::at(a)]);
      field.dims.push_back(std::move(described));
    }
    side.fields.push_back(std::move(field));
  }
  return side;
}

void CoupledSide::set_ranks(std::vector<int> by_mesh_rank, int ranks) {
  rank = std::move(by_mesh_rank);
  place_of.assign(static_cast<std::size_t>(ranks), -1);
  for (index_t p = 0; p < places(); ++p)
    if (rank_at(p) >= 0) place_of[static_cast<std::size_t>(rank_at(p))] = p;
}

std::vector<index_t> numbers_of(const CoupledSide& side) {
  Numbers written;
  CoupledSide own = side;
  Numbers::visit(own, Writer{written});
  return written.all();
}
CoupledSide side_from(std::vector<index_t> numbers) {
  CoupledSide side;
  Numbers read(std::move(numbers));
  Numbers::visit(side, Reader{read});
  return side;
}

void permute_dims(CoupledSide& side, const std::vector<int>& permute, std::string& wrong) {
  if (permute.empty()) return;
  std::vector<int> sorted = permute;
  std::sort(sorted.begin(), sorted.end());
  for (CoupledField& field : side.fields) {
    const auto dims = field.dims;
    for (std::size_t d = 0; d < permute.size(); ++d) {
      if (permute.size() != dims.size() || sorted[d] != static_cast<int>(d)) {
        wrong = "permute isn't a permutation of the " + text(static_cast<index_t>(dims.size())) +
                " dimensions";
        return;
      }
      field.dims[d] = dims[static_cast<std::size_t>(permute[d])];
    }
  }
}

std::string disagreement(const CoupledSide& side_a, int a, const CoupledSide& side_b, int b) {
  const auto both = [&](const std::string& of_a, const std::string& of_b) {
    return "rank " + text(a) + " gives " + of_a + " and rank " + text(b) + " " + of_b;
  };
  const auto count = [](const auto& list) { return text(static_cast<index_t>(list.size())); };
  if (side_a.fields.size() != side_b.fields.size())
    return both(count(side_a.fields) + " fields", count(side_b.fields));
  const auto type = [](const CoupledField& field) {
    return text(field.rank) + " dimensions of " + text(field.value_size) + "-byte values of kind " +
           text(field.kind);
  };
  for (std::size_t f = 0; f < side_a.fields.size(); ++f) {
    const CoupledField &x = side_a.fields[f], &y = side_b.fields[f];
    const std::string of = ", as field " + text(static_cast<index_t>(f));
    if (type(x) != type(y)) return both(type(x), type(y)) + of;
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      const std::vector<index_t>&p = x.dims[d].begin, &q = y.dims[d].begin;
      if (p != q)
        return both("begins " + text(p.data(), static_cast<int>(p.size())),
                    text(q.data(), static_cast<int>(q.size()))) +
               of + ", dimension " + text(static_cast<index_t>(d));
    }
  }
  return numbers_of(side_a) == numbers_of(side_b)
             ? std::string()
             : both("a mesh, or placements of fields, that rank " + text(b) + " doesn't", "others");
}

std::string difference(const CoupledSide& to, const CoupledSide& from) {
  if (to.fields.size() != from.fields.size())
    return "the side `to` has " + text(static_cast<index_t>(to.fields.size())) +
           " fields and `from` " + text(static_cast<index_t>(from.fields.size()));
  for (std::size_t f = 0; f < to.fields.size(); ++f) {
    const CoupledField &a = to.fields[f], &b = from.fields[f];
    const std::string of = "field " + text(static_cast<index_t>(f)) + " of the side ";
    if (a.kind != b.kind || a.value_size != b.value_size || a.rank != b.rank)
      return of + "`to` has values of another type or another rank than that of `from`";
    const auto is_extremum = [](const CoupledField& field) {
      return !field.partials.empty() && field.reduction != static_cast<index_t>(ReductionKind::sum);
    };
    if (is_extremum(a) || is_extremum(b))
      return of +
             "`to` or `from` is a Partial maximum or minimum; only sums are added: "
             "redistribute it on its own mesh first";
    const bool tiles = has_tiles(to, a) && has_tiles(from, b);
    for (std::size_t d = 0; d < a.dims.size(); ++d) {
      const CoupledField::Dim &x = a.dims[d], &y = b.dims[d];
      const std::string dimension = " in dimension " + text(static_cast<index_t>(d));
      if ((x.space != 0) != (y.space != 0) ||
          (x.space != 0 && to.space_of(x).is_tiles != from.space_of(y).is_tiles))
        return of + "`to` or `from` is over an index space or tiles" + dimension +
               "; the other side's isn't";
      const bool together = tiles && (x.space != 0 || x.tile_axis != 0 || y.tile_axis != 0);
      if (together && x.tile_axis != y.tile_axis)
        return of + "`to` and that of `from` have other axes of their tiles" + dimension +
               "; give both LinkedY and LinkedX, and permute the dimensions";
      if (!together && x.begin.back() != y.begin.back())
        return of + "`to` has " + text(x.begin.back()) + " points" + dimension +
               " and that of `from` " + text(y.begin.back());
    }
  }
  return {};
}

Route route_between(const CoupledSide& to, const CoupledSide& from, int me, bool adds,
                    const std::vector<std::string>& labels, const std::vector<Matching>& matchings,
                    bool every_replica) {
  Route route;
  for (std::size_t f = 0; f < to.fields.size(); ++f) {
    const CoupledField &target = to.fields[f], &source = from.fields[f];
    const Matching matching   = f < matchings.size() ? matchings[f] : Matching();
    const std::size_t matched = matching.dims.empty() ? 0 : matching.dims.front();
    RouteField field;
    field.label      = labels[f];
    field.kind       = static_cast<ValueKind>(target.kind);
    field.value_size = static_cast<int>(target.value_size);
    field.rank       = static_cast<int>(target.rank);
    field.left       = target.left != 0;
    field.move       = true;
    const auto piece = [&](index_t source_place, index_t target_place, int peer,
                           std::vector<Piece>& list) {
      const IndexBox a = box_at(from, source, source_place), b = box_at(to, target, target_place);
      Piece p;
      p.field = static_cast<int>(f);
      p.peer  = peer;
      p.order = static_cast<int>(source_place);
      p.step.fill(1);
      for (std::size_t d = 0; d < target.dims.size(); ++d) {
        if (matching.has(d)) continue;
        const index_t begin = std::max(a.begin[d], b.begin[d]), end = std::min(a.end[d], b.end[d]);
        if (begin >= end) return;
        p.source[d] = begin - a.begin[d];
        p.target[d] = begin - b.begin[d];
        p.extent[d] = end - begin;
      }
      const auto append = [&] {
        list.push_back(p);
        if (adds) std::swap(list.back().source, list.back().target);
      };
      if (!matching.boxes) return append();
      const auto boxes = matching.boxes->find({from.part_at(source.dims[matched], source_place),
                                               to.part_at(target.dims[matched], target_place)});
      if (boxes == matching.boxes->end()) return;
      for (const CommonBox& box : boxes->second) {
        for (std::size_t m = 0; m < matching.dims.size(); ++m) {
          p.source[matching.dims[m]] = box.source[m];
          p.target[matching.dims[m]] = box.target[m];
          p.extent[matching.dims[m]] = box.extent[m];
        }
        append();
      }
    };
    const auto parts = [&](const CoupledSide& side, const CoupledField& of, index_t place) {
      return matching.boxes ? common_parts(*matching.boxes, side.part_at(of.dims[matched], place),
                                           &side == &from)
                            : std::vector<index_t>();
    };
    const auto own        = [&](int rank) { return from.place_of[static_cast<std::size_t>(rank)]; };
    const index_t here_to = to.place_of[static_cast<std::size_t>(me)], here_from = own(me);
    const auto owned_at = [&](const CoupledSide& side, const CoupledField& of, index_t place) {
      const IndexBox box = box_at(side, of, place);
      for (std::size_t d = 0; d < of.dims.size(); ++d) field.owned[d] = box.end[d] - box.begin[d];
    };
    if (here_to >= 0 && !adds) owned_at(to, target, here_to);
    if (here_from >= 0 && adds) owned_at(from, source, here_from);
    if (here_to >= 0 && takes(to, target, here_to))
      for_places(from, source, box_at(to, target, here_to), matching, parts(to, target, here_to),
                 [&](index_t p) {
                   if (every_replica || serves(from, source, p, own(me), me))
                     piece(p, here_to, from.rank_at(p),
                           from.rank_at(p) == me ? route.locals : route.receives);
                 });
    if (here_from >= 0)
      for_places(to, target, box_at(from, source, here_from), matching,
                 parts(from, source, here_from), [&](index_t p) {
                   if (const int peer = to.rank_at(p);
                       peer != me && takes(to, target, p) &&
                       (every_replica || serves(from, source, here_from, own(peer), peer)))
                     piece(here_from, p, peer, route.sends);
                 });
    route.fields.push_back(std::move(field));
  }
  if (adds) std::swap(route.sends, route.receives);
  for (auto* list : {&route.sends, &route.receives})
    std::stable_sort(list->begin(), list->end(),
                     [](const Piece& a, const Piece& b) { return a.peer < b.peer; });
  return route;
}

}  // namespace shard::impl
