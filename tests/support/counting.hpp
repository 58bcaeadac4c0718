// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_COUNTING_HPP
#define SHARD_TESTS_SUPPORT_COUNTING_HPP

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace shard::testing {

/// What a stretch of a program did on this rank: counted by PMPI wrappers, Kokkos Tools callbacks
/// and a replaced operator new. A test that asks for it says `LIBRARIES shard_test_counting`.
struct Counts {
  std::int64_t messages =
      0;  ///< point-to-point sends begun: Send, Isend, Start of a persistent one, ...
  std::int64_t bytes       = 0;  ///< in those messages
  std::int64_t receives    = 0;  ///< receives begun, of any kind
  std::int64_t collectives = 0;  ///< collective operations begun
  std::int64_t requests    = 0;  ///< persistent requests made
  std::int64_t passing     = 0;  ///< requests of one message made: Isend, Issend, Irecv
  std::int64_t communicators =
      0;  ///< made: Comm_dup, Comm_split, Comm_split_type, Comm_create_group
  std::int64_t communicators_freed = 0;  ///< by Comm_free
  std::int64_t kernels             = 0;  ///< parallel_for, parallel_reduce and parallel_scan
  std::int64_t fences              = 0;  ///< Kokkos fences
  std::int64_t copies              = 0;  ///< Kokkos deep copies
  std::int64_t allocations         = 0;  ///< Kokkos allocations, in any memory space
  std::int64_t deallocations       = 0;
  std::int64_t allocated_bytes     = 0;  ///< in all of these allocations, freed ones too
  std::int64_t peak_bytes          = 0;  ///< in those made and not freed yet, the most at once
  std::int64_t news                = 0;  ///< calls of operator new
  std::int64_t new_bytes = 0;  ///< in these, freed ones too; on a host Kokkos' are among them

  std::vector<int>
      peers;  ///< destination of each message, a rank in the communicator it was sent in
  std::vector<std::string> kernel_names;  ///< in the order of their launch
  std::vector<std::string> fence_names;
  std::vector<std::pair<std::string, std::int64_t>> allocated;  ///< label and bytes of each
};

/// All of it in words, for GoogleTest's messages.
std::ostream& operator<<(std::ostream& out, const Counts& counts);

/// Whether a tool looks on while something is counted. Code that does without Kokkos' kernels where
/// none does is counted with `off`; kernels, fences, copies and Kokkos' allocations aren't then.
enum class KokkosTools : std::uint8_t { on, off };

/// Counts from here on; Kokkos must be running. One stretch at a time.
void start_counting(KokkosTools tools = KokkosTools::on);

/// Ends the stretch and returns what it did.
Counts stop_counting();

/// Runs `function` and returns what it did.
template <class Function>
Counts count(Function&& function, KokkosTools tools = KokkosTools::on) {
  start_counting(tools);
  std::forward<Function>(function)();
  return stop_counting();
}

/// What a run of a plan does that was made before the tool came that counts: it looks for one in
/// one of sixteen runs.
template <class Run>
Counts count_seen(const Run& run) {
  count([&] {
    for (int i = 0; i < 16; ++i) run();
  });
  return count(run);
}

}  // namespace shard::testing

#endif
