// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_IN_FLIGHT_HPP
#define SHARD_COMM_IMPL_IN_FLIGHT_HPP

#include <mpi.h>

namespace shard::impl {

/// An exchange that this rank has started and not finished. Neighbours whose own fields it reads
/// wait in their finish until it has, and this rank may wait for one of them elsewhere meanwhile,
/// for ranks needn't finish their exchanges in the same order: whoever waits takes what has come
/// for those that are in progress. Used by one thread at a time.
class InFlight {
 public:
  /// Takes what has come for the exchange of `plan` in `set`, if all of it has; never waits.
  using Take = void (*)(void* plan, void* set);

  InFlight() = default;
  ~InFlight() { leave(); }
  InFlight(const InFlight&)            = delete;
  InFlight& operator=(const InFlight&) = delete;

  void enter(Take take, void* plan, void* set);
  /// Does nothing if it isn't in progress.
  void leave();

  /// Takes for each that is in progress.
  static void help();
  /// Waits for all of these requests as MPI_Waitall does, and helps. Throws MpiError.
  static void wait_all(int count, MPI_Request* requests);

 private:
  static InFlight* first_;

  Take take_  = nullptr;  // null: not in progress
  void *plan_ = nullptr, *set_ = nullptr;
  InFlight *next_ = nullptr, *previous_ = nullptr;
};

}  // namespace shard::impl

#endif
