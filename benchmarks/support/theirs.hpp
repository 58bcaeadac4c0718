// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_THEIRS_HPP
#define SHARD_BENCHMARKS_SUPPORT_THEIRS_HPP

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"

namespace support {

/// Where rank `other` has what this one has at `mine`, as seen from here, in the same order; empty
/// where one of the two has any of it outside the memory that they share. Collective over the two.
inline std::vector<std::byte*> find_theirs(const shard::impl::SharedPool& pool, MPI_Comm comm,
                                           int other, const std::vector<const std::byte*>& mine) {
  std::vector<shard::impl::PoolAddress> here, there(mine.size());
  for (const std::byte* place : mine) {
    const auto part = pool.part_of(place);
    here.push_back(part.has(place) ? part.address_of(place) : shard::impl::no_address);
  }
  const int count = static_cast<int>(here.size());
  MPI_Sendrecv(here.data(), count, MPI_UINT64_T, other, 0, there.data(), count, MPI_UINT64_T, other,
               0, comm, MPI_STATUS_IGNORE);
  std::vector<std::byte*> theirs;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i] == shard::impl::no_address || there[i] == shard::impl::no_address) return {};
    theirs.push_back(pool.at(pool.place_of(other), there[i]));
  }
  return theirs;
}

}  // namespace support

#endif
