// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_ASLEEP_HPP
#define SHARD_BENCHMARKS_SUPPORT_ASLEEP_HPP

#include <mpi.h>
#include <unistd.h>

namespace support {

/// Waits for all ranks without taking a core from them.
inline void meet_asleep(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  for (int done = 0; done == 0; usleep(200)) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

}  // namespace support

#endif
