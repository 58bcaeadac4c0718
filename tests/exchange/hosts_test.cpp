// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One message for each pair of hosts: the bits of one for each rank, and the number of messages.
// Hosts are those of SHARD_RANKS_PER_NODE, or real ones (tools/hosts).
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

constexpr Tuning by_host{.messages = MessageLayout::one_per_host};
constexpr const char* nodes[] = {"0", "1", "2", "3", "4"};

std::int64_t sum_of_ranks(std::int64_t mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}

template <class... Fields>
Counts counted_run(const Exchange<Fields...>& halos) {
  for (int warm = 0; warm < 3; ++warm) halos(Space());
  return count([&] { halos(Space()); });
}

/// The number of pairs of hosts, each way, between which some rank sends to these peers.
std::int64_t pairs_of_hosts(const Mesh<Y, X>& mesh, const std::vector<int>& peers) {
  const auto pool = impl::SharedPool::of(*mesh.state());
  int first       = 0;
  while (first != mesh.rank() && pool->place_of(first) < 0) ++first;
  const auto n = static_cast<std::size_t>(mesh.size());
  std::vector<int> host(n), sends(n * n, 0);
  MPI_Allgather(&first, 1, MPI_INT, host.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (const int peer : peers) {
    const int there = host[static_cast<std::size_t>(peer)];
    if (there != first)
      sends[static_cast<std::size_t>(first) * n + static_cast<std::size_t>(there)] = 1;
  }
  MPI_Allreduce(MPI_IN_PLACE, sends.data(), static_cast<int>(n * n), MPI_INT, MPI_MAX,
                MPI_COMM_WORLD);
  return std::count(sends.begin(), sends.end(), 1);
}

TEST(Hosts, OneMessageForEachPair) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  for (const char* ranks_per_node : nodes) {
    const ScopedVariable variable("SHARD_RANKS_PER_NODE", ranks_per_node);
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    const Plane t("t", mesh, {23, 17}), u("u", mesh, {23, 17});
    const Exchange joined(by_host, t, u), usual(t, u);
    const Counts all = counted_run(usual), few = counted_run(joined);
    EXPECT_EQ(sum_of_ranks(few.messages), pairs_of_hosts(mesh, all.peers)) << ranks_per_node;
    EXPECT_EQ(sum_of_ranks(few.bytes), sum_of_ranks(all.bytes)) << ranks_per_node;
    EXPECT_EQ(few.allocations + few.fences + few.collectives + few.requests, 0) << few;
    EXPECT_EQ(joined.sends(), usual.sends());
  }
}

TEST(Hosts, TheSameBits) {
  for (const char* checked : {"0", "1"})
    for (const char* ranks_per_node : nodes) {
      const ScopedVariable check("SHARD_CHECK", checked),
          variable("SHARD_RANKS_PER_NODE", ranks_per_node);
      const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
      const Plane t = shared_field<Plane>("t", mesh, {23, 17}), u("u", mesh, {23, 17}),
                  v = t.like("v"), w = t.like("w");
      const Exchange joined(by_host, t, u), usual(v, w);
      for (int step = 1; step < 12; ++step) {
        fill(t, step);
        fill(u, -step);
        joined(Space());
        ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0) << "step " << step;
        // the transpose: halos that aren't copies
        const auto scale = [&](const Plane& f) {
          for (std::size_t i = 0; i < f.view().size(); ++i)
            f.view().data()[i] *= 1.0 / (1.0 + i % 7);
        };
        fill(v, step);
        fill(w, -step);
        usual(Space());
        for (const Plane* f : {&t, &u, &v, &w}) scale(*f);
        joined.adjoint(Space());
        usual.adjoint(Space());
        for (std::size_t i = 0; i < t.view().size(); ++i) {
          ASSERT_EQ(t.view().data()[i], v.view().data()[i]) << "step " << step;
          ASSERT_EQ(u.view().data()[i], w.view().data()[i]) << "step " << step;
        }
      }
    }
}

TEST(Hosts, RanksAreEarlyAndLate) {
  for (const char* ranks_per_node : nodes) {
    const ScopedVariable variable("SHARD_RANKS_PER_NODE", ranks_per_node),
        unchecked("SHARD_CHECK", "0");
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    const Plane t("t", mesh, {19, 12}), u("u", mesh, {19, 12}), v("v", mesh, {19, 12});
    std::optional<Exchange<Plane>> halos(std::in_place, by_host, t),
        others(std::in_place, by_host, v);
    std::mt19937 dice(static_cast<unsigned>(seed() + 977 * mesh.rank()));
    const auto delay = [&] {
      if (dice() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice() % 2000));
    };
    for (int step = 1; step < 40; ++step) {
      fill(t, step);
      fill(u, -step);
      fill(v, 2 * step);
      delay();
      auto a = halos->start(Space());
      delay();
      auto b = halos->start(Space(), u);
      // each rank in its own order
      const bool early = dice() % 2 == 0;
      if (early) a.finish();
      auto c = others->start(Space());
      delay();
      const auto way = dice() % 3;
      if (way == 0) c.finish();
      if (way == 1) b.finish();
      if (!early) a.finish();
      delay();
      if (way != 1) b.finish();
      if (way != 0) c.finish();
      ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step) + wrong_cells(v, 2 * step), 0)
          << "step " << step;
      if (step % 10 == 0) {  // plans end and begin while others still read
        delay();
        halos.reset();
        halos.emplace(by_host, t);
      }
    }
  }
}

TEST(Hosts, MessagesMoveInPolls) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), variable("SHARD_RANKS_PER_NODE", "2");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t("t", mesh, {23, 17});
  const Exchange halos(by_host, t);
  for (int step = 1; step < 4; ++step) {
    fill(t, step);
    auto pending   = halos.start(Space());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!pending.is_filled() && std::chrono::steady_clock::now() < end) pending.advance();
    EXPECT_TRUE(pending.is_filled());
    EXPECT_EQ(wrong_cells(t, step), 0);
    MPI_Barrier(MPI_COMM_WORLD);  // nobody is in finish yet
    pending.finish();
  }
}

TEST(Hosts, TheOneThatSendsDoesSoWhileItWaitsForOtherExchanges) {
  const ScopedVariable variable("SHARD_RANKS_PER_NODE", "2"), unchecked("SHARD_CHECK", "0");
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size % 2 != 0 || size < 4) GTEST_SKIP() << "needs two hosts of two ranks";
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 2});
  // no messages within a host
  const Rows t("t", mesh, {23, 17}), u("u", mesh, {23, 17});
  const Exchange halos(by_host, t), others(by_host, u);
  for (int step = 1; step < 10; ++step) {
    fill(t, step);
    fill(u, -step);
    auto a           = halos.start(Space());
    const bool early = mesh.rank() % 2 == 1;
    if (early) a.finish();
    auto b = others.start(Space());
    b.finish();
    if (!early) a.finish();
    ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0) << "step " << step;
  }
}

TEST(Hosts, FourInProgress) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  for (const int ranks_per_node : {1, 2, 3}) {
    const ScopedVariable variable("SHARD_RANKS_PER_NODE", std::to_string(ranks_per_node));
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    if (mesh.size() <= ranks_per_node) GTEST_SKIP() << "needs another host";
    std::vector<Plane> fields;
    for (int f = 0; f < 5; ++f) fields.emplace_back("t", mesh, Extents<2>{23, 17});
    const Exchange halos(by_host, fields[0]);
    for (int step = 0; step < 10; ++step) {
      for (std::size_t f = 0; f < 5; ++f) fill(fields[f], 10 * step + static_cast<int>(f));
      const auto wrong = [&](std::size_t f) {
        return wrong_cells(fields[f], 10 * step + static_cast<int>(f));
      };
      auto a = halos.start(Space()), b = halos.start(Space(), fields[1]),
           c = halos.start(Space(), fields[2]), d = halos.start(Space(), fields[3]);
      EXPECT_THROW((void)halos.start(Space(), fields[4]), ArgumentError);
      // a rank still reads when the others' next messages come
      if ((mesh.rank() + step) % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      a.finish();
      auto e = halos.start(Space(), fields[4]);
      ASSERT_EQ(wrong(0), 0) << "step " << step;
      e.finish();
      d.finish();
      c.finish();
      b.finish();
      for (std::size_t f = 1; f < 5; ++f) ASSERT_EQ(wrong(f), 0) << "step " << step;
    }
  }
}

TEST(Hosts, LongMessagesAreNotJoined) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  for (const char* ranks_per_node : nodes) {
    const ScopedVariable variable("SHARD_RANKS_PER_NODE", ranks_per_node);
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const Rows t("t", mesh, {2 * mesh.size(), 257});  // 2056 bytes
    const Exchange joined(by_host, t), usual(t);
    const Counts a = counted_run(joined), b = counted_run(usual);
    EXPECT_EQ(a.messages, b.messages);
    EXPECT_EQ(a.peers, b.peers);
    fill(t, 1);
    joined(Space());
    EXPECT_EQ(wrong_cells(t, 1), 0);
  }
}

TEST(Hosts, MeasuredWhereFourRanksShareAHost) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  for (const char* ranks_per_node : {"2", "4"}) {
    const ScopedVariable variable("SHARD_RANKS_PER_NODE", ranks_per_node);
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    const Plane t("t", mesh, {23, 17});
    const Exchange halos(Tuning::measure, t);
    const bool shares = impl::SharedPool::of(*mesh.state())->usable();
    const bool tried  = halos.tuning_report().find(
                            "us  transport=automatic messages=one_per_host") != std::string::npos;
    const bool all_share = sum_of_ranks(shares ? 1 : 0) == mesh.size();
    if (all_share && mesh.size() % 4 == 0) {
      EXPECT_EQ(tried, ranks_per_node[0] == '4' && mesh.size() > 4);
    }
    fill(t, 1);
    halos(Space());
    EXPECT_EQ(wrong_cells(t, 1), 0);
  }
}

}  // namespace
