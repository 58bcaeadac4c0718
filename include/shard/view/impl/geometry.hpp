// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_GEOMETRY_HPP
#define SHARD_VIEW_IMPL_GEOMETRY_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
#include "shard/view/boundary.hpp"
#include "shard/view/partial.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

inline constexpr int max_rank = 6;
inline constexpr int max_axes = 5;

/// A field type's properties of one dimension.
struct DimType {
  int lo = 0, hi = 0;
  BoundarySide low, high;
  std::array<int, max_axes> axes{};  ///< positions of the mesh axes that shard it
  int axis_count       = 0;
  index_t fixed_extent = -1;       ///< a compile-time extent, else -1
  AxisId indices       = nullptr;  ///< the index space; null for others
  AxisId blocks        = nullptr;  ///< the grid whose blocks are counted; null for others
};

/// One dimension of a field on this rank.
struct DimGeometry {
  Partition partition;
  std::array<int, max_axes> axes{};
  int axis_count = 0;
  int coordinate = 0;  ///< of this rank along the axes that shard the dimension, taken together
};

/// The mesh axes over which a field is Partial.
struct PartialAxes {
  std::array<int, max_axes> axes{};  ///< positions in the mesh's
  int count               = 0;
  ReductionKind reduction = ReductionKind::sum;
};

/// Memory of a field that isn't a Kokkos allocation of its own.
class FieldMemory {
 public:
  FieldMemory()                              = default;
  FieldMemory(const FieldMemory&)            = delete;
  FieldMemory& operator=(const FieldMemory&) = delete;
  virtual ~FieldMemory()                     = default;
  virtual void* data() const                 = 0;
  /// Other memory of the same kind, set to zero, or null if there is no space. Local.
  virtual std::shared_ptr<FieldMemory> more(std::size_t bytes) const = 0;
};

/// A field's label, mesh and partitions, independent of its memory. Fields are made from a
/// Geometry.
struct Geometry {
  std::string label;
  std::shared_ptr<MeshState> mesh;
  int rank = 0;
  std::array<DimGeometry, max_rank> dims{};
  PartialAxes partials;
  std::uint64_t part = 0;  ///< of a subview: which part of the whole field it is; else 0

  // out of line, to save users' compile time
  Geometry();
  Geometry(const Geometry&);
  Geometry(Geometry&&) noexcept;
  Geometry& operator=(const Geometry&);
  Geometry& operator=(Geometry&&) noexcept;
  ~Geometry();

  /// The same under another label.
  Geometry named(std::string_view other) const;
  index_t owned(int d) const { return dims[at(d)].partition.count(dims[at(d)].coordinate); }
  index_t begin(int d) const { return dims[at(d)].partition.begin(dims[at(d)].coordinate); }
  index_t global(int d) const { return dims[at(d)].partition.size(); }
  /// Elements of the halo in the dimension of an index space, which lies behind the owned ones.
  index_t index_halo(int d) const;
  static constexpr std::size_t at(int d) { return static_cast<std::size_t>(d); }
};

/// A field's host state: its geometry, and the place of its points in its View. The latter belongs
/// to that View; no other field may be made from it.
struct FieldState {
  Geometry geometry;
  std::array<int, max_rank> front{};    ///< points of the View before the first owned one
  std::shared_ptr<FieldMemory> memory;  ///< of the View; null for an allocation of Kokkos'

  FieldState();
  FieldState(const FieldState&);
  FieldState(FieldState&&) noexcept;
  FieldState& operator=(const FieldState&);
  FieldState& operator=(FieldState&&) noexcept;
  ~FieldState();
};

/// The state that all copies of a field share; kernels never access it.
using StoredState = Kokkos::View<FieldState, Kokkos::HostSpace>;

/// A boundary as text: "reflect", "zero", "odd fold between rows, longitude 2".
std::string text(const BoundarySide& side);
/// A hash of a boundary, to be chained.
std::uint64_t hash_boundary(const BoundarySide& side, std::uint64_t seed);

/// Throws ArgumentError: a default-constructed field was used.
[[noreturn]] void throw_no_field();

/// Ends the program: a kernel used an index that is outside of a field's owned points and halo.
/// `geometry` is null for a default-constructed field.
[[noreturn]] void abort_outside(const Geometry* geometry, int rank, const index_t* index,
                                const index_t* extent, const std::array<int, 2>* halo);

/// The largest extent of a kernel's box: kernels get local indices as ints.
inline constexpr index_t most_in_box = 2147483647;
/// Throws ArgumentError: a kernel with this label would run over a box whose indices along
/// dimension `d` end at `end`, which is more than most_in_box.
[[noreturn]] void throw_large_box(const std::string& label, int d, index_t end);
/// Throws ArgumentError on every rank if some rank owns more than most_in_box points along a
/// dimension. Local.
void require_int_indices(const char* function, const Geometry& geometry);

StoredState store(FieldState state);
/// The state of a field whose View has exactly its points and a halo of these widths.
StoredState store(Geometry geometry, std::shared_ptr<FieldMemory> memory,
                  const std::array<int, 2>* widths);

/// Memory for another field, of the same kind as this one's, set to zero; null for a Kokkos
/// allocation, or if there is no space. Local.
std::shared_ptr<FieldMemory> more_memory(const FieldState& state, std::size_t bytes);

/// Collective over the mesh: checks extents, partitions and boundaries, on every rank alike;
/// partitions that are empty become the balanced ones of `extents`. Throws ArgumentError or
/// AgreementError on every rank.
Geometry make_geometry(std::string_view label, const std::shared_ptr<MeshState>& mesh, int rank,
                       const DimType* types, const index_t* extents, const Partition* partitions);

/// Whether points of a field over blocks have copies: those on the edges of blocks.
bool has_shared_points(const Geometry& geometry, int block_dim);
/// Of the blocks of one part of a partition: [block][y][x], not 0 for copies of another point.
std::vector<std::uint8_t> mask_of_copies(const Partition& blocks, int part);
/// The share of points, of all blocks, that aren't copies.
double share_of_owners(const Partition& blocks);

/// Throws ArgumentError on every rank unless the local extents of a View that is wrapped are those
/// of the owned points and the halo. Collective.
void require_local_extents(const Geometry& geometry, const DimType* types, const index_t* local);
/// The same, local.
void require_own_extents(const Geometry& geometry, const DimType* types, const index_t* local);

/// Collective over `comm`, the ranks along one axis in order: the partition in which this rank owns
/// `mine` points.
Partition gather_partition(MPI_Comm comm, index_t mine);

}  // namespace shard::impl

#endif
