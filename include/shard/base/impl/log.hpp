// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_LOG_HPP
#define SHARD_BASE_IMPL_LOG_HPP

#include <mpi.h>

#include <string>

namespace shard::impl {

/// Local. Writes "shard: `message`" and a line's end to stderr on rank 0 of `comm`, the first time
/// that this process is asked to write that message; SHARD_LOG=0 silences it (and the message is
/// written later if the variable is taken away). For choices that a user may wonder about, never
/// for each call.
void log_once(MPI_Comm comm, const std::string& message);

}  // namespace shard::impl

#endif
