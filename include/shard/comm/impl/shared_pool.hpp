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

/// A place in a rank's part of a pool: the window's number above, the offset in it below.
using PoolAddress                       = std::uint64_t;
inline constexpr PoolAddress no_address = ~PoolAddress{0};

class SharedPool;

/// Memory of a pool that all ranks of the node see. Gives itself back when it ends: local, in any
/// order, never a message.
class SharedPiece {
 public:
  SharedPiece() = default;
  SharedPiece(SharedPiece&& other) noexcept;
  SharedPiece& operator=(SharedPiece&& other) noexcept;
  SharedPiece(const SharedPiece&)            = delete;
  SharedPiece& operator=(const SharedPiece&) = delete;
  ~SharedPiece();

  /// Null if there was no room.
  std::byte* data() const { return data_; }
  PoolAddress address() const { return address_; }
  /// Keeps the memory for good: others may still look at it.
  void abandon() { pool_.reset(); }

 private:
  friend class SharedPool;
  std::shared_ptr<SharedPool> pool_;
  PoolAddress address_ = no_address;
  std::byte* data_     = nullptr;
  std::size_t bytes_   = 0;
};

/// Memory that the ranks of a mesh on one node share: a few large windows, handed out in pieces.
///
/// A window is freed at collective points only, for MPI_Win_free is collective and destructors
/// aren't. So a pool that has windows outlives its mesh: it is idle then, and the next mesh of the
/// same ranks of the node takes it when no rank uses it any more. Of idle pools the ranks keep at
/// most `most_idle` bytes each: the rest is freed when they allocate next. Mesh::release frees all
/// that is idle, and MPI_Finalize what is left, in the order in which it was made.
class SharedPool : public MeshResource, public std::enable_shared_from_this<SharedPool> {
 public:
  /// Bytes of a rank's part of idle windows that are kept for meshes to come.
  static constexpr std::size_t most_idle = std::size_t{64} << 20U;

  /// The mesh's pool, made or taken with the first call, which is collective over the mesh.
  /// `SHARD_RANKS_PER_NODE=n` makes every mesh believe in nodes of n ranks.
  static std::shared_ptr<SharedPool> of(MeshState& mesh);
  ~SharedPool() override;

  /// Whether windows can be had and another rank is there to share them. The same on all ranks of a
  /// node.
  bool usable() const { return usable_; }
  /// Whether waiting ranks must leave their core to others: more ranks on the machine, those of
  /// other meshes too, than cores that they may use. Nodes of `SHARD_RANKS_PER_NODE` share one.
  bool oversubscribed() const { return oversubscribed_; }
  /// Number of the mesh's rank among those that share the pool, or -1 if it is on another node.
  int place_of(int rank) const;

  /// A piece of at least `bytes` bytes that begins at a multiple of 64, set to zero where it is
  /// new. Collective over the ranks that share the pool, which may ask for different sizes (0 for
  /// nothing). On every rank empty if there is no room on one; the log then says so once.
  SharedPiece allocate(std::size_t bytes);
  /// The same from what is free already, or an empty one. Local.
  SharedPiece allocate_here(std::size_t bytes);

  /// Makes sure that each rank can allocate so many pieces of `bytes` bytes here, and take a line
  /// of `flags` bytes. Collective over the ranks that share the pool, which may ask for different
  /// numbers of bytes. False on every rank if there is no room on one.
  bool reserve(std::size_t bytes, int pieces, std::size_t flags);
  /// Makes sure that each rank has `count` lines of flags of this size to take. Collective over the
  /// ranks that share the pool. False on every rank if there is no room on one.
  bool reserve_flags(std::size_t bytes, int count);
  /// Lines of flags are given back to those who want flags and to nobody else: what still looks at
  /// an old one finds flags. Local.
  PoolAddress take_flags(std::size_t bytes);
  void give_back_flags(PoolAddress address, std::size_t bytes);

  /// A window's piece of this rank's part of the pool.
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
  /// The part in which an address lies, or an empty one.
  Part part_of(const void* data) const;
  /// An address in this rank's part.
  std::byte* at_home(PoolAddress address) const { return at(place_, address); }
  /// An address in the part of the rank with this place.
  std::byte* at(int place, PoolAddress address) const {
    return windows_[address >> 48U].base[static_cast<std::size_t>(place)] +
           (address & 0xffffffffffffU);
  }

  /// Exchanges of the mesh that are in flight on this rank.
  int in_flight = 0;
  /// Bytes of a rank's part of the largest window that this rank agrees to: what tests have for a
  /// machine whose shared memory is full.
  std::size_t largest_window = std::numeric_limits<std::size_t>::max();

  /// Frees the windows of which no rank uses a piece, and idle pools of these ranks. Collective
  /// over the ranks that share them.
  void release() override;
  std::string text() const override;

 private:
  friend class SharedPiece;

  struct Window {
    MPI_Win window    = MPI_WIN_NULL;
    std::size_t bytes = 0;                    // of each rank's part
    std::vector<std::byte*> base;             // of each rank's part, as seen here
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

  // of the ranks that share the pool; pools of the same ranks have one, freed with the last of them
  std::shared_ptr<MPI_Comm> node_;
  int ranks_           = 1;
  int place_           = 0;
  bool usable_         = false;
  bool oversubscribed_ = false;
  std::vector<int> members_;  // their ranks in the mesh, ascending
  std::vector<Window> windows_;
  std::map<std::size_t, std::vector<PoolAddress>> flags_;  // free ones, by size
  int flags_taken_ = 0;
  mutable std::mutex mutex_;  // fields may end on any thread
};

}  // namespace shard::impl

#endif
