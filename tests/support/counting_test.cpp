// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/counting.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace {

using namespace shard::testing;

struct FillKernel {
  Kokkos::View<int*> to;
  KOKKOS_FUNCTION void operator()(int i) const { to(i) = i; }
};

TEST(Counting, NothingIsNothing) {
  const Counts counted = count([] {});
  EXPECT_EQ(counted.messages + counted.receives + counted.collectives + counted.kernels +
                counted.fences + counted.allocations + counted.deallocations + counted.news,
            0)
      << counted;
}

TEST(Counting, MessagesOnceOrPersistent) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  double out[3] = {1, 2, 3}, in[3] = {};
  MPI_Request requests[2];
  MPI_Recv_init(in, 3, MPI_DOUBLE, last, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(out, 3, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, &requests[1]);
  const Counts counted = count([&] {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(out, 2, MPI_DOUBLE, next, 1, in, 2, MPI_DOUBLE, last, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  });
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  EXPECT_EQ(counted.messages, 2) << counted;
  EXPECT_EQ(counted.bytes, 40) << counted;
  EXPECT_EQ(counted.receives, 2) << counted;
  EXPECT_EQ(counted.collectives, 1) << counted;
  EXPECT_EQ(counted.requests, 0) << counted;
  EXPECT_EQ(counted.peers, (std::vector<int>{next, next}));
}

TEST(Counting, RequestsOfOneMessageAndCommunicators) {
  const Counts counted = count([] {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    double out = 1, in = 0;
    MPI_Request requests[2];
    MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 7, comm, &requests[0]);
    MPI_Isend(&out, 1, MPI_DOUBLE, 0, 7, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&comm);
  });
  EXPECT_EQ(counted.passing, 2) << counted;
  EXPECT_EQ(counted.requests, 0) << counted;
  EXPECT_EQ(counted.communicators, 1) << counted;
}

TEST(Counting, KernelsFencesAndAllocations) {
  const Kokkos::DefaultExecutionSpace space;
  const Counts counted = count([&] {
    const Kokkos::View<int*> view("counted", 5);
    Kokkos::parallel_for("fill", Kokkos::RangePolicy<>(space, 0, 5), FillKernel{view});
    space.fence("mine");
  });
  EXPECT_EQ(counted.allocations, 1) << counted;
  EXPECT_EQ(counted.deallocations, 1) << counted;
  EXPECT_GE(counted.peak_bytes, 20) << counted;
  EXPECT_EQ(counted.peak_bytes, counted.allocated_bytes) << counted;
  ASSERT_GE(counted.kernels, 1) << counted;
  EXPECT_EQ(counted.kernel_names.back(), "fill") << counted;
  const auto& fences = counted.fence_names;  // the View's beginning and end may fence too
  EXPECT_EQ(std::count(fences.begin(), fences.end(), "mine"), 1) << counted;
}

std::unique_ptr<int> kept_int;  // out of the optimiser's sight, which may leave out an allocation
std::vector<double> kept_vector;

TEST(Counting, OperatorNew) {
  for (const auto tools : {KokkosTools::on, KokkosTools::off}) {
    const Counts counted = count(
        [] {
          kept_int    = std::make_unique<int>(1);
          kept_vector = std::vector<double>(100);
        },
        tools);
    EXPECT_EQ(counted.news, 2) << counted;
    EXPECT_EQ(counted.new_bytes, 804) << counted;
  }
}

TEST(Counting, NoToolLooksOnUnlessAskedFor) {
  for (const auto tools : {KokkosTools::on, KokkosTools::off}) {
    bool seen            = false;
    const Counts counted = count(
        [&] {
          seen = Kokkos::Profiling::profileLibraryLoaded();
          MPI_Barrier(MPI_COMM_WORLD);
        },
        tools);
    EXPECT_EQ(seen, tools == KokkosTools::on);
    EXPECT_EQ(counted.collectives, 1) << counted;
  }
}

}  // namespace
