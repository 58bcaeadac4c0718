// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index spaces: who owns the elements of a rank's halo, found by a distributed directory. A rank
// talks only to those that it shares elements or directory entries with.
#include "shard/view/index_space.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "index_directory.hpp"

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

/// The error in what the caller gives; empty if there is none.
std::string complaint(const IndexInput& input, int ranks) {
  const std::size_t places = input.by_ids ? input.ids.size() : input.owner.size();
  if (input.owned < 0 || (input.by_ids && static_cast<std::size_t>(input.owned) > places))
    return text(input.owned) + " of " + text(static_cast<index_t>(places)) +
           " places can't be owned";
  if (input.interior < 0 || input.interior > input.owned)
    return "the interior has " + text(input.interior) + " places of " + text(input.owned) +
           " owned ones";
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
    if (owner < (input.unowned_allowed ? -1 : 0) || owner >= ranks)
      return "an owner is " + text(owner) + "; the axis has " + text(ranks) + " ranks";
  return {};
}

int layer_of(const IndexInput& input, std::size_t i) {
  return input.layers.empty() ? 1 : input.layers[i];
}

/// Sorts elements by the other rank, layer and target, and joins consecutive ones.
std::vector<IndexRun> runs_of(std::vector<IndexRun> links) {
  std::sort(links.begin(), links.end(), [](const IndexRun& a, const IndexRun& b) {
    return std::tie(a.part, a.layer, a.target) < std::tie(b.part, b.layer, b.target);
  });
  std::vector<IndexRun> runs;
  for (const IndexRun& link : links) {
    if (!runs.empty()) {
      IndexRun& last = runs.back();
      if (last.part == link.part && last.layer == link.layer &&
          last.source + last.count == link.source && last.target + last.count == link.target) {
        ++last.count;
        continue;
      }
    }
    runs.push_back(link);
  }
  return runs;
}

/// Spreads each bit over all bits (SplitMix64's finaliser). Sums of plain FNV hashes over the ranks
/// are equal for spaces that differ in who has which halo.
std::uint64_t spread(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

template <class T>
void mix(std::uint64_t& hash, const std::vector<T>& list) {
  hash = hash_bytes(list.data(), list.size() * sizeof(T), hash);
}

}  // namespace

const IndexHalo& made_halo(const Partition& partition) {
  if (partition.index_halo() == nullptr)
    throw_argument("IndexSpace", {"this space was made by default; assign one first"});
  return *partition.index_halo();
}

std::vector<index_t> places_of(const IndexHalo& halo, const std::vector<std::int64_t>& ids) {
  if (halo.ids.empty() && halo.layer_end.back() > 0)
    throw_argument("IndexSpace::places_of",
                   {"the space is described by owners, so its elements have no ids; describe it "
                    "by_global_ids"});
  std::vector<std::pair<std::int64_t, index_t>> sorted;
  for (std::size_t i = 0; i < halo.ids.size(); ++i)
    sorted.emplace_back(halo.ids[i], static_cast<index_t>(i));
  std::sort(sorted.begin(), sorted.end());
  std::vector<index_t> places;
  for (const std::int64_t id : ids) {
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), std::pair{id, index_t{0}});
    places.push_back(found != sorted.end() && found->first == id ? found->second : -1);
  }
  return places;
}

index_t places_up_to(const IndexHalo& halo, int layer) {
  const auto last = static_cast<int>(halo.layer_end.size()) - 1;
  // one rank has no halo, and a program for many ranks must run on it
  if (layer < 0 || (layer > last && last > 0))
    throw_argument("IndexSpace", {"layer ", text(layer), " is not between 0 and ", text(last)});
  return halo.layer_end[static_cast<std::size_t>(std::min(layer, last))];
}

std::map<int, std::vector<AskedElement>> ask_owners(const IndexInput& input,
                                                    const std::vector<Home>& homes,
                                                    IndexHalo& halo) {
  std::vector<IndexRun> links, unowned;
  std::map<int, std::vector<AskedElement>> asked;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const auto owner     = static_cast<int>(homes[i].rank);
    const index_t target = input.owned + static_cast<index_t>(i);
    const int layer      = layer_of(input, i);
    if (owner < 0) {
      unowned.push_back({0, static_cast<index_t>(i), target, 1, layer});
      continue;
    }
    links.push_back({owner, homes[i].place, target, 1, layer});
    asked[owner].push_back({homes[i].place, target, layer});
  }
  halo.received = runs_of(std::move(links));
  halo.unowned  = runs_of(std::move(unowned));
  return asked;
}

void note_asked(const std::map<int, std::vector<AskedElement>>& asked, IndexHalo& halo,
                std::string& wrong) {
  std::vector<IndexRun> links;
  for (const auto& [rank, list] : asked)
    for (const AskedElement& a : list) {
      if ((a.source < 0 || a.source >= halo.owned) && wrong.empty())
        wrong = "rank " + text(rank) + " has place " + text(static_cast<index_t>(a.source)) +
                " of this rank in its halo, which owns " + text(halo.owned) + " elements";
      links.push_back({rank, a.source, a.target, 1, a.layer});
    }
  halo.sent = runs_of(std::move(links));
}

void count_places(const IndexInput& input, std::size_t elements, int layers, IndexHalo& halo) {
  halo.layer_end.assign(static_cast<std::size_t>(layers) + 1, input.owned);
  for (std::size_t i = 0; i < elements; ++i)
    for (auto l = static_cast<std::size_t>(layer_of(input, i)); l < halo.layer_end.size(); ++l)
      ++halo.layer_end[l];
}

std::shared_ptr<const IndexHalo> make_index_halo(MPI_Comm comm, AxisId space,
                                                 const IndexInput& input) {
  int ranks = 0, me = 0;
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(comm, &me), "MPI_Comm_rank");
  require_agreement(comm, input.function,
                    std::string("elements described by ") + (input.by_ids ? "ids" : "owners") +
                        (input.unowned_allowed ? ", zero where unowned" : ""));
  require_no_error(comm, input.function, complaint(input, ranks));
  SparseExchange exchange(comm);

  std::string wrong;
  std::vector<Home> homes;
  if (input.by_ids)
    homes = homes_of(comm, exchange, input.ids, input.owned, wrong, input.unowned_allowed);
  else
    for (std::size_t i = 0; i < input.owner.size(); ++i)
      homes.push_back({input.owner[i], input.place[i]});
  require_no_error(comm, input.function, wrong);

  auto halo        = std::make_shared<IndexHalo>();
  halo->space      = space;
  halo->ids        = input.ids;
  halo->owned      = input.owned;
  halo->interior   = input.interior;
  const auto asked = ask_owners(input, homes, *halo);
  note_asked(exchange(asked), *halo, wrong);
  require_no_error(comm, input.function, wrong);

  int layers = homes.empty() ? 0 : layer_of(input, homes.size() - 1);
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &layers, 1, MPI_INT, MPI_MAX, comm);
  count_places(input, homes.size(), layers, *halo);

  std::uint64_t identity = hash_bytes(&me, sizeof(me), hash_seed);
  mix(identity, halo->ids);
  mix(identity, halo->received);
  mix(identity, halo->unowned);
  mix(identity, halo->layer_end);
  std::uint64_t hashes[] = {spread(identity), 0};  // of all, and of the owned ids
  if (input.by_ids) {
    const auto bytes = static_cast<std::size_t>(input.owned) * sizeof(input.ids[0]);
    hashes[1] = spread(hash_bytes(input.ids.data(), bytes, hash_bytes(&me, sizeof(me), hash_seed)));
  }
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, hashes, 2, MPI_UINT64_T, MPI_SUM, comm);
  halo->identity = hashes[0];
  halo->elements = hashes[1];
  return halo;
}

}  // namespace impl
}  // namespace shard
