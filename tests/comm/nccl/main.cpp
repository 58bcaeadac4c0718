// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every rank runs every test, rank 0 prints; a failure on any rank fails the program.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>

namespace {

/// What fails on another rank than the first, where and when it does.
class OtherRank : public testing::EmptyTestEventListener {
 public:
  explicit OtherRank(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (part.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_,
                   part.file_name() == nullptr ? "?" : part.file_name(), part.line_number(),
                   part.message());
  }

  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OtherRank(rank));  // owned by GoogleTest
  }
  int here = RUN_ALL_TESTS(), all = 0;
  MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return all;
}
