// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index space of a mesh on ten thousand ranks, made in one process by the steps that a rank
// takes between messages, and the routes of all ranks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../src/view/index_directory.hpp"
#include "shard/exchange/impl/route.hpp"
#include "shard/shard.hpp"
#include "support/imagined_ranks.hpp"
#include "support/support.hpp"

namespace index_route_test {

using namespace shard;
using impl::IndexHalo;
using impl::IndexInput;
using impl::Piece;
using impl::Route;

struct Ranks;
struct Cell;
/// [cell, level]
using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Ranks, Indices<Cell>>,
                          Kokkos::HostSpace>;
using Id    = std::int64_t;

constexpr int ranks = 10000, layers = 3;
constexpr Id side        = 400;
constexpr index_t levels = 2;

template <class Number>
std::size_t at(Number i) {
  return static_cast<std::size_t>(i);
}

/// The owner of each cell of a torus: compact parts, and among them a twentieth of all cells
/// scattered over all ranks, and cells of nobody. Every fiftieth rank owns nothing.
std::vector<int> owners() {
  std::mt19937_64 random(shard::testing::seed());
  std::vector<MeshPoint> points;
  for (Id id = 0; id < side * side; ++id)
    points.push_back({static_cast<double>(id / side), static_cast<double>(id % side), 0});
  std::vector<int> owner = bisection(points, ranks);
  for (int& o : owner) {
    const auto chance = random() % 100;
    if (chance < 5) o = static_cast<int>(random() % ranks);
    if (o % 50 == 7) ++o;
    if (chance == 99) o = -1;
  }
  return owner;
}

/// Each rank's own cells and the layers around them. `spread`: the distance between ids.
std::vector<IndexInput> described(Id spread) {
  const std::vector<int> owner = owners();
  std::vector<IndexInput> all(ranks);
  for (Id id = 0; id < side * side; ++id)
    if (owner[at(id)] >= 0) all[at(owner[at(id)])].ids.push_back(id);
  for (IndexInput& input : all) {
    input.owned           = static_cast<index_t>(input.ids.size());
    input.unowned_allowed = true;
    std::set<Id> known(input.ids.begin(), input.ids.end());
    std::size_t first = 0;  // of the last layer
    for (int layer = 1; layer <= layers; ++layer) {
      const std::size_t last = input.ids.size();
      for (std::size_t k = first; k < last; ++k) {
        const Id i = input.ids[k] / side, j = input.ids[k] % side;
        for (const Id near : {(i + 1) % side * side + j, (i + side - 1) % side * side + j,
                              i * side + (j + 1) % side, i * side + (j + side - 1) % side})
          if (known.insert(near).second) {
            input.ids.push_back(near);
            input.layers.push_back(layer);
          }
      }
      first = last;
    }
    for (Id& id : input.ids) id *= spread;
  }
  return all;
}

template <class T>
using Mails = std::vector<std::map<int, std::vector<T>>>;  // of each rank, by the other one

template <class T>
Mails<T> delivered(const Mails<T>& sent) {
  Mails<T> received(sent.size());
  for (std::size_t from = 0; from < sent.size(); ++from)
    for (const auto& [to, list] : sent[from]) received[at(to)][static_cast<int>(from)] = list;
  return received;
}
/// step(rank) of all ranks, as messages.
template <class T, class Step>
Mails<T> round(const Step& step) {
  Mails<T> sent;
  for (std::size_t r = 0; r < at(ranks); ++r) sent.push_back(step(r));
  return delivered(sent);
}

std::vector<std::shared_ptr<const IndexHalo>> halos_of(const std::vector<IndexInput>& all) {
  impl::IdRange range;
  for (const IndexInput& input : all) {
    const impl::IdRange own(input.ids, input.owned);
    range.ends[0] = std::max(range.ends[0], own.ends[0]);
    range.ends[1] = std::max(range.ends[1], own.ends[1]);
    range.total += own.total;
  }
  const impl::Directory directory(ranks, range);
  std::string wrong;
  const auto announced =
      round<Id>([&](std::size_t r) { return announcements(directory, all[r].ids, all[r].owned); });
  const auto asked =
      round<Id>([&](std::size_t r) { return questions(directory, all[r].ids, all[r].owned); });
  const auto told = round<impl::Home>(
      [&](std::size_t r) { return answers_to(asked[r], impl::entries_of(announced[r], wrong)); });
  std::vector<std::shared_ptr<IndexHalo>> halos;
  const auto of_owners = round<impl::AskedElement>([&](std::size_t r) {
    halos.push_back(std::make_shared<IndexHalo>());
    halos[r]->space  = impl::axis_id<Cell>();
    halos[r]->owned  = all[r].owned;
    const auto homes = homes_from(told[r], directory, all[r].ids, all[r].owned);
    count_places(all[r], homes.size(), layers, *halos[r]);
    return ask_owners(all[r], homes, *halos[r]);
  });
  for (std::size_t r = 0; r < at(ranks); ++r) note_asked(of_owners[r], *halos[r], wrong);
  EXPECT_EQ(wrong, "");
  return {halos.begin(), halos.end()};
}

/// The routes of all ranks, of all layers or the first ones.
std::vector<Route> routes_of(const std::vector<std::shared_ptr<const IndexHalo>>& halos,
                             int depth) {
  std::vector<index_t> counts;
  for (const auto& halo : halos) counts.push_back(halo->owned);
  const auto cells = Partition::explicit_counts(counts);
  std::vector<Route> routes;
  for (int rank = 0; rank < ranks; ++rank) {
    imagined::begin(ranks, rank);
    {
      const Mesh<Ranks> mesh(MPI_COMM_SELF, {0});
      const Field t("t", mesh,
                    {impl::with_space(cells, halos[at(rank)]), Partition::whole(levels)});
      const auto args = impl::field_args(t);
      auto spec = impl::exchange_spec(*args.geometry, args.types, args.kind, args.value_size, false,
                                      args.stride.data());
      spec.dims[0].layers = depth;
      routes.push_back(impl::route_of(*mesh.state(), {spec}));
    }
    imagined::end();
  }
  return routes;
}

bool same(const Piece& a, const Piece& b) {
  return a.source == b.source && a.target == b.target && a.extent == b.extent && a.step == b.step;
}

bool same_runs(const std::vector<impl::IndexRun>& a, const std::vector<impl::IndexRun>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const impl::IndexRun& x, const impl::IndexRun& y) {
                      return x.part == y.part && x.source == y.source && x.target == y.target &&
                             x.count == y.count && x.layer == y.layer;
                    });
}

TEST(TenThousandRanks, SendWhatTheirPeersExpectAndFillEachPlaceOnce) {
  const auto all   = described(1);
  const auto halos = halos_of(all);
  for (const int depth : {layers, 1}) {
    const auto routes = routes_of(halos, depth);
    std::size_t sent = 0, received = 0;
    index_t zeros  = 0;
    int mismatched = 0, from_others = 0, not_once = 0;
    std::size_t busiest   = 0;
    const auto lower_peer = [](const Piece& p, int peer) { return p.peer < peer; };
    for (int me = 0; me < ranks; ++me) {
      const Route& route = routes[at(me)];
      const auto& ids    = all[at(me)].ids;
      sent += route.sends.size(), received += route.receives.size();
      EXPECT_TRUE(route.locals.empty());
      std::vector<int> written(ids.size());
      for (std::size_t k = 0; k < route.receives.size();) {
        const int peer     = route.receives[k].peer;
        const auto& theirs = routes[at(peer)].sends;
        auto match         = std::lower_bound(theirs.begin(), theirs.end(), me, lower_peer);
        for (; k < route.receives.size() && route.receives[k].peer == peer; ++k, ++match) {
          const Piece& p = route.receives[k];
          mismatched += match != theirs.end() && match->peer == me && same(*match, p) ? 0 : 1;
          from_others += p.extent[1] == levels ? 0 : 1;
          for (index_t i = 0; i < p.extent[0]; ++i) {
            ++written[at(p.target[0] + i)];
            const index_t source = p.source[0] + i;
            from_others += source < all[at(peer)].owned &&
                                   all[at(peer)].ids[at(source)] == ids[at(p.target[0] + i)]
                               ? 0
                               : 1;
          }
        }
        mismatched += match != theirs.end() && match->peer == me ? 1 : 0;
        busiest = std::max(busiest, k);
      }
      for (const Piece& p : route.fills) {
        zeros += p.extent[0];
        for (index_t i = 0; i < p.extent[0]; ++i) ++written[at(p.target[0] + i)];
      }
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool halo   = i >= at(all[at(me)].owned);
        const bool wanted = halo && all[at(me)].layers[i - at(all[at(me)].owned)] <= depth;
        not_once += written[i] == (wanted ? 1 : 0) ? 0 : 1;
      }
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(mismatched, 0);
    EXPECT_EQ(from_others, 0) << "places get an element of another id";
    EXPECT_EQ(not_once, 0);
    EXPECT_GT(received, at(ranks));
    EXPECT_GT(zeros, ranks / 10) << "cells of nobody";
    EXPECT_LT(busiest, 1000U);
  }
}

// ids without gaps are found by blocks, others by a hash
TEST(TenThousandRanks, FindOwnersOfAnyIds) {
  const auto dense = halos_of(described(1)), sparse = halos_of(described(1000003));
  int different = 0;
  for (std::size_t r = 0; r < at(ranks); ++r)
    different += same_runs(dense[r]->received, sparse[r]->received) &&
                         same_runs(dense[r]->sent, sparse[r]->sent) &&
                         same_runs(dense[r]->unowned, sparse[r]->unowned)
                     ? 0
                     : 1;
  EXPECT_EQ(different, 0);
}

}  // namespace index_route_test
