// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_VIEW_INDEX_DIRECTORY_HPP
#define SHARD_SRC_VIEW_INDEX_DIRECTORY_HPP

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/base/types.hpp"
#include "shard/view/impl/index_halo.hpp"

/// \file
/// Who owns an element with a global id: a directory that is distributed over the ranks, each of
/// which talks only to those that it shares elements or entries with.

namespace shard::impl {

/// Messages to and from few ranks, none of which knows who sends to it: the algorithm NBX of
/// Hoefler, Siebert and Lumsdaine (2010). A communicator of its own, because a probe takes any
/// message.
class SparseExchange {
 public:
  /// A message has at most `most_bytes` bytes.
  explicit SparseExchange(MPI_Comm comm, std::size_t most_bytes = std::size_t{1} << 30U)
      : most_bytes_(most_bytes) {
    await_mpi("MPI_Comm_dup", MPI_Comm_dup, comm, &comm_);
  }
  SparseExchange(const SparseExchange&)            = delete;
  SparseExchange& operator=(const SparseExchange&) = delete;
  ~SparseExchange() { MPI_Comm_free(&comm_); }

  /// Collective. By rank: what is sent, and what was received.
  template <class T>
  std::map<int, std::vector<T>> operator()(const std::map<int, std::vector<T>>& sent) {
    const int tag = round_++ % 2;  // a rank may be one round ahead of another, not two
    const Watched watched({.what = "other ranks to make an index space"});
    std::vector<MPI_Request> requests;
    // in parts, since MPI counts in ints
    const std::size_t most = std::max<std::size_t>(most_bytes_ / sizeof(T), 1);
    for (const auto& [rank, values] : sent)
      for (std::size_t first = 0; first == 0 || first < values.size(); first += most) {
        const std::size_t count = std::min(most, values.size() - first);
        requests.emplace_back();
        check_mpi(MPI_Issend(values.data() + first, static_cast<int>(count * sizeof(T)), MPI_BYTE,
                             rank, tag, comm_, &requests.back()),
                  "MPI_Issend");
      }
    std::map<int, std::vector<T>> received;
    MPI_Request barrier = MPI_REQUEST_NULL;
    constexpr auto look = Patience::Look::messages;
    Patience patience(look);
    for (bool at_barrier = false;; patience.turn()) {
      int found = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &found, &status), "MPI_Iprobe");
      if (found != 0) {
        int size = 0;
        check_mpi(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
        std::vector<T>& values   = received[status.MPI_SOURCE];
        const std::size_t before = values.size();  // parts arrive in order
        values.resize(before + static_cast<std::size_t>(size) / sizeof(T));
        await_mpi("MPI_Recv", MPI_Recv, static_cast<void*>(values.data() + before), size, MPI_BYTE,
                  status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE);
        patience = Patience(look);
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
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::size_t most_bytes_;
  int round_ = 0;
};

/// Where an element is owned.
struct Home {
  std::int64_t rank = -1, place = -1;
};
/// An element that the directory knows.
struct DirectoryEntry {
  std::int64_t id;
  Home home;
};
/// Lists of numbers by the rank that they go to, or come from.
using Mail = std::map<int, std::vector<std::int64_t>>;

/// The owned ids of one rank or of all: maxima of ends[], sums of total.
struct IdRange {
  std::int64_t ends[2] = {std::numeric_limits<std::int64_t>::min(),
                          std::numeric_limits<std::int64_t>::min()};  ///< ~smallest, largest
  std::int64_t total   = 0;

  IdRange() = default;
  IdRange(const std::vector<std::int64_t>& ids, index_t owned);
};

/// The rank that knows who owns an id: by blocks where ids are dense, else by a hash.
class Directory {
 public:
  /// `all`: of all ranks. `in_order`: by blocks in any case, so that lower ranks know lower ids.
  Directory(int ranks, const IdRange& all, bool in_order = false);
  int rank_of(std::int64_t id) const;

 private:
  int ranks_           = 1;
  bool dense_          = false;
  std::int64_t first_  = 0;
  std::uint64_t block_ = 1;
};

/// The homes of ids[owned], ids[owned + 1], ...; the ids before them are those that this rank owns.
/// Collective. Sets `wrong` on some rank where an id is owned twice, or not at all unless this is
/// allowed: then its home is -1.
std::vector<Home> homes_of(MPI_Comm comm, SparseExchange& exchange,
                           const std::vector<std::int64_t>& ids, index_t owned, std::string& wrong,
                           bool unowned_allowed = false);

/// The steps of homes_of between its messages: what a rank announces of its own elements (ids and
/// places) and asks for (ids), what the directory makes of announcements and answers, and the homes
/// from the answers.
Mail announcements(const Directory& directory, const std::vector<std::int64_t>& ids, index_t owned);
Mail questions(const Directory& directory, const std::vector<std::int64_t>& ids, index_t owned);
std::vector<DirectoryEntry> entries_of(const Mail& announced, std::string& wrong);
std::map<int, std::vector<Home>> answers_to(const Mail& asked,
                                            const std::vector<DirectoryEntry>& entries);
std::vector<Home> homes_from(const std::map<int, std::vector<Home>>& answers,
                             const Directory& directory, const std::vector<std::int64_t>& ids,
                             index_t owned);

/// An element of a halo, as it is described to its owner.
struct AskedElement {
  index_t source, target, layer;
};
/// The steps of make_index_halo around its message: halo.received and halo.unowned, and the message
/// to each owner; halo.sent from the messages to this rank. Sets `wrong` for a place that doesn't
/// exist.
std::map<int, std::vector<AskedElement>> ask_owners(const IndexInput& input,
                                                    const std::vector<Home>& homes,
                                                    IndexHalo& halo);
void note_asked(const std::map<int, std::vector<AskedElement>>& asked, IndexHalo& halo,
                std::string& wrong);
/// Sets halo.layer_end. `elements` is the number of elements in the halo, `layers` the largest
/// number of layers on any rank.
void count_places(const IndexInput& input, std::size_t elements, int layers, IndexHalo& halo);

/// For each of this rank's ids[0] to ids[owned - 1], the number of owned ids of all ranks that are
/// smaller. Collective.
std::vector<index_t> places_by_id(MPI_Comm comm, const std::vector<std::int64_t>& ids,
                                  index_t owned);

}  // namespace shard::impl

#endif
