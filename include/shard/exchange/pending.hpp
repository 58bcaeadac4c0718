// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_PENDING_HPP
#define SHARD_EXCHANGE_PENDING_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "shard/exchange/custom.hpp"
#include "shard/exchange/impl/field_plan.hpp"

namespace shard {

/// An exchange in progress. `finish` waits for the messages and fills the halos (or adds to the
/// owners). The destructor calls it if needed; since it can't throw, it prints the error and
/// aborts. Movable, not copyable. The fields must live until it is finished.
template <class Space>
class [[nodiscard]] Pending {
 public:
  /// For the library's own use: `plan` is an impl::FieldPlan.
  template <class Memory>
  Pending(std::shared_ptr<impl::FieldPlan<Memory>> plan, const Space& space,
          const impl::StartedExchange& started)
      : plan_(std::move(plan)), space_(space), started_(started), actions_(&actions_in<Memory>) {}
  /// Takes over; the other has nothing left to finish.
  Pending(Pending&& other) noexcept
      : plan_(std::move(other.plan_)),
        space_(other.space_),
        started_(std::exchange(other.started_, {})),
        filled_(other.filled_),
        needs_calls_(other.needs_calls_),
        actions_(other.actions_),
        after_(std::move(other.after_)) {}
  /// Finishes this one, then takes over.
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      finish_or_abort();
      plan_        = std::move(other.plan_);
      space_       = other.space_;
      started_     = std::exchange(other.started_, {});
      filled_      = other.filled_;
      needs_calls_ = other.needs_calls_;
      actions_     = other.actions_;
      after_       = std::move(other.after_);
    }
    return *this;
  }
  Pending(const Pending&)            = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { finish_or_abort(); }

  /// Polls: lets messages progress, unpacks if all have arrived, and finishes if the neighbours
  /// have read this rank's. Never waits. Call it in the middle of a long computation, so that
  /// neither this rank nor a neighbour waits in finish; several times if messages of 16 KiB and
  /// more go over a network. Don't read halos before finish unless is_filled(). Does nothing if all
  /// messages of MPI are shorter, for fields in device memory and under SHARD_CHECK=1. Returns
  /// whether another call may make progress. Throws MpiError.
  bool advance() { return started_.set >= 0 && actions_->advance(*this); }
  /// Whether `advance` or `finish` has filled the halos, so that they may be read. Don't write
  /// points that neighbours read before finish.
  bool is_filled() const { return filled_ || started_.set < 0; }
  /// For the library's own use, by `overlapped`: how many parts of the work that is left are as
  /// large as the one to do before the next `advance`, `turn` times after the first.
  int next_parts(int turn) const {
    // messages in shared memory come early, while the cache still holds them, or late
    return std::max(1, needs_calls_ ? 16 - turn : 64 >> std::min(2 * turn, 6));
  }
  /// For the library's own use, by `overlapped`: fills the halos that need no message, and returns
  /// the sides, as in region.hpp, that wait for one.
  unsigned fill_local() { return started_.set < 0 ? 0 : actions_->fill_local(*this); }
  /// Waits, then fills the halos. A second call does nothing. Throws MpiError, and under
  /// SHARD_CHECK=1 MessageError for a message of another exchange.
  void finish() {
    if (started_.set < 0) return;
    const impl::StartedExchange started = std::exchange(started_, {});
    actions_->finish(*plan_, space_, started);
    run_after();
  }
  /// For the library's own use: what is run once when the halos are filled (Exchange::with).
  void then(std::unique_ptr<impl::AfterExchange> after) { after_ = std::move(after); }
  /// For the library's own use: whether halos that need no message are filled at the end.
  bool fills_later() const { return after_ != nullptr; }

 private:
  template <class Memory>
  static void finish_in(impl::CachedPlan& plan, const Space& space,
                        const impl::StartedExchange& started) {
    static_cast<impl::FieldPlan<Memory>&>(plan).finish(space, started);
  }

  template <class Memory>
  static bool advance_in(Pending& pending) {
    using impl::Progress;
    const auto started = std::exchange(pending.started_, {});
    const Progress progress =
        static_cast<impl::FieldPlan<Memory>&>(*pending.plan_).advance(pending.space_, started);
    if (progress != Progress::finished) pending.started_ = started;
    if (progress == Progress::filled) pending.filled_ = true;
    pending.needs_calls_ = progress == Progress::needs_calls;
    if (pending.is_filled()) pending.run_after();
    return progress != Progress::needs_finish && progress != Progress::finished;
  }

  template <class Memory>
  static unsigned fill_local_in(const Pending& pending) {
    return static_cast<impl::FieldPlan<Memory>&>(*pending.plan_)
        .fill_local(pending.space_, pending.started_);
  }

  /// Functions that depend on the plan's type.
  struct Actions {
    void (*finish)(impl::CachedPlan&, const Space&, const impl::StartedExchange&);
    bool (*advance)(Pending&);
    unsigned (*fill_local)(const Pending&);
  };
  template <class Memory>
  static constexpr Actions actions_in = {&finish_in<Memory>, &advance_in<Memory>,
                                         &fill_local_in<Memory>};

  void run_after() {
    if (const auto after = std::move(after_)) after->run();
  }

  void finish_or_abort() noexcept {
    try {
      finish();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "shard: an exchange could not be finished: %s\n", e.what());
      std::abort();
    }
  }

  std::shared_ptr<impl::CachedPlan> plan_;
  Space space_;
  impl::StartedExchange started_;
  bool filled_            = false;
  bool needs_calls_       = false;
  const Actions* actions_ = nullptr;
  std::unique_ptr<impl::AfterExchange> after_;
};

}  // namespace shard

#endif
