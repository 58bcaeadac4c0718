// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_CALIBRATE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_CALIBRATE_HPP

#include "machine.hpp"
#include "own_exchange.hpp"
#include "support/handshake.hpp"

namespace scaling {

/// Measures this host: a bare message, of sizes a factor of the square root of two from each other
/// and closer where times jump; shard's own exchange of two faces of made-up fields with one
/// dimension cut (own_exchange.hpp), one field and, where runs are short, eight, of runs, pitches
/// and bytes a factor of two from each other, over MPI, both ways over shared memory and within
/// fields that a rank has alone, less what it takes for next to nothing and for its message; and of
/// fields with a message for each box, less what such boxes take. Of a message the least of several
/// times counts, else the middle one, of fields that lie elsewhere in memory each time. Collective
/// over two ranks; the same on both. Waits for near cores, `patience` seconds at most, which is
/// what is left of them afterwards.
void calibrate(Machine& machine, support::Handshake& handshake, double& patience);

}  // namespace scaling

#endif
