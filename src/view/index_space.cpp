// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index spaces: who owns the elements of a rank's halo, found by a distributed directory. A rank
// talks only to those that it shares elements or directory entries with.
#include "shard/view/index_space.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard {

IndexDescription by_global_ids(std::vector<std::int64_t> ids, index_t owned,
                               std::vector<int> layers) {
  impl::IndexInput input;
  input.ids    = std::move(ids);
  input.owned  = owned;
  input.layers = std::move(layers);
  return IndexDescription(std::move(input));
}

IndexDescription by_owner(std::vector<int> owner, std::vector<index_t> place, index_t owned,
                          std::vector<int> layers) {
  impl::IndexInput input;
  input.by_ids = false;
  input.owner  = std::move(owner);
  input.place  = std::move(place);
  input.owned  = owned;
  input.layers = std::move(layers);
  return IndexDescription(std::move(input));
}

namespace impl {

namespace {

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
/// An element of a halo, as its owner is told of it.
struct Asked {
  std::int64_t source, target, layer;
};

/// The rank that knows who owns an id: by blocks where ids are dense, else by a hash.
class Directory {
 public:
  /// Collective.
  Directory(MPI_Comm comm, const std::vector<std::int64_t>& ids, index_t owned) {
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
    dense_              = total > 0 && distance < 4 * static_cast<std::uint64_t>(total);
    block_              = distance / static_cast<std::uint64_t>(ranks_) + 1;
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

/// The homes of the ids in the halo. Sets `wrong` where an id is owned twice or not at all.
std::vector<Home> homes_of(MPI_Comm comm, SparseExchange& exchange, const IndexInput& input,
                           std::string& wrong) {
  const Directory directory(comm, input.ids, input.owned);
  const auto owned = static_cast<std::size_t>(input.owned);
  std::map<int, std::vector<std::int64_t>> announced, wanted;  // ids and places; ids
  for (std::size_t i = 0; i < owned; ++i) {
    auto& list = announced[directory.rank_of(input.ids[i])];
    list.push_back(input.ids[i]);
    list.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = owned; i < input.ids.size(); ++i)
    wanted[directory.rank_of(input.ids[i])].push_back(input.ids[i]);

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
        wrong = "the id " + text(static_cast<index_t>(id)) + " is in the halo of rank " +
                text(rank) + ", and no rank owns it";
      answers[rank].push_back(known ? found->home : Home());
    }
  auto told = exchange(answers);
  std::vector<Home> homes;
  std::map<int, std::size_t> next;
  for (std::size_t i = owned; i < input.ids.size(); ++i) {
    const int rank = directory.rank_of(input.ids[i]);
    homes.push_back(told[rank][next[rank]++]);
  }
  return homes;
}

/// The error in what the caller gives; empty if there is none.
std::string complaint(const IndexInput& input, int ranks) {
  const std::size_t places = input.by_ids ? input.ids.size() : input.owner.size();
  if (input.owned < 0 || (input.by_ids && static_cast<std::size_t>(input.owned) > places))
    return text(input.owned) + " of " + text(static_cast<index_t>(places)) +
           " places can't be owned";
  const std::size_t halo = input.by_ids ? places - static_cast<std::size_t>(input.owned) : places;
  if (!input.by_ids && input.place.size() != halo)
    return text(static_cast<index_t>(halo)) + " owners and " +
           text(static_cast<index_t>(input.place.size())) + " places are given; give one of each";
  if (!input.layers.empty() && input.layers.size() != halo)
    return "the halo has " + text(static_cast<index_t>(halo)) + " places and " +
           text(static_cast<index_t>(input.layers.size())) + " layers are given";
  for (std::size_t i = 0; i < input.layers.size(); ++i)
    if (input.layers[i] < (i == 0 ? 1 : input.layers[i - 1]))
      return "the layer of place " + text(static_cast<index_t>(i)) + " of the halo is " +
             text(input.layers[i]) + "; layers begin at 1 and don't fall";
  for (const int owner : input.owner)
    if (owner < 0 || owner >= ranks)
      return "an owner is " + text(owner) + "; the axis has " + text(ranks) + " ranks";
  return {};
}

/// One element of a run of its own.
struct Link {
  int part;
  index_t source, target;
  int layer;
};

/// Sorts elements by the other rank, layer and target, and joins consecutive ones.
std::vector<IndexRun> runs_of(std::vector<Link> links) {
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) {
    return std::tie(a.part, a.layer, a.target) < std::tie(b.part, b.layer, b.target);
  });
  std::vector<IndexRun> runs;
  for (const Link& link : links) {
    if (!runs.empty()) {
      IndexRun& last = runs.back();
      if (last.part == link.part && last.layer == link.layer &&
          last.source + last.count == link.source && last.target + last.count == link.target) {
        ++last.count;
        continue;
      }
    }
    runs.push_back({link.part, link.source, link.target, 1, link.layer});
  }
  return runs;
}

template <class T>
void mix(std::uint64_t& hash, const std::vector<T>& list) {
  hash = hash_bytes(list.data(), list.size() * sizeof(T), hash);
}

}  // namespace

index_t places_up_to(const IndexHalo& halo, int layer) {
  if (layer < 0 || layer >= static_cast<int>(halo.layer_end.size()))
    throw_argument("IndexSpace", {"layer ", text(layer), " is not between 0 and ",
                                  text(static_cast<index_t>(halo.layer_end.size()) - 1)});
  return halo.layer_end[static_cast<std::size_t>(layer)];
}

std::shared_ptr<const IndexHalo> make_index_halo(MPI_Comm comm, AxisId space,
                                                 const IndexInput& input) {
  int ranks = 0, me = 0;
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(comm, &me), "MPI_Comm_rank");
  require_no_error(comm, "IndexSpace", complaint(input, ranks));
  SparseExchange exchange(comm);

  std::string wrong;
  std::vector<Home> homes;
  if (input.by_ids)
    homes = homes_of(comm, exchange, input, wrong);
  else
    for (std::size_t i = 0; i < input.owner.size(); ++i)
      homes.push_back({input.owner[i], input.place[i]});
  require_no_error(comm, "IndexSpace", wrong);

  auto halo           = std::make_shared<IndexHalo>();
  halo->space         = space;
  halo->ids           = input.ids;
  halo->owned         = input.owned;
  const auto layer_of = [&](std::size_t i) { return input.layers.empty() ? 1 : input.layers[i]; };
  std::vector<Link> links;
  std::map<int, std::vector<Asked>> asked;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const auto owner     = static_cast<int>(homes[i].rank);
    const index_t target = input.owned + static_cast<index_t>(i);
    links.push_back({owner, homes[i].place, target, layer_of(i)});
    asked[owner].push_back({homes[i].place, target, layer_of(i)});
  }
  halo->received = runs_of(std::move(links));
  links.clear();
  for (const auto& [rank, list] : exchange(asked))
    for (const Asked& a : list) {
      if ((a.source < 0 || a.source >= input.owned) && wrong.empty())
        wrong = "rank " + text(rank) + " has place " + text(static_cast<index_t>(a.source)) +
                " of this rank in its halo, which owns " + text(input.owned) + " elements";
      links.push_back({rank, a.source, a.target, static_cast<int>(a.layer)});
    }
  require_no_error(comm, "IndexSpace", wrong);
  halo->sent = runs_of(std::move(links));

  int layers = homes.empty() ? 0 : layer_of(homes.size() - 1);
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &layers, 1, MPI_INT, MPI_MAX, comm);
  halo->layer_end.assign(static_cast<std::size_t>(layers) + 1, input.owned);
  for (std::size_t i = 0; i < homes.size(); ++i)
    for (auto l = static_cast<std::size_t>(layer_of(i)); l < halo->layer_end.size(); ++l)
      ++halo->layer_end[l];

  std::uint64_t identity = hash_bytes(&me, sizeof(me), hash_seed);
  mix(identity, halo->ids);
  mix(identity, halo->received);
  mix(identity, halo->layer_end);
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &identity, 1, MPI_UINT64_T, MPI_SUM,
            comm);
  halo->identity = identity;
  return halo;
}

}  // namespace impl
}  // namespace shard
