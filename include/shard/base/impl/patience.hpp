// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_PATIENCE_HPP
#define SHARD_BASE_IMPL_PATIENCE_HPP

#include <mpi.h>

#include <cstdint>

namespace shard::impl {

/// How a rank waits: `turn()` after each look in vain. It spins for some ten microseconds, then
/// yields its core. Where a yield shows that others want the core it sleeps: a rank that has slept
/// gets its core at once when it wakes, one that has spun waits until the others' share is used up,
/// a few milliseconds. Nobody wants the core of a rank that is alone on it, so there only waits of
/// a tenth of a second sleep.
class Patience {
 public:
  /// What lies between two turns.
  enum class Look : std::uint8_t {
    memory,   ///< a load of shared memory, nanoseconds
    messages  ///< a call of MPI, a tenth of a microsecond or more
  };
  /// `crowded`: there are more ranks or threads than cores, so it doesn't spin.
  Patience(Look look, bool crowded) : left_(crowded ? 0 : look == Look::memory ? 4000 : 100) {}
  /// As crowded as the last pool of shared memory that this process has made or joined.
  explicit Patience(Look look) : Patience(look, is_crowded()) {}
  static void set_crowded(bool crowded);

  void turn() {
    if (left_ > 0)
      --left_, pause();
    else
      give_up_core();
  }
  /// Whether it has ceased to spin: there is time for other work between two looks.
  bool has_spun() const { return left_ == 0; }
  /// Whether the last turn slept, some 50 microseconds.
  bool has_slept() const { return has_slept_; }

 private:
  static bool is_crowded();
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void give_up_core();

  int left_;  // spins
  bool has_slept_     = false;
  std::int64_t since_ = 0;  // when it ceased to spin; 0: not yet
};

/// Waits for all of these requests, as MPI_Waitall does. The watchdog sees it as that. Throws
/// MpiError.
void await_requests(int count, MPI_Request* requests);

}  // namespace shard::impl

#endif
