// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/announcement.hpp"

#include <algorithm>

#include "shard/base/error.hpp"
#include "shard/comm/impl/in_flight.hpp"

namespace shard::impl {

namespace {

std::string described(const Start& start) {
  return "message " + text(static_cast<index_t>(start.sequence)) + " of plan " + text(start.plan) +
         (start.direction == 0 ? "" : ", adjoint,");
}

/// The error of a rank that started one exchange while a peer started another. Names both.
[[noreturn]] void throw_other_start(int rank, const Start& mine, int peer, const Start& theirs) {
  throw MessageError("shard::Exchange: rank " + text(rank) + " waited for " + described(mine) +
                     " from rank " + text(peer) + " and got " + described(theirs) +
                     "; all ranks must start the same exchanges in the same order");
}

}  // namespace

void Announcement::start(MPI_Comm comm, int tag, const Start& start,
                         const std::vector<int>& peers) {
  mine_  = start;
  peers_ = peers;
  theirs_.assign(peers.size(), {});
  requests_.assign(2 * peers.size(), MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    check_mpi(
        MPI_Irecv(&theirs_[i], sizeof(Start), MPI_BYTE, peers[i], tag, comm, &requests_[2 * i]),
        "MPI_Irecv");
    check_mpi(
        MPI_Isend(&mine_, sizeof(Start), MPI_BYTE, peers[i], tag, comm, &requests_[2 * i + 1]),
        "MPI_Isend");
  }
}

void Announcement::compare(int rank) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    waiting_for_ = peers_[i];
    InFlight::wait_all(2, &requests_[2 * i]);
  }
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (!(theirs_[i] == mine_)) throw_other_start(rank, mine_, peers_[i], theirs_[i]);
}

bool Announcement::is_over() {
  int done = 0;
  check_mpi(
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
      "MPI_Testall");
  return done != 0;
}

bool Announcement::is_confirmed() {
  return is_over() && std::all_of(theirs_.begin(), theirs_.end(),
                                  [&](const Start& theirs) { return theirs == mine_; });
}

}  // namespace shard::impl
