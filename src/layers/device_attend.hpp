// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ATTEND_HPP
#define SHARD_SRC_LAYERS_DEVICE_ATTEND_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "device_attention_tile.hpp"

/// \file
/// The forward pass of attention on a device.

namespace shard::impl {

/// The forward pass.
template <class T, int Width, bool Biased, int Lanes>
struct AttendTeamKernel {
  using Tile                   = TokenTile<T, Width, false>;
  using Scores                 = typename Tile::Scores;
  using Sums                   = typename Tile::Sums;
  static constexpr int threads = Tile::threads, lanes = Lanes, rows = Tile::lane_rows;
  AttentionItem<T> all;
  Block<T> out;
  double* sums;
  Block<const T> q, k, v;
  bool first, last;
  int tiles;

  index_t teams() const { return all.batch * all.shape.heads * all.shape.queries.groups() * tiles; }
  static constexpr int scores_size =
      Tile::score_size > Tile::by_feature_size ? Tile::score_size : Tile::by_feature_size;
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes() {
    return 16 +
           sizeof(T) *
               (Tile::own_size + Tile::by_token_size + scores_size + Tile::sharers * Tile::own) +
           sizeof(TokenPlace) * (Tile::own + Tile::others);
  }

  struct Lane {
    typename Scores::Registers scores;
    typename Sums::Registers out;
    T largest[rows];
    T sum[rows];  ///< of exp(score - largest) of the thread's own columns
  };

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    constexpr T none = -Kokkos::Experimental::infinity_v<T>;
    T* const query   = static_cast<T*>(
        team.team_scratch(scratch_level(Lanes)).get_shmem_aligned(scratch_bytes() - 16, 16));
    T* const value           = query + Tile::own_size;
    T* const key             = value + Tile::by_token_size;
    T* const weight          = key;
    T* const shared          = key + scores_size;  // [sharer][own]
    TokenPlace* const mine   = reinterpret_cast<TokenPlace*>(shared + Tile::sharers * Tile::own);
    TokenPlace* const theirs = mine + Tile::own;
    const auto w =
        TeamTokens::of(team.league_rank(), all.shape.queries, all.shape.heads, tiles, Tile::own);
    const T scale    = static_cast<T>(all.shape.scale);
    const int before = team.team_rank() * Lanes, features = static_cast<int>(all.features);
    const TeamTokens of_keys = w.of_head(all.key_head(w.h));
    Lane lane[Lanes];

    for (int l = 0; l < Lanes; ++l)
      Tile::find(before + l, mine, Tile::own, all.shape.queries, w.group, w.begin);
    team.team_barrier();
    if (!first) {
      for (int l = 0; l < Lanes; ++l)
        typename Tile::template Loads<true>(before + l, all, out, w, mine)
            .by_feature(before + l, query);
      team.team_barrier();
    }
    for (int l = 0; l < Lanes; ++l) {
      const int thread = before + l;
      SHARD_UNROLL
      for (int i = 0; i < rows; ++i) {
        const int row      = Scores::row(thread, i);
        const bool anew    = first || !mine[row].there;
        const index_t slot = anew ? 0 : all.number(w.n, w.h, mine[row]);
        lane[l].largest[i] = anew ? none : static_cast<T>(sums[slot]);
        lane[l].sum[i] =
            anew || thread % Tile::sharers != 0 ? T(0) : static_cast<T>(sums[slot + all.numbers]);
        SHARD_UNROLL
        for (int j = 0; j < Sums::lane_columns; ++j)
          lane[l].out.sums[i][j] =
              first ? T(0) : query[Sums::column(thread, j) * Scores::row_pitch + row];
      }
    }
    team.team_barrier();
    for (int l = 0; l < Lanes; ++l)
      typename Tile::template Loads<true>(before + l, all, q, w, mine)
          .by_feature(before + l, query);

    const index_t keys = all.shape.keys.tokens();
    for (index_t begin = 0; begin < keys; begin += Tile::others) {
      const int count = static_cast<int>(keys - begin < Tile::others ? keys - begin : Tile::others);
      for (int l = 0; l < Lanes; ++l)
        Tile::find(before + l, theirs, Tile::others, all.shape.keys, w.group, begin);
      team.team_barrier();
      for (int l = 0; l < Lanes; ++l) {
        const typename Tile::template Loads<false> of_k(before + l, all, k, of_keys, theirs),
            of_v(before + l, all, v, of_keys, theirs);
        of_k.by_feature(before + l, key);
        of_v.by_token(before + l, value);
      }
      team.team_barrier();
      for (int l = 0; l < Lanes; ++l) {
        const int thread = before + l;
        auto& scores     = lane[l].scores.sums;
        SHARD_UNROLL
        for (int i = 0; i < rows; ++i) {
          SHARD_UNROLL
          for (int j = 0; j < Tile::lane_others; ++j) scores[i][j] = T(0);
        }
        Tile::template multiply<Scores>(lane[l].scores, thread, query, key, features);
        SHARD_UNROLL
        for (int i = 0; i < rows; ++i) {
          const TokenPlace& place = mine[Scores::row(thread, i)];
          T most                  = none;
          SHARD_UNROLL
          for (int j = 0; j < Tile::lane_others; ++j) {
            const TokenPlace& other = theirs[Tile::other(thread, j)];
            T score                 = scale * scores[i][j];
            if constexpr (Biased) score += all.bias.row(w.h, w.group, place.token)[other.token];
            scores[i][j] = all.sees(place, other) ? score : none;
            most         = scores[i][j] > most ? scores[i][j] : most;
          }
          shared[thread % Tile::sharers * Tile::own + Scores::row(thread, i)] = most;
        }
      }
      team.team_barrier();  // the keys have been read: scores take their place
      for (int l = 0; l < Lanes; ++l) {
        const int thread = before + l;
        SHARD_UNROLL
        for (int i = 0; i < rows; ++i) {
          T most = lane[l].largest[i];
          SHARD_UNROLL
          for (int s = 0; s < Tile::sharers; ++s) {
            const T other = shared[s * Tile::own + Scores::row(thread, i)];
            most          = other > most ? other : most;
          }
          const T base       = most == none ? T(0) : most;
          const T less       = Kokkos::exp(lane[l].largest[i] - base);
          lane[l].largest[i] = most;
          lane[l].sum[i] *= less;
          SHARD_UNROLL
          for (int j = 0; j < Tile::lane_others; ++j) {
            T& score = lane[l].scores.sums[i][j];
            score    = Kokkos::exp(score - base);
            lane[l].sum[i] += score;
          }
          SHARD_UNROLL
          for (int j = 0; j < Sums::lane_columns; ++j) lane[l].out.sums[i][j] *= less;
        }
        Tile::put_scores(lane[l].scores, thread, weight);
      }
      team.team_barrier();
      for (int l = 0; l < Lanes; ++l)
        Tile::template multiply<Sums>(lane[l].out, before + l, weight, value, count);
      team.team_barrier();
    }

    for (int l = 0; l < Lanes; ++l) {
      SHARD_UNROLL
      for (int i = 0; i < rows; ++i)
        shared[(before + l) % Tile::sharers * Tile::own + Scores::row(before + l, i)] =
            lane[l].sum[i];
    }
    team.team_barrier();
    for (int l = 0; l < Lanes; ++l) {
      const int thread = before + l;
      SHARD_UNROLL
      for (int i = 0; i < rows; ++i) {
        const int row = Scores::row(thread, i);
        T sum         = T(0);
        for (int s = 0; s < Tile::sharers; ++s) sum += shared[s * Tile::own + row];
        const T factor = !last ? T(1) : sum == T(0) ? T(0) : T(1) / sum;
        SHARD_UNROLL
        for (int j = 0; j < Sums::lane_columns; ++j) lane[l].out.sums[i][j] *= factor;
        if (thread % Tile::sharers != 0 || !mine[row].there) continue;
        const index_t slot  = all.number(w.n, w.h, mine[row]);
        const auto largest  = static_cast<double>(lane[l].largest[i]);
        const auto together = static_cast<double>(sum);
        sums[slot]          = last ? all.logarithm(largest, together) : largest;
        if (!last) sums[slot + all.numbers] = together;
      }
      Tile::put_sums(lane[l].out, thread, query);
    }
    team.team_barrier();
    for (int l = 0; l < Lanes; ++l) Tile::store(before + l, query, all, out, w, mine, false);
  }
};

/// Whether the heads aren't too wide for it.
template <class Space, class T>
bool device_attend(const Space& space, const AttentionItem<T>& all, const Block<T>& out,
                   double* sums, const Block<const T>& q, const Block<const T>& k,
                   const Block<const T>& v, bool first, bool last) {
  return launch_width<64>(all.features, [&]<int Width>() {
    using Tile          = TokenTile<T, Width, false>;
    constexpr int lanes = lanes_of<Space, Tile::threads>;
    const int tiles     = attention_tiles(all.shape.queries, Tile::own);
    if (all.bias.empty())
      launch_attention(
          "shard::attend", space,
          AttendTeamKernel<T, Width, false, lanes>{all, out, sums, q, k, v, first, last, tiles});
    else
      launch_attention(
          "shard::attend", space,
          AttendTeamKernel<T, Width, true, lanes>{all, out, sums, q, k, v, first, last, tiles});
  });
}

}  // namespace shard::impl

#endif
