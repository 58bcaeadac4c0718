// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_VIEW_INDEX_DIRECTORY_HPP
#define SHARD_SRC_VIEW_INDEX_DIRECTORY_HPP

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/base/types.hpp"

/// \file
/// Who owns an element with a global id: a directory that is distributed over the ranks, each of
/// which talks only to those that it shares elements or entries with.

namespace shard::impl {

/// Messages to and from few ranks, none of which knows who sends to it: the algorithm NBX of
/// Hoefler, Siebert and Lumsdaine (2010). A communicator of its own, because a probe takes any
/// message.
class SparseExchange {
 public:
  explicit SparseExchange(MPI_Comm comm) { await_mpi("MPI_Comm_dup", MPI_Comm_dup, comm, &comm_); }
  SparseExchange(const SparseExchange&)            = delete;
  SparseExchange& operator=(const SparseExchange&) = delete;
  ~SparseExchange() { MPI_Comm_free(&comm_); }

  /// Collective. By rank: what is sent, and what was received.
  template <class T>
  std::map<int, std::vector<T>> operator()(const std::map<int, std::vector<T>>& sent) {
    const int tag = round_++ % 2;  // a rank may be one round ahead of another, not two
    const Watched watched({.what = "other ranks to make an index space"});
    std::vector<MPI_Request> requests;
    for (const auto& [rank, values] : sent) {
      requests.emplace_back();
      check_mpi(MPI_Issend(values.data(), bytes(values.size() * sizeof(T)), MPI_BYTE, rank, tag,
                           comm_, &requests.back()),
                "MPI_Issend");
    }
    std::map<int, std::vector<T>> received;
    MPI_Request barrier = MPI_REQUEST_NULL;
    for (bool at_barrier = false;;) {
      int found = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &found, &status), "MPI_Iprobe");
      if (found != 0) {
        int size = 0;
        check_mpi(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
        std::vector<T>& values = received[status.MPI_SOURCE];
        values.resize(static_cast<std::size_t>(size) / sizeof(T));
        await_mpi("MPI_Recv", MPI_Recv, static_cast<void*>(values.data()), size, MPI_BYTE,
                  status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE);
      }
      int done = 0;
      if (at_barrier) {
        check_mpi(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done != 0) return received;
        continue;
      }
      check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                            MPI_STATUSES_IGNORE),
                "MPI_Testall");
      if (done == 0) continue;
      check_mpi(MPI_Ibarrier(comm_, &barrier), "MPI_Ibarrier");
      at_barrier = true;
    }
  }

 private:
  static int bytes(std::size_t count) {
    if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw_argument("IndexSpace", {"a rank's elements need a message of 2^31 bytes or more"});
    return static_cast<int>(count);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int round_     = 0;
};

/// Where an element is owned.
struct Home {
  std::int64_t rank = -1, place = -1;
};
/// The homes of ids[owned], ids[owned + 1], ...; the ids before them are those that this rank owns.
/// Collective. Sets `wrong` on some rank where an id is owned twice or not at all.
std::vector<Home> homes_of(MPI_Comm comm, SparseExchange& exchange,
                           const std::vector<std::int64_t>& ids, index_t owned, std::string& wrong);
/// For each of this rank's ids[0] to ids[owned - 1], the number of owned ids of all ranks that are
/// smaller. Collective.
std::vector<index_t> places_by_id(MPI_Comm comm, const std::vector<std::int64_t>& ids,
                                  index_t owned);

}  // namespace shard::impl

#endif
