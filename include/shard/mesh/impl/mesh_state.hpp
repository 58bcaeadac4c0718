// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_IMPL_MESH_STATE_HPP
#define SHARD_MESH_IMPL_MESH_STATE_HPP

#include <mpi.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"
#include "shard/mesh/axis.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/mesh_options.hpp"

namespace shard::impl {

/// An object that a mesh caches, such as an exchange plan. It is destroyed with the mesh, at the
/// latest before Kokkos is finalized, or earlier (see KeptKind).
class CachedPlan {
 public:
  CachedPlan()                             = default;
  CachedPlan(const CachedPlan&)            = delete;
  CachedPlan& operator=(const CachedPlan&) = delete;
  virtual ~CachedPlan()                    = default;
  /// Bytes of this rank's memory that it uses, without shared windows.
  virtual std::size_t bytes() const { return 0; }
  /// Whether its destructor would not wait for other ranks. Local.
  virtual bool may_end() { return true; }
};

/// The kinds of cached objects. A mesh keeps at most MeshOptions::kept_plans of each of the first
/// three kinds, and then drops the least recently used.
enum class KeptKind : std::uint8_t {
  exchange,        ///< plans of exchanges
  redistribution,  ///< plans of redistributions
  operand,         ///< memory for operands that are moved to a common partition
  one_of_its_kind  ///< objects of a bounded number: buffers of collectives
};
inline constexpr std::size_t kept_kinds = 4;

/// A large object that a mesh owns for other rooms: the shared memory of its ranks, the
/// communicator of their devices.
class MeshResource {
 public:
  MeshResource()                               = default;
  MeshResource(const MeshResource&)            = delete;
  MeshResource& operator=(const MeshResource&) = delete;
  virtual ~MeshResource()                      = default;
  /// Frees unused memory. Collective over the mesh.
  virtual void release() = 0;
  /// Its memory on this rank as text: a line, or nothing.
  virtual std::string text() const { return {}; }
};

/// What a key is of.
enum class KeyKind : std::uint8_t {
  exchange,
  move,
  redistribution,
  coupling,
  collective,
  operand,
  index_move,
  chain,
  mesh_number,
  reduction_scratch,
  reduction_states,
  block_copies,
  transfer_group,
  rank_group,
  device_messages,
  message_parts,
  hosts
};

/// A 128-bit key of a cached plan: two hashes of different seeds, so that two objects of a kind
/// don't meet by chance.
struct PlanKey {
  std::uint64_t a = 0, b = 0;
  /// The beginning of a key. (With the kind added to the seeds, FNV would give two kinds one hash
  /// where their first bytes differ in the same bits.)
  static PlanKey of(KeyKind kind) {
    PlanKey key{hash_seed, ~hash_seed};
    key.mix(&kind, sizeof kind);
    return key;
  }
  /// Of an object that a number tells from others of its kind.
  static PlanKey of(KeyKind kind, std::uint64_t number) {
    PlanKey key = of(kind);
    key.mix(&number, sizeof number);
    return key;
  }
  /// Adds bytes to both hashes.
  void mix(const void* bytes, std::size_t count) {
    for (std::uint64_t* hash : {&a, &b}) *hash = hash_bytes(bytes, count, *hash);
  }
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

/// The state that all copies of a mesh share: communicators, shape, this rank's place, and cached
/// plans. Axes are numbered as in Mesh<Axes...>; coordinates are row-major, the last axis the
/// fastest.
class MeshState {
 public:
  /// Collective over `comm`, which is duplicated. See Mesh for the arguments and errors.
  static std::shared_ptr<MeshState> make(MPI_Comm comm, std::vector<int> shape,
                                         const MeshOptions& options);
  static std::shared_ptr<MeshState> bind(MPI_Comm comm, const LogicalMesh& mesh, int axes);
  static std::shared_ptr<MeshState> of_domains(MPI_Comm comm, const std::vector<int>& domain,
                                               const MeshOptions& options);
  ~MeshState();
  MeshState(const MeshState&)            = delete;
  MeshState& operator=(const MeshState&) = delete;

  MPI_Comm comm() const { return comm_; }
  /// The ranks along an axis; MPI_COMM_SELF for an axis of one rank.
  MPI_Comm axis_comm(int axis) const { return axis_comms_[static_cast<std::size_t>(axis)]; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int axes() const { return static_cast<int>(shape_.size()); }
  int extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  int coordinate(int axis) const { return coordinates_[static_cast<std::size_t>(axis)]; }
  const std::vector<int>& coordinates() const { return coordinates_; }
  /// The rank in comm() at these coordinates (axes() of them).
  int rank_at(const int* coordinates) const;
  /// Shape and order as a value.
  LogicalMesh logical() const;

  /// Its axes' ids (see axis_id), in order.
  void name_axes(std::vector<AxisId> ids) { axis_ids_ = std::move(ids); }
  /// The axes' names, for messages: "Lat, Lon"; empty if they have no types.
  std::string axis_names() const;
  /// The position of the axis with this id, or -1.
  int position_of(AxisId axis_id) const {
    for (std::size_t a = 0; a < axis_ids_.size(); ++a)
      if (axis_ids_[a] == axis_id) return static_cast<int>(a);
    return -1;
  }

  /// The object cached under `key`, or null. Lookups run on every rank in the same order, so all
  /// ranks agree which object was used least recently.
  std::shared_ptr<CachedPlan> find(const PlanKey& key);
  /// Caches a plan, and drops another if there are too many of its kind. Local, without waiting.
  /// Other owners may still use the dropped plan.
  void keep(KeptKind kind, const PlanKey& key, std::shared_ptr<CachedPlan> plan);
  /// The object cached under `key`, one of a bounded number. If there is none, make() makes it.
  template <class Make>
  auto one_of_its_kind(const PlanKey& key, const Make& make) {
    using Kept = typename decltype(make())::element_type;
    auto kept  = std::static_pointer_cast<Kept>(find(key));
    if (!kept) keep(KeptKind::one_of_its_kind, key, kept = make());
    return kept;
  }
  /// Drops every plan.
  void drop_plans();
  /// How many of a kind it keeps at most.
  int kept_plans() const { return kept_plans_; }
  /// The cached objects as text. Local.
  std::string text() const;
  /// A number for a new plan: the same on every rank, since making a plan is collective.
  std::uint32_t next_plan_number() { return plan_number_++; }
  /// The ranks' pool of shared memory (SharedPool), or null.
  const std::shared_ptr<MeshResource>& resource() const { return resource_; }
  void set_resource(std::shared_ptr<MeshResource> resource) { resource_ = std::move(resource); }
  /// The NCCL or RCCL groups, or null.
  const std::shared_ptr<MeshResource>& device_resource() const { return device_resource_; }
  void set_device_resource(std::shared_ptr<MeshResource> resource) {
    device_resource_ = std::move(resource);
  }
  /// Tags of the mesh's communicator: those of plans' messages are less than this, ...
  int plan_tags() const { return tag_limit_ - 1; }
  /// ... that of redistributions' messages, ...
  int redistribution_tag() const { return tag_limit_ - 1; }
  /// ... and that of announcements (SHARD_CHECK=1).
  int announcement_tag() const { return tag_limit_; }

 private:
  MeshState() = default;

  struct Entry {
    KeptKind kind;
    PlanKey key;
    std::shared_ptr<CachedPlan> plan;
    std::uint64_t last_use;
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Comm> axis_comms_;
  std::vector<AxisId> axis_ids_;
  std::vector<int> shape_, coordinates_, order_;
  int rank_ = 0, size_ = 1, tag_limit_ = 32767, kept_plans_ = 64;
  std::uint32_t plan_number_ = 0;
  std::shared_ptr<MeshResource> resource_, device_resource_;
  std::uint64_t uses_ = 0;
  std::vector<Entry> plans_;
  std::vector<std::shared_ptr<CachedPlan>> leaving_;  // dropped, but other ranks still read them
};

/// A contiguous list of ints: std::initializer_list, std::array, std::vector, std::span.
template <class L>
concept ListOfInts = requires(const L& list) {
  { std::data(list) } -> std::convertible_to<const int*>;
  { std::size(list) } -> std::convertible_to<std::size_t>;
};

/// The number of ranks along each of `axes` axes. Throws ArgumentError if there are more or fewer.
std::vector<int> shape_of(const int* sizes, std::size_t count, int axes);
/// Throws ArgumentError: a default-constructed mesh was used.
[[noreturn]] void throw_no_mesh();

/// Replaces the zeros of `shape`: the factorisation of `ranks` with the smallest halos for a grid
/// of these extents. Ties: the more even one, as MPI_Dims_create; then the larger factors first.
/// Throws ArgumentError if no factorisation fits.
std::vector<int> choose_shape(int ranks, std::vector<int> shape, const std::vector<index_t>& grid);

}  // namespace shard::impl

#endif
