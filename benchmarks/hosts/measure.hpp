// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HOSTS_MEASURE_HPP
#define SHARD_BENCHMARKS_HOSTS_MEASURE_HPP

#include <mpi.h>

#include <string>

/// The numbers of a machine file, measured between these ranks: latencies with all ranks at once,
/// the rate of long messages too, other rates with one pair of them. Collective; the text is the
/// first rank's. Two nodes or more; `per_node` ranks are on each, one after the other.
std::string measured_machine(MPI_Comm comm, int per_node);

#endif
