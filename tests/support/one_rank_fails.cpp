// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meant to fail, on the last rank only: CTest looks for what the main prints of it.
#include <gtest/gtest.h>
#include <mpi.h>

namespace {

TEST(OneRank, Fails) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_NE(rank, size - 1);
}

TEST(OneRank, LaterTestsStillRun) { SUCCEED(); }

}  // namespace
