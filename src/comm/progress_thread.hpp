// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_PROGRESS_THREAD_HPP
#define SHARD_SRC_COMM_PROGRESS_THREAD_HPP

namespace shard::impl {

/// Long messages of MPI on their way. If SHARD_PROGRESS_THREAD=1 and MPI may be called by several
/// threads, a thread of the process calls it while there are any, every 50 microseconds or so. Used
/// by one thread at a time.
class LongMessages {
 public:
  LongMessages() = default;
  ~LongMessages() { end(); }
  LongMessages(const LongMessages&)            = delete;
  LongMessages& operator=(const LongMessages&) = delete;

  /// They have been started. The first call of a process starts the thread, which ends in
  /// MPI_Finalize. Throws MpiError.
  void begin();
  /// They have arrived, or nobody waits for them. Does nothing if they weren't started.
  void end();

 private:
  bool begun_ = false;
};

}  // namespace shard::impl

#endif
