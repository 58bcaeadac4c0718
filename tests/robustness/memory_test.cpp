// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing grows: neither with exchanges, nor with plans, fields and meshes that come and go.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "shard/comm/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using shard::testing::Rows;
using shard::testing::ScopedVariable;
using shard::testing::Y;
using Space = Kokkos::DefaultHostExecutionSpace;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_what_is_freed = true;  // AddressSanitizer, for a while
#else
constexpr bool keeps_what_is_freed = false;
#endif

/// kB of this process in memory: private and shared pages.
long resident() {
  long pages = 0, all = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Expects that `function(count)` leaves no more memory in use after so many rounds than after the
/// first ones, but for `slack` kB: what an allocator keeps, and MPI's own lists.
template <class Function>
void expect_no_growth(const std::string& what, int warm, int rest, long slack,
                      const Function& function) {
  function(warm);
  const long before = resident();
  function(rest);
  long growth = resident() - before, most = 0;
  MPI_Allreduce(&growth, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf("%s: %ld kB after %d, at most %ld kB more after %d\n", what.c_str(), before, warm,
                most, warm + rest);
  if (keeps_what_is_freed) return;
  EXPECT_LE(most, slack) << what;
}

const char* name(TransportKind kind) {
  return kind == TransportKind::mpi ? "messages" : "automatic";
}

TEST(Memory, Exchanges) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t       = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4});
  const bool windows = impl::SharedPool::of(*mesh.state())->usable();
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const bool fast = windows && kind == TransportKind::automatic && !keeps_what_is_freed;
    const int steps = shard::testing::million_or(keeps_what_is_freed ? 3000 : 12000, fast);
    const Exchange halos(Tuning{.transport = kind}, t);
    expect_no_growth(std::string("exchanges, ") + name(kind), 1000, steps - 1000, 512,
                     [&](int count) {
                       int wrong = 0;
                       for (int step = 0; step < count; ++step) {
                         t(0, 0) = t(1, 0) = step;
                         if (step % 8 == 7) {
                           halos.adjoint(Space());
                         } else {
                           halos(Space());
                           wrong += t(-1, 0) == step && t(2, 0) == step ? 0 : 1;
                         }
                       }
                       EXPECT_EQ(wrong, 0);
                     });
  }
}

TEST(Memory, PlansAndFieldsThatComeAndGo) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows stays("stays", mesh, {2 * mesh.size(), 4});
  // MPIs fill their own lists for some hundred rounds
  const int warm = 600, rounds = shard::testing::thorough() ? 10000 : 300;
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi})
    // half of them thrown away with exchanges behind them
    expect_no_growth(
        std::string("plans and fields, ") + name(kind), warm, rounds, 512, [&](int count) {
          for (int round = 0; round < count; ++round) {
            const Rows t = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4 + round % 50});
            const Exchange halos(Tuning{.transport = kind}, t);
            if (round % 2 == 0) continue;
            halos(Space());
            const Exchange other(Tuning{.transport = kind}, stays, t);
            auto pending = other.start(Space());
            halos.adjoint(Space());
            pending.finish();
          }
        });
}

TEST(Memory, MeshesThatComeAndGo) {
  const int rounds = shard::testing::thorough() ? 3000 : 60;
  expect_no_growth("meshes", 20, rounds, 400, [&](int count) {
    for (int round = 0; round < count; ++round) {
      const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
      {
        const Rows t = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4});
        const Exchange halos(t);
        halos(Space());
      }
      mesh.release();
    }
  });
}

}  // namespace
