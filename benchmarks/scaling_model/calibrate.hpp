// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_CALIBRATE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_CALIBRATE_HPP

#include "machine.hpp"
#include "shard/mesh/mesh_state.hpp"
#include "support/handshake.hpp"

namespace scaling {

/// Measures this host, without an exchange of shard's: bare messages, of sizes a factor of the
/// square root of two from each other and closer where times jump; plain loops over two faces of
/// made-up fields with one dimension cut, of runs, pitches and bytes a factor of two or four from
/// each other, to buffers and within a field, and where both ranks see memory out of the other's
/// field and by way of buffers there. Each point several times, of which the least counts, and of
/// what the machine has already. kernel_us and shared_us stay as they are. Collective over two
/// ranks; the same on both. Waits for near cores, `patience` seconds at most, which is what is left
/// of them afterwards.
void calibrate(Machine& machine, shard::impl::MeshState& mesh, support::Handshake& handshake,
               double& patience);

}  // namespace scaling

#endif
