// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "index_directory.hpp"

#include <algorithm>
#include <tuple>

namespace shard::impl {

namespace {

/// The rank that knows who owns an id: by blocks where ids are dense, else by a hash.
class Directory {
 public:
  /// Collective. `in_order`: by blocks in any case, so that lower ranks know lower ids.
  Directory(MPI_Comm comm, const std::vector<std::int64_t>& ids, index_t owned,
            bool in_order = false) {
    check_mpi(MPI_Comm_size(comm, &ranks_), "MPI_Comm_size");
    std::int64_t ends[2] = {std::numeric_limits<std::int64_t>::min(),
                            std::numeric_limits<std::int64_t>::min()};  // -smallest, largest
    for (index_t i = 0; i < owned; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      ends[0]               = std::max(ends[0], ~id);  // as -id, but never out of range
      ends[1]               = std::max(ends[1], id);
    }
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, ends, 2, MPI_INT64_T, MPI_MAX, comm);
    std::int64_t total = owned;
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, comm);
    first_              = ~ends[0];
    const auto distance = static_cast<std::uint64_t>(ends[1]) - static_cast<std::uint64_t>(first_);
    dense_ = total > 0 && (in_order || distance < 4 * static_cast<std::uint64_t>(total));
    block_ = distance / static_cast<std::uint64_t>(ranks_) + 1;
  }
  int rank_of(std::int64_t id) const {
    if (!dense_)
      return static_cast<int>(hash_bytes(&id, sizeof(id), hash_seed) %
                              static_cast<std::uint64_t>(ranks_));
    const std::uint64_t block =
        (static_cast<std::uint64_t>(id) - static_cast<std::uint64_t>(first_)) / block_;
    return static_cast<int>(std::min(block, static_cast<std::uint64_t>(ranks_ - 1)));
  }

 private:
  int ranks_           = 1;
  bool dense_          = false;
  std::int64_t first_  = 0;
  std::uint64_t block_ = 1;
};

}  // namespace

std::vector<Home> homes_of(MPI_Comm comm, SparseExchange& exchange,
                           const std::vector<std::int64_t>& ids, index_t owned_count,
                           std::string& wrong) {
  const Directory directory(comm, ids, owned_count);
  const auto owned = static_cast<std::size_t>(owned_count);
  std::map<int, std::vector<std::int64_t>> announced, wanted;  // ids and places; ids
  for (std::size_t i = 0; i < owned; ++i) {
    auto& list = announced[directory.rank_of(ids[i])];
    list.push_back(ids[i]);
    list.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = owned; i < ids.size(); ++i)
    wanted[directory.rank_of(ids[i])].push_back(ids[i]);

  struct Entry {
    std::int64_t id;
    Home home;
  };
  std::vector<Entry> entries;
  for (const auto& [rank, list] : exchange(announced))
    for (std::size_t k = 0; k < list.size(); k += 2)
      entries.push_back({list[k], {rank, list[k + 1]}});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.id, a.home.rank, a.home.place) < std::tie(b.id, b.home.rank, b.home.place);
  });
  for (std::size_t k = 1; k < entries.size() && wrong.empty(); ++k)
    if (entries[k].id == entries[k - 1].id)
      wrong = "the id " + text(static_cast<index_t>(entries[k].id)) + " is owned by rank " +
              text(static_cast<index_t>(entries[k - 1].home.rank)) + " and by rank " +
              text(static_cast<index_t>(entries[k].home.rank)) + "; an id has one owner";

  std::map<int, std::vector<Home>> answers;
  for (const auto& [rank, list] : exchange(wanted))
    for (const std::int64_t id : list) {
      const auto found = std::lower_bound(
          entries.begin(), entries.end(), id,
          [](const Entry& entry, std::int64_t sought) { return entry.id < sought; });
      const bool known = found != entries.end() && found->id == id;
      if (!known && wrong.empty())
        wrong = "rank " + text(rank) + " needs the id " + text(static_cast<index_t>(id)) +
                ", and no rank owns it";
      answers[rank].push_back(known ? found->home : Home());
    }
  auto told = exchange(answers);
  std::vector<Home> homes;
  std::map<int, std::size_t> next;
  for (std::size_t i = owned; i < ids.size(); ++i) {
    const int rank = directory.rank_of(ids[i]);
    homes.push_back(told[rank][next[rank]++]);
  }
  return homes;
}

std::vector<index_t> places_by_id(MPI_Comm comm, const std::vector<std::int64_t>& ids,
                                  index_t owned) {
  SparseExchange exchange(comm);
  const Directory directory(comm, ids, owned, true);
  std::map<int, std::vector<std::int64_t>> announced, answers;
  for (index_t i = 0; i < owned; ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    announced[directory.rank_of(id)].push_back(id);
  }
  const auto received = exchange(announced);
  std::vector<std::int64_t> sorted;
  for (const auto& [rank, list] : received) sorted.insert(sorted.end(), list.begin(), list.end());
  std::sort(sorted.begin(), sorted.end());
  const auto count    = static_cast<std::int64_t>(sorted.size());
  std::int64_t before = 0;
  await_mpi("MPI_Scan", MPI_Scan, &count, &before, 1, MPI_INT64_T, MPI_SUM, comm);
  before -= count;
  for (const auto& [rank, list] : received)
    for (const std::int64_t id : list)
      answers[rank].push_back(
          before + (std::lower_bound(sorted.begin(), sorted.end(), id) - sorted.begin()));
  auto told = exchange(answers);
  std::vector<index_t> places;
  std::map<int, std::size_t> next;
  for (index_t i = 0; i < owned; ++i) {
    const int rank = directory.rank_of(ids[static_cast<std::size_t>(i)]);
    places.push_back(static_cast<index_t>(told[rank][next[rank]++]));
  }
  return places;
}

}  // namespace shard::impl
