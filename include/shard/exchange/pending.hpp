// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_PENDING_HPP
#define SHARD_EXCHANGE_PENDING_HPP

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "shard/exchange/plan.hpp"

namespace shard {

/// An exchange that was started. `finish` waits for the messages and fills the halos (or adds to
/// the owners); the destructor finishes what wasn't, and since it can't throw, prints and aborts if
/// that fails. May be moved, not copied. The fields must live until it is finished.
template <class Space>
class [[nodiscard]] Pending {
 public:
  /// For the library's own use: `plan` is an impl::Plan.
  template <class Memory>
  Pending(std::shared_ptr<impl::Plan<Memory>> plan, const Space& space, const impl::Flight& flight)
      : plan_(std::move(plan)),
        space_(space),
        flight_(flight),
        finish_(&finish_in<Memory>),
        advance_(&advance_in<Memory>) {}
  /// Takes over; the other has nothing left to finish.
  Pending(Pending&& other) noexcept
      : plan_(std::move(other.plan_)),
        space_(other.space_),
        flight_(std::exchange(other.flight_, {})),
        finish_(other.finish_),
        advance_(other.advance_) {}
  /// Finishes this one, then takes over.
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      finish_or_abort();
      plan_    = std::move(other.plan_);
      space_   = other.space_;
      flight_  = std::exchange(other.flight_, {});
      finish_  = other.finish_;
      advance_ = other.advance_;
    }
    return *this;
  }
  Pending(const Pending&)            = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { finish_or_abort(); }

  /// Takes what the neighbours sent if all of it is there already, finishes if they have read what
  /// they read here, and never waits: for the middle of a long computation, so that neither finish
  /// nor a neighbour's has to wait for the other. Halos may not be read before finish all the same.
  /// Does nothing on transports other than shared memory, which need no help or more of it than
  /// this. Returns whether to call it again may bring something.
  bool advance() { return flight_.set >= 0 && advance_(*plan_, space_, flight_); }
  /// Waits, then fills the halos. Does nothing the second time. Throws MpiError, and under
  /// SHARD_CHECK=1 MessageError for a message of another exchange.
  void finish() {
    if (flight_.set < 0) return;
    const impl::Flight flight = std::exchange(flight_, {});
    finish_(*plan_, space_, flight);
  }

 private:
  template <class Memory>
  static void finish_in(impl::CachedPlan& plan, const Space& space, const impl::Flight& flight) {
    static_cast<impl::Plan<Memory>&>(plan).finish(space, flight);
  }

  template <class Memory>
  static bool advance_in(impl::CachedPlan& plan, const Space& space, impl::Flight& flight) {
    using Progress          = typename impl::Plan<Memory>::Progress;
    const Progress progress = static_cast<impl::Plan<Memory>&>(plan).advance(space, flight);
    if (progress == Progress::finished) flight = {};
    return progress == Progress::may_advance;
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
  impl::Flight flight_;
  void (*finish_)(impl::CachedPlan&, const Space&, const impl::Flight&) = nullptr;
  bool (*advance_)(impl::CachedPlan&, const Space&, impl::Flight&)      = nullptr;
};

}  // namespace shard

#endif
