// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/shared_pool.hpp"

#include <Kokkos_Core.hpp>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "oversubscription.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t pool_line  = 64;
constexpr std::size_t least_room = std::size_t{1} << 20U;

std::size_t rounded(std::size_t bytes) { return (bytes + pool_line - 1) / pool_line * pool_line; }

/// Pools with windows, in the order of creation, for MPI_Finalize to free.
std::vector<std::shared_ptr<SharedPool>>& living() {
  static std::vector<std::shared_ptr<SharedPool>> pools;
  return pools;
}

/// Whether both have the same ranks in the same order.
bool are_alike(MPI_Comm a, MPI_Comm b) {
  int same = MPI_UNEQUAL;
  check_mpi(MPI_Comm_compare(a, b, &same), "MPI_Comm_compare");
  return same == MPI_CONGRUENT || same == MPI_IDENT;
}

/// A communicator that is freed with its last owner, unless MPI is finalized before.
std::shared_ptr<MPI_Comm> freed_at_its_end() {
  return {new MPI_Comm(MPI_COMM_NULL), [](MPI_Comm* comm) {
            const std::unique_ptr<MPI_Comm> room(comm);
            int finalized = 0;
            MPI_Finalized(&finalized);
            if (finalized == 0 && *comm != MPI_COMM_NULL) MPI_Comm_free(comm);
          }};
}

/// Whether the file system of windows has space for this many more bytes; true if unknown.
bool room_for(std::size_t bytes) {
  struct statvfs state {};
  if (statvfs("/dev/shm", &state) != 0) return true;
  return static_cast<std::size_t>(state.f_bavail) * state.f_frsize > bytes;
}

/// Allocates the pages, near this rank. False if the shared-memory file system is full, when
/// touching them would end the process.
bool populate(std::byte* data, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const auto page  = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(data) / page * page;
  const auto last  = (reinterpret_cast<std::uintptr_t>(data) + bytes + page - 1) / page * page;
  if (madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL)
    return false;
#endif
  std::memset(data, 0, bytes);
  return true;
}

}  // namespace

SharedPiece::SharedPiece(SharedPiece&& other) noexcept
    : pool_(std::move(other.pool_)),
      address_(std::exchange(other.address_, no_address)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedPiece& SharedPiece::operator=(SharedPiece&& other) noexcept {
  if (this != &other) {
    if (pool_) pool_->give_back(address_, bytes_);
    pool_    = std::move(other.pool_);
    address_ = std::exchange(other.address_, no_address);
    data_    = std::exchange(other.data_, nullptr);
    bytes_   = std::exchange(other.bytes_, 0);
  }
  return *this;
}

SharedPiece::~SharedPiece() {
  if (pool_) pool_->give_back(address_, bytes_);
}

std::size_t SharedPool::window_bytes() const {
  std::size_t bytes = 0;
  for (const Window& w : windows_) bytes += w.bytes;
  return bytes;
}

/// The pools of the ranks of `node`, the oldest first; null for those that this rank uses. The
/// ranks made them in the same order, so the n-th is the same pool on all.
SharedPool::Pools SharedPool::idle_here(MPI_Comm node) {
  constexpr std::size_t most = 64;  // the number of bits of a mask; the rest next time
  Pools pools;
  for (const auto& pool : living()) {
    if (are_alike(pool->node(), node) && pools.size() < most)
      pools.push_back(pool.use_count() == 1 ? pool : nullptr);
  }
  return pools;
}

/// The pools that no rank of `node` uses; ranks may destroy meshes at different times. Collective.
SharedPool::Pools SharedPool::idle_everywhere(MPI_Comm node) {
  Pools pools        = idle_here(node);
  std::uint64_t idle = 0;
  for (std::size_t p = 0; p < pools.size(); ++p)
    if (pools[p]) idle |= std::uint64_t{1} << p;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &idle, 1, MPI_UINT64_T, MPI_BAND, node);
  for (std::size_t p = 0; p < pools.size(); ++p)
    if ((idle >> p & 1U) == 0) pools[p].reset();
  std::erase(pools, nullptr);
  return pools;
}

/// Frees idle pools, the oldest last, until the others have at most `most` bytes. Collective over
/// the ranks that share them.
void SharedPool::free_above(std::size_t most, const Pools& idle) {
  std::size_t kept = 0;
  for (const auto& pool : idle) {
    const std::size_t bytes = pool->window_bytes();
    if (kept + bytes <= most) {
      kept += bytes;
      continue;
    }
    pool->free_windows();
    std::erase(living(), pool);
  }
}

/// Resets an unused pool, keeping its windows.
void SharedPool::reset() {
  for (Window& window : windows_)
    if (window.window != MPI_WIN_NULL) window.room = {{0, window.bytes}};
  flags_.clear();
  flags_taken_   = 0;
  in_flight      = 0;
  largest_window = std::numeric_limits<std::size_t>::max();
}

std::shared_ptr<SharedPool> SharedPool::of(MeshState& mesh) {
  if (mesh.resource()) return std::static_pointer_cast<SharedPool>(mesh.resource());
  std::shared_ptr<SharedPool> pool(new SharedPool);
  MPI_Comm node = MPI_COMM_NULL;
  await_mpi("MPI_Comm_split_type", MPI_Comm_split_type, mesh.comm(), MPI_COMM_TYPE_SHARED,
            mesh.rank(), MPI_INFO_NULL, &node);
  int rank = 0;
  check_mpi(MPI_Comm_rank(node, &rank), "MPI_Comm_rank");
  const NodeUse use = use_of(
      node, Kokkos::is_initialized() ? Kokkos::DefaultHostExecutionSpace().concurrency() : 1);
  const bool crowded = use.is_oversubscribed();
  Patience::set_crowded(crowded);
#ifdef KOKKOS_ENABLE_OPENMP
  if (use.threads > use.cores && use.threads > use.ranks && !has_wait_policy())
    log_once(mesh.comm(), impl::text(use.ranks) + " ranks have " + impl::text(use.threads) +
                              " threads on " + impl::text(use.cores) +
                              " cores, and OpenMP's threads keep a core while they wait; set "
                              "OMP_WAIT_POLICY=passive");
#endif
  const int limit = static_cast<int>(environment_value("SHARD_RANKS_PER_NODE").value_or(0));
  pool->node_     = freed_at_its_end();
  await_mpi("MPI_Comm_split", MPI_Comm_split, node, limit > 0 ? rank / limit : 0, rank,
            pool->node_.get());
  await_mpi("MPI_Comm_free", MPI_Comm_free, &node);
  check_mpi(MPI_Comm_set_errhandler(pool->node(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_size(pool->node(), &pool->ranks_), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(pool->node(), &pool->place_), "MPI_Comm_rank");
  pool->usable_ = pool->ranks_ > 1;
  if (pool->usable_) {
    Pools idle = idle_everywhere(pool->node());
    if (!idle.empty()) {
      pool = idle.front();
      idle.erase(idle.begin());
      pool->reset();
      free_above(most_idle, idle);
    } else {
      // living() has the pools of these ranks in the same order on all of them
      const auto same = std::find_if(living().begin(), living().end(), [&](const auto& other) {
        return are_alike(other->node(), pool->node());
      });
      if (same != living().end()) pool->node_ = (*same)->node_;
    }
  } else {
    pool->node_ = std::make_shared<MPI_Comm>(MPI_COMM_SELF);
  }
  // another mesh of the same ranks may number them differently
  SharedPool& p     = *pool;
  p.oversubscribed_ = crowded;
  p.members_.resize(static_cast<std::size_t>(p.ranks_));
  const int mine = mesh.rank();
  await_mpi("MPI_Allgather", MPI_Allgather, &mine, 1, MPI_INT, p.members_.data(), 1, MPI_INT,
            p.node());
  mesh.set_resource(pool);
  return pool;
}

SharedPool::~SharedPool() = default;

int SharedPool::place_of(int rank) const {
  const auto found = std::lower_bound(members_.begin(), members_.end(), rank);
  return found != members_.end() && *found == rank ? static_cast<int>(found - members_.begin())
                                                   : -1;
}

bool SharedPool::add_window(std::size_t bytes) {
  Window made;
  made.bytes = bytes;
  const bool has_room =
      bytes <= largest_window &&
      room_for((bytes + 2 * pool_line) * static_cast<std::size_t>(ranks_) + least_room);
  int wrong = has_room ? 0 : 1;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, node());
  if (wrong == 0) {
    std::byte* mine = nullptr;
    const Watched watched({.call = "MPI_Win_allocate_shared"});
    const int code =
        MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes + pool_line), 1, MPI_INFO_NULL, node(),
                                static_cast<void*>(&mine), &made.window);
    wrong = code == MPI_SUCCESS && populate(mine, bytes + pool_line) ? 0 : 1;
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, node());
    if (wrong != 0 && made.window != MPI_WIN_NULL) MPI_Win_free(&made.window);
  }
  if (wrong != 0) return false;
  for (int place = 0; place < ranks_; ++place) {
    MPI_Aint size = 0;
    int unit      = 0;
    void* base    = nullptr;
    check_mpi(MPI_Win_shared_query(made.window, place, &size, &unit, static_cast<void*>(&base)),
              "MPI_Win_shared_query");
    // Windows may be misaligned (OpenMPI 4.1's are 8 bytes off), for any requested alignment.
    // Mappings of ranks differ by whole pages, so each finds the same first cache line.
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    made.base.push_back(static_cast<std::byte*>(base) + (rounded(address) - address));
  }
  made.room[0] = bytes;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto freed = std::find_if(windows_.begin(), windows_.end(),
                                  [](const Window& w) { return w.window == MPI_WIN_NULL; });
  if (freed != windows_.end())
    *freed = std::move(made);
  else
    windows_.push_back(std::move(made));
  if (std::find(living().begin(), living().end(), shared_from_this()) == living().end()) {
    static const int key = [] {
      int made_key = MPI_KEYVAL_INVALID;
      check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &SharedPool::at_finalize, &made_key,
                                       nullptr),
                "MPI_Comm_create_keyval");
      check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, made_key, nullptr), "MPI_Comm_set_attr");
      return made_key;
    }();
    static_cast<void>(key);
    living().push_back(shared_from_this());
  }
  return true;
}

SharedPiece SharedPool::allocate(std::size_t bytes) {
  SharedPiece piece;
  return allocate(bytes, piece) ? std::move(piece) : SharedPiece();
}

bool SharedPool::allocate(std::size_t bytes, SharedPiece& piece) {
  if (!usable_) return false;
  if (bytes > 0) piece = allocate_here(bytes);
  const std::size_t short_of = bytes > 0 && piece.data() == nullptr ? rounded(bytes) : 0;
  std::size_t idle           = 0;
  for (const auto& pool : idle_here(node())) idle += pool ? pool->window_bytes() : 0;
  std::uint64_t asked[2] = {short_of, idle > most_idle ? 1U : 0U};
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, asked, 2, MPI_UINT64_T, MPI_MAX, node());
  if (asked[1] != 0) free_above(most_idle, idle_everywhere(node()));
  const std::uint64_t missing = asked[0];
  if (missing == 0) return true;
  // double the total, so that there are few windows
  const std::size_t room = least_room + window_bytes();
  if (!add_window(std::max<std::size_t>(missing, room)) &&
      (missing >= room || !add_window(missing))) {
    // without the size, so that it is logged once
    log_once(node(),
             "no room for more shared memory (is /dev/shm large enough?); ordinary memory and "
             "messages are used instead");
    return false;
  }
  if (bytes > 0 && piece.data() == nullptr) piece = allocate_here(bytes);
  return true;
}

bool SharedPool::reserve(std::size_t bytes, int pieces, std::size_t flags) {
  SharedPiece piece;
  return allocate(rounded(bytes) * static_cast<std::size_t>(pieces), piece) &&
         reserve_flags(flags, 1);
}

SharedPiece SharedPool::allocate_here(std::size_t bytes) {
  const std::size_t needed = rounded(std::max<std::size_t>(bytes, 1));
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t w = 0; w < windows_.size(); ++w)
    for (auto room = windows_[w].room.begin(); room != windows_[w].room.end(); ++room) {
      if (room->second < needed) continue;
      const auto [offset, size] = *room;
      windows_[w].room.erase(room);
      if (size > needed) windows_[w].room[offset + needed] = size - needed;
      SharedPiece piece;
      piece.pool_    = shared_from_this();
      piece.address_ = (static_cast<PoolAddress>(w) << 48U) | offset;
      piece.data_    = at(place_, piece.address_);
      piece.bytes_   = needed;
      return piece;
    }
  return {};
}

bool SharedPool::reserve_flags(std::size_t bytes, int count) {
  if (!usable_) return false;
  std::vector<PoolAddress>& free = flags_[bytes];
  const std::size_t missing      = static_cast<std::size_t>(count) > free.size()
                                       ? static_cast<std::size_t>(count) - free.size()
                                       : 0;
  SharedPiece piece;
  if (!allocate(missing * rounded(bytes), piece)) return false;
  if (missing > 0) std::memset(piece.data(), 0, missing * rounded(bytes));
  for (std::size_t i = 0; i < missing; ++i) free.push_back(piece.address() + i * rounded(bytes));
  piece.abandon();
  return true;
}

PoolAddress SharedPool::take_flags(std::size_t bytes) {
  std::vector<PoolAddress>& free = flags_[bytes];
  const PoolAddress taken        = free.back();
  free.pop_back();
  ++flags_taken_;
  return taken;
}

void SharedPool::give_back_flags(PoolAddress address, std::size_t bytes) {
  flags_[bytes].push_back(address);
  --flags_taken_;
}

void SharedPool::give_back(PoolAddress address, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Window& window = windows_[address >> 48U];
  if (window.window == MPI_WIN_NULL) return;  // freed by MPI_Finalize
  auto& room               = window.room;
  const std::size_t offset = address & 0xffffffffffffU;
  auto here                = room.emplace(offset, bytes).first;
  const auto next          = std::next(here);
  if (next != room.end() && here->first + here->second == next->first) {
    here->second += next->second;
    room.erase(next);
  }
  if (here != room.begin()) {
    const auto before = std::prev(here);
    if (before->first + before->second == here->first) {
      before->second += here->second;
      room.erase(here);
    }
  }
}

SharedPool::Part SharedPool::part_of(const void* data) const {
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    if (windows_[w].base.empty()) continue;
    const Part part{
        reinterpret_cast<std::uintptr_t>(windows_[w].base[static_cast<std::size_t>(place_)]),
        windows_[w].bytes, static_cast<PoolAddress>(w) << 48U};
    if (part.has(data)) return part;
  }
  return {};
}

void SharedPool::release() {
  if (!usable_) return;
  const Watched waits({.what = "other ranks to release their mesh",
                       .rank = members_[static_cast<std::size_t>(place_)]});
  int watched = flags_taken_;  // by other ranks too
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &watched, 1, MPI_INT, MPI_MAX, node());
  if (watched == 0) {
    for (const auto& [bytes, free] : flags_)
      for (const PoolAddress address : free) give_back(address, rounded(bytes));
    flags_.clear();
  }
  for (Window& window : windows_) {
    if (window.window == MPI_WIN_NULL) continue;
    int used = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      used = window.room.size() == 1 && window.room.begin()->second == window.bytes ? 0 : 1;
    }
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &used, 1, MPI_INT, MPI_MAX, node());
    if (used != 0) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    await_mpi("MPI_Win_free", MPI_Win_free, &window.window);
    window.base.clear();
    window.room.clear();
    window.bytes = 0;
  }
  free_above(0, idle_everywhere(node()));
  // without windows the pool is freed with its mesh
  if (std::all_of(windows_.begin(), windows_.end(),
                  [](const Window& w) { return w.window == MPI_WIN_NULL; })) {
    windows_.clear();
    std::erase(living(), shared_from_this());
  }
}

std::string SharedPool::text() const {
  if (!usable_) return "shared memory: none";
  const auto number   = [](std::size_t n) { return impl::text(static_cast<index_t>(n)); };
  std::size_t windows = 0, unused = 0, idle = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Window& w : windows_) {
      if (w.window != MPI_WIN_NULL) ++windows;
      for (const auto& [offset, bytes] : w.room) unused += bytes;
    }
  }
  for (const auto& pool : idle_here(node())) idle += pool ? pool->window_bytes() : 0;
  return "shared memory: " + number(windows) + " windows, " + number(window_bytes()) + " bytes, " +
         number(window_bytes() - unused) + " of them used; kept for later meshes: " + number(idle) +
         " bytes";
}

void SharedPool::free_windows() {
  const Watched watched({.call = "MPI_Win_free"});
  for (Window& window : windows_)
    if (window.window != MPI_WIN_NULL) MPI_Win_free(&window.window);
}

int SharedPool::at_finalize(MPI_Comm, int, void*, void*) {
  for (const auto& pool : living()) {
    pool->free_windows();
    *pool->node_ = MPI_COMM_NULL;  // MPI frees it now; the order doesn't matter any more
  }
  living().clear();
  return MPI_SUCCESS;
}

}  // namespace shard::impl
