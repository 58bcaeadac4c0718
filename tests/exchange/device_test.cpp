// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of fields in device memory, in a memory that plays one: staged, given to MPI as it is, by
// NCCL, captured.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "exchange/device_support.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "shard/shard.hpp"
#include "support/instances.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using impl::Direction;
using impl::StartedExchange;
using namespace shard::testing;
using DevicePlan = impl::FieldPlan<PlayedMemory>;

using Lines = ShardedView<std::int16_t**, Kokkos::LayoutLeft, ShardDim<0, X, Halo<1>, Constant<3>>,
                          Kokkos::HostSpace>;

template <class View>
void randomise(const View& view, std::mt19937& dice) {
  for (std::size_t i = 0; i < view.span(); ++i)
    view.data()[i] = static_cast<typename View::value_type>(
        std::uniform_real_distribution<double>(-1000, 1000)(dice));
}

/// Two fields on the device, the same in the host's memory, and plans for either.
class Device : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shard::testing::play_device(); }

  void SetUp() override {
    played_nccl() = {};
    made_requests();
    dice_.seed(static_cast<unsigned>(shard::testing::seed()) + static_cast<unsigned>(mesh_.rank()));
  }
  void TearDown() override { capturing() = false; }

  std::shared_ptr<DevicePlan> make(const Tuning& tuning = {}) { return make_for(t_, q_, tuning); }
  std::shared_ptr<DevicePlan> make_for(const Plane& t, const Lines& q, const Tuning& tuning = {}) {
    const impl::FieldArgs args[] = {impl::field_args(t), impl::field_args(q)};
    void* const addresses[]      = {const_cast<void*>(static_cast<const void*>(t.origin())),
                                    const_cast<void*>(static_cast<const void*>(q.origin()))};
    return DevicePlan::make_exchange(args, 2, tuning, {addresses, addresses});
  }
  StartedExchange start(DevicePlan& plan, Direction direction, const PlayedSpace& space = {}) {
    return start_for(plan, direction, t_, q_, space);
  }
  static StartedExchange start_for(DevicePlan& plan, Direction direction, const Plane& t,
                                   const Lines& q, const PlayedSpace& space = {}) {
    void* const addresses[] = {const_cast<void*>(static_cast<const void*>(t.origin())),
                               const_cast<void*>(static_cast<const void*>(q.origin()))};
    return plan.start(space, {addresses, addresses}, direction);
  }

  void randomise_both() {
    randomise(t_.view(), dice_);
    randomise(q_.view(), dice_);
    Kokkos::deep_copy(host_t_.view(), t_.view());
    Kokkos::deep_copy(host_q_.view(), q_.view());
  }
  void expect_same(const std::string& what) {
    EXPECT_EQ(std::memcmp(t_.view().data(), host_t_.view().data(), t_.view().span() * 8), 0)
        << what;
    EXPECT_EQ(std::memcmp(q_.view().data(), host_q_.view().data(), q_.view().span() * 2), 0)
        << what;
  }

  /// Runs forward and transposed, several in flight too, against the host's plan: bit for bit.
  void expect_right(DevicePlan& plan, bool mpi_takes_device_memory) {
    for (int round = 0; round < 3; ++round)
      for (const Direction direction : {Direction::forward, Direction::adjoint}) {
        randomise_both();
        if (direction == Direction::forward)
          exchange(PlayedSpace(), host_t_, host_q_);
        else
          exchange_adjoint(PlayedSpace(), host_t_, host_q_);
        {
          const DeviceScope scope(mpi_takes_device_memory);
          plan.finish(PlayedSpace(), start(plan, direction));
          EXPECT_EQ(scope.counts().host_writes, 0);
        }
        expect_same(direction == Direction::forward ? "forward" : "transposed");
      }
    // three started that share nothing: others' fields, finished in another order
    std::vector<Plane> ts;
    std::vector<Lines> qs;
    for (int i = 0; i < 3; ++i) {
      ts.push_back(t_.like("device t"));
      qs.push_back(q_.like("device q"));
      randomise(ts.back().view(), dice_);
      randomise(qs.back().view(), dice_);
    }
    {
      const DeviceScope scope(mpi_takes_device_memory);
      std::vector<StartedExchange> started;
      for (std::size_t i = 0; i < 3; ++i)
        started.push_back(start_for(plan, Direction::forward, ts[i], qs[i]));
      for (const std::size_t i : {1U, 2U, 0U}) plan.finish(PlayedSpace(), started[i]);
      EXPECT_EQ(scope.counts().host_writes, 0);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      Kokkos::deep_copy(t_.view(), ts[i].view());
      Kokkos::deep_copy(q_.view(), qs[i].view());
      Kokkos::deep_copy(host_t_.view(), ts[i].view());
      Kokkos::deep_copy(host_q_.view(), qs[i].view());
      exchange(PlayedSpace(), host_t_, host_q_);
      expect_same("started " + std::to_string(i));
    }
  }

  Mesh<Y, X> mesh_{MPI_COMM_WORLD, {0, 0}};
  Plane t_{"device t", mesh_, {17, 13}}, host_t_{"host t", mesh_, {17, 13}};
  Lines q_{"device q", mesh_, {13, 3}}, host_q_{"host q", mesh_, {13, 3}};
  std::mt19937 dice_;
};

TEST_F(Device, TheMemoryIsPlayed) {
  EXPECT_TRUE(shard::testing::in_device_memory(t_.view().data()));
  EXPECT_FALSE(shard::testing::in_device_memory(host_t_.view().data()));
  double* const first = t_.view().data();
  *first              = 5;
  const DeviceScope scope;
  EXPECT_NE(*first, 5) << "the host reads junk";
  *first = 7;
  Kokkos::deep_copy(PlayedSpace(), host_t_.view(), t_.view());
  EXPECT_EQ(*host_t_.view().data(), 5) << "what the host writes is lost";
  EXPECT_EQ(scope.counts().host_writes, 1) << "and noticed";
}

// T13: an MPI that doesn't say that it takes device memory gets none. One line of the log.
TEST_F(Device, T13_StagedWhereMpiDoesNotSayThatItTakesDeviceMemory) {
  const ScopedVariable unset("SHARD_GPU_AWARE", "");
  if (impl::judge_device_messages(
          impl::DeviceKind::cuda,
          impl::device_hints(mesh_.communicator(), impl::DeviceKind::cuda, std::nullopt))
          .direct)
    GTEST_SKIP() << "this MPI takes device memory";
  ::testing::internal::CaptureStderr();
  const auto plan       = make();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto made       = made_requests();
  EXPECT_EQ(made.in_device_memory, 0);
  EXPECT_EQ(made.in_host_memory, 2 * (plan->sends() + plan->receives()));
  EXPECT_EQ(made.strided, 0) << "T14";
  expect_right(*plan, false);
  ::testing::internal::CaptureStderr();
  make();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  if (mesh_.rank() == 0 && ranks() > 1)
    expect_parts(log, {"shard: messages of device memory are staged through host memory: "});
  else
    EXPECT_EQ(log, "");
}

// T14: contiguous buffers, whatever is cut.
TEST_F(Device, T14_DirectWhereMpiTakesDeviceMemory) {
  const ScopedVariable aware("SHARD_GPU_AWARE", "1");
  const auto plan = make();
  const auto made = made_requests();
  EXPECT_EQ(made.in_device_memory, 2 * (plan->sends() + plan->receives()));
  EXPECT_EQ(made.in_host_memory, 0);
  EXPECT_EQ(made.strided, 0) << "T14";
  expect_right(*plan, true);
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const auto other = make();
  expect_right(*other, true);
  const DeviceScope scope(true);
  other->finish(PlayedSpace(), start(*other, Direction::forward));
  const auto& fences = scope.counts().fence_names;
  EXPECT_EQ(std::count(fences.begin(), fences.end(), "shard: messages are packed"),
            ranks() > 1 ? 1 : 0)
      << "MPI reads what kernels wrote";
}

TEST_F(Device, AnOptionComesBeforeTheEnvironment) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  for (const bool takes : {false, true}) {
    const ScopedVariable aware("SHARD_GPU_AWARE", takes ? "0" : "1");
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    const Plane t("device t", mesh, {17, 13});
    const Lines q("device q", mesh, {13, 3});
    made_requests();
    const auto told = make_for(t, q, {.mpi_takes_device_memory = takes});
    EXPECT_EQ(made_requests().in_device_memory, takes ? 2 * (told->sends() + told->receives()) : 0);
    const auto other = make_for(t, q);  // its own decision, which the option didn't touch
    EXPECT_EQ(made_requests().in_device_memory,
              takes ? 0 : 2 * (other->sends() + other->receives()));
  }
}

TEST_F(Device, OneRankThatSaysNoIsEnough) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  const ScopedVariable aware("SHARD_GPU_AWARE", mesh_.rank() == ranks() - 1 ? "0" : "1");
  const auto plan = make();
  EXPECT_EQ(made_requests().in_device_memory, 0);
  expect_right(*plan, false);
}

TEST_F(Device, ByNcclWhereItCanBeHad) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  played_nccl().built_in = true;
  const auto plan        = make();
  make({.transport = TransportKind::nccl});
  EXPECT_EQ(played_nccl().made, ranks() > 1 ? 1 : 0) << "one for a mesh";
  EXPECT_EQ(made_requests().in_device_memory + made_requests().in_host_memory, 0);
  expect_right(*plan, false);
  for (const Direction direction : {Direction::forward, Direction::adjoint}) {
    const DeviceScope scope;
    plan->finish(PlayedSpace(), start(*plan, direction));
    EXPECT_EQ(scope.counts().messages, 0);
    EXPECT_EQ(scope.counts().nccl_runs, ranks() > 1 ? 1 : 0);
    // of one in the played device's deep_copy, where addresses changed, the plan knows nothing
    for (const std::string& name : scope.counts().fence_names)
      EXPECT_EQ(name.find("shard"), std::string::npos) << name;
  }
  const DeviceScope scope;
  plan->finish(PlayedSpace(), start(*plan, Direction::forward));
  EXPECT_EQ(scope.counts().fence_names.size(), 0U) << "the host waits for nothing";
  // asked for MPI it is MPI
  make({.transport = TransportKind::mpi, .mpi_takes_device_memory = false});
  EXPECT_EQ(made_requests().in_host_memory, 2 * (plan->sends() + plan->receives()));
}

TEST_F(Device, ByNcclWithChecks) {
  const ScopedVariable checked("SHARD_CHECK", "1");
  played_nccl().built_in = true;
  expect_right(*make(), false);
}

TEST_F(Device, ByMpiWhereNcclCannotBeHad) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  played_nccl().built_in = true;
  played_nccl().usable   = false;
  ::testing::internal::CaptureStderr();
  const auto plan = make();
  make();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(played_nccl().made, 1) << "tried once";
  EXPECT_GT(made_requests().in_host_memory, 0);
  expect_right(*plan, false);
  if (mesh_.rank() == 0)
    expect_parts(log, {"shard: messages of device memory go by MPI: shard::NcclGroup: rank 0"});
}

TEST_F(Device, NcclThatIsNotBuiltInIsTriedOnlyWhereItIsAskedFor) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  make();
  EXPECT_EQ(played_nccl().made, 0);
  make({.transport = TransportKind::nccl});
  EXPECT_EQ(played_nccl().made, 1);
}

TEST_F(Device, TheEnvironmentStandsInForAutomatic) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  played_nccl().built_in = true;
  {
    const ScopedVariable mpi("SHARD_TRANSPORT", "mpi");
    make();
    EXPECT_EQ(played_nccl().made, 0);
  }
  const ScopedVariable nccl("SHARD_TRANSPORT", "nccl");
  made_requests();
  make();
  EXPECT_EQ(made_requests().in_host_memory, 0);
  const Exchange host(host_t_, host_q_);  // which it can't serve
  host(PlayedSpace());
}

// What doesn't make a plan of exchanges asks for the group itself: redistributions, norms.
TEST_F(Device, TheEnvironmentKeepsEveryCallerFromNccl) {
  played_nccl().built_in = true;
  auto& mesh             = *mesh_.state();
  {
    const ScopedVariable mpi("SHARD_TRANSPORT", mesh_.rank() == ranks() - 1 ? "mpi" : "");
    EXPECT_EQ(impl::nccl_group_of(mesh), nullptr) << "the ranks agree";
    EXPECT_EQ(played_nccl().made, 0);
  }
  EXPECT_NE(impl::nccl_group_of(mesh, true), nullptr) << "the options of a plan ask for it";
  EXPECT_EQ(impl::nccl_group_of(mesh), nullptr);
  EXPECT_EQ(impl::made_nccl_group_of(mesh), nullptr);
}

TEST_F(Device, EachTransportThatCanBeHadIsMeasured) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  for (const bool nccl : {false, true}) {
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    const Plane t("device t", mesh, {17, 13});
    const Lines q("device q", mesh, {13, 3});
    const ScopedVariable any("SHARD_TRANSPORT", "");
    played_nccl().built_in = nccl;
    const auto plan        = make_for(t, q, Tuning::measure);
    const auto report      = plan->report();
    for (const std::string layout :
         {"one_per_peer", "one_per_field", "by_size", "one_per_box", "by_dimension"}) {
      expect_parts(report, {(" us  transport=automatic messages=" + layout).c_str()});
      EXPECT_EQ(report.find(" us  transport=mpi messages=" + layout) != std::string::npos, nccl)
          << report;
    }
  }
  {
    const ScopedVariable mpi("SHARD_TRANSPORT", "mpi");
    const auto report = make(Tuning::measure)->report();
    EXPECT_EQ(report.find("automatic"), std::string::npos) << report;
  }
  Tuning odd = {.messages = MessageLayout::one_per_box};
  for (const auto takes : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    odd.mpi_takes_device_memory = takes;
    EXPECT_EQ(tuning_from_text(to_text(odd)).mpi_takes_device_memory, takes);
  }
  played_nccl().built_in = true;
  for (const TransportKind kind : {TransportKind::mpi, TransportKind::nccl})
    for (const MessageLayout layout : {MessageLayout::one_per_field, MessageLayout::by_size,
                                       MessageLayout::one_per_box, MessageLayout::by_dimension})
      expect_right(*make({.transport = kind, .messages = layout}), false);
}

TEST_F(Device, NcclForFieldsOfTheHostIsRefusedOnEveryRank) {
  played_nccl().built_in = true;
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Exchange halos(Tuning{.transport = TransportKind::nccl}, host_t_);
               }),
               {"shard::Exchange", "NCCL", "\"host t\"", "host memory"});
}

TEST_F(Device, NcclEndsWhereTheMeshGivesBackWhatNobodyUses) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  played_nccl().built_in = true;
  auto plan              = make();
  mesh_.release();
  EXPECT_EQ(played_nccl().ended, 0) << "a plan uses it";
  plan.reset();
  EXPECT_EQ(played_nccl().ended, 0) << "ranks drop their plans when they like";
  mesh_.release();
  EXPECT_EQ(played_nccl().ended, 1);
  plan = make();
  EXPECT_EQ(played_nccl().made, 2);
  expect_right(*plan, false);
}

// T7, T8: the kernels of an instance that used a set of buffers last end before another's begin.
TEST_F(Device, T7_T8_BuffersChangeHandsInOrder) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  played_nccl().built_in        = true;
  const auto plan               = make();
  const PlayedSpace instances[] = {another<PlayedSpace>(), another<PlayedSpace>()};
  const auto handed             = [&](const PlayedSpace& space) {
    const DeviceScope scope;
    plan->finish(space, start(*plan, Direction::forward, space));
    const auto& names = scope.counts().fence_names;
    return std::count(names.begin(), names.end(), "shard: buffers change hands");
  };
  EXPECT_EQ(handed(instances[0]), 0);
  EXPECT_EQ(handed(instances[0]), 0);
  EXPECT_EQ(handed(instances[1]), 1);
  EXPECT_EQ(handed(instances[1]), 0);
  EXPECT_EQ(handed(instances[0]), 1);
}

TEST_F(Device, APlanWithAnMpiPartCannotBeCaptured) {
  if (ranks() == 1) GTEST_SKIP() << "no messages";
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const auto plan = make();
  plan->finish(PlayedSpace(), start(*plan, Direction::forward));
  {
    capturing() = true;
    const DeviceScope scope;
    expect_parts(message_thrown_by<Error>([&] { start(*plan, Direction::forward); }),
                 {"shard::Exchange: rank ", "\"device t\"", "can't be captured", "MPI"});
    EXPECT_EQ(scope.counts().messages, 0);
    capturing() = false;
  }
  expect_right(*plan, false);
}

TEST_F(Device, StreamOrderedPlansAreCapturedOnceAllIsInPlace) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  played_nccl().built_in = true;
  const auto plan        = make();
  const Plane other      = t_.like("device other");
  const auto refused     = [&](const Plane& t) {
    expect_parts(message_thrown_by<Error>([&] { start_for(*plan, Direction::forward, t, q_); }),
                     {"can't be captured", "run it once before"});
  };
  capturing() = true;
  refused(t_);
  capturing() = false;
  plan->finish(PlayedSpace(), start(*plan, Direction::forward));
  capturing() = true;
  int set     = -1;
  for (const Plane& t : {t_, other, t_}) {  // a short address table is in the kernel's arguments
    const StartedExchange started = start_for(*plan, Direction::forward, t, q_);
    EXPECT_TRUE(set < 0 || set == started.set);
    set = started.set;
    plan->finish(PlayedSpace(), started);
  }
  capturing() = false;
  // the graph's buffers are the graph's own from here
  const StartedExchange started = start_for(*plan, Direction::forward, other, q_);
  EXPECT_NE(started.set, set);
  plan->finish(PlayedSpace(), started);
  expect_right(*plan, false);
  capturing() = true;
  EXPECT_EQ(start(*plan, Direction::adjoint).set, set);
}

TEST_F(Device, PlansOfManyFieldsAreCapturedForTheFieldsOfTheLastRun) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  played_nccl().built_in = true;
  std::vector<Plane> fields;
  std::vector<impl::FieldArgs> args;
  std::vector<void*> addresses;
  for (int f = 0; f < 7; ++f) {
    fields.push_back(t_.like("device " + std::to_string(f)));
    addresses.push_back(const_cast<void*>(static_cast<const void*>(fields.back().origin())));
  }
  for (const Plane& field : fields) args.push_back(impl::field_args(field));
  std::vector<void*> others = addresses;
  std::swap(others[0], others[1]);
  const auto plan =
      DevicePlan::make_exchange(args.data(), 7, {}, {addresses.data(), addresses.data()});
  const auto run = [&](const std::vector<void*>& of) {
    plan->finish(PlayedSpace(),
                 plan->start(PlayedSpace(), {of.data(), of.data()}, Direction::forward));
  };
  run(addresses);
  capturing() = true;
  expect_parts(message_thrown_by<Error>([&] { run(others); }),
               {"can't be captured", "only for the fields of that exchange"});
  run(addresses);
}

TEST_F(Device, ChecksCannotBeCaptured) {
  const ScopedVariable checked("SHARD_CHECK", "1");
  played_nccl().built_in = true;
  const auto plan        = make();
  plan->finish(PlayedSpace(), start(*plan, Direction::forward));
  capturing() = true;
  expect_parts(message_thrown_by<Error>([&] { start(*plan, Direction::forward); }),
               {"can't be captured", "SHARD_CHECK"});
}

// Many equal boxes at different places are one job: of an index space, where a rank reads every
// second element of the next one.
TEST_F(Device, ListsOfPlaces) {
  using Points =
      ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, X, Indices<Y>>, Kokkos::HostSpace>;
  const Mesh<X> line(MPI_COMM_WORLD, {0});
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(40 * line.rank() + i);
  for (int i = 0; i < 20; ++i) ids.push_back(40 * ((line.rank() + 1) % ranks()) + 2 * i);
  const IndexSpace<Y, X> points(line, by_global_ids(ids, 40));
  for (const index_t levels : {1, 3}) {
    const Points there("device points", line, {points, Partition::whole(levels)}),
        here("points", line, {points, Partition::whole(levels)});
    randomise(here.view(), dice_);
    Kokkos::deep_copy(there.view(), here.view());
    const impl::FieldArgs args[] = {impl::field_args(there)};
    void* const addresses[]      = {const_cast<void*>(static_cast<const void*>(there.origin()))};
    const auto plan              = DevicePlan::make_exchange(args, 1, {}, {addresses, addresses});
    for (const Direction direction : {Direction::forward, Direction::adjoint}) {
      direction == Direction::forward ? exchange(PlayedSpace(), here)
                                      : exchange_adjoint(PlayedSpace(), here);
      {
        const DeviceScope scope(false);
        plan->finish(PlayedSpace(), plan->start(PlayedSpace(), {addresses, addresses}, direction));
      }
      EXPECT_EQ(std::memcmp(there.view().data(), here.view().data(), here.view().span() * 8), 0)
          << levels << " levels";
    }
  }
}

}  // namespace
