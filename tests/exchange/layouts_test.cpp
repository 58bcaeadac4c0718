// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a plan's boxes are put into messages: their number, their order, and what can't be done.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../../src/comm/mpi_channel.hpp"
#include "shard/comm/impl/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

template <class OfY, class OfX>
using Bounded = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, OfY>,
                            ShardDim<1, X, Halo<1>, OfX>, Kokkos::HostSpace>;

Tuning by_mpi(MessageLayout messages) {
  return {.transport = TransportKind::mpi, .messages = messages};
}
constexpr Tuning by_dimension{.messages = MessageLayout::by_dimension};

template <class... Fields>
Counts counted_run(const Exchange<Fields...>& halos) {
  for (int warm = 0; warm < 3; ++warm) halos(Space());
  return shard::testing::count([&] { halos(Space()); });
}

/// Neighbours of a periodic axis of so many ranks.
int neighbours(int ranks) { return std::min(ranks - 1, 2); }

TEST(Layouts, OneMessageForEachBoxOrField) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t("t", mesh, {23, 17}), u("u", mesh, {23, 17});
  const Exchange per_peer(by_mpi(MessageLayout::one_per_peer), t, u),
      per_field(by_mpi(MessageLayout::one_per_field), t, u),
      by_size(by_mpi(MessageLayout::by_size), t, u),
      per_box(by_mpi(MessageLayout::one_per_box), t, u);
  for (const auto* halos : {&per_peer, &per_field, &by_size, &per_box})
    for (int step = 1; step < 4; ++step) {
      fill(t, step);
      fill(u, -step);
      (*halos)(Space());
      EXPECT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0);
    }
  const Counts peers = counted_run(per_peer), fields = counted_run(per_field),
               all = counted_run(by_size), boxes = counted_run(per_box);
  EXPECT_EQ(peers.messages, per_peer.sends()) << peers;
  EXPECT_EQ(fields.messages, 2 * peers.messages) << fields;
  EXPECT_EQ(per_field.sends(), fields.messages);
  EXPECT_GE(boxes.messages, fields.messages) << boxes;
  EXPECT_EQ(per_box.sends(), boxes.messages);
  EXPECT_EQ(all.messages, peers.messages) << all;  // none has 4000 bytes
}

TEST(Layouts, NoMessageIsEmptyWhereBoxesAreLong) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  // each box has more bytes than a message by size may have
  const Rows t("t", mesh, {2 * mesh.size(), 600}), u("u", mesh, {2 * mesh.size(), 600});
  const Exchange by_size(by_mpi(MessageLayout::by_size), t, u),
      per_box(by_mpi(MessageLayout::one_per_box), t, u);
  EXPECT_EQ(by_size.sends(), per_box.sends());
  EXPECT_EQ(by_size.bytes_sent(), per_box.bytes_sent());
  fill(t, 1);
  fill(u, 2);
  by_size(Space());
  EXPECT_EQ(wrong_cells(t, 1) + wrong_cells(u, 2), 0);
}

TEST(Layouts, TwoNeighboursForEachDimensionThatIsCut) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t("t", mesh, {23, 17});
  const Exchange halos(by_mpi(MessageLayout::by_dimension), t);
  EXPECT_EQ(halos.tuning().messages, MessageLayout::by_dimension);
  EXPECT_EQ(halos.sends(), neighbours(mesh.size<Y>()) + neighbours(mesh.size<X>()));
  EXPECT_EQ(halos.receives(), halos.sends());
  const Counts counted = counted_run(halos);
  EXPECT_EQ(counted.messages, halos.sends()) << counted;
  EXPECT_EQ(static_cast<std::size_t>(counted.bytes), halos.bytes_sent()) << counted;
  const std::set<int> peers(counted.peers.begin(), counted.peers.end());
  for (const int peer : peers) {
    const std::array<int, 2> there{peer / mesh.size<X>(), peer % mesh.size<X>()};
    EXPECT_TRUE(there[0] == mesh.coordinate<Y>() || there[1] == mesh.coordinate<X>());
  }
  EXPECT_EQ(counted.allocations + counted.fences + counted.collectives + counted.requests, 0)
      << counted;
}

TEST(Layouts, ByDimensionWithOthersInFlight) {
  for (const char* checked : {"0", "1"})
    for (const char* ranks_per_node : {"0", "2"}) {
      const ScopedVariable check("SHARD_CHECK", checked),
          nodes("SHARD_RANKS_PER_NODE", ranks_per_node);
      const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
      const Plane t = shard::shared_field<Plane>("t", mesh, {19, 12}), u("u", mesh, {19, 12}),
                  v = t.like("v");
      const Exchange halos(by_dimension, t), others(v);
      std::mt19937 dice(static_cast<unsigned>(shard::testing::seed() + 977 * mesh.rank()));
      const auto delay = [&] {
        if (dice() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice() % 2000));
      };
      for (int step = 1; step < 20; ++step) {
        fill(t, step);
        fill(u, -step);
        fill(v, 2 * step);
        delay();
        auto c = others.start(Space());
        delay();
        auto a = halos.start(Space());
        auto b = halos.start(Space(), u);
        delay();
        a.finish();
        c.finish();
        delay();
        b.finish();
        ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step) + wrong_cells(v, 2 * step), 0)
            << "step " << step;
      }
    }
}

TEST(Layouts, RanksMayFinishInDifferentOrders) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  // what the last dimension needs lies in one piece, so that neighbours might read it in place
  using Columns   = ShardedView<double**, Kokkos::LayoutLeft, ShardDim<0, Y, Halo<1>, Periodic>,
                              ShardDim<1, X, Halo<1>, Periodic>, Kokkos::HostSpace>;
  const Columns t = shard::shared_field<Columns>("t", mesh, {160, 32}), u = t.like("u");
  const Exchange first(by_dimension, t), second(by_dimension, u);
  for (int step = 1; step < 20; ++step) {
    fill(t, step);
    fill(u, -step);
    auto a = first.start(Space());
    if ((mesh.rank() + step) % 2 == 0) a.finish();
    auto b = second.start(Space());
    b.finish();
    a.finish();
    ASSERT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0) << "step " << step;
  }
}

TEST(Layouts, WhatCannotGoByDimensionGoesAtOnce) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const auto layout_of = [&](const auto& halos) { return halos.tuning().messages; };
  // each turns the other's halo
  const Bounded<PoleFold<1, Pole::on_row>, PoleFold<0, Pole::on_row>> twice("twice", mesh, {8, 6});
  ::testing::internal::CaptureStderr();
  const Exchange refused(by_dimension, twice);
  const Exchange again(by_dimension, twice);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log, mesh.rank() == 0
                     ? "shard: corners are sent directly, not dimension by dimension: the halo of "
                       "\"twice\" has folds or constants that would each have to be exchanged "
                       "before the other\n"
                     : "");
  EXPECT_EQ(layout_of(refused), MessageLayout::one_per_peer);
  // a fold that keeps the sign turns no constant, one that changes it does
  const Bounded<PoleFold<1, Pole::on_row>, Zero> even("even", mesh, {8, 6});
  EXPECT_EQ(layout_of(Exchange(by_dimension, even)), MessageLayout::by_dimension);
  const Bounded<Sides<PoleFold<1, Pole::on_row, Parity::odd>, Constant<1>>, Zero> odd("odd", mesh,
                                                                                      {8, 6});
  EXPECT_EQ(layout_of(Exchange(by_dimension, odd)), MessageLayout::one_per_peer);
  // no corners, so nothing to send in several hops
  ::testing::internal::CaptureStderr();
  const Plane t("t", mesh, {23, 17});
  const Exchange halos(by_dimension, t);
  EXPECT_EQ(layout_of(halos.faces()), MessageLayout::one_per_peer);
  EXPECT_EQ(layout_of(halos.only<X>()), MessageLayout::one_per_peer);
  EXPECT_EQ(layout_of(halos.width<Halo<1>>()), MessageLayout::by_dimension);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// The layouts that a measured plan has tried forward with a transport, each once, in their order.
template <class Plan>
std::vector<std::string> tried_layouts(const Plan& halos, const std::string& transport) {
  std::vector<std::string> layouts;
  std::istringstream report(halos.tuning_report());
  const std::string sought = "us  transport=" + transport + " messages=";
  for (std::string line; std::getline(report, line);) {
    const std::size_t at = line.find(sought);
    if (at == std::string::npos) continue;
    const std::string rest   = line.substr(at + sought.size());
    const std::string layout = rest.substr(0, rest.find(' '));
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
      layouts.push_back(layout);
  }
  return layouts;
}

TEST(Layouts, EachIsTriedWhereMessagesLeaveANode) {
  using Names     = std::vector<std::string>;
  const Names all = {"one_per_peer", "one_per_field", "by_size", "one_per_box", "by_dimension"};
  for (const char* ranks_per_node : {"0", "2"}) {
    const ScopedVariable nodes("SHARD_RANKS_PER_NODE", ranks_per_node),
        unchecked("SHARD_CHECK", "0");
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    const Plane t("t", mesh, {23, 17}), u("u", mesh, {23, 17});
    int shares = impl::SharedPool::of(*mesh.state())->usable() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    const bool beyond = ranks_per_node[0] == '2' && mesh.size() > 2;
    const auto tried  = [&](MessageLayout messages, const char* transport) {
      const Exchange halos(Tuning{.messages = messages, .measured = true}, t, u);
      fill(t, 1);
      fill(u, 2);
      halos(Space());
      EXPECT_EQ(wrong_cells(t, 1) + wrong_cells(u, 2), 0);
      return tried_layouts(halos, transport);
    };
    const Names within = shares == 0 || beyond ? all : Names{"one_per_peer", "by_dimension"};
    EXPECT_EQ(tried(MessageLayout::one_per_peer, "automatic"), within);
    EXPECT_EQ(tried(MessageLayout::one_per_peer, "mpi"), shares == 0 ? Names{} : all);
    // one that is asked for is kept
    EXPECT_EQ(tried(MessageLayout::one_per_box, "automatic"), Names{"one_per_box"});
    EXPECT_EQ(tried(MessageLayout::one_per_box, "mpi"),
              shares == 0 ? Names{} : Names{"one_per_box"});
  }
}

TEST(Layouts, LongMessagesToOtherHostsGoInParts) {
  constexpr index_t columns = 10000;
  constexpr std::size_t row = columns * sizeof(double);
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  for (const char* ranks_per_node : {"0", "1", "2"}) {
    const ScopedVariable nodes("SHARD_RANKS_PER_NODE", ranks_per_node);
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const auto host = impl::SharedPool::of(*mesh.state());
    int lacks       = impl::has_rdma_device() ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &lacks, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    const Rows t("t", mesh, {2 * mesh.size(), columns});
    // two rows go to each neighbour: one to each of two, or both to one
    const int low = (mesh.rank() + mesh.size() - 1) % mesh.size(),
              up  = (mesh.rank() + 1) % mesh.size();
    std::map<int, std::size_t> bytes;
    for (const int peer : {low, up})
      if (peer != mesh.rank()) bytes[peer] += row;
    const auto is_away  = [&](const auto& to) { return host->place_of(to.first) < 0; };
    const bool any_away = std::any_of(bytes.begin(), bytes.end(), is_away);
    const auto messages = [&](std::size_t part, std::size_t part_away) {
      std::size_t sum = 0;
      for (const auto& to : bytes) {
        const std::size_t most = is_away(to) ? part_away : part;
        sum += (to.second - 1) / most + 1;
      }
      return static_cast<std::int64_t>(sum);
    };
    const std::size_t whole = impl::no_parts, chosen = lacks != 0 ? impl::eager_part : whole;
    const auto sent = [&](std::size_t part) {
      const Exchange halos(Tuning{.transport = TransportKind::mpi, .message_part = part}, t);
      const Counts counted = counted_run(halos);
      fill(t, 1);
      halos(Space());
      EXPECT_EQ(wrong_cells(t, 1), 0);
      EXPECT_EQ(static_cast<std::size_t>(counted.bytes), halos.bytes_sent());
      return counted.messages;
    };
    EXPECT_EQ(sent(0), messages(whole, chosen)) << ranks_per_node;
    EXPECT_EQ(sent(whole), messages(whole, whole)) << ranks_per_node;
    EXPECT_EQ(sent(9999), messages(9984, 9984)) << ranks_per_node;
    // measuring tries what isn't the default
    int leaves = any_away ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &leaves, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    const Exchange halos(Tuning{.transport = TransportKind::mpi, .measured = true}, t);
    const std::string other =
        "message_part=" + std::to_string(leaves * lacks != 0 ? whole : impl::eager_part);
    if (mesh.size() > 1) expect_parts(halos.tuning_report(), {other.c_str()});
  }
}

TEST(Layouts, ADeviceOfTheNetworkIsFound) {
  const std::string classes = ::testing::TempDir() + "shard_classes_" + std::to_string(getpid());
  EXPECT_FALSE(impl::has_rdma_device(classes));
  std::filesystem::create_directories(classes + "/net/eth0");
  std::filesystem::create_directories(classes + "/infiniband");
  EXPECT_FALSE(impl::has_rdma_device(classes));  // the driver without a device
  for (const char* device : {"/infiniband/mlx5_0", "/cxi/cxi0"}) {
    std::filesystem::create_directories(classes + device);
    EXPECT_TRUE(impl::has_rdma_device(classes));
    std::filesystem::remove_all(classes + device);
  }
  std::filesystem::remove_all(classes);
}

TEST(Layouts, AStaleHaloIsNamedWhenTheLastDimensionHasCome) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane from("from", mesh, {23, 17}), to("to", mesh, {23, 17});
  const Exchange halos(by_dimension, to);
  fill(from, 1);
  mark_written(Space(), from);
  fill(to, 1);
  // one rank forgot an exchange; it alone throws, and the others have their halos
  const bool forgot = mesh.rank() == mesh.size() - 1 && to.extent(0) > 0 && to.extent(1) > 0;
  if (forgot) to(0, 0) = from(-1, 0);
  auto pending = halos.start(Space());
  if (forgot)
    expect_parts(message_thrown_by<StaleHaloError>([&] { pending.finish(); }),
                 {"\"to\"", "that of \"from\""});
  else
    pending.finish();
  fill(to, 2);
  halos(Space());
  EXPECT_EQ(wrong_cells(to, 2), 0);
}

TEST(Layouts, AnotherPlanThanTheNeighboursIsNamed) {
  // SHARD_CHECK is on; each plan has two more, for its dimensions
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (mesh.size() < 2) GTEST_SKIP() << "needs a neighbour";
  using Rows = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Periodic>,
                           ShardDim<1, Unsharded, Halo<1>, Periodic>, Kokkos::HostSpace>;
  const Rows t("t", mesh, {2 * mesh.size(), 5}), u("u", mesh, {2 * mesh.size(), 7});
  const Exchange first(by_dimension, t), second(by_dimension, u);
  const bool sees = mesh.rank() <= 1 || mesh.rank() == mesh.size() - 1;
  const auto run  = [&] { (mesh.rank() == 0 ? second : first)(Space()); };
  if (sees)
    expect_parts(message_thrown_by<MessageError>(run), {"plan 2", "plan 5", "same order"});
  else
    run();
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
