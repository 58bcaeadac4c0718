// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "index_directory.hpp"

#include <algorithm>
#include <tuple>

namespace shard::impl {

namespace {

Directory directory_of(MPI_Comm comm, const std::vector<std::int64_t>& ids, index_t owned,
                       bool in_order = false) {
  int ranks = 0;
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  IdRange all(ids, owned);
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, all.ends, 2, MPI_INT64_T, MPI_MAX, comm);
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &all.total, 1, MPI_INT64_T, MPI_SUM,
            comm);
  return {ranks, all, in_order};
}

}  // namespace

IdRange::IdRange(const std::vector<std::int64_t>& ids, index_t owned) : total(owned) {
  for (index_t i = 0; i < owned; ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    ends[0]               = std::max(ends[0], ~id);  // as -id, but never out of range
    ends[1]               = std::max(ends[1], id);
  }
}

Directory::Directory(int ranks, const IdRange& all, bool in_order)
    : ranks_(ranks), first_(~all.ends[0]) {
  const auto distance =
      static_cast<std::uint64_t>(all.ends[1]) - static_cast<std::uint64_t>(first_);
  dense_ = all.total > 0 && (in_order || distance < 4 * static_cast<std::uint64_t>(all.total));
  block_ = distance / static_cast<std::uint64_t>(ranks_) + 1;
}

int Directory::rank_of(std::int64_t id) const {
  if (!dense_)
    return static_cast<int>(hash_bytes(&id, sizeof(id), hash_seed) %
                            static_cast<std::uint64_t>(ranks_));
  const std::uint64_t block =
      (static_cast<std::uint64_t>(id) - static_cast<std::uint64_t>(first_)) / block_;
  return static_cast<int>(std::min(block, static_cast<std::uint64_t>(ranks_ - 1)));
}

Mail announcements(const Directory& directory, const std::vector<std::int64_t>& ids,
                   index_t owned) {
  Mail announced;
  for (std::size_t i = 0; i < static_cast<std::size_t>(owned); ++i) {
    auto& list = announced[directory.rank_of(ids[i])];
    list.push_back(ids[i]);
    list.push_back(static_cast<std::int64_t>(i));
  }
  return announced;
}

Mail questions(const Directory& directory, const std::vector<std::int64_t>& ids, index_t owned) {
  Mail asked;
  for (auto i = static_cast<std::size_t>(owned); i < ids.size(); ++i)
    asked[directory.rank_of(ids[i])].push_back(ids[i]);
  return asked;
}

std::vector<DirectoryEntry> entries_of(const Mail& announced, std::string& wrong) {
  std::vector<DirectoryEntry> entries;
  for (const auto& [rank, list] : announced)
    for (std::size_t k = 0; k < list.size(); k += 2)
      entries.push_back({list[k], {rank, list[k + 1]}});
  std::sort(entries.begin(), entries.end(), [](const DirectoryEntry& a, const DirectoryEntry& b) {
    return std::tie(a.id, a.home.rank, a.home.place) < std::tie(b.id, b.home.rank, b.home.place);
  });
  for (std::size_t k = 1; k < entries.size() && wrong.empty(); ++k)
    if (entries[k].id == entries[k - 1].id)
      wrong = "the id " + text(static_cast<index_t>(entries[k].id)) + " is owned by rank " +
              text(static_cast<index_t>(entries[k - 1].home.rank)) + " and by rank " +
              text(static_cast<index_t>(entries[k].home.rank)) + "; an id has one owner";
  return entries;
}

std::map<int, std::vector<Home>> answers_to(const Mail& asked,
                                            const std::vector<DirectoryEntry>& entries) {
  std::map<int, std::vector<Home>> answers;
  for (const auto& [rank, list] : asked)
    for (const std::int64_t id : list) {
      const auto found = std::lower_bound(
          entries.begin(), entries.end(), id,
          [](const DirectoryEntry& entry, std::int64_t sought) { return entry.id < sought; });
      const bool known = found != entries.end() && found->id == id;
      answers[rank].push_back(known ? found->home : Home());
    }
  return answers;
}

std::vector<Home> homes_from(const std::map<int, std::vector<Home>>& answers,
                             const Directory& directory, const std::vector<std::int64_t>& ids,
                             index_t owned) {
  std::vector<Home> homes;
  std::map<int, std::size_t> next;
  for (auto i = static_cast<std::size_t>(owned); i < ids.size(); ++i) {
    const int rank = directory.rank_of(ids[i]);
    homes.push_back(answers.at(rank)[next[rank]++]);
  }
  return homes;
}

std::vector<Home> homes_of(MPI_Comm comm, SparseExchange& exchange,
                           const std::vector<std::int64_t>& ids, index_t owned, std::string& wrong,
                           bool unowned_allowed) {
  const Directory directory = directory_of(comm, ids, owned);
  const auto entries        = entries_of(exchange(announcements(directory, ids, owned)), wrong);
  const auto answers        = answers_to(exchange(questions(directory, ids, owned)), entries);
  auto homes                = homes_from(exchange(answers), directory, ids, owned);
  for (std::size_t i = 0; i < homes.size() && wrong.empty() && !unowned_allowed; ++i)
    if (homes[i].rank < 0)
      wrong = "this rank needs the id " +
              text(static_cast<index_t>(ids[static_cast<std::size_t>(owned) + i])) +
              ", and no rank owns it";
  return homes;
}

std::vector<index_t> places_by_id(MPI_Comm comm, const std::vector<std::int64_t>& ids,
                                  index_t owned) {
  SparseExchange exchange(comm);
  const Directory directory = directory_of(comm, ids, owned, true);
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
  auto places_of = exchange(answers);
  std::vector<index_t> places;
  std::map<int, std::size_t> next;
  for (index_t i = 0; i < owned; ++i) {
    const int rank = directory.rank_of(ids[static_cast<std::size_t>(i)]);
    places.push_back(static_cast<index_t>(places_of[rank][next[rank]++]));
  }
  return places;
}

}  // namespace shard::impl
