// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_SHARED_POOL_HPP
#define SHARD_COMM_IMPL_SHARED_POOL_HPP

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

/// An address in a rank's part of a pool: the window's number in the high bits, the offset in the
/// low bits.
using PoolAddress                       = std::uint64_t;
inline constexpr PoolAddress no_address = ~PoolAddress{0};

class SharedPool;

/// A block of a pool's memory that all ranks of the node can access. Its destructor returns it to
/// the pool: local, in any order, without a message.
class SharedPiece {
 public:
  SharedPiece() = default;
  SharedPiece(SharedPiece&& other) noexcept;
  SharedPiece& operator=(SharedPiece&& other) noexcept;
  SharedPiece(const SharedPiece&)            = delete;
  SharedPiece& operator=(const SharedPiece&) = delete;
  ~SharedPiece();

  /// Null if there was no space.
  std::byte* data() const { return data_; }
  PoolAddress address() const { return address_; }
  /// Never returns the memory, because other ranks may still read it.
  void abandon() { pool_.reset(); }

 private:
  friend class SharedPool;
  std::shared_ptr<SharedPool> pool_;
  PoolAddress address_ = no_address;
  std::byte* data_     = nullptr;
  std::size_t bytes_   = 0;
};

/// Memory that the ranks of a mesh on one node share: a few large windows, allocated in blocks.
///
/// MPI_Win_free is collective and destructors aren't, so windows are freed at collective points
/// only. A pool with windows outlives its mesh. It is then idle, and the next mesh of the same
/// ranks takes it when no rank uses it. Each rank keeps at most `most_idle` bytes of idle pools;
/// the rest is freed at the next allocation. Mesh::release frees all idle pools, and MPI_Finalize
/// the rest, in the order of creation.
class SharedPool : public MeshResource, public std::enable_shared_from_this<SharedPool> {
 public:
  /// The largest size of a rank's part of idle windows, in bytes.
  static constexpr std::size_t most_idle = std::size_t{64} << 20U;

  /// The mesh's pool, made or reused by the first call, which is collective over the mesh.
  /// `SHARD_RANKS_PER_NODE=n` simulates nodes of n ranks.
  static std::shared_ptr<SharedPool> of(MeshState& mesh);
  ~SharedPool() override;

  /// Whether windows are available and another rank shares them. The same on all ranks of a node.
  bool usable() const { return usable_; }
  /// Whether waiting ranks must yield their core: the machine has more ranks, those of other meshes
  /// too, or threads than cores that they may use.
  bool oversubscribed() const { return oversubscribed_; }
  /// Position of the mesh's rank among those that share the pool, or -1 if it is on another node.
  int place_of(int rank) const;

  /// A block of at least `bytes` bytes, aligned to 64, set to zero where it is new. Collective over
  /// the ranks that share the pool; sizes may differ and may be 0. Empty on every rank if one rank
  /// has no space; this is logged once.
  SharedPiece allocate(std::size_t bytes);
  /// The same from free memory, or an empty one. Local.
  SharedPiece allocate_here(std::size_t bytes);

  /// Ensures that each rank can allocate `pieces` blocks of `bytes` bytes with allocate_here, and
  /// `flags` bytes with take_flags. Collective over the ranks that share the pool; the numbers of
  /// bytes may differ. False on every rank if one has no space.
  bool reserve(std::size_t bytes, int pieces, std::size_t flags);
  /// Ensures that each rank can call take_flags `count` times with this size. Collective over the
  /// ranks that share the pool. False on every rank if one has no space.
  bool reserve_flags(std::size_t bytes, int count);
  /// Allocates memory for flags. Freed flags are reused only for flags, because other ranks may
  /// still read them. Local.
  PoolAddress take_flags(std::size_t bytes);
  void give_back_flags(PoolAddress address, std::size_t bytes);

  /// This rank's part of one window.
  struct Part {
    std::uintptr_t base = 0;
    std::size_t bytes   = 0;
    PoolAddress first   = no_address;  ///< of its first byte

    bool has(const void* data) const {
      return reinterpret_cast<std::uintptr_t>(data) - base < bytes;
    }
    PoolAddress address_of(const void* data) const {
      return first + (reinterpret_cast<std::uintptr_t>(data) - base);
    }
  };
  /// The part that contains an address, or an empty one.
  Part part_of(const void* data) const;
  /// An address in this rank's part.
  std::byte* at_home(PoolAddress address) const { return at(place_, address); }
  /// An address in the part of the rank with this place.
  std::byte* at(int place, PoolAddress address) const {
    return windows_[address >> 48U].base[static_cast<std::size_t>(place)] +
           (address & 0xffffffffffffU);
  }

  /// Exchanges of the mesh that are in progress on this rank.
  int in_flight = 0;
  /// Limit of a rank's part of a window, in bytes; tests use it to simulate full shared memory.
  std::size_t largest_window = std::numeric_limits<std::size_t>::max();

  /// Frees unused windows, and idle pools of these ranks. Collective over the ranks that share
  /// them.
  void release() override;
  std::string text() const override;

 private:
  friend class SharedPiece;

  struct Window {
    MPI_Win window    = MPI_WIN_NULL;
    std::size_t bytes = 0;                    // of each rank's part
    std::vector<std::byte*> base;             // of each rank's part, in this process' address space
    std::map<std::size_t, std::size_t> room;  // free pieces of this rank's part: offset, bytes
  };

  SharedPool() = default;
  bool allocate(std::size_t bytes, SharedPiece& piece);
  bool add_window(std::size_t bytes);
  void give_back(PoolAddress address, std::size_t bytes);
  void free_windows();
  void reset();
  std::size_t window_bytes() const;
  using Pools = std::vector<std::shared_ptr<SharedPool>>;
  static Pools idle_here(MPI_Comm node);
  static Pools idle_everywhere(MPI_Comm node);
  static void free_above(std::size_t most, const Pools& idle);
  static int at_finalize(MPI_Comm comm, int key, void* value, void* state);
  MPI_Comm node() const { return *node_; }

  // communicator of the ranks that share the pool; pools of the same ranks share it
  std::shared_ptr<MPI_Comm> node_;
  int ranks_           = 1;
  int place_           = 0;
  bool usable_         = false;
  bool oversubscribed_ = false;
  std::vector<int> members_;  // their ranks in the mesh, ascending
  std::vector<Window> windows_;
  std::map<std::size_t, std::vector<PoolAddress>> flags_;  // free ones, by size
  int flags_taken_ = 0;
  mutable std::mutex mutex_;  // fields may be destroyed on any thread
};

}  // namespace shard::impl

#endif
