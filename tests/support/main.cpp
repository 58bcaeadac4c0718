// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The main of the test programs: every rank runs every test, rank 0 prints, and a failure on any
// rank is printed with its rank and fails the whole program.

#include "support/support.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

/// Prints a failure where and when it happens, for a rank that leaves a test early may hang the
/// others; and after each test tells rank 0 which ranks failed.
class RankListener : public testing::EmptyTestEventListener {
 public:
  explicit RankListener(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  int failed_tests() const { return failed_tests_; }

 private:
  void OnTestStart(const testing::TestInfo& test) override { current_ = &test; }

  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed() || rank_ == 0) return;  // rank 0 has GoogleTest's own printer
    // GoogleTest holds its lock here and can't be asked which test runs.
    std::fprintf(stderr, "[rank %d] %s.%s\n[rank %d] %s:%d: %s\n", rank_,
                 current_ == nullptr ? "" : current_->test_suite_name(),
                 current_ == nullptr ? "outside of a test" : current_->name(), rank_,
                 part.file_name() == nullptr ? "?" : part.file_name(), part.line_number(),
                 part.message());
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    current_   = nullptr;
    int failed = test.result()->Failed() ? 1 : 0;
    std::vector<int> on_rank(static_cast<std::size_t>(size_));
    MPI_Allgather(&failed, 1, MPI_INT, on_rank.data(), 1, MPI_INT, comm_);
    bool anywhere = false;
    for (int bit : on_rank) anywhere = anywhere || bit != 0;
    if (!anywhere) return;
    ++failed_tests_;
    if (rank_ != 0) return;
    std::printf("[  FAILED  ] %s.%s on rank", test.test_suite_name(), test.name());
    for (int r = 0; r < size_; ++r) {
      if (on_rank[static_cast<std::size_t>(r)] != 0) std::printf(" %d", r);
    }
    std::printf(" of %d\n", size_);
    std::fflush(stdout);
  }

  const testing::TestInfo* current_ = nullptr;
  MPI_Comm comm_;
  int rank_         = 0;
  int size_         = 1;
  int failed_tests_ = 0;
};

int run(MPI_Comm comm) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  auto* listener  = new RankListener(comm);  // owned by GoogleTest
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(listener);
  if (rank == 0) {
    std::printf("%d ranks x %d threads, SHARD_SEED=%llu\n", size,
                Kokkos::DefaultHostExecutionSpace().concurrency(),
                static_cast<unsigned long long>(shard::testing::seed()));
  } else {
    delete listeners.Release(listeners.default_result_printer());
    GTEST_FLAG_SET(output, "");
  }
  const int here = RUN_ALL_TESTS();
  // Also what fails outside of tests, in the set-up of a suite.
  const int mine = here != 0 || listener->failed_tests() > 0 ? 1 : 0;
  int all        = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, comm);
  if (rank == 0 && all != 0) {
    std::printf("FAILED: %d tests, counting those that failed on one rank only\n",
                listener->failed_tests());
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  setenv("SHARD_CHECK", "1", 0);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  testing::InitGoogleTest(&argc, argv);
  Kokkos::initialize(argc, argv);
  MPI_Comm comm = MPI_COMM_NULL;  // apart from the one under test
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int result = run(comm);
  MPI_Comm_free(&comm);
  Kokkos::finalize();
  MPI_Finalize();
  return result;
}
