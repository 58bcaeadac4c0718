// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_LOG_HPP
#define SHARD_BASE_IMPL_LOG_HPP

#include <mpi.h>

#include <string>

namespace shard::impl {

/// Writes the line "shard: `message`" to stderr on rank 0 of `comm`, once per process and message.
/// SHARD_LOG=0 silences it (the message is written later if the variable is unset). For choices
/// that a user may want to know, never for each call. Local.
void log_once(MPI_Comm comm, const std::string& message);

}  // namespace shard::impl

#endif
