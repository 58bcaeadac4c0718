// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges through memory that the ranks of a node share: fields that lie there, buffers, flags,
// and what is checked under SHARD_CHECK=1.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/comm/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using shard::testing::expect_parts;
using shard::testing::fill;
using shard::testing::message_thrown_by;
using shard::testing::Plane;
using shard::testing::ranks;
using shard::testing::Rows;
using shard::testing::ScopedVariable;
using shard::testing::wrong_cells;
using shard::testing::X;
using shard::testing::Y;
using Space = Kokkos::DefaultHostExecutionSpace;

/// Whether this MPI gives the ranks of this machine windows: MPICH as Debian has it doesn't.
bool windows(const std::shared_ptr<impl::MeshState>& state) {
  return impl::SharedPool::of(*state)->usable();
}

TEST(Shared, WhereWindowsCanBeHadIsPrinted) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (mesh.size() == 1) GTEST_SKIP() << "nobody to share with";
  const bool can = windows(mesh.state());
  if (mesh.rank() == 0)  // `./test` looks for this line
    std::printf("shared-memory windows on %d ranks: %s\n", mesh.size(), can ? "yes" : "no");
  // What needs windows is skipped without them: where there have to be some, that is no answer.
  const char* asked = std::getenv("SHARD_TEST_WINDOWS");
  if (asked != nullptr && std::string(asked) == "required") {
    EXPECT_TRUE(can) << "SHARD_TEST_WINDOWS=required";
    for (int rank = 0; rank < mesh.size(); ++rank)
      EXPECT_GE(impl::SharedPool::of(*mesh.state())->place_of(rank), 0);
  }
}

TEST(Shared, FieldsInWindowsAreReadDirectly) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  for (const std::size_t run : {std::size_t{1}, std::size_t{1} << 30}) {
    const Plane t    = allocate_shared<Plane>("t", mesh, {23, 17});
    const Plane next = t.like("next"), outside("outside", mesh, {23, 17});
    if (windows(mesh.state())) {
      EXPECT_TRUE(is_shared(t));
      EXPECT_TRUE(is_shared(next));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.view().data()) % 64, 0U);
    }
    const Exchange halos(Tuning{.direct_run = run}, t);
    for (int step = 1; step < 6; ++step) {
      const Plane& f = step % 3 == 0 ? next : step % 3 == 1 ? t : outside;
      fill(f, step);
      halos(Space(), f);
      EXPECT_EQ(wrong_cells(f, step), 0) << "step " << step;
    }
    // the transpose: every owned cell counts its images
    for (const Plane& f : {t, outside}) {
      Kokkos::deep_copy(f.view(), 1.0);
      halos.adjoint(Space(), f);
      double mine = 0, all = 0;
      for (index_t i = -2; i < f.extent(0) + 1; ++i)
        for (index_t j = -1; j < f.extent(1) + 2; ++j) {
          const bool owned = i >= 0 && i < f.extent(0) && j >= 0 && j < f.extent(1);
          if (owned)
            mine += f(i, j);
          else
            EXPECT_EQ(f(i, j), 0.0);
        }
      MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      double cells = 0;
      for (int y = 0; y < mesh.size<Y>(); ++y)
        for (int x = 0; x < mesh.size<X>(); ++x)
          cells +=
              static_cast<double>((f.partition(0).count(y) + 3) * (f.partition(1).count(x) + 3));
      EXPECT_EQ(all, cells);
    }
  }
}

TEST(Shared, LongPiecesAreCopiedWhole) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  // about 64 KiB, from where on they are copied in another way if they lie alike within lines
  for (const index_t columns : {8190, 8191, 8192, 8197, 20000}) {
    const Rows t = allocate_shared<Rows>("t", mesh, {3 * mesh.size(), columns});
    const Exchange halos(Tuning{.direct_run = 1}, t);
    for (int step = 1; step < 3; ++step) {
      fill(t, step);
      halos(Space());
      EXPECT_EQ(wrong_cells(t, step), 0) << columns << " columns";
    }
  }
}

/// Two fields of a plan's own making: where they lie, and that they are read there.
void expect_as_the_plan_wishes(const Exchange<Plane, Rows>& halos, const Mesh<Y, X>& mesh,
                               bool in_windows) {
  const Plane a = halos.allocate<0>("a");
  const Rows b  = halos.allocate<1>("b");
  EXPECT_EQ(is_shared(a), in_windows);
  EXPECT_EQ(is_shared(b), in_windows);
  EXPECT_EQ(a.label(), "a");
  EXPECT_EQ(a.view()(0, 0), 0.0);
  for (int step = 1; step < 4; ++step) {
    fill(a, step);
    fill(b, -step);
    halos(Space(), a, b);
    EXPECT_EQ(wrong_cells(a, step) + wrong_cells(b, -step), 0);
  }
  const auto counted = shard::testing::count([&] { halos(Space(), a, b); });
  const auto packed =
      std::count(counted.kernel_names.begin(), counted.kernel_names.end(), "shard::pack");
  EXPECT_EQ(packed, in_windows || mesh.size() == 1 ? 0 : 1) << counted;
}

TEST(Shared, FieldsLieWhereThePlanWishes) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t("t", mesh, {23, 17});
  const Rows u("u", mesh, {23, 17});
  const bool shares = windows(mesh.state()) && mesh.size() > 1;
  expect_as_the_plan_wishes(Exchange(Tuning{.direct_run = 1}, t, u), mesh, shares);
  expect_as_the_plan_wishes(Exchange(Tuning{.direct_run = 1 << 20}, t, u), mesh, false);
  expect_as_the_plan_wishes(
      Exchange(Tuning{.transport = TransportKind::mpi, .direct_run = 1}, t, u), mesh, false);
  // a plan of fields in shared memory whose faces are packed wants ordinary ones
  const Plane shared_t = allocate_shared<Plane>("t", mesh, {23, 17});
  expect_as_the_plan_wishes(Exchange(Tuning{.direct_run = 1 << 20}, shared_t, u), mesh, false);
}

TEST(Shared, APlanWishesOnEachNodeForItself) {
  const ScopedVariable nodes("SHARD_RANKS_PER_NODE", "2");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t("t", mesh, {3 * mesh.size(), 600});
  const Exchange halos(t);
  const Rows mine      = halos.allocate<0>("mine");
  const bool neighbour = (mesh.rank() ^ 1) < mesh.size();  // on this node
  EXPECT_EQ(is_shared(mine), windows(mesh.state()) && neighbour);
  fill(mine, 2);
  halos(Space(), mine);
  EXPECT_EQ(wrong_cells(mine, 2), 0);
}

template <int Width>
using Columns = ShardedView<double**, Kokkos::LayoutRight, ShardDim<1, X, Halo<Width>, Periodic>,
                            Kokkos::HostSpace>;

TEST(Shared, AFieldThatThePlanCouldNotExchangeIsNotMade) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Columns<1> narrow = Columns<2>("wide", mesh, {2, 3 * mesh.size()});
  const Exchange halos(narrow);
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)halos.allocate<0>("new"); }),
               {"Exchange::allocate", "\"wide\"", "stride of 7", "5", "make a plan"});
}

TEST(Shared, NoMessageWithinANode) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const Rows t = allocate_shared<Rows>("t", mesh, {4 * mesh.size(), 600});
  const Exchange halos(t);
  halos(Space());
  halos(Space());
  const auto counted = shard::testing::count([&] {
    halos(Space());
    halos.adjoint(Space());
    halos.start(Space()).finish();
  });
  EXPECT_EQ(counted.messages, 0) << counted;
  EXPECT_EQ(counted.receives, 0) << counted;
  EXPECT_EQ(counted.collectives, 0) << counted;
  EXPECT_EQ(counted.fences, 0) << counted;
  EXPECT_EQ(counted.allocations, 0) << counted;
}

TEST(Shared, PiecesComeBackInAnyOrder) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const auto pool   = impl::SharedPool::of(*mesh.state());
  const void* first = nullptr;
  for (int round = 0; round < 20; ++round) {
    std::vector<Rows> fields;
    for (int f = 0; f < 6; ++f)
      fields.push_back(allocate_shared<Rows>("f", mesh, {mesh.size() + f, 64}));
    if (round == 0) first = fields[0].view().data();
    EXPECT_EQ(fields[0].view().data(), first) << "what was given back is used again";
    // each rank in an order of its own
    std::mt19937 dice(static_cast<unsigned>(7 * round + mesh.rank()));
    while (!fields.empty()) {
      std::swap(fields[dice() % fields.size()], fields.back());
      fields.pop_back();
    }
  }
  mesh.release();
  const Rows again = allocate_shared<Rows>("again", mesh, {mesh.size(), 64});
  fill(again, 1);
  exchange(Space(), again);
  EXPECT_EQ(wrong_cells(again, 1), 0);
}

/// Has a field that is too large for the pool, and says of each cell what it is to be.
void expect_an_ordinary_field(const Mesh<Y>& mesh, index_t columns) {
  const Rows t = allocate_shared<Rows>("t", mesh, {3 * mesh.size(), columns});
  EXPECT_FALSE(is_shared(t)) << columns << " columns";
  const Exchange halos(t);
  const Rows wished = halos.allocate<0>("wished");
  EXPECT_FALSE(is_shared(wished));
  for (const Rows& f : {t, wished}) {
    for (std::size_t i = 0; i < f.view().size(); ++i) ASSERT_EQ(f.view().data()[i], 0.0);
    fill(f, static_cast<int>(columns));
    halos(Space(), f);
    EXPECT_EQ(wrong_cells(f, static_cast<int>(columns)), 0);
  }
}

TEST(Shared, NoRoomGivesAnOrdinaryField) {
  ::testing::internal::CaptureStderr();
  bool can = false;
  for (const std::size_t room : {std::size_t{1} << 20, std::size_t{0}}) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const auto pool = impl::SharedPool::of(*mesh.state());
    can             = windows(mesh.state());
    // on one rank there is room for flags and messages, or for nothing
    if (mesh.rank() == mesh.size() - 1) pool->largest_window = room;
    for (const index_t columns : {100000, 120000, 140000}) expect_an_ordinary_field(mesh, columns);
    // more than any machine's /dev/shm, asked for by one rank
    const auto piece = pool->allocate(mesh.rank() == 0 ? std::size_t{1} << 45 : 64);
    EXPECT_EQ(piece.data(), nullptr);
    const Rows t = allocate_shared<Rows>("t", mesh, {mesh.size(), 64});
    EXPECT_EQ(is_shared(t), can && room > 0);
    fill(t, 2);
    exchange(Space(), t);
    EXPECT_EQ(wrong_cells(t, 2), 0);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            can && shard::testing::rank() == 0
                ? "shard: no room for more shared memory (is /dev/shm large enough?); ordinary "
                  "memory and messages serve instead\n"
                : "");
}

TEST(Shared, NodesOfTwoUseMessagesBetweenThem) {
  const ScopedVariable nodes("SHARD_RANKS_PER_NODE", "2"), unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t = allocate_shared<Rows>("t", mesh, {3 * mesh.size(), 600});
  const Exchange halos(t);
  for (int step = 1; step < 4; ++step) {
    fill(t, step);
    halos(Space());
    EXPECT_EQ(wrong_cells(t, step), 0);
  }
  const auto counted = shard::testing::count([&] { halos(Space()); });
  const int up = mesh.periodic_neighbour<Y>(1), down = mesh.periodic_neighbour<Y>(-1);
  std::vector<int> others{up, down};
  if (up == down) others.pop_back();
  int messages = 0;
  for (const int r : others)
    messages += r != mesh.rank() && (r / 2 != mesh.rank() / 2 || !windows(mesh.state())) ? 1 : 0;
  EXPECT_EQ(counted.messages, messages) << counted;
}

TEST(Shared, DelaysOnAnyRankChangeNothing) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t = allocate_shared<Plane>("t", mesh, {19, 12}), u("u", mesh, {19, 12});
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
  const Plane t = allocate_shared<Plane>("t", mesh, {19, 12}), once = t.like("once");
  for (const std::size_t run : {std::size_t{1}, std::size_t{1} << 30}) {
    const Exchange halos(Tuning{.direct_run = run}, t);
    for (int step = 1; step < 6; ++step) {
      fill(t, step);
      std::optional<Pending<Space>> first;
      if (mesh.rank() == 0) {
        first = halos.start(Space());
        EXPECT_EQ(first->advance(), windows(mesh.state()) && halos.receives() > 0);
      }
      MPI_Barrier(mesh.communicator());
      auto pending = first ? std::move(*first) : halos.start(Space());
      pending.advance();
      MPI_Barrier(mesh.communicator());  // all have started
      pending.advance();
      if (windows(mesh.state())) {
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

template <class Field>
void fill_with_dice(std::mt19937& dice, const Field& f) {
  const index_t size = static_cast<index_t>(f.view().size());
  for (index_t n = 0; n < size; ++n)
    f.view().data()[n] =
        static_cast<typename Field::value_type>(static_cast<double>(dice()) * 1e-9 - 2.0);
}

TEST(Shared, FewValuesAreCollectedBeforeTheyAreAdded) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  using Floats = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<2, 1>, Periodic>,
                             Kokkos::HostSpace>;
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  std::mt19937 dice(static_cast<unsigned>(shard::testing::seed() + 977 * mesh.rank()));
  // one row on some ranks: a cell has several images then, of several ranks
  for (const index_t rows : {index_t{mesh.size()}, index_t{5 * mesh.size() - 2}}) {
    const Rows a    = allocate_shared<Rows>("a", mesh, {rows, 37});
    const Floats b  = allocate_shared<Floats>("b", mesh, {rows, 21});
    const Rows a2   = allocate_shared<Rows>("a2", mesh, {rows, 37});
    const Floats b2 = allocate_shared<Floats>("b2", mesh, {rows, 21});
    const Exchange collected(Tuning{.direct_run = 1, .adjoint_collect = 16384}, a, b);
    const Exchange one_by_one(Tuning{.direct_run = 1, .adjoint_collect = 0}, a2, b2);
    for (int step = 0; step < 4; ++step) {
      fill_with_dice(dice, a);
      fill_with_dice(dice, b);
      Kokkos::deep_copy(a2.view(), a.view());
      Kokkos::deep_copy(b2.view(), b.view());
      collected.adjoint(Space(), a, b);
      one_by_one.adjoint(Space(), a2, b2);
      EXPECT_EQ(std::memcmp(a.view().data(), a2.view().data(), a.view().size() * sizeof(double)),
                0);
      EXPECT_EQ(std::memcmp(b.view().data(), b2.view().data(), b.view().size() * sizeof(float)), 0);
    }
  }
}

TEST(Shared, WhatWasTakenAndReadIsOverBeforeFinish) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const Plane t = allocate_shared<Plane>("t", mesh, {19, 12});
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
      const Rows t = allocate_shared<Rows>("t", mesh, shape), u = t.like("u"),
                 v = allocate_shared<Rows>("v", other, shape);
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
                   {"Exchange", "no room in shared memory", "finish one first"});
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

TEST(Shared, CellsWrittenBetweenStartAndFinishAreFound) {
  // SHARD_CHECK is on; whatever carries the values
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const Rows t = allocate_shared<Rows>("the field", mesh, {2 * mesh.size(), 5});
    const Exchange halos(Tuning{.transport = kind}, t);
    fill(t, 1);
    auto pending = halos.start(Space());
    t(0, 3)      = -1;
    expect_parts(message_thrown_by<MessageError>([&] { pending.finish(); }),
                 {"between start and finish", "the field", "written"});
    fill(t, 1);
    halos(Space());
    EXPECT_EQ(wrong_cells(t, 1), 0);
  }
}

TEST(Shared, AnotherPlanThanTheNeighboursIsNamedAtOnce) {
  if (ranks() < 2) GTEST_SKIP() << "needs a neighbour";
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const Rows t("t", mesh, {2 * mesh.size(), 5}), u("u", mesh, {2 * mesh.size(), 7});
    const Exchange first(Tuning{.transport = kind}, t), second(Tuning{.transport = kind}, u);
    // one rank starts the second where the others start the first
    auto pending    = mesh.rank() == 0 ? second.start(Space()) : first.start(Space());
    const bool sees = mesh.rank() <= 1 || mesh.rank() == mesh.size() - 1;
    if (sees)
      expect_parts(message_thrown_by<MessageError>([&] { pending.finish(); }),
                   {"plan 0", "plan 1", "same order"});
    else
      pending.finish();
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST(Shared, TheFastestOfThoseTriedIsKept) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t = allocate_shared<Plane>("t", mesh, {23, 17});
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const Exchange halos(Tuning{.transport = kind, .measured = true}, t);
    fill(t, 3);
    halos(Space());
    EXPECT_EQ(wrong_cells(t, 3), 0);
    EXPECT_FALSE(halos.tuning().measured);
    if (kind == TransportKind::mpi) {
      EXPECT_EQ(halos.tuning().transport, kind);
    }
    const std::string report = halos.tuning_report();
    EXPECT_NE(report.find(" us  transport="), std::string::npos) << report;
    // the choice can be kept, and asked for again, as any other can
    const Tuning other{.adjoint_direct_run = 16,
                       .adjoint_clear_last = true,
                       .adjoint_collect    = 5,
                       .staged_packing     = false,
                       .message_bytes      = 7};
    EXPECT_EQ(to_text(tuning_from_text(to_text(other))), to_text(other));
    EXPECT_TRUE(tuning_from_text(to_text(other)).adjoint_clear_last);
    EXPECT_EQ(tuning_from_text(to_text(other)).adjoint_collect, 5U);
    EXPECT_FALSE(tuning_from_text(to_text(other)).staged_packing);
    const Tuning kept = tuning_from_text(to_text(halos.tuning()));
    EXPECT_EQ(to_text(kept), to_text(halos.tuning()));
    const Exchange again(kept, t);
    fill(t, 4);
    again(Space());
    EXPECT_EQ(wrong_cells(t, 4), 0);
  }
  EXPECT_THROW((void)tuning_from_text("transport=pigeons messages=one_per_peer direct_run=1"),
               ArgumentError);
}

/// A field whose halo takes part in all that a transpose adds: images at a pole that change their
/// sign, and the seam.
template <class T>
using Folded =
    ShardedView<T**, Kokkos::LayoutRight,
                ShardDim<0, Y, Halo<2>, Sides<PoleFold<1, Pole::on_row, Parity::odd>, Clamp>>,
                ShardDim<1, X, Halo<1, 2>, Periodic>>;

/// Values of which every other is a zero, positive and negative in turns.
template <class T>
T value_with_zeros(int n) {
  const int sign = n % 4 < 2 ? 1 : -1;
  const T value  = static_cast<T>(n % 2 == 0 ? 0 : sign * n);
  if constexpr (std::is_arithmetic_v<T>)
    return sign < 0 && value == T(0) ? static_cast<T>(-value) : value;
  else
    return T(value.real(), sign < 0 ? -0.0F : 0.0F);
}

template <class T>
void expect_owned_cells_as_they_were(const Mesh<Y, X>& mesh) {
  const Folded<T> t = allocate_shared<Folded<T>>("t", mesh, {24, 16});
  const auto before = [](index_t i, index_t j) {
    return value_with_zeros<T>(static_cast<int>(7 * i + j));
  };
  for (index_t i = 0; i < t.extent(0); ++i)
    for (index_t j = 0; j < t.extent(1); ++j) t(i, j) = before(i, j);
  const Exchange halos(Tuning::measure, t);
  int other = 0;
  for (index_t i = 0; i < t.extent(0); ++i)
    for (index_t j = 0; j < t.extent(1); ++j) {
      const T is = t(i, j), was = before(i, j);
      other += std::memcmp(&is, &was, sizeof(T)) == 0 ? 0 : 1;
    }
  EXPECT_EQ(other, 0);
  const bool tried = halos.tuning_report().find("us  transpose  ") != std::string::npos;
  if (halos.tuning().transport == TransportKind::mpi) {
    EXPECT_FALSE(tried);
  } else if (windows(mesh.state())) {
    EXPECT_TRUE(tried) << halos.tuning_report();
  }
}

TEST(Shared, MeasuringLeavesOwnedCellsAsTheyWere) {
  // its zeros, of either sign, are what an addition might change
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  expect_owned_cells_as_they_were<float>(mesh);
  expect_owned_cells_as_they_were<double>(mesh);
  expect_owned_cells_as_they_were<int>(mesh);
  expect_owned_cells_as_they_were<Kokkos::complex<double>>(mesh);
}

TEST(Shared, ManyExchanges) {
  // memory must not grow, and no halo may be wrong
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t = allocate_shared<Rows>("t", mesh, {2 * mesh.size(), 4});
  const Exchange direct(Tuning{.direct_run = 1}, t), packed(Tuning{.direct_run = 1 << 20}, t);
  const index_t rows = 2 * mesh.size(), before = (t.begin(0) + rows - 1) % rows,
                after = (t.begin(0) + 2) % rows;
  const auto run      = [&](int count) {
    int wrong = 0;
    for (int step = 1; step <= count; ++step) {
      fill(t, step);
      (step % 2 == 0 ? direct : packed)(Space());
      const auto value = [&](index_t row) {
        return step * (1.0 + 1000.0 * static_cast<double>(row) + 2.0);
      };
      wrong += t(-1, 2) == value(before) && t(2, 2) == value(after) ? 0 : 1;
    }
    return wrong;
  };
  EXPECT_EQ(run(100), 0);
  const int steps    = shard::testing::million_or(20000, windows(mesh.state()));
  const auto counted = shard::testing::count([&] { EXPECT_EQ(run(steps), 0); });
  EXPECT_EQ(counted.allocations, 0) << counted;
  EXPECT_EQ(counted.requests, 0) << counted;
}

// T22, of fields that are read directly: rows so short that the transpose collects them, and longer
// ones. No tool looks on, so no kernel is launched for few cells.
TEST(Shared, T22_NothingIsAllocatedFromTheSecondCallOn) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  for (const index_t columns : {32, 600, 6000}) {
    const Rows t = allocate_shared<Rows>("t", mesh, {4 * mesh.size(), columns});
    const Exchange halos(t);
    const auto run = [&] {
      halos(Space());
      halos.adjoint(Space());
      halos.start(Space()).finish();
      halos.start_adjoint(Space()).finish();
    };
    run();
    const auto counted = shard::testing::count(run, shard::testing::KokkosTools::off);
    EXPECT_EQ(counted.news, 0) << columns << " columns: " << counted;
    EXPECT_EQ(counted.messages, 0) << columns << " columns: " << counted;
    EXPECT_EQ(counted.requests, 0) << columns << " columns: " << counted;
    EXPECT_EQ(counted.collectives, 0) << columns << " columns: " << counted;
  }
}

}  // namespace
