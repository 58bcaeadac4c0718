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

}  // namespace shard::testing

#endif
