// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_EXCHANGE_WINDOWS_HPP
#define SHARD_TESTS_EXCHANGE_WINDOWS_HPP

#include <memory>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/shard.hpp"

namespace shard::testing {

/// Whether this MPI gives the ranks of this machine windows: MPICH as Debian has it doesn't.
inline bool windows(const std::shared_ptr<impl::MeshState>& state) {
  return impl::SharedPool::of(*state)->usable();
}

/// Whether all ranks share them: there may be several machines.
inline bool windows_of_all(const std::shared_ptr<impl::MeshState>& state) {
  const auto pool = impl::SharedPool::of(*state);
  for (int rank = 0; rank < state->size(); ++rank)
    if (pool->place_of(rank) < 0) return false;
  return pool->usable();
}

}  // namespace shard::testing

#endif
