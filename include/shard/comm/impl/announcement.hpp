// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_ANNOUNCEMENT_HPP
#define SHARD_COMM_IMPL_ANNOUNCEMENT_HPP

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shard::impl {

/// The start of one exchange of a plan.
struct Start {
  std::uint32_t plan                                 = 0;
  std::uint32_t direction                            = 0;
  std::uint64_t sequence                             = 0;
  friend bool operator==(const Start&, const Start&) = default;
};

/// Under SHARD_CHECK=1 each rank sends its peers a description of an exchange before its messages.
/// So a mismatch is an error at once, not a hang.
class Announcement {
 public:
  /// Sends to `peers` and receives from them.
  void start(MPI_Comm comm, int tag, const Start& start, const std::vector<int>& peers);
  /// Throws MessageError if a peer started something else.
  void compare(int rank);
  /// Whether its messages are over, so that its memory may be freed. Never waits.
  bool is_over();
  /// Whether all peers are known to have started the same. Never waits.
  bool is_confirmed();
  /// The rank that is waited for.
  const int& waiting_for() const { return waiting_for_; }

 private:
  Start mine_;
  int waiting_for_ = -1;
  std::vector<int> peers_;
  std::vector<Start> theirs_;
  std::vector<MPI_Request> requests_;
};

}  // namespace shard::impl

#endif
