// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that runs alone, as one of imagined ranks, gives MPI what it gives it among all ranks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "../hosts/workloads.hpp"
#include "shard/mesh/mesh.hpp"
#include "support/imagined_ranks.hpp"

namespace {

using imagined::Part;

std::vector<Part> recorded(const workloads::Run& run) {
  run.step(), run.step();  // plans are made
  imagined::start_recording();
  run.step();
  return imagined::stop_recording();
}

/// The bytes of a part's messages to each rank. Imagined ranks are on hosts of their own, and long
/// messages to other hosts go in parts.
std::map<int, double> bytes_of(const Part& part) {
  std::map<int, double> bytes;
  for (const imagined::Message& m : part.sends) bytes[m.peer] += m.bytes;
  return bytes;
}

void expect_same(workloads::Run (*make)(MPI_Comm, int), std::size_t least_messages) {
  setenv("SHARD_TRANSPORT", "mpi", 1);  // shared memory isn't recorded
  setenv("SHARD_CHECK", "0", 1);        // which compares messages that imagined ranks don't get
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto among_all = recorded(make(MPI_COMM_WORLD, ranks));
  imagined::begin(ranks, rank, workloads::shape_of(ranks));
  const auto alone = recorded(make(MPI_COMM_SELF, ranks));
  imagined::end();
  std::size_t messages = 0;
  ASSERT_EQ(alone.size(), among_all.size());
  for (std::size_t p = 0; p < alone.size(); ++p) {
    const Part &a = alone[p], &b = among_all[p];
    EXPECT_EQ(a.kind, b.kind) << "part " << p;
    EXPECT_EQ(bytes_of(a), bytes_of(b)) << "part " << p;
    EXPECT_EQ(a.bytes, b.bytes) << "part " << p;
    EXPECT_EQ(a.ranks, b.ranks) << "part " << p;
    messages += a.sends.size();
    for (const imagined::Message& m : a.sends) {
      EXPECT_NE(m.peer, rank);
      EXPECT_LT(m.peer, ranks);
    }
  }
  EXPECT_GE(messages, least_messages);
}

TEST(ImaginedRanks, ExchangeHalosLikeRealOnes) { expect_same(workloads::exchange, 1); }
TEST(ImaginedRanks, TransposeLikeRealOnes) { expect_same(workloads::transposes, 2); }
TEST(ImaginedRanks, SolveLikeRealOnes) { expect_same(workloads::multigrid, 20); }

struct Y;
struct X;

TEST(ImaginedRanks, HaveTheAxesOfTheirMesh) {
  imagined::begin(6, 5, {2, 3});
  {
    const shard::Mesh<Y, X> mesh(MPI_COMM_SELF, {2, 3});
    const auto size_and_rank = [](MPI_Comm comm) {
      int size = 0, rank = 0;
      MPI_Comm_size(comm, &size);
      MPI_Comm_rank(comm, &rank);
      return std::pair(size, rank);
    };
    EXPECT_EQ(size_and_rank(mesh.communicator<Y>()), std::pair(2, 1));
    EXPECT_EQ(size_and_rank(mesh.communicator<X>()), std::pair(3, 2));
    imagined::start_recording();
    const double value = 1;
    for (const MPI_Comm comm : {mesh.communicator<Y>(), mesh.communicator<X>()}) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(&value, 1, MPI_DOUBLE, 0, 1, comm, &request);
      MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    }
    double all[3] = {};
    MPI_Allgather(&value, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, mesh.communicator<X>());
    const auto parts = imagined::stop_recording();
    ASSERT_EQ(parts.size(), 4U);
    EXPECT_EQ(parts[0].sends.at(0).peer, 2);  // of 5 the other row, then the first of its own
    EXPECT_EQ(parts[1].sends.at(0).peer, 3);
    EXPECT_EQ(parts[1].sends.at(0).bytes, 8);
    EXPECT_EQ(parts[2].kind, imagined::Kind::gather);
    EXPECT_EQ(parts[2].ranks, 3);
    EXPECT_EQ(all[0] + all[1] + all[2], 3);
  }
  imagined::end();
}

}  // namespace
