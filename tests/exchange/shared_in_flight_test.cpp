// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges in flight over memory that the ranks of a node share: delays, several at a time, ends
// in different orders, what is taken before `finish`.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"
#include "windows.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

TEST(Shared, DelaysOnAnyRankChangeNothing) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t = shared_field<Plane>("t", mesh, {19, 12}), u("u", mesh, {19, 12});
  const Exchange halos(Tuning{.direct_run = 1}, t);
  std::mt19937 dice(static_cast<unsigned>(shard::testing::seed() + 977 * mesh.rank()));
  const auto delay = [&] {
    if (dice() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice() % 2000));
  };
  for (int step = 1; step < 60; ++step) {
    fill(t, step);
    fill(u, -step);
    delay();
    auto a = halos.start(Space(), t);
    delay();
    auto b = halos.start(Space(), u);
    delay();
    if (step % 2 == 0) a.finish();
    delay();
    b.finish();
    a.finish();
    ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0) << "step " << step;
  }
}

TEST(Shared, WhatIsThereIsTakenBeforeFinish) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t = shared_field<Plane>("t", mesh, {19, 12}), once = t.like("once");
  for (const std::size_t run : {std::size_t{1}, std::size_t{1} << 30}) {
    const Exchange halos(Tuning{.direct_run = run}, t);
    for (int step = 1; step < 6; ++step) {
      fill(t, step);
      std::optional<Pending<Space>> first;
      if (mesh.rank() == 0) {
        first = halos.start(Space());
        EXPECT_EQ(first->advance(), windows_of_all(mesh.state()) && halos.receives() > 0);
      }
      MPI_Barrier(mesh.communicator());
      auto pending = first ? std::move(*first) : halos.start(Space());
      pending.advance();
      MPI_Barrier(mesh.communicator());  // all have started
      pending.advance();
      if (windows_of_all(mesh.state())) {
        EXPECT_EQ(wrong_cells(t, step), 0) << "not taken";
      }
      MPI_Barrier(mesh.communicator());  // all have read
      EXPECT_FALSE(pending.advance());
      pending.finish();
      EXPECT_FALSE(pending.advance());
      ASSERT_EQ(wrong_cells(t, step), 0) << "step " << step;
      // the transpose adds once
      Kokkos::deep_copy(t.view(), 1.0);
      Kokkos::deep_copy(once.view(), 1.0);
      halos.adjoint(Space(), once);
      auto back = halos.start_adjoint(Space());
      MPI_Barrier(mesh.communicator());
      back.advance();
      back.advance();
      back.finish();
      for (index_t i = 0; i < t.extent(0); ++i)
        for (index_t j = 0; j < t.extent(1); ++j) ASSERT_EQ(t(i, j), once(i, j));
    }
  }
}

TEST(Shared, WhatWasTakenAndReadIsOverBeforeFinish) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  if (!windows_of_all(mesh.state())) GTEST_SKIP() << "no windows of all ranks here";
  const Plane t = shared_field<Plane>("t", mesh, {19, 12});
  const Exchange halos(Tuning{.direct_run = 1}, t);
  const auto pool = impl::SharedPool::of(*mesh.state());
  for (int step = 1; step < 6; ++step) {
    fill(t, step);
    auto pending = halos.start(Space());
    MPI_Barrier(mesh.communicator());
    if (mesh.rank() == 0) {
      EXPECT_EQ(pending.advance(), halos.receives() > 0) << "over before it was read";
    }
    MPI_Barrier(mesh.communicator());
    if (mesh.rank() != 0) pending.advance();
    MPI_Barrier(mesh.communicator());
    EXPECT_FALSE(pending.advance());
    EXPECT_EQ(pool->in_flight, 0);
    ASSERT_EQ(wrong_cells(t, step), 0) << "step " << step;
    fill(t, -step);
    halos(Space());
    ASSERT_EQ(wrong_cells(t, -step), 0) << "step " << step;
    pending.finish();
    EXPECT_EQ(pool->in_flight, 0);
  }
}

TEST(Shared, AsManyInFlightAsThereAreSlots) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  std::vector<Rows> fields;
  for (int f = 0; f < 9; ++f) fields.emplace_back("f", mesh, Extents<2>{mesh.size(), 9});
  const Exchange halos(fields[0]);
  std::vector<Pending<Space>> all;
  for (int f = 0; f < 8; ++f) {
    fill(fields[static_cast<std::size_t>(f)], f + 1);
    all.push_back(halos.start(Space(), fields[static_cast<std::size_t>(f)]));
  }
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)halos.start(Space(), fields[8]); }),
               {"more than 8", "finish one first"});
  for (auto& pending : all) pending.finish();
  for (int f = 0; f < 8; ++f) EXPECT_EQ(wrong_cells(fields[static_cast<std::size_t>(f)], f + 1), 0);
}

/// As in a model whose components are numbered differently on its ranks. Each field is large enough
/// for neighbours to read it in its place, so every finish waits for theirs.
TEST(Shared, RanksMayFinishInDifferentOrders) {
  for (const char* checked : {"0", "1"})
    for (const char* per_node : {"", "2"}) {
      const ScopedVariable check("SHARD_CHECK", checked), nodes("SHARD_RANKS_PER_NODE", per_node);
      const Mesh<Y> mesh(MPI_COMM_WORLD, {0}), other(MPI_COMM_WORLD, {0});
      const Extents<2> shape{3 * mesh.size(), 600};
      const Rows t = shared_field<Rows>("t", mesh, shape), u = t.like("u"),
                 v = shared_field<Rows>("v", other, shape);
      const Exchange of_t(t), of_u(u), of_v(v);
      for (int step = 1; step <= 40; ++step) {
        fill(t, step);
        fill(u, -step);
        fill(v, 2 * step);
        const bool odd = (mesh.rank() + step) % 2 != 0;
        // two meshes, which don't know of each other: all start, each ends them in its order
        auto a = of_t.start(Space()), b = of_v.start(Space());
        odd ? a.finish() : b.finish();
        odd ? b.finish() : a.finish();
        // one mesh: some finish the first before they start the second, some after its end
        auto c = of_t.start(Space());
        if (odd) c.finish();
        of_u(Space());
        c.finish();
        ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step) + wrong_cells(v, 2 * step), 0)
            << "step " << step << ", checked " << checked << ", nodes of " << per_node;
        auto d = of_t.start_adjoint(Space()), e = of_v.start_adjoint(Space());
        odd ? d.finish() : e.finish();
        odd ? e.finish() : d.finish();
        auto f = of_t.start_adjoint(Space());
        if (odd) f.finish();
        of_u.adjoint(Space());
        f.finish();
      }
    }
}

TEST(Shared, AThirdInFlightIsRefusedWhereThereIsNoRoom) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  std::vector<Rows> fields;
  for (int f = 0; f < 3; ++f) fields.emplace_back("f", mesh, Extents<2>{2 * mesh.size(), 500});
  const Exchange halos(fields[0]);
  // one rank has nothing left; there are buffers for two, always
  std::vector<impl::SharedPiece> taken;
  const auto pool = impl::SharedPool::of(*mesh.state());
  if (mesh.rank() == mesh.size() - 1)
    for (std::size_t bytes = std::size_t{1} << 30; bytes >= 64; bytes /= 2)
      while ((taken.emplace_back(pool->allocate_here(bytes))).data() != nullptr) {
      }
  for (int step = 1; step < 4; ++step) {
    for (int f = 0; f < 3; ++f) fill(fields[static_cast<std::size_t>(f)], 10 * step + f);
    auto a = halos.start(Space(), fields[0]), b = halos.start(Space(), fields[1]);
    std::optional<Pending<Space>> c;
    if (taken.empty()) {
      c = halos.start(Space(), fields[2]);
    } else {
      expect_parts(message_thrown_by<Error>([&] { (void)halos.start(Space(), fields[2]); }),
                   {"Exchange", "no space in shared memory", "finish one first"});
      // nothing was begun: the others, who go on, find it when it can be
      a.finish();
      c = halos.start(Space(), fields[2]);
    }
    a.finish();
    b.finish();
    c->finish();
    for (int f = 0; f < 3; ++f)
      EXPECT_EQ(wrong_cells(fields[static_cast<std::size_t>(f)], 10 * step + f), 0);
  }
}

}  // namespace
