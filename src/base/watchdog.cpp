// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/watchdog.hpp"

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "shard/base/impl/environment_variable.hpp"

namespace shard::impl {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

double watchdog_seconds() {
  static const double set = [] {
    try {
      return environment_value("SHARD_WATCHDOG_SECONDS").value_or(0);
    } catch (const ArgumentError&) {
      return 0.0;
    }
  }();
  return set;
}

/// The watchdog's thread and its data. One thread uses MPI, so several waits are always nested.
class Watchdog {
 public:
  static Watchdog& instance() {
    static Watchdog dog;
    return dog;
  }
  void enter(Watched& watched) {
    const std::lock_guard<std::mutex> lock(mutex_);
    watched.outer_ = innermost_;
    innermost_     = &watched;
  }
  void leave(const Watched& watched) {
    const std::lock_guard<std::mutex> lock(mutex_);
    innermost_ = watched.outer_;
    if (innermost_ != nullptr) innermost_->since_ = Clock::now();
  }
  Watchdog(const Watchdog&)            = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void watch() {
    const auto limit = std::chrono::duration<double>(watchdog_seconds());
    std::unique_lock<std::mutex> lock(mutex_);
    while (!wake_.wait_for(lock, limit / 10, [this] { return ends_; })) {
      if (innermost_ == nullptr || !innermost_->wait_->times) continue;
      if (Clock::now() - *innermost_->since_ < limit) continue;
      report();
      lock.unlock();
      // gives the other ranks time to report. Ends by a signal, because MPICH's launcher sometimes
      // misses that a process has exited.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      std::signal(SIGABRT, SIG_DFL);
      std::abort();
    }
  }

  /// Prints the purpose of the innermost wait with a text, and the call of the innermost wait.
  void report() const {
    const Watched* said = innermost_;
    while (*said->wait_->what == '\0' && said->outer_ != nullptr) said = said->outer_;
    const Wait& wait       = *said->wait_;
    const char* const of   = wait.of == nullptr ? "" : wait.of->c_str();
    const char* const call = innermost_->wait_->call;
    const std::string in   = call == nullptr ? "" : std::string(", in ") + call;
    if (wait.plan == Wait::no_plan) {
      std::fprintf(stderr, "shard: watchdog: rank %d has waited %g s for %s%s%s%s\n", wait.rank,
                   watchdog_seconds(), *wait.what == '\0' ? "other ranks" : wait.what,
                   *of == '\0' ? "" : ": ", of, in.c_str());
      std::fflush(stderr);
      return;
    }
    const int peer = wait.peer == nullptr ? -1 : *static_cast<const volatile int*>(wait.peer);
    char whom[32]  = "other ranks";
    if (peer >= 0) std::snprintf(whom, sizeof(whom), "rank %d", peer);
    std::fprintf(stderr,
                 "shard: watchdog: rank %d has waited %g s for %s from %s: plan %u (%s), its "
                 "exchange %llu%s\n",
                 wait.rank, watchdog_seconds(), wait.what, whom, wait.plan, of,
                 static_cast<unsigned long long>(wait.sequence), in.c_str());
    std::fflush(stderr);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Watched* innermost_ = nullptr;
  bool ends_          = false;
  std::thread thread_;
};

void Watched::enter(const Wait& wait) {
  wait_ = wait;
  if (wait_->rank == Wait::in_world) MPI_Comm_rank(MPI_COMM_WORLD, &wait_->rank);
  since_ = Clock::now();
  Watchdog::instance().enter(*this);
}

void Watched::leave() { Watchdog::instance().leave(*this); }

}  // namespace shard::impl
