// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/log.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>

namespace {

using shard::impl::log_once;

/// What `function` writes to stderr on this rank.
template <class Function>
std::string written_by(const Function& function) {
  testing::internal::CaptureStderr();
  function();
  return testing::internal::GetCapturedStderr();
}

int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

TEST(Log, WritesAMessageOnceAndOnTheFirstRankOnly) {
  const auto twice = [] {
    log_once(MPI_COMM_WORLD, "a choice was made");
    log_once(MPI_COMM_WORLD, "a choice was made");
  };
  EXPECT_EQ(written_by(twice), rank() == 0 ? "shard: a choice was made\n" : "");
  EXPECT_EQ(written_by(twice), "");
  EXPECT_EQ(written_by([] { log_once(MPI_COMM_WORLD, "another choice"); }),
            rank() == 0 ? "shard: another choice\n" : "");
}

TEST(Log, IsSilencedByTheEnvironment) {
  setenv("SHARD_LOG", "0", 1);
  EXPECT_EQ(written_by([] { log_once(MPI_COMM_WORLD, "not to be seen yet"); }), "");
  setenv("SHARD_LOG", "1", 1);
  EXPECT_EQ(written_by([] { log_once(MPI_COMM_WORLD, "not to be seen yet"); }),
            rank() == 0 ? "shard: not to be seen yet\n" : "");
  unsetenv("SHARD_LOG");
}

}  // namespace
