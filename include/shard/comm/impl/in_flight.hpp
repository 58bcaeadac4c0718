// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_IN_FLIGHT_HPP
#define SHARD_COMM_IMPL_IN_FLIGHT_HPP

#include <mpi.h>

namespace shard::impl {

/// An exchange in progress on this rank. Neighbours wait in their finish until this rank has read
/// their fields. Ranks may finish exchanges in different orders, so a rank that waits for one
/// exchange must also progress the others; otherwise two ranks could wait for each other. Used by
/// one thread at a time.
class InFlight {
 public:
  /// Unpacks the exchange of `plan` in `set` if all messages have arrived; never waits.
  using Unpack = void (*)(void* plan, void* set);

  InFlight() = default;
  ~InFlight() { leave(); }
  InFlight(const InFlight&)            = delete;
  InFlight& operator=(const InFlight&) = delete;

  void enter(Unpack unpack, void* plan, void* set);
  /// Does nothing if it isn't in progress.
  void leave();

  /// Calls Unpack for each exchange in progress.
  static void progress_all();
  /// Waits for all of these requests as MPI_Waitall does, and calls progress_all() meanwhile.
  /// Throws MpiError.
  static void wait_all(int count, MPI_Request* requests);

 private:
  static InFlight* first_;

  Unpack unpack_ = nullptr;  // null: not in progress
  void *plan_ = nullptr, *set_ = nullptr;
  InFlight *next_ = nullptr, *previous_ = nullptr;
};

}  // namespace shard::impl

#endif
