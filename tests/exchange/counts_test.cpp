// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an exchange costs: messages, kernels, fences, allocations, collective calls.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "shard/shard.hpp"
#include "support/counting.hpp"

struct X;
struct Y;

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultExecutionSpace;

using Scalar =
    ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Y, Halo<1>, PoleFold<2, Pole::on_row>>,
                ShardDim<2, X, Halo<2, 1>, Periodic>>;
using Vector  = ShardedView<float***, Kokkos::LayoutLeft, ShardDim<0, X, Halo<1>, Periodic>,
                           ShardDim<1, Y, Halo<2>, PoleFold<0, Pole::between_rows, Parity::odd>>>;
using Surface = ShardedView<std::int16_t**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Clamp>,
                            ShardDim<1, X, Halo<1>, Periodic>>;

// What is counted is what users get: checks cost messages and kernels of their own.
[[maybe_unused]] const bool unchecked = setenv("SHARD_CHECK", "0", 1) == 0;

/// A kernel of no use.
struct Nothing {
  KOKKOS_FUNCTION void operator()(int, int) const {}
};

struct Fields {
  Mesh<Y, X> mesh{MPI_COMM_WORLD, {0, 0}};
  Scalar t{"t", mesh, {3, 12, 24}};
  Vector u{"u", mesh, {24, 12, 2}};
  Surface p{"p", mesh, {12, 24}};
};

/// Ranks that own what this rank's halos are images of: two rows and two columns on each side cover
/// all three fields, but for columns beyond those that each field has itself.
std::set<int> owners_of_halos(const Fields& f) {
  std::set<int> all;
  const auto add = [&](index_t row, index_t column, bool turned) {
    const index_t turn = turned ? 12 : 0;
    all.insert(f.mesh.rank_at(
        {f.t.partition(1).owner(row), f.t.partition(2).owner((column + turn + 24) % 24)}));
  };
  const auto visit = [&](const auto& field, int y, int x, const auto& image) {
    for (index_t i = field.begin(y) - field.halo_lo(y);
         i < field.begin(y) + field.extent(y) + field.halo_hi(y); ++i)
      for (index_t j = field.begin(x) - field.halo_lo(x);
           j < field.begin(x) + field.extent(x) + field.halo_hi(x); ++j)
        if (i >= 0 && i < 12)
          add(i, j, false);
        else
          image(i, j);
  };
  visit(f.t, 1, 2, [&](index_t i, index_t j) { add(i < 0 ? -i : 22 - i, j, true); });
  visit(f.u, 1, 0, [&](index_t i, index_t j) { add(i < 0 ? -1 - i : 23 - i, j, true); });
  visit(f.p, 0, 1, [&](index_t i, index_t j) { add(i < 0 ? 0 : 11, j, false); });
  all.erase(f.mesh.rank());
  return all;
}

TEST(Counts, T15_one_message_per_distinct_neighbour) {
  const Fields f;
  const Tuning messages{.transport = TransportKind::mpi};
  const Exchange one(messages, f.t);
  const Exchange three(messages, f.t, f.u, f.p);
  for (const bool adjoint : {false, true}) {
    const Counts single = count([&] { adjoint ? one.adjoint(Space()) : one(Space()); });
    const Counts triple = count([&] { adjoint ? three.adjoint(Space()) : three(Space()); });
    for (const Counts& counted : {single, triple}) {
      EXPECT_EQ(std::set<int>(counted.peers.begin(), counted.peers.end()).size(),
                counted.peers.size())
          << "two messages to one rank: " << counted;
      EXPECT_EQ(counted.collectives, 0) << counted;
    }
    const std::set<int> to(triple.peers.begin(), triple.peers.end());
    if (adjoint) {
      EXPECT_EQ(to, owners_of_halos(f)) << triple;
      EXPECT_EQ(triple.messages, three.receives());
      EXPECT_EQ(single.messages, one.receives());
    } else {
      EXPECT_EQ(triple.messages, three.sends());
      EXPECT_EQ(single.messages, one.sends());
      EXPECT_EQ(static_cast<std::size_t>(triple.bytes), three.bytes_sent());
      EXPECT_EQ(static_cast<std::size_t>(triple.receives), owners_of_halos(f).size()) << triple;
    }
  }
}

TEST(Counts, OnePackAndOneUnpackKernelForAnyFields) {
  const Fields f;
  const auto check = [&](const char* what, const Counts& counted, bool sends, const char* first,
                         const char* second) {
    const std::vector<std::string> both{first, second}, last{second};
    EXPECT_EQ(counted.kernel_names, sends ? both : last) << what << ": " << counted;
    EXPECT_EQ(counted.copies, 0) << what << ": " << counted;
    // over MPI a device's halos are packed before they are sent
    const int waits = sends && !impl::is_host_space_v<Space> ? 1 : 0;
    EXPECT_LE(counted.fences, waits) << what << ": " << counted;
  };
  const Exchange one(f.t);
  const Exchange three(f.t, f.u, f.p);
  const bool sends = three.sends() > 0;
  if constexpr (!impl::is_host_space_v<Space>) {
    // a plan's first run copies the addresses of its fields
    one(Space());
    three(Space());
    three.adjoint(Space());
    exchange(Space(), f.t, f.u);
  }
  check("one field", count([&] { one(Space()); }), sends, "shard::pack", "shard::unpack");
  check("three fields", count([&] { three(Space()); }), sends, "shard::pack", "shard::unpack");
  check("transposed", count_seen([&] { three.adjoint(Space()); }), sends, "shard::unhalo",
        "shard::sum");
  check("short form", count_seen([&] { exchange(Space(), f.t, f.u); }), sends, "shard::pack",
        "shard::unpack");
}

TEST(Counts, T22_nothing_is_allocated_after_the_first_exchange) {
  const Fields f;
  const Exchange halos(f.t, f.u, f.p);
  const Scalar t2  = f.t.like("t2");
  const Vector u2  = f.u.like("u2");
  const Surface p2 = f.p.like("p2");
  const auto all   = [&] {
    halos(Space());
    halos(Space(), t2, u2, p2);
    halos.adjoint(Space());
    auto first  = halos.start(Space());
    auto second = halos.start(Space(), t2, u2, p2);
    first.finish();
    second.finish();
    exchange(Space(), f.t);
    exchange(Space(), t2);
    exchange_adjoint(Space(), t2);
  };
  all();
  const Counts counted = count([&] {
    for (int i = 0; i < 3; ++i) all();
  });
  EXPECT_EQ(counted.allocations, 0) << counted;
  EXPECT_EQ(counted.deallocations, 0) << counted;
  EXPECT_EQ(counted.requests, 0) << counted;
  EXPECT_EQ(counted.collectives, 0) << counted;
}

// Also where no tool looks on, and few cells are moved without Kokkos' kernels.
TEST(Counts, T22_not_even_a_string) {
  for (const auto tools : {KokkosTools::off, KokkosTools::on}) {
    const Fields f;
    const Exchange halos(f.t, f.u, f.p);
    const Exchange one(f.t);
    const auto run = [&] {
      halos(Space());
      halos.adjoint(Space());
      one(Space());
      one.adjoint(Space());
      exchange(Space(), f.t);
      exchange_adjoint(Space(), f.t);
      halos.start(Space()).finish();
    };
    run();
    const Counts counted = count(run, tools);
    const std::int64_t kernels =
        count(  // what Kokkos itself needs for so many launches
            [&] {
              for (int i = 0; i < 14; ++i)
                parallel_for("nothing", Space(), owned_region(f.p), Nothing{});
            },
            tools)
            .news;
    EXPECT_LE(counted.news, kernels) << counted;
    EXPECT_EQ(counted.requests, 0) << counted;
    EXPECT_EQ(counted.collectives, 0) << counted;
  }
}

TEST(Counts, TheShortFormFindsItsPlanAgain) {
  const Fields f;
  const Counts first = count([&] { exchange(Space(), f.t, f.p); });
  EXPECT_GT(first.collectives, 0) << "making a plan is collective";
  const auto none = [&](const char* what, const Counts& counted) {
    EXPECT_EQ(counted.collectives, 0) << what << ": " << counted;
    EXPECT_EQ(counted.requests, 0) << what << ": " << counted;
  };
  none("again", count([&] { exchange(Space(), f.t, f.p); }));
  none("transposed", count([&] { exchange_adjoint(Space(), f.t, f.p); }));
  none("started", count([&] { start_exchange(Space(), f.t, f.p).finish(); }));
  // by geometry, not by address or label
  const Scalar t2 = f.t.like("another");
  none("another field", count([&] { exchange(Space(), t2, f.p); }));
  // other fields, another order
  EXPECT_GT(count([&] { exchange(Space(), f.p, f.t); }).collectives, 0);
  EXPECT_GT(count([&] { exchange(Space(), f.t); }).collectives, 0);
}

/// Where no message is awaited the kernel runs once over all owned cells, else over those that see
/// no halo of a neighbour, and over the rest. (MPI's messages aren't looked for in between.)
TEST(Counts, AnOverlappedKernelIsCutWhereMessagesAreAwaited) {
  Tuning by_mpi;
  by_mpi.transport = TransportKind::mpi;
  const Fields f;
  const Exchange halos(by_mpi, f.p);
  const Counts counted = count([&] { overlapped("step", Space(), halos, f.p, Nothing{}); });
  EXPECT_EQ(std::count(counted.kernel_names.begin(), counted.kernel_names.end(), "step"),
            halos.receives() == 0 ? 1 : 2)
      << counted;
}

}  // namespace
