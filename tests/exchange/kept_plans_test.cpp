// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A mesh keeps so many plans and no more: what was let go of is made anew, and whoever has it may
// go on using it.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space   = Kokkos::DefaultHostExecutionSpace;
using Grid    = Mesh<Y, X>;
using Columns = ShardedView<double**, Kokkos::LayoutRight, ShardDim<1, Y>, Kokkos::HostSpace>;

Extents<2> extents(int number) { return {6 * ranks() + number, 6 * ranks() + 2 * number}; }

Plane plane(const Grid& mesh, int number, bool shared) {
  return shared ? shared_field<Plane>("t", mesh, extents(number))
                : Plane("t", mesh, extents(number));
}

TEST(KeptPlans, MoreExtentsThanAMeshKeepsPlans) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 2});
  for (int step = 0; step < 20; ++step) {
    const int number = step % 5;
    const Plane t    = plane(mesh, number, step % 2 == 0);
    fill(t, step + 1);
    exchange(Space(), t);
    ASSERT_EQ(wrong_cells(t, step + 1), 0) << "step " << step;
    const Columns columns("columns", mesh, extents(number));
    redistribute(Space(), columns, t);
    int wrong = 0;
    for (index_t i = 0; i < columns.extent(0); ++i)
      for (index_t j = 0; j < columns.extent(1); ++j)
        wrong += columns(i, j) == shard::testing::number_of(columns.to_global(0, i),
                                                            columns.to_global(1, j), step + 1)
                     ? 0
                     : 1;
    ASSERT_EQ(wrong, 0) << "step " << step;
    exchange_adjoint(Space(), t);
  }
  expect_parts(describe(mesh), {"exchange plans: 2 of at most 2", "redistribution plans: 2 of at"});
}

TEST(KeptPlans, WhatIsInFlightAndWhatTheCallerHasStays) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 2});
  const Plane first = plane(mesh, 7, true);
  const Exchange held(first);
  for (const bool shared : {false, true})
    for (int step = 0; step < 6; ++step) {
      const Plane t = plane(mesh, 0, shared);
      fill(t, step + 1);
      auto pending = start_exchange(Space(), t);
      for (int number = 1; number < 5; ++number) {
        const Plane u = plane(mesh, number, shared);
        fill(u, -number);
        exchange(Space(), u);
        ASSERT_EQ(wrong_cells(u, -number), 0);
      }
      pending.finish();
      ASSERT_EQ(wrong_cells(t, step + 1), 0) << "step " << step;
      fill(first, step);
      held(Space());
      ASSERT_EQ(wrong_cells(first, step), 0) << "step " << step;
    }
}

/// The ranks start another exchange in an order of their own, so that a plan may have to go while a
/// neighbour hasn't read what it sent.
TEST(KeptPlans, RanksThatRunApart) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 1});
  for (int step = 0; step < 40; ++step) {
    const Plane t = plane(mesh, step % 3, step % 2 == 0), u = plane(mesh, 3 + step % 2, false);
    fill(t, step + 1);
    fill(u, -step);
    auto a = start_exchange(Space(), t);
    auto b = start_exchange(Space(), u);
    if ((step + mesh.rank()) % 2 == 0) a.finish();
    b.finish();
    a.finish();
    ASSERT_EQ(wrong_cells(t, step + 1) + wrong_cells(u, -step), 0) << "step " << step;
  }
}

TEST(KeptPlans, TheOneUsedLeastRecentlyGoes) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 2});
  const Plane a = plane(mesh, 0, false), b = plane(mesh, 1, false), c = plane(mesh, 2, false);
  const auto plan_of = [](const Plane& t) {
    return std::weak_ptr<impl::CachedPlan>(impl::find_exchange_plan(t));
  };
  const auto of_a = plan_of(a), of_b = plan_of(b);
  exchange(Space(), a);
  const auto of_c = plan_of(c);
  EXPECT_FALSE(of_a.expired());
  EXPECT_TRUE(of_b.expired());
  EXPECT_FALSE(of_c.expired());
}

TEST(KeptPlans, StridesOfOnesOwn) {
  // a family of plans for fields that differ in their strides alone has the same bound
  const Grid mesh(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 3});
  const Plane t = plane(mesh, 0, false);
  for (int step = 0; step < 12; ++step) {
    const std::size_t rows = t.view().extent(0), columns = t.view().extent(1);
    const Plane::view_type memory("memory", rows, columns + 1 + static_cast<std::size_t>(step % 6));
    const Plane f(
        mesh, Kokkos::subview(memory, Kokkos::ALL, std::pair<std::size_t, std::size_t>(0, columns)),
        t.partitions());
    fill(f, step + 1);
    exchange(Space(), f);
    ASSERT_EQ(wrong_cells(f, step + 1), 0) << "step " << step;
  }
  expect_parts(describe(mesh), {"exchange plans: 1 of at most 3"});
}

TEST(KeptPlans, TheBound) {
  const auto says = [](const Grid& mesh, const char* bound) {
    int communicators = 1;  // the mesh's, and one for each axis of several ranks
    communicators += (mesh.size<Y>() > 1 ? 1 : 0) + (mesh.size<X>() > 1 ? 1 : 0);
    const std::string made = "communicators: " + std::to_string(communicators);
    expect_parts(describe(mesh), {bound, made.c_str(), "shared memory: "});
  };
  {
    const Grid mesh(MPI_COMM_WORLD, {0, 0});
    exchange(Space(), plane(mesh, 0, false));
    says(mesh, "exchange plans: 1 of at most 64");
  }
  const ScopedVariable fewer("SHARD_KEPT_PLANS", "5");
  const Grid by_variable(MPI_COMM_WORLD, {0, 0}),
      by_option(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 9});
  exchange(Space(), plane(by_variable, 0, false));
  exchange(Space(), plane(by_option, 0, false));
  says(by_variable, "exchange plans: 1 of at most 5");
  says(by_option, "exchange plans: 1 of at most 9");
  expect_parts(message_thrown_by<ArgumentError>([] {
                 Grid(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 0});
               }),
               {"kept_plans is 0", "at least 1"});
  if (ranks() > 1) {
    message_thrown_by<AgreementError>([] {
      Grid(MPI_COMM_WORLD, {0, 0}, {.kept_plans = 1 + shard::testing::rank()});
    });
  }
}

TEST(KeptPlans, KeysOfKindsDoNotMeet) {
  constexpr std::uint64_t numbers = 512;
  std::set<std::uint64_t> first, second;
  std::size_t made = 0;
  for (int kind = 0; kind <= static_cast<int>(impl::KeyKind::device_messages); ++kind)
    for (std::uint64_t number = 0; number < numbers; ++number, ++made) {
      const auto key = impl::PlanKey::of(static_cast<impl::KeyKind>(kind), number);
      first.insert(key.a);
      second.insert(key.b);
    }
  EXPECT_EQ(first.size(), made);
  EXPECT_EQ(second.size(), made);
}

}  // namespace
