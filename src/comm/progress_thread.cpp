// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "progress_thread.hpp"

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/log.hpp"

namespace shard::impl {

namespace {

class ProgressThread {
 public:
  ProgressThread() : thread_([this] { run(); }) {}
  ~ProgressThread() {
    ends_ = true;
    begin();
    thread_.join();
  }
  ProgressThread(const ProgressThread&)            = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void begin() {
    if (on_their_way_.fetch_add(1) == 0) on_their_way_.notify_one();
  }
  void end() { on_their_way_.fetch_sub(1); }

 private:
  void run() {
    while (true) {
      on_their_way_.wait(0);
      if (ends_) return;
      // Takes nothing, and lets MPI progress; in MPICH one of MPI_COMM_SELF doesn't.
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::atomic<int> on_their_way_ = 0;
  std::atomic<bool> ends_        = false;
  std::thread thread_;
};

/// Null where there is none: not asked for, not possible, or over.
ProgressThread* the_thread = nullptr;

/// MPI_Finalize calls it first.
int end_thread(MPI_Comm, int, void*, void*) {
  delete std::exchange(the_thread, nullptr);
  return MPI_SUCCESS;
}

void start_thread() {
  if (!environment_flag("SHARD_PROGRESS_THREAD")) return;
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_MULTIPLE) {
    log_once(MPI_COMM_WORLD,
             "SHARD_PROGRESS_THREAD=1 does nothing: MPI was started without MPI_THREAD_MULTIPLE");
    return;
  }
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &end_thread, &key, nullptr),
            "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
  check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
  the_thread = new ProgressThread;
}

}  // namespace

void LongMessages::begin() {
  static const bool once = (start_thread(), true);
  static_cast<void>(once);
  begun_ = the_thread != nullptr;
  if (begun_) the_thread->begin();
}

void LongMessages::end() {
  if (std::exchange(begun_, false) && the_thread != nullptr) the_thread->end();
}

}  // namespace shard::impl
