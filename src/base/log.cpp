// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/log.hpp"

#include <cstdio>
#include <mutex>
#include <unordered_set>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"

namespace shard::impl {

void log_once(MPI_Comm comm, const std::string& message) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  if (rank != 0 || environment_value("SHARD_LOG").value_or(1) == 0) return;
  static std::mutex mutex;
  static std::unordered_set<std::string> written;
  const std::lock_guard<std::mutex> lock(mutex);
  // messages contain labels, so their number is unbounded in a long run
  constexpr std::size_t most = 1000;
  // one call per line, so that lines of different ranks don't mix
  if (written.size() < most && written.insert(message).second)
    std::fputs(("shard: " + message + "\n").c_str(), stderr);
}

}  // namespace shard::impl
