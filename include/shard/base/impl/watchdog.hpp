// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_WATCHDOG_HPP
#define SHARD_BASE_IMPL_WATCHDOG_HPP

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "shard/base/error.hpp"

namespace shard::impl {

/// What a rank waits for; the watchdog prints it if the wait takes too long.
struct Wait {
  static constexpr std::uint32_t no_plan = ~std::uint32_t{0};
  static constexpr int in_world          = -1;

  const char* what = "";          ///< "halo values"; without a plan "other ranks
                                  ///< to make a mesh"; "": the text of the enclosing wait
  int rank           = in_world;  ///< the rank that waits; in_world: this rank of MPI_COMM_WORLD
  const int* peer    = nullptr;   ///< the rank waited for; -1 if it isn't known
  std::uint32_t plan = no_plan;
  std::uint64_t sequence = 0;
  const std::string* of  = nullptr;  ///< the plan's fields, or the object that is made
  const char* call       = nullptr;  ///< the function of MPI that waits
  bool times             = true;     ///< false: no wait, but text for the waits inside
};

/// `SHARD_WATCHDOG_SECONDS`; 0 if it isn't set or is invalid (then making a mesh throws).
double watchdog_seconds();
inline bool watchdog_is_on() {
  static const bool on = watchdog_seconds() > 0;
  return on;
}

/// Registers a wait of this rank with the watchdog during its lifetime. Without
/// `SHARD_WATCHDOG_SECONDS` in the environment it does nothing.
///
/// The watchdog is a thread that makes no MPI call. When a wait has lasted that many seconds it
/// prints which rank waits for which in which plan, gives the other ranks a second to do the same,
/// and aborts the process (SIGABRT). The launcher ends the other processes. When a nested wait
/// ends, the time of the outer wait starts again.
class Watched {
 public:
  explicit Watched(const Wait& wait) {
    if (watchdog_is_on()) enter(wait);
  }
  /// `make()` returns the Wait. Without a watchdog it isn't called: exchanges wait twice or more,
  /// and most of these waits end at once.
  template <std::invocable Make>
  explicit Watched(const Make& make) {
    if (watchdog_is_on()) enter(make());
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

  // empty without a watchdog
  std::optional<Wait> wait_;
  std::optional<std::chrono::steady_clock::time_point> since_;
  Watched* outer_ = nullptr;
};

/// Calls an MPI function with a Watched and throws MpiError if it fails. Every blocking MPI call
/// goes through this; `tools/check-style` checks that.
template <class... Parameters, class... Arguments>
void await_mpi(const char* name, int (*function)(Parameters...), Arguments... arguments) {
  const Watched watched([&] { return Wait{.call = name}; });
  check_mpi(function(arguments...), name);
}

}  // namespace shard::impl

#endif
