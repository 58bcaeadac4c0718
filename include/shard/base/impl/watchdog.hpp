// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_WATCHDOG_HPP
#define SHARD_BASE_IMPL_WATCHDOG_HPP

#include <chrono>
#include <cstdint>
#include <string>

#include "shard/base/error.hpp"

namespace shard::impl {

/// What a rank waits for: told by the watchdog if it takes too long.
struct Wait {
  static constexpr std::uint32_t no_plan = ~std::uint32_t{0};
  static constexpr int in_world          = -1;

  const char* what = "";              ///< "halo values"; if no plan has to do with it "other ranks
                                      ///< to make a mesh"; "": what the enclosing wait says
  int rank               = in_world;  ///< who waits; in_world: this rank of MPI_COMM_WORLD
  const int* peer        = nullptr;   ///< for whom: the rank looked at last, -1 if it isn't known
  std::uint32_t plan     = no_plan;
  std::uint64_t sequence = 0;
  const std::string* of  = nullptr;  ///< the plan's fields; what is made
  const char* call       = nullptr;  ///< the function of MPI that waits
  bool times             = true;     ///< false: no wait, but words for those that it encloses
};

/// `SHARD_WATCHDOG_SECONDS`; 0 where it isn't set, or wrong, of which making a mesh complains.
double watchdog_seconds();
inline bool watchdog_is_on() {
  static const bool on = watchdog_seconds() > 0;
  return on;
}

/// Tells the watchdog, for as long as it lives, what this rank waits for. Without
/// `SHARD_WATCHDOG_SECONDS` in the environment it does nothing.
///
/// The watchdog is a thread that makes no MPI call. When a wait has lasted so many seconds it
/// prints who waits for whom in which plan, gives the other ranks a second to do the same, and
/// aborts the process (SIGABRT, whose default action leaves a core file where the system allows
/// one); the launcher ends the rest. When a wait within another ends, the time of the outer one
/// begins anew.
class Watched {
 public:
  explicit Watched(const Wait& wait) {
    if (watchdog_is_on()) enter(wait);
  }
  ~Watched() {
    if (watchdog_is_on()) leave();
  }
  Watched(const Watched&)            = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  friend class Watchdog;
  void enter(const Wait& wait);
  void leave();

  Wait wait_;
  std::chrono::steady_clock::time_point since_;
  Watched* outer_ = nullptr;
};

/// Calls a function of MPI under the watchdog's eyes and throws MpiError for what it returns. Every
/// call that waits for other ranks goes through this; `tools/check-style` finds those that don't.
template <class... Parameters, class... Arguments>
void await_mpi(const char* name, int (*function)(Parameters...), Arguments... arguments) {
  const Watched watched({.call = name});
  check_mpi(function(arguments...), name);
}

}  // namespace shard::impl

#endif
