// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether ranks that wait leave their cores to others.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "../../src/comm/oversubscription.hpp"
#include "shard/comm/impl/shared_pool.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
#include "support/support.hpp"

namespace {

using shard::impl::MeshState;
using shard::impl::NodeUse;
using shard::impl::SharedPool;
using shard::impl::use_of;
using shard::testing::ScopedVariable;

constexpr const char* launchers[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                     "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_LOCAL_SIZE"};

/// All launchers' word for the number of ranks here.
class Launched {
 public:
  explicit Launched(int ranks) {
    const std::string text = std::to_string(ranks);
    for (std::size_t i = 0; i < 4; ++i) words_[i].emplace(launchers[i], text);
  }

 private:
  std::optional<ScopedVariable> words_[4];
};

/// This rank on one of the cores that it may use, for as long as it lives.
class Bound {
 public:
  explicit Bound(int number) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    number %= CPU_COUNT(&before_);
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &before_) && number-- == 0) CPU_SET(core, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~Bound() { sched_setaffinity(0, sizeof(before_), &before_); }
  Bound(const Bound&)            = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_{};
};

/// Cores of the machine that this rank may use: the tests' ranks are not bound.
int cores() {
  cpu_set_t mine;
  sched_getaffinity(0, sizeof(mine), &mine);
  return CPU_COUNT(&mine);
}

/// What the ranks of `comm` find, and so does a mesh of theirs where MPI sees that they share a
/// machine: MPICH as Debian has it doesn't.
bool is_oversubscribed(MPI_Comm comm) {
  int size = 1, together = 1;
  MPI_Comm_size(comm, &size);
  const bool crowded = use_of(comm).is_oversubscribed();
  MPI_Comm node      = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &together);
  MPI_Comm_free(&node);
  const auto mesh = MeshState::make(comm, {size}, {});
  if (together == size) {
    const int threads = Kokkos::DefaultHostExecutionSpace().concurrency();
    EXPECT_EQ(SharedPool::of(*mesh)->oversubscribed(),
              crowded || use_of(comm, threads).is_oversubscribed());
  }
  return crowded;
}

TEST(Crowding, RanksThatHaveToShareACore) {
  EXPECT_FALSE((NodeUse{.ranks = 2, .cores = 2}.is_oversubscribed()));
  EXPECT_TRUE((NodeUse{.ranks = 3, .cores = 2}.is_oversubscribed()));
  EXPECT_FALSE((NodeUse{.ranks = 2, .cores = 4, .threads = 4}.is_oversubscribed()));
  EXPECT_TRUE((NodeUse{.ranks = 2, .cores = 3, .threads = 4}.is_oversubscribed()));
  EXPECT_TRUE((NodeUse{.ranks = 2, .launched = 8, .cores = 2, .given = 2}.is_oversubscribed()));
  // eight ranks, each with a core of its own, of which two have a mesh
  EXPECT_FALSE((NodeUse{.ranks = 2, .launched = 8, .cores = 2, .given = 8}.is_oversubscribed()));
  EXPECT_FALSE((NodeUse{.ranks = 2, .launched = 8, .cores = 2, .given = 0}.is_oversubscribed()));
}

TEST(Crowding, TheLauncherCountsAllRanks) {
  const int ranks = shard::testing::ranks(), had = cores();
  {
    const Launched said(ranks);
    const NodeUse use = use_of(MPI_COMM_WORLD);
    EXPECT_EQ(use.ranks, ranks);
    EXPECT_EQ(use.launched, ranks);
    EXPECT_EQ(use.cores, had);
    EXPECT_EQ(is_oversubscribed(MPI_COMM_WORLD), ranks > had);
  }
  // meshes of one or two ranks each
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, shard::testing::rank() / 2, 0, &pair);
  for (const int launched : {0, 1, 2, 4 * had, had, had + 1}) {
    const Launched said(launched);
    EXPECT_EQ(use_of(pair).launched, launched);
    EXPECT_EQ(is_oversubscribed(pair), launched > had || use_of(pair).ranks > had) << launched;
    // nodes that are made believe stand on one machine
    const ScopedVariable nodes("SHARD_RANKS_PER_NODE", "1");
    EXPECT_EQ(is_oversubscribed(MPI_COMM_WORLD), ranks > had || launched > had) << launched;
  }
  MPI_Comm_free(&pair);
}

TEST(Crowding, RanksThatAreBound) {
  const int ranks = shard::testing::ranks(), had = cores();
  {
    const Bound bound(shard::testing::rank());
    const Launched said(ranks);
    EXPECT_EQ(use_of(MPI_COMM_WORLD).cores, std::min(ranks, had));
    EXPECT_EQ(is_oversubscribed(MPI_COMM_WORLD), ranks > had);
  }
  {
    // all on one core; whoever started them has others
    const Bound bound(0);
    const Launched said(ranks);
    EXPECT_EQ(use_of(MPI_COMM_WORLD).cores, 1);
    EXPECT_EQ(is_oversubscribed(MPI_COMM_WORLD), ranks > 1);
  }
  // two ranks of many that have a core each: what is left is the others'
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, shard::testing::rank() / 2, 0, &pair);
  {
    const Bound bound(shard::testing::rank() % 2);
    const Launched said(had);
    EXPECT_EQ(is_oversubscribed(pair), use_of(pair).ranks > had) << had << " cores";
  }
  MPI_Comm_free(&pair);
  EXPECT_EQ(cores(), had);
}

}  // namespace
