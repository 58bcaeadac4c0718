// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_TOOLS_MACHINE_HPP
#define SHARD_SRC_TOOLS_MACHINE_HPP

#include <mpi.h>

#include <string>
#include <vector>

#include "json.hpp"

namespace shard::tools {

/// One thing that is known of this build or machine: in words and as JSON.
struct Fact {
  std::string group, name, words;
  Json json;
};

/// What this build has and what is found where the ranks of `comm` run. Collective; MPI and Kokkos
/// are running. The same on every rank but for what its own node says.
std::vector<Fact> machine_facts(MPI_Comm comm);

}  // namespace shard::tools

#endif
