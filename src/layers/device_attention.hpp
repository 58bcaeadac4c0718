// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ATTENTION_HPP
#define SHARD_SRC_LAYERS_DEVICE_ATTENTION_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention_items.hpp"
#include "shard/base/impl/launch.hpp"
#include "unroll.hpp"

/// \file
/// Attention on a device (FlashAttention, Dao et al. 2022). A team has a tile of queries (or keys),
/// one or two for each thread, with their sums in registers. It loads the keys (or queries) of the
/// group tile by tile into scratch memory. Sums have the fields' own type; no score matrix is
/// stored.

namespace shard::impl {

/// The number of consecutive tokens whose scores a thread computes at once.
inline constexpr int scores_at_once = 8;

/// Eight consecutive values of a tile.
template <class T>
struct alignas(16) TokenValues {
  T values[scores_at_once];
};

/// A tile of tokens in scratch memory: `Count` tokens, `Features` values of each of two fields.
template <class T, int Features, int Count>
struct TokenTile {
  TokenValues<T>* first;
  TokenValues<T>* second;
  index_t* offset;    // of a token in both fields
  index_t* position;  // along the last dimension, for causal attention
  index_t* side;      // -1: no token
  T* logarithm;       // a query's log of the sum of exp(score), and dy . out
  T* product;

  static constexpr int blocks = Count / scores_at_once;
  static constexpr std::size_t bytes =
      2 * Features * Count * sizeof(T) + 4 * Count * sizeof(index_t) + 2 * Count * sizeof(T);

  KOKKOS_FORCEINLINE_FUNCTION explicit TokenTile(char* memory) {
    first     = reinterpret_cast<TokenValues<T>*>(memory);
    second    = first + Features * blocks;
    offset    = reinterpret_cast<index_t*>(second + Features * blocks);
    position  = offset + 2 * Count;
    side      = position + Count;
    logarithm = reinterpret_cast<T*>(side + Count);
    product   = logarithm + Count;
  }

  /// Reads tokens [begin, begin + Count) of a group, zeros where there are none.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void load(const Team& team, const AttentionItem<T>& all,
                                        const Tokens& tokens, index_t n, index_t h, index_t group,
                                        index_t begin, const Block<const T>& a,
                                        const Block<const T>& b, const double* sums) const {
    const int t = team.team_rank(), threads = team.team_size();
    const index_t count = tokens.tokens() - begin;
    team.team_barrier();
    for (int j = t; j < Count; j += threads) {
      side[j] = -1;
      if (j >= count) continue;
      const TokenPlace p = place_of(tokens, group, begin + j);
      if (!p.there) continue;
      side[j]           = p.side;
      position[j]       = p.cell[2];
      offset[j]         = all.features_of(a, n, h, p).values - a.origin;
      offset[Count + j] = all.features_of(b, n, h, p).values - b.origin;
      if (sums == nullptr) continue;
      const index_t slot = all.number(n, h, p);
      logarithm[j]       = static_cast<T>(sums[slot]);
      product[j]         = static_cast<T>(sums[slot + all.numbers]);
    }
    team.team_barrier();
    T* const to_a = reinterpret_cast<T*>(first);
    T* const to_b = reinterpret_cast<T*>(second);
    for (int e = t; e < Features * Count; e += threads) {
      const int i = e / Count, j = e % Count;
      const bool there = side[j] >= 0 && i < all.features;
      to_a[e]          = there ? a.origin[offset[j] + i * a.stride[1]] : T(0);
      to_b[e]          = there ? b.origin[offset[Count + j] + i * b.stride[1]] : T(0);
    }
    team.team_barrier();
  }
};

/// The part of a team: tile `tile` of the tokens of a group.
struct TeamTokens {
  index_t n, h, group, begin;

  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION static TeamTokens of(int item, const AttentionItem<T>& all,
                                                   const Tokens& side, int tiles, int tokens) {
    const int groups = static_cast<int>(side.groups()), heads = static_cast<int>(all.shape.heads);
    TeamTokens w{};
    w.begin = static_cast<index_t>(item % tiles) * tokens;
    item /= tiles;
    w.group = item % groups;
    item /= groups;
    w.h = item % heads;
    w.n = item / heads;
    return w;
  }
};

/// Reads a thread's own tokens, which are row + p * threads of a tile, into its part of scratch
/// memory: feature i of its token p is at memory[(i * Own + p) * threads].
template <class T, int Features>
KOKKOS_FORCEINLINE_FUNCTION void load_own(T* memory, int step, const AttentionItem<T>& all,
                                          const Block<const T>& from, const TeamTokens& w,
                                          const TokenPlace& place, bool there) {
  const T* values = there ? all.features_of(from, w.n, w.h, place).values : nullptr;
  for (int i = 0; i < Features; ++i)
    memory[i * step] = there && i < all.features ? values[i * from.stride[1]] : T(0);
}

/// The forward pass for `Own` queries of each thread.
template <class T, int Features, int Count, int Own>
struct AttendTeamKernel {
  AttentionItem<T> all;
  Block<T> out;
  double* sums;
  Block<const T> q, k, v;
  bool first, last;
  int tiles;

  using Tile = TokenTile<T, Features, Count>;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    constexpr T none  = -Kokkos::Experimental::infinity_v<T>;
    const int threads = team.team_size();
    char* const memory =
        static_cast<char*>(team.team_scratch(0).get_shmem_aligned(bytes(threads), 16));
    const Tile tile(memory);
    T* const own = reinterpret_cast<T*>(memory + tile_bytes()) + team.team_rank();
    const auto w = TeamTokens::of(team.league_rank(), all, all.shape.queries, tiles, Own * threads);
    const T scale      = static_cast<T>(all.shape.scale);
    const index_t seen = all.shape.first_key - all.shape.first_query;

    TokenPlace place[Own];
    bool there[Own];
    T largest[Own], sum[Own], to[Own][Features];
    SHARD_UNROLL
    for (int p = 0; p < Own; ++p) {
      const index_t token = w.begin + team.team_rank() + p * threads;
      there[p]            = token < all.shape.queries.tokens();
      place[p]            = place_of(all.shape.queries, w.group, there[p] ? token : 0);
      there[p]            = there[p] && place[p].there;
      load_own<T, Features>(own + p * threads, Own * threads, all, q, w, place[p], there[p]);
      const index_t slot = there[p] ? all.number(w.n, w.h, place[p]) : 0;
      const bool anew    = first || !there[p];
      largest[p]         = anew ? none : static_cast<T>(sums[slot]);
      sum[p]             = anew ? T(0) : static_cast<T>(sums[slot + all.numbers]);
      const T* before    = anew ? nullptr : all.features_of(out, w.n, w.h, place[p]).values;
      SHARD_UNROLL
      for (int i = 0; i < Features; ++i)
        to[p][i] = anew || i >= all.features ? T(0) : before[i * out.stride[1]];
    }

    const index_t keys = all.shape.keys.tokens();
    for (index_t begin = 0; begin < keys; begin += Count) {
      tile.load(team, all, all.shape.keys, w.n, w.h, w.group, begin, k, v, nullptr);
      const int blocks = static_cast<int>(keys - begin < Count
                                              ? (keys - begin + scores_at_once - 1) / scores_at_once
                                              : Tile::blocks);
      for (int b = 0; b < blocks; ++b) {
        T score[Own][scores_at_once] = {};
        for (int i = 0; i < Features; ++i) {
          const TokenValues<T> key = tile.first[i * Tile::blocks + b];
          SHARD_UNROLL
          for (int p = 0; p < Own; ++p) {
            const T query = own[(i * Own + p) * threads];
            SHARD_UNROLL
            for (int x = 0; x < scores_at_once; ++x) score[p][x] += query * key.values[x];
          }
        }
        SHARD_UNROLL
        for (int p = 0; p < Own; ++p) {
          T most = largest[p];
          SHARD_UNROLL
          for (int x = 0; x < scores_at_once; ++x) {
            const int j     = b * scores_at_once + x;
            const bool sees = tile.side[j] == place[p].side &&
                              (!all.shape.causal || seen + tile.position[j] <= place[p].cell[2]);
            score[p][x] = sees ? scale * score[p][x] : none;
            most        = score[p][x] > most ? score[p][x] : most;
          }
          const T base = most == none ? T(0) : most;
          const T less = Kokkos::exp(largest[p] - base);
          largest[p]   = most;
          sum[p] *= less;
          SHARD_UNROLL
          for (int x = 0; x < scores_at_once; ++x) {
            score[p][x] = Kokkos::exp(score[p][x] - base);
            sum[p] += score[p][x];
          }
          SHARD_UNROLL
          for (int i = 0; i < Features; ++i) to[p][i] *= less;
        }
        SHARD_UNROLL
        for (int i = 0; i < Features; ++i) {
          const TokenValues<T> value = tile.second[i * Tile::blocks + b];
          SHARD_UNROLL
          for (int p = 0; p < Own; ++p) {
            SHARD_UNROLL
            for (int x = 0; x < scores_at_once; ++x) to[p][i] += score[p][x] * value.values[x];
          }
        }
      }
    }

    SHARD_UNROLL
    for (int p = 0; p < Own; ++p) {
      if (!there[p]) continue;
      T* const values    = all.features_of(out, w.n, w.h, place[p]).values;
      const index_t slot = all.number(w.n, w.h, place[p]);
      const T factor     = last ? T(1) / sum[p] : T(1);
      SHARD_UNROLL
      for (int i = 0; i < Features; ++i)
        if (i < all.features) values[i * out.stride[1]] = to[p][i] * factor;
      if (last) {
        sums[slot] = static_cast<double>(largest[p]) + Kokkos::log(static_cast<double>(sum[p]));
      } else {
        sums[slot]               = static_cast<double>(largest[p]);
        sums[slot + all.numbers] = static_cast<double>(sum[p]);
      }
    }
  }

  KOKKOS_FUNCTION static constexpr std::size_t tile_bytes() { return (Tile::bytes + 15) / 16 * 16; }
  KOKKOS_FUNCTION static constexpr std::size_t bytes(int threads) {
    return tile_bytes() + static_cast<std::size_t>(threads) * Own * Features * sizeof(T);
  }
};

/// The backward pass: a thread has one query, or (`Keys`) one key.
template <class T, int Features, int Count, bool Keys>
struct AttendBackTeamKernel {
  AttentionItem<T> all;
  Block<T> to_first, to_second;  ///< dq; or dk and dv. A null origin: not wanted
  const double* sums;
  Block<const T> dy, q, k, v;
  bool first;
  int tiles;

  using Tile = TokenTile<T, Features, Count>;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int threads = team.team_size();
    char* const memory =
        static_cast<char*>(team.team_scratch(0).get_shmem_aligned(bytes(threads), 16));
    const Tile tile(memory);
    T* const own = reinterpret_cast<T*>(memory + tile_bytes()) + team.team_rank();

    const Tokens& side     = Keys ? all.shape.keys : all.shape.queries;
    const Tokens& others   = Keys ? all.shape.queries : all.shape.keys;
    const auto w           = TeamTokens::of(team.league_rank(), all, side, tiles, threads);
    const index_t token    = w.begin + team.team_rank();
    bool there             = token < side.tokens();
    const TokenPlace place = place_of(side, w.group, there ? token : 0);
    there                  = there && place.there;
    load_own<T, Features>(own, 2 * threads, all, Keys ? k : q, w, place, there);
    load_own<T, Features>(own + threads, 2 * threads, all, Keys ? v : dy, w, place, there);
    const T scale      = static_cast<T>(all.shape.scale);
    const index_t seen = all.shape.first_key - all.shape.first_query;
    T logarithm = T(0), product = T(0);
    if (!Keys && there) {
      const index_t slot = all.number(w.n, w.h, place);
      logarithm          = static_cast<T>(sums[slot]);
      product            = static_cast<T>(sums[slot + all.numbers]);
    }
    T grown[Features] = {}, grown_too[Keys ? Features : 1] = {};

    const index_t count = others.tokens();
    for (index_t begin = 0; begin < count; begin += Count) {
      tile.load(team, all, others, w.n, w.h, w.group, begin, Keys ? q : k, Keys ? dy : v,
                Keys ? sums : nullptr);
      const int blocks = static_cast<int>(
          count - begin < Count ? (count - begin + scores_at_once - 1) / scores_at_once
                                : Tile::blocks);
      for (int b = 0; b < blocks; ++b) {
        T score[scores_at_once] = {}, outer[scores_at_once] = {};
        for (int i = 0; i < Features; ++i) {
          const TokenValues<T> one = tile.first[i * Tile::blocks + b],
                               two = tile.second[i * Tile::blocks + b];
          const T mine = own[2 * i * threads], mine_too = own[(2 * i + 1) * threads];
          SHARD_UNROLL
          for (int x = 0; x < scores_at_once; ++x) {
            score[x] += mine * one.values[x];
            outer[x] += mine_too * two.values[x];
          }
        }
        SHARD_UNROLL
        for (int x = 0; x < scores_at_once; ++x) {
          const int j         = b * scores_at_once + x;
          const index_t key   = Keys ? place.cell[2] : tile.position[j];
          const index_t query = Keys ? tile.position[j] : place.cell[2];
          const bool sees =
              tile.side[j] == place.side && (!all.shape.causal || seen + key <= query);
          const T from = Keys ? tile.logarithm[j] : logarithm;
          const T less = Keys ? tile.product[j] : product;
          const T p    = sees ? Kokkos::exp(scale * score[x] - from) : T(0);
          outer[x]     = sees ? scale * p * (outer[x] - less) : T(0);
          score[x]     = p;
        }
        SHARD_UNROLL
        for (int i = 0; i < Features; ++i) {
          const TokenValues<T> one = tile.first[i * Tile::blocks + b];
          SHARD_UNROLL
          for (int x = 0; x < scores_at_once; ++x) grown[i] += outer[x] * one.values[x];
          if constexpr (Keys) {
            const TokenValues<T> two = tile.second[i * Tile::blocks + b];
            SHARD_UNROLL
            for (int x = 0; x < scores_at_once; ++x) grown_too[i] += score[x] * two.values[x];
          }
        }
      }
    }
    if (!there) return;
    store(grown, to_first, w, place);
    if constexpr (Keys) store(grown_too, to_second, w, place);
  }

  KOKKOS_FORCEINLINE_FUNCTION void store(const T (&grown)[Features], const Block<T>& to,
                                         const TeamTokens& w, const TokenPlace& place) const {
    T* const values = all.features_of(to, w.n, w.h, place).values;
    if (values == nullptr) return;
    SHARD_UNROLL
    for (int i = 0; i < Features; ++i)
      if (i < all.features) {
        T& value = values[i * to.stride[1]];
        value    = first ? grown[i] : value + grown[i];
      }
  }

  KOKKOS_FUNCTION static constexpr std::size_t tile_bytes() { return (Tile::bytes + 15) / 16 * 16; }
  KOKKOS_FUNCTION static constexpr std::size_t bytes(int threads) {
    return tile_bytes() + static_cast<std::size_t>(threads) * 2 * Features * sizeof(T);
  }
};

/// The team size for groups of this many tokens: whole warps, at most `most` threads.
template <class Space>
int attention_threads(index_t tokens, int own, int most) {
  if (is_host_space_v<Space>) return 1;
  const index_t warps = (tokens + 32 * own - 1) / (32 * own);
  return static_cast<int>(std::clamp<index_t>(32 * warps, 32, most));
}

template <int Features, int Count, int Own, class Space, class T>
void launch_attend(const Space& space, const AttentionItem<T>& all, const Block<T>& out,
                   double* sums, const Block<const T>& q, const Block<const T>& k,
                   const Block<const T>& v, bool first, bool last, int most) {
  using Kernel         = AttendTeamKernel<T, Features, Count, Own>;
  const Tokens& side   = all.shape.queries;
  const int threads    = attention_threads<Space>(side.tokens(), Own, most);
  const index_t tokens = index_t{threads} * Own, tiles = (side.tokens() + tokens - 1) / tokens;
  launch_teams("shard::attend", space, all.batch * all.shape.heads * side.groups() * tiles, threads,
               Kernel::bytes(threads) + 32,
               Kernel{all, out, sums, q, k, v, first, last, static_cast<int>(tiles)});
}

/// False if the heads have too many features for scratch memory.
template <class Space, class T>
bool device_attend(const Space& space, const AttentionItem<T>& all, const Block<T>& out,
                   double* sums, const Block<const T>& q, const Block<const T>& k,
                   const Block<const T>& v, bool first, bool last) {
  constexpr bool narrow = sizeof(T) == 4;
  constexpr int own     = narrow ? 2 : 1;
  if (all.features <= 16)
    launch_attend<16, 32, own>(space, all, out, sums, q, k, v, first, last, 64);
  else if (all.features <= 32)
    launch_attend<32, 32, own>(space, all, out, sums, q, k, v, first, last, 64);
  else if (all.features <= 64)
    launch_attend<64, narrow ? 32 : 16, 1>(space, all, out, sums, q, k, v, first, last,
                                           narrow ? 64 : 32);
  else
    return false;
  return true;
}

template <bool Keys, int Features, int Count, class Space, class T>
void launch_attend_back(const Space& space, const AttentionItem<T>& all, const Block<T>& to_first,
                        const Block<T>& to_second, const double* sums, const Block<const T>& dy,
                        const Block<const T> (&qkv)[3], bool first, int most) {
  using Kernel        = AttendBackTeamKernel<T, Features, Count, Keys>;
  const Tokens& side  = Keys ? all.shape.keys : all.shape.queries;
  const int threads   = attention_threads<Space>(side.tokens(), 1, most);
  const index_t tiles = (side.tokens() + threads - 1) / threads;
  launch_teams(Keys ? "shard::attend_keys" : "shard::attend_queries", space,
               all.batch * all.shape.heads * side.groups() * tiles, threads,
               Kernel::bytes(threads) + 32,
               Kernel{all, to_first, to_second, sums, dy, qkv[0], qkv[1], qkv[2], first,
                      static_cast<int>(tiles)});
}

/// False if the heads have too many features for scratch memory.
template <bool Keys, class Space, class T>
bool device_attend_back(const Space& space, const AttentionItem<T>& all, const Block<T>& to_first,
                        const Block<T>& to_second, const double* sums, const Block<const T>& dy,
                        const Block<const T> (&qkv)[3], bool first) {
  constexpr bool narrow = sizeof(T) == 4;
  if (all.features <= 16)
    launch_attend_back<Keys, 16, 16>(space, all, to_first, to_second, sums, dy, qkv, first, 64);
  else if (all.features <= 32)
    launch_attend_back<Keys, 32, 16>(space, all, to_first, to_second, sums, dy, qkv, first,
                                     narrow ? 64 : 32);
  else if (narrow && all.features <= 64)
    launch_attend_back<Keys, narrow ? 64 : 32, 16>(space, all, to_first, to_second, sums, dy, qkv,
                                                   first, 64);
  else
    return false;
  return true;
}

}  // namespace shard::impl

#endif
