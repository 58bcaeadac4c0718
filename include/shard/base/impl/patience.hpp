// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_PATIENCE_HPP
#define SHARD_BASE_IMPL_PATIENCE_HPP

#include <mpi.h>

#include <cstdint>

namespace shard::impl {

/// How a rank waits: `turn()` after each look in vain. It spins for some ten microseconds, then
/// yields its core. If a yield shows that others want the core, or the wait gets long, it sleeps:
/// a rank that has slept gets its core at once when it wakes, one that has spun waits until the
/// others' share is used up, a few milliseconds. Nobody wants the core of a rank that is alone on
/// it, so there short waits never sleep.
class Patience {
 public:
  /// `crowded`: there are more ranks than cores, so it doesn't spin.
  explicit Patience(bool crowded = false) : turns_(crowded ? spins : 0) {}
  void turn() {
    if (turns_ < spins)
      ++turns_, pause();
    else
      give_up_core();
  }
  /// Whether it has ceased to spin: there is time for other work between two looks.
  bool has_spun() const { return turns_ >= spins; }

 private:
  static constexpr int spins = 4000;

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void give_up_core();

  int turns_          = 0;
  std::int64_t since_ = 0;  // when it ceased to spin; 0: not yet
};

/// Waits for all of these requests, as MPI_Waitall does. The watchdog sees it as that. Throws
/// MpiError.
void await_requests(int count, MPI_Request* requests);

}  // namespace shard::impl

#endif
