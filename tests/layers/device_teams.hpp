// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The space in which tests run a device's team kernels.
#ifndef SHARD_TESTS_DEVICE_TEAMS_HPP
#define SHARD_TESTS_DEVICE_TEAMS_HPP

#include <Kokkos_Core.hpp>

#include <barrier>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../src/layers/device_attention_tile.hpp"
#include "../../src/layers/device_tile.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/impl/team_sums.hpp"

namespace shard::testing {

/// By default a team has one thread, which does the work of all. With SHARD_TEAMS_OF_THREADS it has
/// as many as on a device, and each is a thread of the host: ThreadSanitizer then finds a barrier
/// that is missing.
using TeamSpace = Kokkos::DefaultHostExecutionSpace;

}  // namespace shard::testing

#ifdef SHARD_TEAMS_OF_THREADS

namespace shard::testing {

class ThreadedTeam {
 public:
  using execution_space = TeamSpace;
  using Scratch         = execution_space::scratch_memory_space;

  ThreadedTeam(std::barrier<>& barrier, int rank, int size, int league_rank, int league_size,
               void* scratch, std::size_t bytes)
      : barrier_(&barrier),
        rank_(rank),
        size_(size),
        league_rank_(league_rank),
        league_size_(league_size),
        scratch_(scratch, static_cast<int>(bytes)) {}

  int team_rank() const { return rank_; }
  int team_size() const { return size_; }
  int league_rank() const { return league_rank_; }
  int league_size() const { return league_size_; }
  void team_barrier() const { barrier_->arrive_and_wait(); }
  const Scratch& team_scratch(int) const { return scratch_; }

 private:
  std::barrier<>* barrier_;
  int rank_, size_, league_rank_, league_size_;
  Scratch scratch_;
};

/// Runs functor(team) for one team after the other. Scratch memory is NaN at the beginning of each.
template <class Functor>
void run_teams(index_t teams, int threads, std::size_t bytes, const Functor& functor) {
  std::vector<double> scratch((bytes + 64) / sizeof(double));
  std::barrier<> barrier(threads);
  std::vector<std::thread> all;
  for (int rank = 0; rank < threads; ++rank)
    all.emplace_back([&, rank] {
      for (index_t team = 0; team < teams; ++team) {
        if (rank == 0) std::memset(scratch.data(), 0xff, scratch.size() * sizeof(double));
        barrier.arrive_and_wait();
        functor(ThreadedTeam(barrier, rank, threads, static_cast<int>(team),
                             static_cast<int>(teams), scratch.data(), bytes + 32));
        barrier.arrive_and_wait();
      }
    });
  for (std::thread& thread : all) thread.join();
}

}  // namespace shard::testing

// What the library's templates find in place of their own for this space.
namespace shard::impl {

template <int Threads>
inline constexpr int lanes_of<testing::TeamSpace, Threads> = 1;
template <>
inline constexpr int team_threads<testing::TeamSpace> = 64;

template <class Functor>
void launch_teams(const std::string&, const testing::TeamSpace&, const Functor& functor) {
  testing::run_teams(functor.teams(), Functor::threads, functor.scratch_bytes(), functor);
}
template <class Label, class Functor>
void launch_teams(const Label&, const testing::TeamSpace&, index_t teams, int threads,
                  std::size_t scratch, const Functor& functor) {
  testing::run_teams(teams, threads, scratch, functor);
}
template <class Kernel>
void launch_attention(const char*, const testing::TeamSpace&, const Kernel& kernel) {
  testing::run_teams(kernel.teams(), Kernel::threads, Kernel::scratch_bytes(), kernel);
}

}  // namespace shard::impl

#endif
#endif
