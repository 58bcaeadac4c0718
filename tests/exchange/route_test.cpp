// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes of all ranks of a mesh, made in one process.
#include <gtest/gtest.h>
#include <mpi.h>

#include <map>
#include <vector>

#include "shard/exchange/impl/route.hpp"
#include "shard/shard.hpp"
#include "shard/view/index_map.hpp"
#include "support/imagined_ranks.hpp"

namespace {

using namespace shard;
using impl::Geometry;
using impl::Piece;
using impl::Route;

struct Y;
struct X;
/// Halos wider than some shards; a boundary of each kind that isn't a fold.
using Field = ShardedView<double**, Kokkos::LayoutRight,
                          ShardDim<0, Y, Halo<2, 1>, Sides<Reflect, Constant<3>>>,
                          ShardDim<1, X, Halo<1, 3>, Periodic>, Kokkos::HostSpace>;

/// What one rank knows.
struct Rank {
  Route route;
  index_t begin[2] = {}, owned[2] = {};
};

constexpr int rows = 2, columns = 3;
constexpr index_t extents[] = {7, 8};

std::vector<Rank> all_ranks(impl::RouteKind kind, impl::HaloPart part) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < rows * columns; ++rank) {
    imagined::begin(rows * columns, rank);
    {
      const Mesh<Y, X> mesh(MPI_COMM_SELF, {rows, columns});
      const Field t("t", mesh, {extents[0], extents[1]});
      const auto args = impl::field_args(t);
      auto spec = impl::exchange_spec(*args.geometry, args.types, args.kind, args.value_size, false,
                                      args.stride.data());
      spec.route = kind;
      spec.part  = part;
      Rank r{impl::route_of(*mesh.state(), {spec})};
      for (int d = 0; d < 2; ++d) {
        r.begin[d] = t.begin(d);
        r.owned[d] = t.extent(d);
      }
      ranks.push_back(std::move(r));
    }
    imagined::end();
  }
  return ranks;
}

bool same(const Piece& a, const Piece& b) {
  return a.field == b.field && a.source == b.source && a.target == b.target &&
         a.extent == b.extent && a.step == b.step && a.negative == b.negative;
}

std::vector<Piece> with_peer(const std::vector<Piece>& pieces, int peer) {
  std::vector<Piece> list;
  for (const Piece& p : pieces)
    if (p.peer == peer) list.push_back(p);
  return list;
}

TEST(Route, WhatARankSendsIsWhatItsPeerReceives) {
  for (const auto part : {impl::HaloPart::all, impl::HaloPart::faces, impl::HaloPart::inside,
                          impl::HaloPart::edges}) {
    const auto ranks = all_ranks(impl::RouteKind::halo, part);
    for (int from = 0; from < rows * columns; ++from)
      for (int to = 0; to < rows * columns; ++to) {
        const auto sent     = with_peer(ranks[static_cast<std::size_t>(from)].route.sends, to),
                   received = with_peer(ranks[static_cast<std::size_t>(to)].route.receives, from);
        ASSERT_EQ(sent.size(), received.size()) << from << " to " << to;
        for (std::size_t i = 0; i < sent.size(); ++i)
          EXPECT_TRUE(same(sent[i], received[i])) << from << " to " << to << ", piece " << i;
      }
  }
}

TEST(Route, EachHaloElementIsWrittenOnceFromWhereTheBoundarySays) {
  const auto ranks = all_ranks(impl::RouteKind::halo, impl::HaloPart::all);
  for (const Rank& r : ranks) {
    std::map<std::pair<index_t, index_t>, int> written;
    const auto look = [&](const Piece& p, bool fill) {
      const Rank& source = ranks[static_cast<std::size_t>(p.peer)];
      for (index_t i = 0; i < p.extent[0]; ++i)
        for (index_t j = 0; j < p.extent[1]; ++j) {
          const index_t at[] = {p.target[0] + i, p.target[1] + j},
                        of[] = {p.source[0] + p.step[0] * i, p.source[1] + p.step[1] * j};
          ++written[{at[0], at[1]}];
          const BoundaryKind kinds[] = {
              at[0] + r.begin[0] < 0 ? BoundaryKind::reflect : BoundaryKind::constant,
              BoundaryKind::periodic};
          bool constant = false;
          for (int d = 0; d < 2; ++d) {
            const Image image = image_of(kinds[d], at[d] + r.begin[d], extents[d]);
            constant          = constant || image.constant;
            if (!fill) {
              EXPECT_EQ(of[d] + source.begin[d], image.source);
            }
          }
          EXPECT_EQ(constant, fill);
        }
    };
    for (const auto* list : {&r.route.receives, &r.route.locals})
      for (const Piece& p : *list) look(p, false);
    for (const Piece& p : r.route.fills) look(p, true);
    const index_t halo = (r.owned[0] + 3) * (r.owned[1] + 4) - r.owned[0] * r.owned[1];
    EXPECT_EQ(static_cast<index_t>(written.size()), halo);
    for (const auto& [cell, times] : written) EXPECT_EQ(times, 1);
  }
}

}  // namespace
