// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_TOOLS_NCCL_NETWORK_HPP
#define SHARD_SRC_TOOLS_NCCL_NETWORK_HPP

#include <mpi.h>

#include <string>

namespace shard::tools {

/// The network by which NCCL or RCCL sends between nodes, on rank 0: "IB", "AWS Libfabric",
/// "Socket"; empty if the library doesn't say. Its log is the only place that has it, so this makes
/// a group with the log in a temporary file: call it before anything else that makes one.
/// Collective. Throws NcclError on every rank if there is no GPU for each rank.
std::string nccl_network(MPI_Comm comm);

}  // namespace shard::tools

#endif
