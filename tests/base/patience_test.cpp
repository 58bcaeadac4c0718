// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/patience.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>

#include "support/support.hpp"

namespace shard::testing {
namespace {

using impl::await_requests;
using impl::Patience;

int spins_of(Patience patience) {
  int spins = 0;
  for (; !patience.has_spun(); ++spins) patience.turn();
  EXPECT_FALSE(patience.has_slept());
  patience.turn();  // whatever follows doesn't spin
  EXPECT_TRUE(patience.has_spun());
  return spins;
}

TEST(Patience, SpinsWhereThereAreCores) {
  EXPECT_EQ(spins_of(Patience(Patience::Look::memory, true)), 0);
  EXPECT_EQ(spins_of(Patience(Patience::Look::messages, true)), 0);
  const int loads = spins_of(Patience(Patience::Look::memory, false)),
            calls = spins_of(Patience(Patience::Look::messages, false));
  EXPECT_GT(calls, 0);
  EXPECT_GT(loads, 10 * calls);  // a call of MPI takes longer than a load
}

TEST(Patience, WaitsForAllRequests) {
  const int next = (rank() + 1) % ranks(), before = (rank() + ranks() - 1) % ranks();
  const std::array<int, 2> sent{rank(), 10 * rank()};
  std::array<int, 2> received{-1, -1};
  std::array<MPI_Request, 5> requests;
  requests.fill(MPI_REQUEST_NULL);
  for (int tag : {0, 1}) {
    const auto t = static_cast<std::size_t>(tag);
    MPI_Irecv(&received[t], 1, MPI_INT, before, tag, MPI_COMM_WORLD, &requests[t]);
  }
  for (int tag : {1, 0}) {
    const auto t = static_cast<std::size_t>(tag);
    MPI_Isend(&sent[t], 1, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[3 + t]);
  }
  await_requests(static_cast<int>(requests.size()), requests.data());
  EXPECT_EQ(received, (std::array<int, 2>{before, 10 * before}));
  for (const MPI_Request& request : requests) EXPECT_EQ(request, MPI_REQUEST_NULL);
  await_requests(0, nullptr);
  await_requests(static_cast<int>(requests.size()), requests.data());  // nothing to wait for
}

}  // namespace
}  // namespace shard::testing
