// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ATTEND_BACK_HPP
#define SHARD_SRC_LAYERS_DEVICE_ATTEND_BACK_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "device_attention_tile.hpp"

/// \file
/// The backward pass of attention on a device.

namespace shard::impl {

/// The backward pass for a tile of queries, or of keys: Keys.
template <class T, int Width, bool Keys, bool Biased, int Lanes>
struct AttendBackTeamKernel {
  using Tile                   = TokenTile<T, Width, true>;
  using Scores                 = typename Tile::Scores;
  using Sums                   = typename Tile::Sums;
  static constexpr int threads = Tile::threads, lanes = Lanes, rows = Tile::lane_rows,
                       queries = Keys ? Tile::others : Tile::own;
  AttentionItem<T> all;
  Block<T> to_first, to_second;  ///< dq; or dk and dv, each of which may be without memory
  const double* sums;
  Block<const T> dy, q, k, v;
  bool first;
  int tiles;

  KOKKOS_FUNCTION const Tokens& side() const { return Keys ? all.shape.keys : all.shape.queries; }
  KOKKOS_FUNCTION index_t side_heads() const {
    return Keys ? all.shape.key_heads() : all.shape.heads;
  }
  index_t teams() const { return all.batch * side_heads() * side().groups() * tiles; }
  static constexpr int scores_size =
      Tile::score_size > 2 * Tile::by_feature_size ? Tile::score_size : 2 * Tile::by_feature_size;
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes() {
    return 16 +
           sizeof(T) * (2 * Tile::own_size + (Keys ? 2 : 1) * Tile::by_token_size + scores_size +
                        2 * queries) +
           sizeof(TokenPlace) * (Tile::own + Tile::others);
  }

  struct Lane {
    typename Scores::Registers scores, outer;
    typename Sums::Registers grown, grown_too;
  };

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    T* const own = static_cast<T*>(
        team.team_scratch(scratch_level(Lanes)).get_shmem_aligned(scratch_bytes() - 16, 16));
    T* const own_too         = own + Tile::own_size;
    T* const by_token        = own_too + Tile::own_size;
    T* const by_token_too    = by_token + (Keys ? Tile::by_token_size : 0);
    T* const by_feature      = by_token_too + Tile::by_token_size;
    T* const by_feature_too  = by_feature + Tile::by_feature_size;
    T* const weight          = by_feature;
    T* const logarithm       = by_feature + scores_size;  // of a query's sum of exp(score)
    T* const product         = logarithm + queries;       // of a query's dy and out
    TokenPlace* const mine   = reinterpret_cast<TokenPlace*>(product + queries);
    TokenPlace* const theirs = mine + Tile::own;
    const Tokens& others     = Keys ? all.shape.queries : all.shape.keys;
    const auto w     = TeamTokens::of(team.league_rank(), side(), side_heads(), tiles, Tile::own);
    const T scale    = static_cast<T>(all.shape.scale);
    const int before = team.team_rank() * Lanes, features = static_cast<int>(all.features);
    Lane lane[Lanes];

    const auto find_numbers = [&](const TokenPlace* places, index_t h) {
      for (int t = before; t < queries; t += Lanes == 1 ? threads : 1) {
        const bool there   = places[t].there;
        const index_t slot = there ? all.number(w.n, h, places[t]) : 0;
        logarithm[t]       = there ? static_cast<T>(sums[slot]) : T(0);
        product[t]         = there ? static_cast<T>(sums[slot + all.numbers]) : T(0);
      }
    };
    for (int l = 0; l < Lanes; ++l) {
      Tile::find(before + l, mine, Tile::own, side(), w.group, w.begin);
      SHARD_UNROLL
      for (int i = 0; i < rows; ++i) {
        SHARD_UNROLL
        for (int j = 0; j < Sums::lane_columns; ++j)
          lane[l].grown.sums[i][j] = lane[l].grown_too.sums[i][j] = T(0);
      }
    }
    team.team_barrier();
    if constexpr (!Keys) find_numbers(mine, w.h);
    for (int l = 0; l < Lanes; ++l) {
      const typename Tile::template Loads<true> one(before + l, all, Keys ? k : q, w, mine),
          two(before + l, all, Keys ? v : dy, w, mine);
      one.by_feature(before + l, own);
      two.by_feature(before + l, own_too);
    }

    const index_t tokens     = others.tokens();
    const index_t shared     = all.shape.heads_per_key;
    const index_t first_head = Keys ? w.h * shared : all.key_head(w.h);  // of the others
    for (index_t h = first_head; h < first_head + (Keys ? shared : 1); ++h) {
      const TeamTokens other_side             = w.of_head(h);
      [[maybe_unused]] const index_t of_query = Keys ? h : w.h;
      for (index_t begin = 0; begin < tokens; begin += Tile::others) {
        const int count =
            static_cast<int>(tokens - begin < Tile::others ? tokens - begin : Tile::others);
        for (int l = 0; l < Lanes; ++l)
          Tile::find(before + l, theirs, Tile::others, others, w.group, begin);
        team.team_barrier();
        if constexpr (Keys) find_numbers(theirs, h);
        for (int l = 0; l < Lanes; ++l) {
          const typename Tile::template Loads<false> one(before + l, all, Keys ? q : k, other_side,
                                                         theirs),
              two(before + l, all, Keys ? dy : v, other_side, theirs);
          one.by_feature(before + l, by_feature);
          two.by_feature(before + l, by_feature_too);
          one.by_token(before + l, by_token);
          if constexpr (Keys) two.by_token(before + l, by_token_too);
        }
        team.team_barrier();
        for (int l = 0; l < Lanes; ++l) {
          const int thread = before + l;
          auto &scores = lane[l].scores.sums, &outer = lane[l].outer.sums;
          SHARD_UNROLL
          for (int i = 0; i < rows; ++i) {
            SHARD_UNROLL
            for (int j = 0; j < Tile::lane_others; ++j) scores[i][j] = outer[i][j] = T(0);
          }
          Tile::template multiply<Scores>(lane[l].scores, thread, own, by_feature, features);
          Tile::template multiply<Scores>(lane[l].outer, thread, own_too, by_feature_too, features);
          SHARD_UNROLL
          for (int i = 0; i < rows; ++i) {
            SHARD_UNROLL
            for (int j = 0; j < Tile::lane_others; ++j) {
              const int row = Scores::row(thread, i), other = Tile::other(thread, j);
              const TokenPlace &query = Keys ? theirs[other] : mine[row],
                               &key   = Keys ? mine[row] : theirs[other];
              const int number        = Keys ? other : row;
              const bool sees         = query.there && all.sees(query, key);
              T score                 = scale * scores[i][j];
              if constexpr (Biased)
                score += all.bias.row(of_query, w.group, query.token)[key.token];
              const T p    = sees ? Kokkos::exp(score - logarithm[number]) : T(0);
              scores[i][j] = p;
              outer[i][j]  = sees ? scale * p * (outer[i][j] - product[number]) : T(0);
            }
          }
        }
        team.team_barrier();  // the columns have been read: scores take their place
        if constexpr (Keys) {
          for (int l = 0; l < Lanes; ++l) Tile::put_scores(lane[l].scores, before + l, weight);
          team.team_barrier();
          for (int l = 0; l < Lanes; ++l)
            Tile::template multiply<Sums>(lane[l].grown_too, before + l, weight, by_token_too,
                                          count);
          team.team_barrier();
        }
        for (int l = 0; l < Lanes; ++l) Tile::put_scores(lane[l].outer, before + l, weight);
        team.team_barrier();
        for (int l = 0; l < Lanes; ++l)
          Tile::template multiply<Sums>(lane[l].grown, before + l, weight, by_token, count);
        team.team_barrier();
      }
    }

    team.team_barrier();  // without other tokens nothing has waited for the own ones
    for (int l = 0; l < Lanes; ++l) {
      Tile::put_sums(lane[l].grown, before + l, own);
      if constexpr (Keys) Tile::put_sums(lane[l].grown_too, before + l, own_too);
    }
    team.team_barrier();
    for (int l = 0; l < Lanes; ++l) {
      Tile::store(before + l, own, all, to_first, w, mine, !first);
      if constexpr (Keys) Tile::store(before + l, own_too, all, to_second, w, mine, !first);
    }
  }
};

/// Whether the heads aren't too wide for it.
template <bool Keys, class Space, class T>
bool device_attend_back(const Space& space, const AttentionItem<T>& all, const Block<T>& to_first,
                        const Block<T>& to_second, const double* sums, const Block<const T>& dy,
                        const Block<const T> (&qkv)[3], bool first) {
  constexpr int widest = sizeof(T) == 4 ? 64 : 32;
  return launch_width<widest>(all.features, [&]<int Width>() {
    using Tile           = TokenTile<T, Width, true>;
    constexpr int lanes  = lanes_of<Space, Tile::threads>;
    const char* const as = Keys ? "shard::attend_keys" : "shard::attend_queries";
    const int tiles      = attention_tiles(Keys ? all.shape.keys : all.shape.queries, Tile::own);
    if (all.bias.empty())
      launch_attention(
          as, space,
          AttendBackTeamKernel<T, Width, Keys, false, lanes>{all, to_first, to_second, sums, dy,
                                                             qkv[0], qkv[1], qkv[2], first, tiles});
    else
      launch_attention(
          as, space,
          AttendBackTeamKernel<T, Width, Keys, true, lanes>{all, to_first, to_second, sums, dy,
                                                            qkv[0], qkv[1], qkv[2], first, tiles});
  });
}

}  // namespace shard::impl

#endif
