// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL's transport over a library that isn't NCCL: what it sends, and what it makes of errors.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/conformance.hpp"
#include "fake.hpp"
#include "nccl_network.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using impl::NcclGroup;
using impl::NcclTransport;
using impl::PlacedBytes;
using impl::Stream;

struct FakeFactory : HostFactory {
  static constexpr bool stream_ordered = true;
  static constexpr bool needs_group    = true;
  static constexpr bool honours_tags   = false;
  static std::string unusable(MPI_Comm) { return {}; }

  struct Held {
    Held(NcclGroup& group, const std::vector<Message>& sends, const std::vector<Message>& receives)
        : out(total(sends)),
          in(total(receives)),
          made(group, sends, out.data(), receives, in.data()) {}
    ~Held() { fake::synchronise(); }
    Held(const Held&)            = delete;
    Held& operator=(const Held&) = delete;
    static std::size_t total(const std::vector<Message>& messages) {
      std::size_t bytes = 0;
      for (const Message& m : messages) bytes += m.bytes;
      return bytes;
    }
    std::vector<std::byte> out, in;
    NcclTransport made;
    impl::Transport& transport() { return made; }
  };

  explicit FakeFactory(MPI_Comm comm) : group_(comm) {}
  std::unique_ptr<Held> make(int, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    return std::make_unique<Held>(group_, sends, receives);
  }
  // after what is on the stream
  void write(std::byte* to, const std::vector<std::byte>& from) {
    fake::synchronise();
    HostFactory::write(to, from);
  }
  void read(std::vector<std::byte>& to, const std::byte* from) {
    fake::synchronise();
    HostFactory::read(to, from);
  }

 private:
  NcclGroup group_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(FakeNccl, TransportConformance, FakeFactory);

/// Each test begins with a library that works.
class NcclGroupTest : public ::testing::Test {
 protected:
  void SetUp() override { fake::state() = {}; }
  void TearDown() override {
    EXPECT_EQ(fake::state().living, 0);
    EXPECT_EQ(fake::state().depth, 0);
    fake::state() = {};
    MPI_Barrier(MPI_COMM_WORLD);
  }
};

std::string make_and_fail() {
  return message_thrown_by<NcclError>([] { const NcclGroup group(MPI_COMM_WORLD); });
}

TEST_F(NcclGroupTest, WhatFailsOnOneRankIsThrownOnAll) {
  for (const std::string function : {"cudaGetDevice", "ncclGetUniqueId", "ncclCommInitRank"}) {
    for (int guilty = 0; guilty < (function == "ncclGetUniqueId" ? 1 : ranks()); ++guilty) {
      fake::state() = {};
      if (rank() == guilty) fake::state().fails = function;
      const std::string who     = "rank " + std::to_string(guilty) + ": ";
      const std::string message = make_and_fail();
      expect_parts(message, {"shard::NcclGroup: ", who.c_str()});
      if (function == "cudaGetDevice")
        expect_parts(message, {"no device for NCCL: the fake runtime's words"});
      else
        expect_parts(message, {function.c_str(), "the fake library's words", "its last error"});
      EXPECT_EQ(fake::state().living, 0) << function;  // aborted where it had been made
      EXPECT_EQ(fake::state().destroyed, 0);
    }
  }
}

TEST_F(NcclGroupTest, OneGpuForTwoRanksIsRefusedOnAll) {
  if (ranks() < 2) GTEST_SKIP() << "needs two ranks";
  if (rank() == 0 || rank() == ranks() - 1) fake::state().bus = "0000:17:00.0";
  const std::string other = "is rank " + std::to_string(ranks() - 1) + "'s too";
  expect_parts(make_and_fail(), {"rank 0: its GPU, 0000:17:00.0 of node ", other.c_str()});
}

TEST_F(NcclGroupTest, EveryCodeIsChecked) {
  for (const std::string function :
       {"ncclGroupStart", "ncclRecv", "ncclSend", "ncclGroupEnd", "ncclCommGetAsyncError"}) {
    fake::state() = {};
    {
      NcclGroup group(MPI_COMM_WORLD);
      std::vector<std::byte> from(64), to(64);
      const std::vector<PlacedBytes> out = {{rank(), from.data(), 64}},
                                     in  = {{rank(), to.data(), 64}};
      fake::state().fails                = function;
      expect_parts(message_thrown_by<NcclError>([&] { group.run(out, in, Stream{}); }),
                   {function.c_str(), "the fake library's words: and its last error", "aborted"});
      EXPECT_EQ(fake::state().depth, 0) << function;
      EXPECT_EQ(fake::state().aborted, 1) << function;
      // Nothing is asked of it after that.
      fake::state().fails.clear();
      expect_parts(message_thrown_by<NcclError>([&] { group.run(out, in, Stream{}); }),
                   {"aborted after an earlier error"});
      expect_parts(message_thrown_by<NcclError>([&] { group.poll(); }), {"aborted after"});
    }
    EXPECT_EQ(fake::state().aborted, 1) << function;
    EXPECT_EQ(fake::state().destroyed, 0) << function;
  }
}

TEST_F(NcclGroupTest, ErrorsInTheBackgroundAreFoundAtStartAndAtRelease) {
  for (const bool at_start : {true, false}) {
    fake::state() = {};
    NcclGroup group(MPI_COMM_WORLD);
    NcclTransport transport(group, {}, nullptr, {}, nullptr);
    transport.post_receives(1);
    if (!at_start) transport.send_all(Stream{});
    fake::state().background = true;
    expect_parts(message_thrown_by<NcclError>([&] {
                   if (at_start)
                     transport.send_all(Stream{});
                   else
                     transport.release();
                 }),
                 {"in the background", "the fake library's words"});
    EXPECT_EQ(fake::state().aborted, 1);
  }
}

TEST_F(NcclGroupTest, IsDestroyedWhenAllIsWellAndAbortedWhenNot) {
  { const NcclGroup group(MPI_COMM_WORLD); }
  EXPECT_EQ(fake::state().destroyed, 1);
  EXPECT_EQ(fake::state().aborted, 0);
  try {
    const NcclGroup group(MPI_COMM_WORLD);
    throw std::runtime_error("unwinds through the group");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(fake::state().destroyed, 1);
  EXPECT_EQ(fake::state().aborted, 1);
}

TEST_F(NcclGroupTest, OneRunIsOneGroupOnTheGivenStream) {
  NcclGroup group(MPI_COMM_WORLD);
  int mark = 0;
  std::vector<std::byte> from(96), to(96);
  // Two ranks round a ring: the same peer left and right has one message, as a plan has it (T1).
  std::vector<Message> both = {{(rank() + 1) % ranks(), 48}};
  if (ranks() > 2) both.push_back({(rank() + ranks() - 1) % ranks(), 48});
  NcclTransport transport(group, both, from.data(), both, to.data());
  EXPECT_EQ(transport.outgoing(0), from.data());
  if (both.size() > 1) {
    EXPECT_EQ(transport.incoming(1), to.data() + 48);
  }
  transport.post_receives(1);
  EXPECT_EQ(fake::state().groups, 0);
  transport.send_all(Stream{&mark});
  transport.wait(Stream{&mark});
  transport.release();
  fake::synchronise();
  EXPECT_EQ(fake::state().groups, 1);
  EXPECT_EQ(fake::state().sends, static_cast<int>(both.size()));
  EXPECT_EQ(fake::state().receives, static_cast<int>(both.size()));
  EXPECT_EQ(fake::state().stream, &mark);
  // A rank that has nothing to send or receive starts no group.
  NcclTransport nothing(group, {}, nullptr, {}, nullptr);
  nothing.post_receives(1);
  nothing.send_all(Stream{});
  EXPECT_EQ(fake::state().groups, 1);
}

TEST_F(NcclGroupTest, TheNetworkIsThatOfTheLog) {
  fake::state().fails = "cudaGetDevice";
  expect_parts(message_thrown_by<NcclError>([] { tools::nccl_network(MPI_COMM_WORLD); }),
               {"no device for NCCL"});
  fake::state().fails.clear();
  EXPECT_EQ(tools::nccl_network(MPI_COMM_WORLD), rank() == 0 ? "Fake Fabric" : "");
  for (const char* variable : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
    unsetenv(variable);
}

TEST_F(NcclGroupTest, TheVersionIsTheLibrarys) {
  EXPECT_EQ(impl::nccl_version(), "NCCL 2.99.1");
  fake::state().fails = "ncclGetVersion";
  expect_parts(message_thrown_by<NcclError>([] { (void)impl::nccl_version(); }),
               {"ncclGetVersion failed: the fake library's words"});
}

}  // namespace
}  // namespace shard::testing
