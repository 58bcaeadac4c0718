// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/impl/geometry.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/view/impl/block_table.hpp"
#include "shard/view/impl/index_halo.hpp"

namespace shard::impl {

namespace {

bool is_fold(BoundaryKind kind) {
  return kind == BoundaryKind::fold_on_row || kind == BoundaryKind::fold_between_rows;
}

/// The error in one side of a dimension of `n` points; empty if there is none.
std::string complaint(const BoundarySide& side, int width, int d, const Geometry& geometry) {
  if (width == 0) return {};
  const index_t n      = geometry.global(d);
  const std::string is = "dimension " + text(d) + " of extent " + text(n);
  if (side.kind == BoundaryKind::given || is_linked(side.kind)) return {};
  if (side.kind == BoundaryKind::by_index) {
    if (geometry.global(side.longitude) != side.count)
      return is + " has a boundary for each of " + text(side.count) + " indices of dimension " +
             text(side.longitude) + ", which has extent " + text(geometry.global(side.longitude)) +
             "; give ByIndex one for each";
    std::string wrong;
    for (int i = 0; i < side.count && wrong.empty(); ++i)
      wrong = complaint(side.sides[i], width, d, geometry);
    return wrong;
  }
  if (n == 0) return {};
  if (n == 1 && (side.kind == BoundaryKind::reflect || side.kind == BoundaryKind::fold_on_row))
    return is +
           " can't be reflected about its only cell; use Symmetric, Clamp or a fold between rows";
  if (is_north(side.kind) && geometry.global(side.longitude) == 0)
    return is + " is folded along dimension " + text(side.longitude) + ", which is empty";
  if (n == 1 && shares_row(side.kind))
    return is + " has its northern fold on or before its only row; it needs two rows";
  if (!is_fold(side.kind)) return {};
  if (geometry.global(side.longitude) % 2 != 0)
    return is + " is folded over the poles, which needs an even number of longitudes; dimension " +
           text(side.longitude) + " has " + text(geometry.global(side.longitude));
  return {};
}

/// The error in a dimension that has the points of a block.
std::string complaint_about_block(const DimType& type, int d, const Geometry& geometry) {
  const BlockSpace* blocks = nullptr;
  for (int b = 0; b < geometry.rank; ++b)
    if (const BlockSpace* found = geometry.dims[Geometry::at(b)].partition.block_space())
      blocks = found;
  if (blocks == nullptr) return {};  // another dimension's error
  const bool along_y   = type.low.kind == BoundaryKind::linked_y;
  const index_t points = along_y ? blocks->points_y() : blocks->points_x();
  if (geometry.global(d) != points)
    return "dimension " + text(d) + " has extent " + text(geometry.global(d)) +
           ", the blocks have " + text(points) + " points along " + (along_y ? "y" : "x") +
           "; give the grid's " + (along_y ? "y()" : "x()");
  const index_t most = blocks->table->tiles().smallest();
  if (std::max(type.lo, type.hi) > most)
    return "dimension " + text(d) + " has a halo of " + text(type.lo) + " + " + text(type.hi) +
           "; the smallest tile has " + text(most) + " cells, and a halo isn't wider than a tile";
  return {};
}

std::string complaint(const DimType& type, int d, const Geometry& geometry) {
  const DimGeometry& dim = geometry.dims[Geometry::at(d)];
  int parts              = 1;
  for (int a = 0; a < type.axis_count; ++a)
    parts *= geometry.mesh->extent(type.axes[Geometry::at(a)]);
  if (dim.partition.parts() != parts)
    return "dimension " + text(d) + " is sharded over " + text(parts) +
           " ranks, its partition has " + text(dim.partition.parts()) + " parts";
  if (type.fixed_extent >= 0 && type.fixed_extent != dim.partition.size())
    return "dimension " + text(d) + " has extent " + text(type.fixed_extent) +
           " in the type, got " + text(dim.partition.size());
  const IndexHalo* halo = dim.partition.index_halo();
  if (type.indices != nullptr && (halo == nullptr || halo->space != type.indices))
    return "dimension " + text(d) + " is of the index space " + std::string(type.indices->name) +
           ", its partition of " + (halo == nullptr ? "none" : std::string(halo->space->name)) +
           "; give the IndexSpace in place of a partition";
  const BlockSpace* blocks = dim.partition.block_space();
  if (type.blocks != nullptr && (blocks == nullptr || blocks->space != type.blocks))
    return "dimension " + text(d) + " counts blocks of " + std::string(type.blocks->name) +
           ", its partition those of " +
           (blocks == nullptr ? "none" : std::string(blocks->space->name)) +
           "; give the BlockGrid in place of a partition";
  if (is_linked(type.low.kind)) return complaint_about_block(type, d, geometry);
  const std::string low = complaint(type.low, type.lo, d, geometry);
  return low.empty() ? complaint(type.high, type.hi, d, geometry) : low;
}

/// The error in the extents of a View for the field; empty if there is none.
std::string complaint(const Geometry& geometry, const DimType* types, const index_t* local) {
  for (int d = 0; d < geometry.rank; ++d) {
    const index_t behind = types[d].indices != nullptr ? geometry.index_halo(d) : types[d].hi;
    const index_t wanted = geometry.owned(d) + types[d].lo + behind;
    // in an index space a dummy element may follow, which missing neighbours name
    if (types[d].indices != nullptr ? local[d] < wanted : local[d] != wanted)
      return "the View \"" + geometry.label + "\" has extent " + text(local[d]) + " in dimension " +
             text(d) + " where " + text(geometry.owned(d)) + " owned cells and a halo of " +
             text(types[d].lo) + " + " + text(behind) + " make " + text(wanted);
  }
  return {};
}

}  // namespace

std::string text(const BoundarySide& side) {
  const std::string sign = side.odd ? "odd " : "";
  const auto north       = [&](const char* where) {
    return sign + "north fold " + where + ", longitude i of dimension " + text(side.longitude) +
           " opposite to " + text(side.opposite) + " - i";
  };
  switch (side.kind) {
    case BoundaryKind::constant: {
      if (side.value.is_zero()) return "zero";
      if (side.value.form() == BoundaryValue::Form::positive)
        return "constant " + std::to_string(side.value.as<std::uint64_t>());
      if (side.value.form() == BoundaryValue::Form::negative)
        return "constant " + std::to_string(side.value.as<std::int64_t>());
      char number[32];  // the shortest text that reads back as the same value
      const auto end = std::to_chars(number, number + sizeof(number), side.value.as<double>());
      return "constant " + std::string(number, end.ptr);
    }
    case BoundaryKind::periodic: return "periodic";
    case BoundaryKind::reflect: return sign + "reflect";
    case BoundaryKind::symmetric: return sign + "symmetric";
    case BoundaryKind::clamp: return "clamp";
    case BoundaryKind::fold_on_row:
    case BoundaryKind::fold_between_rows:
      return std::string(side.odd ? "odd" : "even") + " fold " +
             (side.kind == BoundaryKind::fold_on_row ? "on a row" : "between rows") +
             ", longitude " + text(side.longitude);
    case BoundaryKind::north_between_rows: return north("after the last row");
    case BoundaryKind::north_on_row: return north("on the last row");
    case BoundaryKind::north_before_row: return north("before the last row");
    case BoundaryKind::given: return "given by the caller";
    case BoundaryKind::linked_y: return "linked blocks along y";
    case BoundaryKind::linked_x: return "linked blocks along x";
    case BoundaryKind::by_index: {
      std::string all;
      for (int i = 0; i < side.count; ++i) all += (i > 0 ? ", " : "") + text(side.sides[i]);
      return "by index of dimension " + text(side.longitude) + " (" + all + ")";
    }
  }
  return {};
}

std::uint64_t hash_boundary(const BoundarySide& side, std::uint64_t seed) {
  const std::uint64_t words[] = {static_cast<std::uint64_t>(side.kind),
                                 side.odd ? 1U : 0U,
                                 static_cast<std::uint64_t>(side.longitude),
                                 static_cast<std::uint64_t>(side.value.form()),
                                 side.value.bits(),
                                 static_cast<std::uint64_t>(side.opposite)};
  seed                        = hash_bytes(words, sizeof(words), seed);
  for (int i = 0; i < side.count; ++i) seed = hash_boundary(side.sides[i], seed);
  return seed;
}

Geometry::Geometry()                               = default;
Geometry::Geometry(const Geometry&)                = default;
Geometry::Geometry(Geometry&&) noexcept            = default;
Geometry& Geometry::operator=(const Geometry&)     = default;
Geometry& Geometry::operator=(Geometry&&) noexcept = default;
Geometry::~Geometry()                              = default;

Geometry Geometry::named(std::string_view other) const {
  Geometry made = *this;
  made.label    = other;
  return made;
}

index_t Geometry::index_halo(int d) const {
  const IndexHalo* halo = dims[at(d)].partition.index_halo();
  return halo == nullptr ? 0 : halo->halo();
}

FieldState::FieldState()                                 = default;
FieldState::FieldState(const FieldState&)                = default;
FieldState::FieldState(FieldState&&) noexcept            = default;
FieldState& FieldState::operator=(const FieldState&)     = default;
FieldState& FieldState::operator=(FieldState&&) noexcept = default;
FieldState::~FieldState()                                = default;

void throw_no_field() {
  throw_argument("ShardedView",
                 {"this field is default-constructed and has no mesh, label or cells; "
                  "assign one that was made on a mesh"});
}

void abort_outside(const Geometry* geometry, int rank, const index_t* index, const index_t* extent,
                   const std::array<int, 2>* halo) {
  std::string words = "shard::ShardedView: ";
  if (geometry != nullptr)
    words += "rank " + text(geometry->mesh->rank()) + ": \"" + geometry->label + "\" has no cell ";
  else
    words += "a default-constructed field has no cell ";
  words += text(index, rank) + ": ";
  for (int d = 0; d < rank; ++d) {
    const auto [lo, hi] = halo[d];
    if (index[d] >= -lo && index[d] < extent[d] + hi) continue;
    words += "dimension " + text(d) + " has " + text(extent[d]) + " owned cells and a halo of " +
             text(lo) + " + " + text(hi) + ", indices " + text(-lo) + " to " +
             text(extent[d] + hi - 1) + "; ";
  }
  words += "give the field a wider Halo, or read less far";
  Kokkos::abort(words.c_str());
}

namespace {

constexpr const char* fewer_points =
    "; shard that dimension over more ranks, or split it into two dimensions";

}  // namespace

void throw_large_box(const std::string& label, int d, index_t end) {
  throw_argument("parallel_for",
                 {"the region of the kernel \"", label, "\" ends at local index ", text(end),
                  " along dimension ", text(d), ", and kernels get ints, at most ",
                  text(most_in_box), fewer_points});
}

void require_int_indices(const char* function, const Geometry& geometry) {
  for (int d = 0; d < geometry.rank; ++d) {
    if (geometry.global(d) <= most_in_box) continue;
    const Partition& partition = geometry.dims[Geometry::at(d)].partition;
    for (int r = 0; r < partition.parts(); ++r)
      if (partition.count(r) > most_in_box)
        throw_argument(
            function, {"part ", text(r), " of dimension ", text(d), " of \"", geometry.label,
                       "\" has ", text(partition.count(r)),
                       " points, and kernels get ints, at most ", text(most_in_box), fewer_points});
  }
}

StoredState store(FieldState state) {
  StoredState stored(Kokkos::view_alloc("shard::geometry", Kokkos::SequentialHostInit));
  stored() = std::move(state);
  return stored;
}

StoredState store(Geometry geometry, std::shared_ptr<FieldMemory> memory,
                  const std::array<int, 2>* widths) {
  FieldState state;
  state.geometry = std::move(geometry);
  state.memory   = std::move(memory);
  for (int d = 0; d < state.geometry.rank; ++d) state.front[Geometry::at(d)] = widths[d][0];
  return store(std::move(state));
}

std::shared_ptr<FieldMemory> more_memory(const FieldState& state, std::size_t bytes) {
  return state.memory ? state.memory->more(bytes) : nullptr;
}

Geometry make_geometry(std::string_view label, const std::shared_ptr<MeshState>& mesh, int rank,
                       const DimType* types, const index_t* extents, const Partition* partitions) {
  Geometry geometry;
  geometry.label          = label;
  geometry.mesh           = mesh;
  geometry.rank           = rank;
  std::string description = "a field of";
  std::string wrong;
  for (int d = 0; d < rank; ++d) {
    const DimType& type = types[d];
    DimGeometry& dim    = geometry.dims[Geometry::at(d)];
    int parts           = 1;
    for (int a = 0; a < type.axis_count; ++a) {
      const int axis = type.axes[Geometry::at(a)];
      dim.coordinate = dim.coordinate * mesh->extent(axis) + mesh->coordinate(axis);
      parts *= mesh->extent(axis);
    }
    dim.axes       = type.axes;
    dim.axis_count = type.axis_count;
    if (partitions != nullptr && !partitions[d].empty())
      dim.partition = partitions[d];
    else if (extents != nullptr && extents[d] >= 0)
      dim.partition = Partition::balanced(extents[d], parts);
    else if (wrong.empty())
      wrong = extents != nullptr
                  ? "dimension " + text(d) + " has extent " + text(extents[d]) +
                        "; extents are not negative"
                  : "dimension " + text(d) + " has neither an extent nor a partition";
    description += " [" + dim.partition.describe() + "]";
  }
  const Watched watched(
      {.what = "other ranks to make a field", .rank = mesh->rank(), .of = &geometry.label});
  require_agreement(mesh->comm(), "ShardedView", description);
  for (int d = 0; d < rank && wrong.empty(); ++d) wrong = complaint(types[d], d, geometry);
  if (!wrong.empty()) throw_argument("ShardedView", {"field \"", geometry.label, "\": ", wrong});
  return geometry;
}

void require_local_extents(const Geometry& geometry, const DimType* types, const index_t* local) {
  const std::string wrong = complaint(geometry, types, local);
  const Watched watched(
      {.what = "other ranks to wrap a View", .rank = geometry.mesh->rank(), .of = &geometry.label});
  require_no_error(geometry.mesh->comm(), "wrap", wrong);
}

void require_own_extents(const Geometry& geometry, const DimType* types, const index_t* local) {
  const std::string wrong = complaint(geometry, types, local);
  if (!wrong.empty()) throw_argument("rebind", {wrong});
}

Partition gather_partition(MPI_Comm comm, index_t mine) {
  int parts = 0;
  check_mpi(MPI_Comm_size(comm, &parts), "MPI_Comm_size");
  std::vector<index_t> counts(static_cast<std::size_t>(parts));
  const Watched watched({.what = "other ranks to say how many indices they own"});
  await_mpi("MPI_Allgather", MPI_Allgather, &mine, 1, MPI_INT64_T, counts.data(), 1, MPI_INT64_T,
            comm);
  return Partition::explicit_counts(counts);
}

}  // namespace shard::impl
