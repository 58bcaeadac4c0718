// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ATTENTION_TILE_HPP
#define SHARD_SRC_LAYERS_DEVICE_ATTENTION_TILE_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "attention_items.hpp"
#include "device_tile.hpp"
#include "unroll.hpp"

/// \file
/// Attention as a device runs it (Dao et al. 2022, 2023): a team takes a tile of the queries (or
/// keys) of a group and a head, whose sums stay in registers, and meets the keys (queries) tile by
/// tile. Scores are products of tiles, and so are the sums that the scores weigh. Sums are of the
/// fields' own type; no matrix of scores is stored. Here is what both passes share.

namespace shard::impl {

/// A team's part of the work: tile `tile` of the tokens of a group.
struct TeamTokens {
  index_t n, h, group, begin;

  /// `side_heads` are the heads of the side.
  KOKKOS_FORCEINLINE_FUNCTION static TeamTokens of(int item, const Tokens& side, index_t side_heads,
                                                   int tiles, int tokens) {
    const int groups = static_cast<int>(side.groups()), heads = static_cast<int>(side_heads);
    TeamTokens w{};
    w.begin = static_cast<index_t>(item % tiles) * tokens;
    item /= tiles;
    w.group = item % groups;
    item /= groups;
    w.h = item % heads;
    w.n = item / heads;
    return w;
  }
  /// The same with another head, for the other side.
  KOKKOS_FORCEINLINE_FUNCTION TeamTokens of_head(index_t other) const {
    return {n, other, group, begin};
  }
};

/// The tiles of attention with up to Width features: a team's own tokens are rows. It meets
/// `others` at a time: columns of the scores, and terms of the sums [own, Width]. A thread has the
/// same rows of both; `sharers` threads share them.
template <class T, int Width, bool Back>
struct TokenTile {
  static constexpr bool narrow = sizeof(T) == 4, wide = Width == 64;
  static constexpr int vector = LoadVector<T>::width;
  // a team has at most 40 KiB of scratch memory: Kokkos gives no more on NVIDIA GPUs
  static constexpr int own         = narrow && !(Back && wide) ? 64 : 32;
  static constexpr int lane_rows   = narrow && !wide ? 8 : 4;
  static constexpr int sharers     = !narrow ? 8 : !wide ? Width / 4 : Back ? 4 : 8;
  static constexpr int lane_others = !narrow && (Back || wide) ? 2 : 4;
  static constexpr int others      = sharers * lane_others;
  using Scores                     = ProductTile<T, own, others, 8, lane_rows, lane_others>;
  using Sums                       = ProductTile<T, own, Width, 8, lane_rows, Width / sharers>;
  static constexpr int threads     = Scores::threads;
  /// Teams of a multiprocessor that registers allow with few spills.
  static constexpr int resident = (!narrow || !wide ? 384 : Back ? 256 : 512) / threads;
  static_assert(Scores::threads == Sums::threads && Scores::column_lanes == Sums::column_lanes);
  // elements of scratch memory: own tokens [feature][own], others [feature][other] and
  // [other][feature], and scores [other][own], which take the place of the second
  static constexpr int own_size        = Width * Scores::row_pitch,
                       by_feature_size = Width * Scores::column_pitch,
                       by_token_size   = others * Sums::column_pitch,
                       score_size      = others * Scores::row_pitch;

  /// Which of a tile's other tokens a thread has as column j. Thereby threads that store scores
  /// hit different banks.
  KOKKOS_FORCEINLINE_FUNCTION static int other(int thread, int j) {
    return j * sharers + thread % sharers;
  }

  KOKKOS_FORCEINLINE_FUNCTION static void find(int thread, TokenPlace* to, int count,
                                               const Tokens& tokens, index_t group, index_t begin) {
    for (int t = thread; t < count; t += threads) {
      const bool there = begin + t < tokens.tokens();
      TokenPlace p     = place_of(tokens, group, there ? begin + t : 0);
      p.there          = p.there && there;
      to[t]            = p;
    }
  }

  /// The features of a tile's tokens that a thread loads. Neighbouring threads take neighbouring
  /// tokens.
  template <bool Own>
  struct Loads {
    static constexpr int count  = Own ? own : others;
    static constexpr int passes = count > threads ? count / threads : 1;
    static constexpr int across = count > threads ? 1 : threads / count;
    static constexpr int parts  = Width / (across * vector);
    static_assert(parts * across * vector == Width && (count % threads == 0 || passes == 1));
    LoadVector<T> values[passes][parts];

    KOKKOS_FORCEINLINE_FUNCTION static int token(int thread, int pass) {
      return thread % count + pass * threads;
    }
    KOKKOS_FORCEINLINE_FUNCTION static int feature(int thread, int part) {
      return (part * across + thread / count) * vector;
    }

    /// Zeros where there is no token or feature.
    template <class U>
    KOKKOS_FORCEINLINE_FUNCTION Loads(int thread, const AttentionItem<T>& all, const Block<U>& from,
                                      const TeamTokens& w, const TokenPlace* places) {
      SHARD_UNROLL
      for (int pass = 0; pass < passes; ++pass) {
        const TokenPlace& place = places[token(thread, pass)];
        const T* const at       = all.features_of(from, w.n, w.h, place).values;
        const int held          = place.there ? static_cast<int>(all.features) : 0;
        SHARD_UNROLL
        for (int part = 0; part < parts; ++part) {
          SHARD_UNROLL
          for (int x = 0; x < vector; ++x) {
            const int i              = feature(thread, part) + x;
            values[pass][part].at[x] = i < held ? at[i * from.stride[1]] : T(0);
          }
        }
      }
    }
    /// To an operand of the scores: rows, or columns.
    KOKKOS_FORCEINLINE_FUNCTION void by_feature(int thread, T* to) const {
      constexpr int pitch = Own ? Scores::row_pitch : Scores::column_pitch;
      SHARD_UNROLL
      for (int pass = 0; pass < passes; ++pass) {
        const int t  = token(thread, pass);
        const int at = Own ? t : Scores::column(t % sharers, t / sharers);
        SHARD_UNROLL
        for (int part = 0; part < parts; ++part) {
          SHARD_UNROLL
          for (int x = 0; x < vector; ++x)
            to[(feature(thread, part) + x) * pitch + at] = values[pass][part].at[x];
        }
      }
    }
    /// To an operand of the sums.
    KOKKOS_FORCEINLINE_FUNCTION void by_token(int thread, T* to) const {
      SHARD_UNROLL
      for (int pass = 0; pass < passes; ++pass) {
        T* const at = to + token(thread, pass) * Sums::column_pitch;
        SHARD_UNROLL
        for (int part = 0; part < parts; ++part)
          *reinterpret_cast<LoadVector<T>*>(at + feature(thread, part)) = values[pass][part];
      }
    }
  };

  /// a' b of `terms` rows in scratch memory, rounded up to a tile's depth.
  template <class Tile>
  KOKKOS_FORCEINLINE_FUNCTION static void multiply(typename Tile::Registers& r, int thread,
                                                   const T* a, const T* b, int terms) {
    for (int k = 0; k < terms; k += Tile::depth)
      Tile::multiply(r, thread, a + k * Tile::row_pitch, b + k * Tile::column_pitch);
  }

  /// A thread's column j to the team's column at `to`.
  template <int Columns>
  KOKKOS_FORCEINLINE_FUNCTION static void put(const T (&values)[lane_rows][Columns], int j,
                                              int thread, T* to) {
    SHARD_UNROLL
    for (int i = 0; i < lane_rows; i += vector) {
      LoadVector<T> column;
      SHARD_UNROLL
      for (int x = 0; x < vector; ++x) column.at[x] = values[i + x][j];
      *reinterpret_cast<LoadVector<T>*>(to + Scores::row(thread, i)) = column;
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION static void put_scores(const typename Scores::Registers& r,
                                                     int thread, T* to) {
    SHARD_UNROLL
    for (int j = 0; j < lane_others; ++j)
      put(r.sums, j, thread, to + other(thread, j) * Scores::row_pitch);
  }
  KOKKOS_FORCEINLINE_FUNCTION static void put_sums(const typename Sums::Registers& r, int thread,
                                                   T* to) {
    SHARD_UNROLL
    for (int j = 0; j < Sums::lane_columns; ++j)
      put(r.sums, j, thread, to + Sums::column(thread, j) * Scores::row_pitch);
  }
  /// Writes the team's sums, or adds them.
  KOKKOS_FORCEINLINE_FUNCTION static void store(int thread, const T* from,
                                                const AttentionItem<T>& all, const Block<T>& to,
                                                const TeamTokens& w, const TokenPlace* places,
                                                bool add) {
    if (to.origin == nullptr) return;
    constexpr int step = (threads + own - 1) / own;
    for (int t = thread % own; t < own; t += threads) {
      if (!places[t].there) continue;
      const auto values = all.features_of(to, w.n, w.h, places[t]);
      for (int i = thread / own; i < all.features; i += step) {
        const T sum = from[i * Scores::row_pitch + t];
        values[i]   = add ? values[i] + sum : sum;
      }
    }
  }
};

/// A host has little scratch memory of level 0.
KOKKOS_FUNCTION constexpr int scratch_level(int lanes) { return lanes == 1 ? 0 : 1; }

template <class Space, class Kernel>
void launch_attention(const char* name, const Space& space, const Kernel& kernel) {
  if (kernel.teams() == 0) return;
  constexpr int level = scratch_level(Kernel::lanes);
  static_assert(Kernel::scratch_bytes() <= 40928);
  constexpr int resident =
      resident_teams(Kernel::Tile::resident, Kernel::threads, Kernel::scratch_bytes());
  auto policy = team_policy<Kernel, Kokkos::LaunchBounds<Kernel::threads, resident>>(
      space, kernel.teams(), Kernel::threads / Kernel::lanes, 0);
  policy.set_scratch_size(level, Kokkos::PerTeam(static_cast<int>(kernel.scratch_bytes())));
  Kokkos::parallel_for(name, policy, kernel);
}

/// The tiles of a group's tokens.
inline int attention_tiles(const Tokens& side, int own) {
  return static_cast<int>((side.tokens() + own - 1) / own);
}

/// Runs `launch` with the narrowest width that the heads fit in, if they fit in one.
template <int Widest, class Launch>
bool launch_width(index_t features, const Launch& launch) {
  if (features > Widest) return false;
  if (features <= 16)
    launch.template operator()<16>();
  else if (features <= 32)
    launch.template operator()<32>();
  else
    launch.template operator()<Widest>();
  return true;
}

}  // namespace shard::impl

#endif
