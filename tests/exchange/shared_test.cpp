// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges through memory that the ranks of a node share: fields that lie there, buffers, flags,
// and what is checked under SHARD_CHECK=1.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"
#include "windows.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

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
    const Plane t    = shared_field<Plane>("t", mesh, {23, 17});
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
    const Rows t = shared_field<Rows>("t", mesh, {3 * mesh.size(), columns});
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
  const auto counted = shard::testing::count_seen([&] { halos(Space(), a, b); });
  const auto packed =
      std::count(counted.kernel_names.begin(), counted.kernel_names.end(), "shard::pack");
  const bool is_read = in_windows && windows_of_all(mesh.state());
  EXPECT_EQ(packed, is_read || mesh.size() == 1 ? 0 : 1) << counted;
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
  const Plane shared_t = shared_field<Plane>("t", mesh, {23, 17});
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

// The new field has the natural strides, and the plan exchanges it too.
TEST(Shared, AFieldLikeANarrowedOneIsExchanged) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Columns<1> narrow = Columns<2>("wide", mesh, {2, 3 * mesh.size()});
  const Exchange halos(narrow);
  const auto made = halos.allocate<0>("new");
  EXPECT_EQ(made.stride(0), 5);
  for (const auto& field : {narrow, made}) {
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        field(i, j) = static_cast<double>(100 * i + field.to_global(1, j));
    halos(Space(), field);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = -1; j <= 3; ++j) EXPECT_EQ(made(i, j), narrow(i, j)) << i << ' ' << j;
}

TEST(Shared, NoMessageWithinANode) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const Rows t = shared_field<Rows>("t", mesh, {4 * mesh.size(), 600});
  const Exchange halos(t);
  halos(Space());
  halos(Space());
  const auto counted = shard::testing::count([&] {
    halos(Space());
    halos.adjoint(Space());
    halos.start(Space()).finish();
  });
  // on several machines three exchanges send to each neighbour elsewhere
  const int up = mesh.periodic_neighbour<Y>(1), down = mesh.periodic_neighbour<Y>(-1);
  const auto elsewhere = [&](int rank) {
    return impl::SharedPool::of(*mesh.state())->place_of(rank) < 0 ? 1 : 0;
  };
  const int messages = 3 * (elsewhere(up) + (up == down ? 0 : elsewhere(down)));
  EXPECT_EQ(counted.messages, messages) << counted;
  EXPECT_EQ(counted.receives, messages) << counted;
  EXPECT_EQ(counted.collectives, 0) << counted;
  EXPECT_EQ(counted.fences, 0) << counted;
  EXPECT_EQ(counted.allocations, 0) << counted;
}

TEST(Shared, NodesOfTwoUseMessagesBetweenThem) {
  const ScopedVariable nodes("SHARD_RANKS_PER_NODE", "2"), unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t = shared_field<Rows>("t", mesh, {3 * mesh.size(), 600});
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

TEST(Shared, CellsWrittenBetweenStartAndFinishAreFound) {
  // SHARD_CHECK is on; whatever carries the values
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const Rows t = shared_field<Rows>("the field", mesh, {2 * mesh.size(), 5});
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

TEST(Shared, CellsWrittenBetweenStartAndFinishOfATransposeAreFound) {
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 1});  // along X they are a rank's own images
    const Plane t = shared_field<Plane>("the field", mesh, {3 * mesh.size(), 5});
    const Exchange halos(Tuning{.transport = kind, .direct_run = 1}, t);
    // a neighbour's halo, an own one, and cells that either is added to
    const index_t written[][2] = {{-1, 2}, {1, -1}, {0, 3}, {2, 0}};
    for (const auto& [i, j] : written) {
      fill(t, 1);
      auto pending = halos.start_adjoint(Space());
      t(i, j)      = -1;
      expect_parts(message_thrown_by<MessageError>([&] { pending.finish(); }),
                   {"between start and finish", "the field", "halo was written"});
    }
    // nothing is left of it
    Kokkos::deep_copy(t.view(), 1.0);
    auto pending = halos.start_adjoint(Space());
    EXPECT_NO_THROW(pending.finish());
    double sum = 0;
    for (std::size_t n = 0; n < t.view().size(); ++n) sum += t.view().data()[n];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double all = static_cast<double>(t.view().size());
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sum, all);
  }
}

TEST(Shared, ATransposeThatMeetsAnotherPlanAddsNothing) {
  if (ranks() < 2) GTEST_SKIP() << "needs a neighbour";
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 1});
    const Plane t = shared_field<Plane>("t", mesh, {3 * mesh.size(), 5}),
                u = shared_field<Plane>("u", mesh, {3 * mesh.size(), 7});
    const Tuning tuning{.transport = kind};
    const Exchange first(tuning, t), second(tuning, u);
    Kokkos::deep_copy(t.view(), 1.0);
    Kokkos::deep_copy(u.view(), 1.0);
    const Plane& mine  = mesh.rank() == 0 ? u : t;
    const Plane before = mine.like("before");
    Kokkos::deep_copy(before.view(), mine.view());
    auto pending    = (mesh.rank() == 0 ? second : first).start_adjoint(Space());
    const bool sees = mesh.rank() <= 1 || mesh.rank() == mesh.size() - 1;
    if (sees) {
      EXPECT_THROW(pending.finish(), MessageError);
      for (index_t i = 0; i < mine.extent(0); ++i)
        for (index_t j = 0; j < mine.extent(1); ++j) EXPECT_EQ(mine(i, j), before(i, j));
    } else {
      pending.finish();
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST(Shared, ARankThatHelpsAddsNothingThatItsNeighboursStartedInAnotherOrder) {
  if (ranks() < 2) GTEST_SKIP() << "needs a neighbour";
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 1});
  const auto make = [&](const char* label) {
    const Plane field = shared_field<Plane>(label, mesh, {3 * mesh.size(), 5});
    Kokkos::deep_copy(field.view(), 1.0);
    return field;
  };
  const Plane t = make("t"), u = make("u"), v = make("v");
  const Exchange first(t), second(u), third(v);
  const bool even = mesh.rank() % 2 == 0;
  auto one        = (even ? first : second).start_adjoint(Space());
  auto other      = (even ? second : first).start_adjoint(Space());
  // whoever waits here for a neighbour that is late looks whether it can help with the others
  if (even) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  third(Space());
  for (const Plane& field : {t, u})
    for (index_t i = 0; i < field.extent(0); ++i)
      for (index_t j = 0; j < field.extent(1); ++j) EXPECT_EQ(field(i, j), 1.0);
  EXPECT_THROW(one.finish(), MessageError);
  EXPECT_THROW(other.finish(), MessageError);
  MPI_Barrier(MPI_COMM_WORLD);
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
  const Plane t = shared_field<Plane>("t", mesh, {23, 17});
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
    const Tuning other{.direct_run = 5, .messages = MessageLayout::one_per_box};
    EXPECT_EQ(to_text(tuning_from_text(to_text(other))), to_text(other));
    EXPECT_EQ(tuning_from_text(to_text(other)).direct_run, 5U);
    const Tuning kept = tuning_from_text(to_text(halos.tuning()));
    EXPECT_EQ(to_text(kept), to_text(halos.tuning()));
    const Exchange again(kept, t);
    fill(t, 4);
    again(Space());
    EXPECT_EQ(wrong_cells(t, 4), 0);
  }
  EXPECT_THROW(
      (void)tuning_from_text("transport=pigeons messages=one_per_peer direct_run=1 message_part=0"),
      ArgumentError);
}

TEST(Shared, MeasuringLeavesOwnedCellsAsTheyWere) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t = shared_field<Plane>("t", mesh, {24, 16});
  fill(t, 1);
  const Plane before = t.like("before");
  Kokkos::deep_copy(before.view(), t.view());
  const Exchange halos(Tuning::measure, t);
  for (index_t i = 0; i < t.extent(0); ++i)
    for (index_t j = 0; j < t.extent(1); ++j) EXPECT_EQ(t(i, j), before(i, j));
}

TEST(Shared, ManyExchanges) {
  // memory must not grow, and no halo may be wrong
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4});
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
  if (!windows_of_all(mesh.state())) GTEST_SKIP() << "no windows of all ranks here";
  for (const index_t columns : {32, 600, 6000}) {
    const Rows t = shared_field<Rows>("t", mesh, {4 * mesh.size(), columns});
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
