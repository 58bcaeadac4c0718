// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/geometry.hpp"

#include <charconv>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/watchdog.hpp"

namespace shard::impl {

namespace {

bool is_fold(BoundaryKind kind) {
  return kind == BoundaryKind::fold_on_row || kind == BoundaryKind::fold_between_rows;
}

/// What is wrong with one side of a dimension of `n` cells; empty if nothing is.
std::string complaint(const BoundarySide& side, int width, int d, const Geometry& geometry) {
  if (width == 0) return {};
  const index_t n      = geometry.global(d);
  const std::string is = "dimension " + text(d) + " of extent " + text(n);
  if (n == 0 && side.kind != BoundaryKind::constant)
    return is + " has nothing to fill a halo from; use Zero or Constant";
  if (n == 1 && (side.kind == BoundaryKind::reflect || side.kind == BoundaryKind::fold_on_row))
    return is +
           " can't be reflected about its only cell; use Symmetric, Clamp or a fold between rows";
  if (!is_fold(side.kind)) return {};
  if (geometry.global(side.longitude) % 2 != 0)
    return is + " is folded over the poles, which needs an even number of longitudes; dimension " +
           text(side.longitude) + " has " + text(geometry.global(side.longitude));
  return {};
}

std::string complaint(const DimType& type, int d, const Geometry& geometry) {
  const DimGeometry& dim = geometry.dims[Geometry::at(d)];
  int parts              = 1;
  for (int a = 0; a < type.axis_count; ++a)
    parts *= geometry.mesh->extent(type.axes[Geometry::at(a)]);
  if (dim.partition.parts() != parts)
    return "dimension " + text(d) + " is cut over " + text(parts) + " ranks, its partition has " +
           text(dim.partition.parts()) + " parts";
  if (type.fixed_extent >= 0 && type.fixed_extent != dim.partition.size())
    return "dimension " + text(d) + " has extent " + text(type.fixed_extent) +
           " in the type, got " + text(dim.partition.size());
  const std::string low = complaint(type.low, type.lo, d, geometry);
  return low.empty() ? complaint(type.high, type.hi, d, geometry) : low;
}

}  // namespace

std::string text(const BoundarySide& side) {
  switch (side.kind) {
    case BoundaryKind::constant: {
      if (side.value == 0.0) return "zero";
      char number[32];  // the shortest that is read back as the same value
      const auto end = std::to_chars(number, number + sizeof(number), side.value);
      return "constant " + std::string(number, end.ptr);
    }
    case BoundaryKind::periodic: return "periodic";
    case BoundaryKind::reflect: return "reflect";
    case BoundaryKind::symmetric: return "symmetric";
    case BoundaryKind::clamp: return "clamp";
    case BoundaryKind::fold_on_row:
    case BoundaryKind::fold_between_rows:
      return std::string(side.odd ? "odd" : "even") + " fold " +
             (side.kind == BoundaryKind::fold_on_row ? "on a row" : "between rows") +
             ", longitude " + text(side.longitude);
  }
  return {};
}

Geometry::Geometry()                               = default;
Geometry::Geometry(const Geometry&)                = default;
Geometry::Geometry(Geometry&&) noexcept            = default;
Geometry& Geometry::operator=(const Geometry&)     = default;
Geometry& Geometry::operator=(Geometry&&) noexcept = default;
Geometry::~Geometry()                              = default;

void throw_no_field() {
  throw_argument("ShardedView", {"this field was made by default: it has no mesh, label or cells; "
                                 "assign one that was made on a mesh"});
}

StoredGeometry store(Geometry geometry) {
  StoredGeometry stored(Kokkos::view_alloc("shard::geometry", Kokkos::SequentialHostInit));
  stored() = std::move(geometry);
  return stored;
}

StoredGeometry geometry_like(const Geometry& geometry, std::string_view label, const int* front,
                             bool same_size) {
  Geometry made = geometry;
  made.label    = label;
  made.memory   = same_size && geometry.memory ? geometry.memory->more() : nullptr;
  for (int d = 0; d < made.rank; ++d) made.dims[Geometry::at(d)].front = front[d];
  return store(std::move(made));
}

StoredGeometry make_geometry(std::string_view label, const std::shared_ptr<MeshState>& mesh,
                             int rank, const DimType* types, const index_t* extents,
                             const Partition* partitions) {
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
    dim.front      = type.lo;
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
  return store(std::move(geometry));
}

void require_local_extents(const Geometry& geometry, const DimType* types, const index_t* local) {
  std::string wrong;
  for (int d = 0; d < geometry.rank && wrong.empty(); ++d) {
    const index_t wanted = geometry.owned(d) + types[d].lo + types[d].hi;
    if (local[d] != wanted)
      wrong = "the View \"" + geometry.label + "\" has extent " + text(local[d]) +
              " in dimension " + text(d) + " where " + text(geometry.owned(d)) +
              " owned cells and a halo of " + text(types[d].lo) + " + " + text(types[d].hi) +
              " make " + text(wanted);
  }
  const Watched watched(
      {.what = "other ranks to wrap a View", .rank = geometry.mesh->rank(), .of = &geometry.label});
  require_no_error(geometry.mesh->comm(), "wrap", wrong);
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
