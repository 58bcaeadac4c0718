// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/device_messages.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>

#include "shard/base/error.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using shard::ArgumentError;
using shard::impl::alloc_kinds_say;
using shard::impl::decide_device_messages;
using shard::impl::device_hints;
using shard::impl::DeviceHints;
using shard::impl::DeviceKind;
using shard::impl::DeviceMessages;
using shard::impl::judge_device_messages;
using namespace shard::testing;

constexpr std::optional<bool> silence;

/// The whole environment's say in this program: the variable as it was comes back at the end.
class GpuAware {
 public:
  explicit GpuAware(const char* value) {
    if (const char* before = std::getenv("SHARD_GPU_AWARE")) before_ = before;
    set(value);
  }
  ~GpuAware() { set(before_.has_value() ? before_->c_str() : nullptr); }
  GpuAware(const GpuAware&)            = delete;
  GpuAware& operator=(const GpuAware&) = delete;

 private:
  static void set(const char* value) {
    if (value == nullptr)
      unsetenv("SHARD_GPU_AWARE");
    else
      setenv("SHARD_GPU_AWARE", value, 1);
  }
  std::optional<std::string> before_;
};

TEST(DeviceMessages, AllocationKindsAreRead) {
  const auto cuda = DeviceKind::cuda, rocm = DeviceKind::rocm;
  EXPECT_EQ(alloc_kinds_say("mpi,system,cuda:device", cuda), true);
  EXPECT_EQ(alloc_kinds_say("mpi,system,cuda:device", rocm), silence);
  EXPECT_EQ(alloc_kinds_say("mpi,system,rocm:host:device", rocm), true);
  EXPECT_EQ(alloc_kinds_say("cuda", cuda), true);  // no restrictor: all its memory
  EXPECT_EQ(alloc_kinds_say(" system , cuda : managed : device ", cuda), true);
  EXPECT_EQ(alloc_kinds_say("system,cuda:host", cuda), false);
  EXPECT_EQ(alloc_kinds_say("cuda:host,cuda:device", cuda), true);  // one entry for each restrictor
  EXPECT_EQ(alloc_kinds_say("cuda:device,cuda:host", cuda), true);
  EXPECT_EQ(alloc_kinds_say("mpi,system", cuda), silence);
  EXPECT_EQ(alloc_kinds_say("", cuda), silence);
  EXPECT_EQ(alloc_kinds_say(",,:device", cuda), silence);
  EXPECT_EQ(alloc_kinds_say("cudax:device,xcuda", cuda), silence);  // a name is not its prefix
  EXPECT_EQ(alloc_kinds_say("cuda:devices", cuda), false);
  EXPECT_EQ(alloc_kinds_say("cuda,rocm,other", DeviceKind::other), silence);
}

TEST(DeviceMessages, WhatComesFirstIsBelieved) {
  DeviceHints hints;
  const auto expect = [&](bool direct, std::initializer_list<const char*> reason) {
    const DeviceMessages judged = judge_device_messages(DeviceKind::cuda, hints);
    EXPECT_EQ(judged.direct, direct) << judged.reason;
    expect_parts(judged.reason, reason);
    expect_parts(judged.reason, {direct ? "sent by MPI" : "staged through host memory"});
  };
  expect(false, {"doesn't report", "SHARD_GPU_AWARE=1"});

  hints.query      = true;
  hints.query_name = "MPIX_Query_cuda_support";
  expect(true, {"MPIX_Query_cuda_support says yes"});
  hints.query = false;
  expect(false, {"MPIX_Query_cuda_support says no"});

  hints.alloc_kinds = "mpi,system";  // says nothing of devices
  expect(false, {"MPIX_Query_cuda_support says no"});
  hints.alloc_kinds = "mpi,system,cuda:device";
  expect(true, {"mpi_memory_alloc_kinds", "mpi,system,cuda:device"});
  hints.alloc_kinds = "mpi,cuda:host";
  hints.query       = true;
  expect(false, {"mpi_memory_alloc_kinds", "mpi,cuda:host"});

  hints.environment = "";  // as if it weren't set
  expect(false, {"mpi_memory_alloc_kinds"});
  hints.environment = "1";
  expect(true, {"SHARD_GPU_AWARE=1"});
  hints.environment = "0";
  hints.alloc_kinds = "cuda";
  expect(false, {"SHARD_GPU_AWARE=0"});
  hints.environment = "yes";
  expect_parts(
      message_thrown_by<ArgumentError>([&] { judge_device_messages(DeviceKind::cuda, hints); }),
      {"SHARD_GPU_AWARE is \"yes\"", "set it to 1"});

  hints.option = true;
  expect(true, {"the caller"});
  hints.option = false;
  expect(false, {"the caller"});
}

// T13: an MPI that says nothing of the memory at hand is never given it.
TEST(DeviceMessages, T13SilenceMeansNo) {
  const GpuAware unset(nullptr);
  const DeviceMessages decided = decide_device_messages(MPI_COMM_WORLD, DeviceKind::other);
  EXPECT_FALSE(decided.direct);
  expect_parts(decided.reason, {"staged through host memory", "doesn't report"});
  const DeviceHints hints = device_hints(MPI_COMM_WORLD, DeviceKind::other, {});
  EXPECT_FALSE(hints.query.has_value());
  EXPECT_FALSE(hints.environment.has_value());
}

TEST(DeviceMessages, T13TheEnvironmentAndTheOptionReachTheDecision) {
  {
    const GpuAware yes("1");
    EXPECT_TRUE(decide_device_messages(MPI_COMM_WORLD, DeviceKind::other).direct);
    EXPECT_FALSE(decide_device_messages(MPI_COMM_WORLD, DeviceKind::other, false).direct);
  }
  const GpuAware no("0");
  EXPECT_FALSE(decide_device_messages(MPI_COMM_WORLD, DeviceKind::cuda).direct);
  EXPECT_TRUE(decide_device_messages(MPI_COMM_WORLD, DeviceKind::cuda, true).direct);
}

TEST(DeviceMessages, TheQueryThatTheBuildFoundIsAsked) {
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::rocm}) {
    const DeviceHints hints = device_hints(MPI_COMM_WORLD, kind, {});
    EXPECT_EQ(hints.query.has_value(), !hints.query_name.empty());
    if (hints.query.has_value()) expect_parts(hints.query_name, {"MPIX_", "support"});
#if defined(OPEN_MPI) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000)
    // Open MPI has had the query for CUDA since 2.0, MPICH since 4.0.
    EXPECT_TRUE(kind != DeviceKind::cuda || hints.query.has_value());
#endif
  }
}

TEST(DeviceMessages, TheCommunicatorsInfoIsRead) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "mpi,system,cuda:device");
  MPI_Comm_set_info(comm, info);
  MPI_Info_free(&info);
  const DeviceHints hints = device_hints(comm, DeviceKind::cuda, {});
  // An MPI may drop a key that it doesn't know, or refuse to have this one changed.
  if (hints.alloc_kinds == "mpi,system,cuda:device") {
    const GpuAware unset(nullptr);
    const DeviceMessages decided = decide_device_messages(comm, DeviceKind::cuda);
    EXPECT_TRUE(decided.direct);
    expect_parts(decided.reason, {"mpi_memory_alloc_kinds", "cuda:device"});
  } else if (hints.alloc_kinds.has_value()) {
    EXPECT_EQ(hints.alloc_kinds->find('\0'), std::string::npos);
  }
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 50000000
  EXPECT_TRUE(hints.alloc_kinds.has_value());  // "mpi,system" where nothing else was asked for
#endif
  if (rank() == 0)
    std::printf("mpi_memory_alloc_kinds after MPI_Comm_set_info: %s\n",
                hints.alloc_kinds.has_value() ? hints.alloc_kinds->c_str() : "(none)");
  MPI_Comm_free(&comm);
}

// One rank that can't is enough, and every rank knows which it was.
TEST(DeviceMessages, T13RanksThatDifferAreAllStaged) {
  for (int no = 0; no < ranks(); ++no) {
    DeviceHints hints;
    hints.environment            = rank() == no ? "0" : "1";
    const DeviceMessages decided = decide_device_messages(MPI_COMM_WORLD, DeviceKind::cuda, hints);
    EXPECT_FALSE(decided.direct);
    expect_parts(decided.reason, {"SHARD_GPU_AWARE=0"});
    if (ranks() > 1) {
      const std::string who = "on rank " + std::to_string(no);
      expect_parts(decided.reason, {who.c_str(), "other ranks"});
    } else {
      EXPECT_EQ(decided.reason.find("on rank"), std::string::npos);
    }
  }
}

// Each rank has its own reason; they are told the same one.
TEST(DeviceMessages, OneReasonForAllRanks) {
  for (const bool direct : {true, false}) {
    DeviceHints hints;
    if (rank() == 0)
      hints.environment = direct ? "1" : "0";
    else
      hints.option = direct;
    const DeviceMessages decided = decide_device_messages(MPI_COMM_WORLD, DeviceKind::rocm, hints);
    EXPECT_EQ(decided.direct, direct);
    expect_parts(decided.reason, {direct ? "SHARD_GPU_AWARE=1" : "SHARD_GPU_AWARE=0"});
    EXPECT_EQ(decided.reason.find("on rank"), std::string::npos);
  }
}

TEST(DeviceMessages, AWrongValueOnOneRankIsAnErrorOnAll) {
  DeviceHints hints;
  hints.environment     = rank() == ranks() - 1 ? "maybe" : "1";
  const std::string who = "rank " + std::to_string(ranks() - 1);
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { decide_device_messages(MPI_COMM_WORLD, DeviceKind::cuda, hints); }),
               {who.c_str(), "SHARD_GPU_AWARE is \"maybe\""});
}

TEST(DeviceMessages, RanksAlongAnAxisLogOnceForTheMesh) {
  DeviceHints hints;
  hints.query      = true;
  hints.query_name = "the query along an axis";
  testing::internal::CaptureStderr();
  decide_device_messages(MPI_COMM_SELF, DeviceKind::cuda, hints, MPI_COMM_WORLD);
  EXPECT_EQ(testing::internal::GetCapturedStderr().empty(), rank() != 0);
}

TEST(DeviceMessages, TheDecisionIsLoggedOnce) {
  DeviceHints hints;
  hints.query      = true;
  hints.query_name = "the query of this test";
  for (const bool first : {true, false}) {
    testing::internal::CaptureStderr();
    decide_device_messages(MPI_COMM_WORLD, DeviceKind::cuda, hints);
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_EQ(line, first && rank() == 0 ? "shard: messages of device memory are sent by MPI "
                                           "directly: the query of this test says yes\n"
                                         : "");
  }
}

}  // namespace
