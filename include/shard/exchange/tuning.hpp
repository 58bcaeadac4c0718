// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_TUNING_HPP
#define SHARD_EXCHANGE_TUNING_HPP

#include <cstddef>
#include <cstdint>

namespace shard {

/// What carries a plan's messages.
enum class TransportKind : std::uint8_t {
  automatic,  ///< shared memory within a node where it can be had, MPI for the rest
  mpi,        ///< MPI for all
};

/// How a plan is to move what it moves. The same on every rank, as all arguments of a plan.
struct Tuning {
  /// `SHARD_TRANSPORT=mpi` in the environment (of all ranks) stands in for `automatic`.
  TransportKind transport = TransportKind::automatic;
  /// Bytes: where at least so many lie one after the other in both fields, and the owner's field
  /// lies in shared memory, a halo is read straight from there; shorter runs are packed.
  std::size_t direct_run = 128;
};

}  // namespace shard

#endif
