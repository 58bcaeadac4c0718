// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/read_ahead.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace shard::impl {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

struct Ahead::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t made = 0, given_back = 0, taken = 0, slots = 1;
  bool ends = false;
  std::exception_ptr failed;
  double waited = 0.0, worked = 0.0;
  std::thread thread;
};

Ahead::Ahead(std::size_t items, std::size_t slots,
             std::function<void(std::size_t, std::size_t)> make)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.slots  = slots;
  s.thread = std::thread([&s, items, make = std::move(make)] {
    std::unique_lock lock(s.mutex);
    while (s.made < items) {
      s.changed.wait(lock, [&] { return s.ends || s.made - s.given_back < s.slots; });
      if (s.ends) return;
      const std::size_t item = s.made;
      lock.unlock();
      const auto begin = Clock::now();
      std::exception_ptr failed;
      try {
        make(item, item % s.slots);
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      s.worked += seconds_since(begin);
      s.failed = failed;
      if (failed == nullptr) ++s.made;
      s.changed.notify_all();
      if (failed != nullptr) return;
    }
  });
}
Ahead::~Ahead() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

std::size_t Ahead::take() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const auto begin = Clock::now();
  s.changed.wait(lock, [&] { return s.taken < s.made || s.failed != nullptr; });
  s.waited += seconds_since(begin);
  if (s.taken == s.made) std::rethrow_exception(s.failed);
  return s.taken++ % s.slots;
}
void Ahead::give_back() {
  const std::lock_guard lock(state_->mutex);
  ++state_->given_back;
  state_->changed.notify_all();
}
double Ahead::waited() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waited;
}
double Ahead::worked() const {
  const std::lock_guard lock(state_->mutex);
  return state_->worked;
}

}  // namespace shard::impl
