// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "handshake.hpp"

#include <algorithm>
#include <new>

namespace support {

namespace {

constexpr int meetings = 8, wakings = 1000;

/// Nanoseconds that a line takes at most between cores that share a cache. Where some cores of a
/// socket have one of their own it is 30 to 80 between these and 200 and more between others (Zen 3
/// to 5); where all cores of a socket share one over a mesh it is 120 to 175, and more where much
/// else passes (Granite Rapids).
double longest_within_a_cache() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_is("intel") != 0) return 300;
#endif
  return 120;
}

}  // namespace

Handshake::Handshake(MPI_Comm comm) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size != 2) return;
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  int both = 1, me = 0;
  MPI_Comm_size(here, &both);
  MPI_Comm_rank(here, &me);
  if (both == 2) {
    void* bytes = nullptr;
    // without windows, as some MPIs are built, all turns count
    MPI_Comm_set_errhandler(here, MPI_ERRORS_RETURN);
    int made = MPI_Win_allocate_shared(sizeof(Place), 1, MPI_INFO_NULL, here, &bytes, &window_) ==
                       MPI_SUCCESS
                   ? 1
                   : 0;
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, here);
    if (made == 1) {
      MPI_Aint size_there = 0;
      int unit            = 0;
      void* there         = nullptr;
      MPI_Win_shared_query(window_, 1 - me, &size_there, &unit, &there);
      mine_   = new (bytes) Place;
      theirs_ = static_cast<Place*>(there);
      first_  = me == 0;
      sem_init(&mine_->wake, 1, 0);
      MPI_Barrier(here);
    }
  }
  MPI_Comm_free(&here);
}

Handshake::~Handshake() {
  if (mine_ != nullptr) sem_destroy(&mine_->wake);
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

void Handshake::meet() {
  if (mine_ == nullptr) return;
  mine_->trip.store(++trip_, std::memory_order_release);
  while (theirs_->trip.load(std::memory_order_acquire) < trip_) {
  }
}

double Handshake::nanoseconds() {
  if (mine_ == nullptr) return 0;
  meet();  // the partner may be late
  const double begin = MPI_Wtime();
  for (int i = 0; i < meetings; ++i) meet();
  return (MPI_Wtime() - begin) * 1e9 / meetings;
}

bool Handshake::is_apart(double nanoseconds) {
  static const double limit = longest_within_a_cache();
  return nanoseconds > limit;
}

double Handshake::wait_until_near(MPI_Comm comm, double seconds) {
  const double begin = MPI_Wtime();
  for (;;) {
    const double waited = MPI_Wtime() - begin;
    int wait            = apart() && waited < seconds ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &wait, 1, MPI_INT, MPI_MAX, comm);
    if (wait == 0) return waited;
    wake_each_other();
  }
}

// Two cores that spin stay where they are. One that sleeps is put, as it wakes, near the one that
// woke it: so do schedulers, a virtual machine's host's too, with two that have much to say to each
// other.
void Handshake::wake_each_other() {
  if (mine_ == nullptr) return;
  for (int i = 0; i < wakings; ++i) {
    if (first_) sem_post(&theirs_->wake);
    while (sem_wait(&mine_->wake) != 0) {  // but for a signal
    }
    if (!first_) sem_post(&theirs_->wake);
  }
}

int Turns::count_near(MPI_Comm comm) {
  auto* fresh = states_.data() + agreed_;
  MPI_Allreduce(MPI_IN_PLACE, fresh, static_cast<int>(states_.size() - agreed_), MPI_UINT8_T,
                MPI_BOR, comm);
  agreed_ = states_.size();
  return static_cast<int>(std::count(states_.begin(), states_.end(), near));
}

std::vector<double> Turns::of(State state, const std::vector<double>& values) const {
  std::vector<double> chosen;
  for (std::size_t i = 0; i < agreed_ && i < values.size(); ++i)
    if (states_[i] == state) chosen.push_back(values[i]);
  return chosen;
}

}  // namespace support
