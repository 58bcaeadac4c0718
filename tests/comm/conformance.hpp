// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_COMM_CONFORMANCE_HPP
#define SHARD_TESTS_COMM_CONFORMANCE_HPP

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/transport.hpp"
#include "support/counting.hpp"
#include "support/support.hpp"

/// @file
/// What every transport must do. A channel takes part by one line of channel_factory.hpp, a
/// transport by a factory:
///
///     struct MineFactory : shard::testing::HostFactory {
///       static std::string unusable(MPI_Comm comm);  // why it can't run here, or ""; the same on
///                                                    // all ranks
///       explicit MineFactory(MPI_Comm comm);         // collective
///       std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
///                                  const std::vector<Message>& receives);   // collective
///     };
///     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, TransportConformance, MineFactory);
///
/// Held is the factory's own type: it keeps what the transport needs and has a function
/// `transport()`. One in device memory has write, read and stream of its own in place of
/// HostFactory's.

namespace shard::testing {

using impl::Message;

/// How the suite reaches buffers in host memory, and what most transports are.
struct HostFactory {
  static constexpr bool takes_self     = true;   // a rank may send to itself
  static constexpr bool stream_ordered = false;  // the host never waits
  static constexpr bool needs_group    = false;  // has a communicator of its own
  static constexpr bool honours_tags   = true;   // ranks may start plans in different orders
  static constexpr bool persistent     = false;  // makes its requests once

  void write(std::byte* to, const std::vector<std::byte>& from) {
    std::memcpy(to, from.data(), from.size());
  }
  void read(std::vector<std::byte>& to, const std::byte* from) {
    std::memcpy(to.data(), from, to.size());
  }
  impl::Stream stream() { return {}; }
};

/// Sizes[from][to] of the messages of one plan; 0 where there is none. The same on every rank.
using Sizes = std::vector<std::vector<std::size_t>>;

/// The bytes that `from` sends to `to` in run `run` of plan `plan`.
inline std::vector<std::byte> content(int from, int to, int plan, std::uint64_t run,
                                      std::size_t bytes) {
  std::vector<std::byte> words(bytes);
  std::uint64_t state = run * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(plan) * 1000003 +
                        static_cast<std::uint64_t>(from) * 1009 + static_cast<std::uint64_t>(to);
  for (std::byte& word : words) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    word  = static_cast<std::byte>(state >> 56);
  }
  return words;
}

template <class Factory>
class TransportConformance : public ::testing::Test {
 protected:
  /// One plan's transport on this rank, and what its runs must bring.
  class Plan {
   public:
    Plan(Factory& factory, MPI_Comm comm, int tag, const Sizes& sizes)
        : factory_(factory), tag_(tag) {
      MPI_Comm_rank(comm, &rank_);
      const auto me = static_cast<std::size_t>(rank_);
      for (std::size_t other = 0; other < sizes.size(); ++other) {
        if (sizes[me][other] > 0) sends_.push_back({static_cast<int>(other), sizes[me][other]});
        if (sizes[other][me] > 0) receives_.push_back({static_cast<int>(other), sizes[other][me]});
      }
      held_ = factory_.make(tag_, sends_, receives_);
    }

    impl::Transport& transport() { return held_->transport(); }
    void begin() { transport().post_receives(++run_); }
    void build() {
      for (std::size_t i = 0; i < sends_.size(); ++i)
        factory_.write(transport().outgoing(i),
                       content(rank_, sends_[i].peer, tag_, run_, sends_[i].bytes));
    }
    void start() { transport().send_all(factory_.stream()); }
    void wait() {
      const impl::Watched watched({.what = "a channel's messages", .rank = rank_});
      transport().wait(factory_.stream());
      EXPECT_TRUE(transport().has_arrived());
    }
    void check() {
      for (std::size_t i = 0; i < receives_.size(); ++i) {
        std::vector<std::byte> got(receives_[i].bytes);
        factory_.read(got, transport().incoming(i));
        const auto wanted = content(receives_[i].peer, rank_, tag_, run_, receives_[i].bytes);
        std::size_t first = 0;
        while (first < got.size() && got[first] == wanted[first]) ++first;
        if (first == got.size() || told_) continue;
        told_ = true;  // once: every rank goes on, for the others wait for it
        ADD_FAILURE() << "byte " << first << " of " << got.size()
                      << " is wrong in the message from rank " << receives_[i].peer << " in run "
                      << run_ << " of plan " << tag_;
      }
    }
    void release() {
      transport().release();
      transport().end();
    }
    void run() {
      begin();
      build();
      start();
      wait();
      check();
      release();
    }
    std::size_t messages() const { return sends_.size() + receives_.size(); }

   private:
    Factory& factory_;
    int tag_;
    int rank_          = 0;
    std::uint64_t run_ = 0;
    bool told_         = false;
    std::vector<Message> sends_, receives_;
    decltype(std::declval<Factory&>().make(0, sends_, receives_)) held_;
  };

  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    const std::string why = Factory::unusable(comm_);
    if (!why.empty()) GTEST_SKIP() << why;
    factory_ = std::make_unique<Factory>(comm_);
    chance_.seed(seed() + static_cast<std::uint64_t>(rank_));
  }
  void TearDown() override {
    factory_.reset();
    MPI_Comm_free(&comm_);
  }

  Plan plan(int tag, const Sizes& sizes) { return Plan(*factory_, comm_, tag, sizes); }

  Sizes none() const {
    const auto n = static_cast<std::size_t>(size_);
    return Sizes(n, std::vector<std::size_t>(n, 0));
  }

  /// Messages to the left and the right neighbour of a ring, one for each rank that is either: the
  /// same one on two ranks, oneself on one.
  Sizes ring(std::size_t bytes) const {
    Sizes sizes = none();
    for (int r = 0; r < size_; ++r) {
      for (const int step : {1, size_ - 1}) {
        const int other = (r + step) % size_;
        if (other == r && !Factory::takes_self) continue;
        sizes[static_cast<std::size_t>(r)][static_cast<std::size_t>(other)] += bytes;
      }
    }
    return sizes;
  }

  /// Some pairs of ranks, with sizes from one unit to more than any eager limit. The same on every
  /// rank for one generator.
  Sizes random(std::mt19937_64& generator) const {
    const std::array<std::size_t, 7> some = {16, 32, 4080, 4096, 65536, 65552, (1 << 18) + 48};
    Sizes sizes                           = none();
    for (int r = 0; r < size_; ++r) {
      for (int other = 0; other < size_; ++other) {
        const bool there       = generator() % 3 != 0;
        const std::size_t size = some[generator() % some.size()];
        if (!there || (other == r && !Factory::takes_self)) continue;
        sizes[static_cast<std::size_t>(r)][static_cast<std::size_t>(other)] = size;
      }
    }
    return sizes;
  }

  /// Once in `of` times, sleeps for up to `most`.
  void dawdle(unsigned of, std::chrono::microseconds most) {
    if (chance_() % of != 0) return;
    const auto ticks = static_cast<std::uint64_t>(most.count());
    std::this_thread::sleep_for(std::chrono::microseconds(chance_() % ticks));
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_      = 0;
  int size_      = 1;
  std::unique_ptr<Factory> factory_;
  std::mt19937_64 chance_;  // differs by rank
};

TYPED_TEST_SUITE_P(TransportConformance);

TYPED_TEST_P(TransportConformance, NoMessages) {
  auto plan = this->plan(1, this->none());
  EXPECT_EQ(plan.messages(), 0U);
  for (int i = 0; i < 3; ++i) plan.run();
}

TYPED_TEST_P(TransportConformance, OneMessageEachWay) {
  Sizes sizes = this->none();
  for (std::size_t r = 0; r < sizes.size(); ++r)
    if ((r ^ 1U) < sizes.size()) sizes[r][r ^ 1U] = 256;
  auto plan = this->plan(1, sizes);
  for (int i = 0; i < 5; ++i) plan.run();
}

// A rank may have nothing to receive, or nothing to send.
TYPED_TEST_P(TransportConformance, OneWayOnly) {
  Sizes sizes = this->none();
  for (std::size_t r = 0; r + 1 < sizes.size(); ++r) sizes[r][r + 1] = 1024;
  auto plan = this->plan(1, sizes);
  for (int i = 0; i < 50; ++i) plan.run();
}

// The messages of one pair of ranks differ in size by direction.
TYPED_TEST_P(TransportConformance, UnequalSizes) {
  Sizes sizes = this->none();
  for (std::size_t r = 0; r < sizes.size(); ++r)
    for (std::size_t other = 0; other < sizes.size(); ++other)
      if (r != other) sizes[r][other] = 16 * (1 + 97 * r + 1009 * other);
  auto plan = this->plan(1, sizes);
  for (int i = 0; i < 5; ++i) plan.run();
}

TYPED_TEST_P(TransportConformance, T1SamePeerLeftAndRight) {
  const Sizes sizes = this->ring(512);
  if (this->size_ == 2) {
    EXPECT_EQ(sizes[0][1], 1024U);
  }
  auto plan = this->plan(1, sizes);
  for (int i = 0; i < 20; ++i) plan.run();
}

TYPED_TEST_P(TransportConformance, ToOneself) {
  if (!TypeParam::takes_self) GTEST_SKIP() << "this transport has no messages to oneself";
  Sizes sizes = this->none();
  for (std::size_t r = 0; r < sizes.size(); ++r) sizes[r][r] = 16 * (r + 1);
  auto plan = this->plan(1, sizes);
  for (int i = 0; i < 20; ++i) plan.run();
}

// Anyone may be early or late at each step: a buffer that is written again before its reader is
// done shows here.
TYPED_TEST_P(TransportConformance, UnevenArrival) {
  using std::chrono::microseconds;
  auto plan = this->plan(1, this->ring(4096));
  for (int i = 0; i < 300; ++i) {
    plan.begin();
    this->dawdle(8, microseconds(300));
    plan.build();
    this->dawdle(8, microseconds(300));
    plan.start();
    this->dawdle(8, microseconds(300));
    plan.wait();
    this->dawdle(8, microseconds(300));  // what came must stay until it is released
    plan.check();
    plan.release();
  }
}

// One rank after the other is much later than all others, who go on as far as they can.
TYPED_TEST_P(TransportConformance, OneRankIsLate) {
  auto plan = this->plan(1, this->ring(1 << 17));
  for (int i = 0; i < 2 * this->size_ + 6; ++i) {
    plan.begin();
    plan.build();
    if (i % this->size_ == this->rank_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    plan.start();
    plan.wait();
    if ((i + 1) % this->size_ == this->rank_)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    plan.check();
    plan.release();
  }
}

// T8: several in flight at once share no buffer; T21: nor does one take the other's messages. Where
// tags are honoured ranks may start them in different orders, otherwise every rank in the same one.
TYPED_TEST_P(TransportConformance, T8T21SeveralInFlight) {
  const bool any_order                  = TypeParam::honours_tags;
  auto first                            = this->plan(11, this->ring(256));
  auto second                           = this->plan(12, this->ring(256));
  auto third                            = this->plan(13, this->ring(1 << 16));
  std::array<decltype(&first), 3> plans = {&first, &second, &third};
  for (int i = 0; i < 60; ++i) {
    for (auto* plan : plans) plan->begin();
    for (auto* plan : plans) plan->build();
    const int shift = any_order ? this->rank_ + i : i;
    for (int k = 0; k < 3; ++k) {
      this->dawdle(8, std::chrono::microseconds(200));
      plans[static_cast<std::size_t>(k + shift) % 3]->start();
    }
    for (int k = 3; k-- > 0;) plans[static_cast<std::size_t>(k + shift) % 3]->wait();
    for (auto* plan : plans) plan->check();
    for (auto* plan : plans) plan->release();
  }
}

// T22 in part: one that goes away leaves nothing behind that the next one could take for its own.
TYPED_TEST_P(TransportConformance, MadeAgainAndAgain) {
  for (int i = 0; i < 20; ++i) {
    auto plan = this->plan(1, this->ring(static_cast<std::size_t>(16 + 48 * i)));
    plan.run();
    plan.run();
  }
}

// Of what persists all requests are made with the transport, none in its runs.
TYPED_TEST_P(TransportConformance, WhatPersistsIsMadeOnce) {
  if constexpr (!TypeParam::persistent) {
    GTEST_SKIP() << "this transport's requests don't persist";
  } else {
    auto plan            = this->plan(1, this->ring(256));
    const Counts counted = count([&] {
      for (int i = 0; i < 3; ++i) plan.run();
    });
    EXPECT_EQ(counted.requests, 0);
    EXPECT_EQ(counted.passing, 0);
  }
}

// What needs no group of its own makes no communicator.
TYPED_TEST_P(TransportConformance, AGroupOnlyWhereOneIsNeeded) {
  if constexpr (TypeParam::needs_group) {
    GTEST_SKIP() << "this transport is given a group";
  } else {
    const Counts counted = count([&] {
      auto plan = this->plan(1, this->ring(256));
      plan.run();
    });
    EXPECT_EQ(counted.communicators, 0);
  }
}

// In the order of a stream the host waits for nobody: one rank starts when all others have come
// from `wait`. Elsewhere what has come is there when `wait` returns (all the other tests).
TYPED_TEST_P(TransportConformance, OnAStreamTheHostDoesNotWait) {
  if (!TypeParam::stream_ordered) GTEST_SKIP() << "the host waits for this transport";
  auto plan = this->plan(1, this->ring(512));
  plan.run();  // connections are made together
  for (int late = 0; late < this->size_; ++late) {
    plan.begin();
    plan.build();
    if (late == this->rank_) MPI_Barrier(this->comm_);
    plan.start();
    plan.wait();
    if (late != this->rank_) MPI_Barrier(this->comm_);
    plan.check();
    plan.release();
  }
}

TYPED_TEST_P(TransportConformance, AnyPairsOfRanks) {
  std::mt19937_64 generator(seed());  // the same on every rank
  for (int i = 0; i < 15; ++i) {
    auto plan = this->plan(i, this->random(generator));
    for (int k = 0; k < 4; ++k) plan.run();
  }
}

REGISTER_TYPED_TEST_SUITE_P(TransportConformance, NoMessages, OneMessageEachWay, OneWayOnly,
                            UnequalSizes, T1SamePeerLeftAndRight, ToOneself, UnevenArrival,
                            OneRankIsLate, T8T21SeveralInFlight, MadeAgainAndAgain,
                            WhatPersistsIsMadeOnce, AGroupOnlyWhereOneIsNeeded,
                            OnAStreamTheHostDoesNotWait, AnyPairsOfRanks);

}  // namespace shard::testing

#endif
