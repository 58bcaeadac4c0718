// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/patience.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds taken      = microseconds(1000);   // a yield that took longer ran others
constexpr nanoseconds remembered = microseconds(20000);  // so that it loses few of their shares
constexpr nanoseconds long_wait  = microseconds(100000);

/// Until when this process' waits sleep and don't yield.
std::atomic<std::int64_t> sleeps_until{0};
std::atomic<bool> crowded{false};

std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Patience::set_crowded(bool is) { crowded.store(is, std::memory_order_relaxed); }
bool Patience::is_crowded() { return crowded.load(std::memory_order_relaxed); }

void Patience::give_up_core() {
  const std::int64_t begin = now();
  if (since_ == 0) since_ = begin;
  has_slept_ =
      begin - since_ > long_wait.count() || begin < sleeps_until.load(std::memory_order_relaxed);
  if (has_slept_) {
    std::this_thread::sleep_for(microseconds(1));  // and what systems add, 50 microseconds
    return;
  }
  sched_yield();
  const std::int64_t end = now();
  if (end - begin > taken.count())
    sleeps_until.store(end + remembered.count(), std::memory_order_relaxed);
}

void await_requests(int count, MPI_Request* requests) {
  const Watched watched([] { return Wait{.call = "MPI_Waitall"}; });
  Patience patience(Patience::Look::messages);
  for (int done = 0;; patience.turn()) {
    check_mpi(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done != 0) return;
  }
}

}  // namespace shard::impl
