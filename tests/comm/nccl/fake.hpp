// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_COMM_NCCL_FAKE_HPP
#define SHARD_TESTS_COMM_NCCL_FAKE_HPP

#include <string>

/// @file
/// An NCCL and a CUDA runtime that are none: a group of sends and receives is MPI messages on host
/// memory, finished when the group ends, and any call can be made to fail. What shard does with
/// NCCL's answers can so be tested without a GPU, with NCCL's own headers.

namespace fake {

struct State {
  std::string fails;           ///< name of the function that fails on this rank
  bool background = false;     ///< an error has come up in the background
  std::string bus = "unique";  ///< of this rank's device; "unique" is one for each rank
  int living      = 0;         ///< communicators
  int aborted     = 0;
  int destroyed   = 0;
  int depth       = 0;  ///< groups begun and not ended
  int groups      = 0;
  int sends       = 0;
  int receives    = 0;
  void* stream    = nullptr;  ///< of the last send or receive
};

State& state();

/// Waits until what was sent and received is there, as a stream's synchronisation does.
void synchronise();

}  // namespace fake

#endif
