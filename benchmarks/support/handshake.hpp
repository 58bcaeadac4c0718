// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_HANDSHAKE_HPP
#define SHARD_BENCHMARKS_SUPPORT_HANDSHAKE_HPP

#include <mpi.h>
#include <semaphore.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace support {

/// How near to each other the ranks' cores are at the moment. A virtual machine's cores are moved
/// by its host: for some seconds two share a cache, for some they don't, and what passes between
/// them then takes two to four times as long. Times of the one and of the other are not to be
/// mixed.
class Handshake {
 public:
  /// Collective. Two ranks are partners if they are on one node; of more none has a partner, for
  /// they may be more than the cores.
  explicit Handshake(MPI_Comm comm);
  ~Handshake();
  Handshake(const Handshake&)            = delete;
  Handshake& operator=(const Handshake&) = delete;

  /// Returns when the partner has called it too; at once without a partner.
  void meet();
  /// Nanoseconds in which a line of memory goes to the partner's core, the mean of some meetings;
  /// 0 without a partner. Both partners call it.
  double nanoseconds();
  /// Whether the partner's core shares no cache with this one, by that time.
  static bool is_apart(double nanoseconds);
  /// The same now. Both partners call it.
  bool apart() { return is_apart(nanoseconds()); }
  /// Waits until the cores of the partners are near each other, so many seconds at most, and has
  /// them wake each other meanwhile; returns how many it took. Collective.
  double wait_until_near(MPI_Comm comm, double seconds);

 private:
  /// A rank's part of the memory that both see: what the other spins on is in lines of its own,
  /// which prefetchers take in pairs; a window's memory may not be aligned to them.
  struct Place {
    std::atomic<std::uint64_t> trip{0};
    std::array<std::byte, 120> apart_by{};
    sem_t wake{};
    std::array<std::byte, 96> apart_from_other_ranks{};
  };

  void wake_each_other();

  MPI_Win window_ = MPI_WIN_NULL;
  Place *mine_ = nullptr, *theirs_ = nullptr;
  std::uint64_t trip_ = 0;
  bool first_         = false;  // of the two
};

/// What was so in each turn: near on all ranks, apart on all pairs, or neither, which is dropped.
class Turns {
 public:
  enum State : std::uint8_t { near = 1, far = 2, mixed = 3 };

  /// Adds what this rank saw within the turn that is on.
  void see(bool apart) { seen_ = static_cast<std::uint8_t>(seen_ | (apart ? far : near)); }
  void end_turn() {
    states_.push_back(seen_);
    seen_ = 0;
  }
  /// Collective: agrees on the turns since it was called last, and counts all that were near.
  int count_near(MPI_Comm comm);
  /// Of the turns that are agreed on those that were in this state, of a list with a value a turn.
  std::vector<double> of(State state, const std::vector<double>& values) const;

 private:
  std::vector<std::uint8_t> states_;
  std::size_t agreed_ = 0;
  std::uint8_t seen_  = 0;
};

}  // namespace support

#endif
