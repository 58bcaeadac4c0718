// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ATTENTION_HPP
#define SHARD_SRC_LAYERS_DEVICE_ATTENTION_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "attention_items.hpp"
#include "device_tile.hpp"
#include "unroll.hpp"

/// \file
/// Attention as a device runs it (Dao et al. 2022, 2023): a team takes a tile of the queries (or
/// keys) of a group and a head, whose sums stay in registers, and meets the keys (queries) tile by
/// tile. Scores are products of tiles, and so are the sums that the scores weigh. Sums are of the
/// fields' own type; no matrix of scores is stored.

namespace shard::impl {

/// A team's part of the work: tile `tile` of the tokens of a group.
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
  /// Teams of a multiprocessor: as registers allow without spills, and its shared memory, of which
  /// the system takes a KiB per team.
  static constexpr int resident(std::size_t scratch) {
    constexpr int by_registers = (!narrow || !wide ? 384 : Back ? 256 : 512) / threads;
    const auto by_memory       = static_cast<int>(216 * 1024 / (scratch + 1536));
    return by_memory < by_registers ? by_memory : by_registers;
  }
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

/// The forward pass.
template <class T, int Width, int Lanes>
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
    const auto w     = TeamTokens::of(team.league_rank(), all, all.shape.queries, tiles, Tile::own);
    const T scale    = static_cast<T>(all.shape.scale);
    const int before = team.team_rank() * Lanes, features = static_cast<int>(all.features);
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
        const typename Tile::template Loads<false> of_k(before + l, all, k, w, theirs),
            of_v(before + l, all, v, w, theirs);
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
            scores[i][j] =
                all.sees(place, theirs[Tile::other(thread, j)]) ? scale * scores[i][j] : none;
            most = scores[i][j] > most ? scores[i][j] : most;
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
        const T factor = last ? T(1) / sum : T(1);
        SHARD_UNROLL
        for (int j = 0; j < Sums::lane_columns; ++j) lane[l].out.sums[i][j] *= factor;
        if (thread % Tile::sharers != 0 || !mine[row].there) continue;
        const index_t slot  = all.number(w.n, w.h, mine[row]);
        const auto largest  = static_cast<double>(lane[l].largest[i]);
        const auto together = static_cast<double>(sum);
        sums[slot]          = last ? largest + Kokkos::log(together) : largest;
        if (!last) sums[slot + all.numbers] = together;
      }
      Tile::put_sums(lane[l].out, thread, query);
    }
    team.team_barrier();
    for (int l = 0; l < Lanes; ++l) Tile::store(before + l, query, all, out, w, mine, false);
  }
};

/// The backward pass for a tile of queries, or of keys: Keys.
template <class T, int Width, bool Keys, int Lanes>
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
  index_t teams() const { return all.batch * all.shape.heads * side().groups() * tiles; }
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
    const auto w             = TeamTokens::of(team.league_rank(), all, side(), tiles, Tile::own);
    const T scale            = static_cast<T>(all.shape.scale);
    const int before = team.team_rank() * Lanes, features = static_cast<int>(all.features);
    Lane lane[Lanes];

    const auto find_numbers = [&](const TokenPlace* places) {
      for (int t = before; t < queries; t += Lanes == 1 ? threads : 1) {
        const bool there   = places[t].there;
        const index_t slot = there ? all.number(w.n, w.h, places[t]) : 0;
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
    if constexpr (!Keys) find_numbers(mine);
    for (int l = 0; l < Lanes; ++l) {
      const typename Tile::template Loads<true> one(before + l, all, Keys ? k : q, w, mine),
          two(before + l, all, Keys ? v : dy, w, mine);
      one.by_feature(before + l, own);
      two.by_feature(before + l, own_too);
    }

    const index_t tokens = others.tokens();
    for (index_t begin = 0; begin < tokens; begin += Tile::others) {
      const int count =
          static_cast<int>(tokens - begin < Tile::others ? tokens - begin : Tile::others);
      for (int l = 0; l < Lanes; ++l)
        Tile::find(before + l, theirs, Tile::others, others, w.group, begin);
      team.team_barrier();
      if constexpr (Keys) find_numbers(theirs);
      for (int l = 0; l < Lanes; ++l) {
        const typename Tile::template Loads<false> one(before + l, all, Keys ? q : k, w, theirs),
            two(before + l, all, Keys ? dy : v, w, theirs);
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
            const T p    = sees ? Kokkos::exp(scale * scores[i][j] - logarithm[number]) : T(0);
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
          Tile::template multiply<Sums>(lane[l].grown_too, before + l, weight, by_token_too, count);
        team.team_barrier();
      }
      for (int l = 0; l < Lanes; ++l) Tile::put_scores(lane[l].outer, before + l, weight);
      team.team_barrier();
      for (int l = 0; l < Lanes; ++l)
        Tile::template multiply<Sums>(lane[l].grown, before + l, weight, by_token, count);
      team.team_barrier();
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

template <class Space, class Kernel>
void launch_attention(const char* name, const Space& space, const Kernel& kernel) {
  if (kernel.teams() == 0) return;
  constexpr int level = scratch_level(Kernel::lanes);
  static_assert(Kernel::scratch_bytes() <= 40928);
  constexpr int resident = Kernel::Tile::resident(Kernel::scratch_bytes());
  auto policy            = team_policy<Kernel, Kokkos::LaunchBounds<Kernel::threads, resident>>(
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

/// Whether the heads aren't too wide for it.
template <class Space, class T>
bool device_attend(const Space& space, const AttentionItem<T>& all, const Block<T>& out,
                   double* sums, const Block<const T>& q, const Block<const T>& k,
                   const Block<const T>& v, bool first, bool last) {
  return launch_width<64>(all.features, [&]<int Width>() {
    using Tile = TokenTile<T, Width, false>;
    launch_attention(
        "shard::attend", space,
        AttendTeamKernel<T, Width, lanes_of<Space, Tile::threads>>{
            all, out, sums, q, k, v, first, last, attention_tiles(all.shape.queries, Tile::own)});
  });
}

/// Whether the heads aren't too wide for it.
template <bool Keys, class Space, class T>
bool device_attend_back(const Space& space, const AttentionItem<T>& all, const Block<T>& to_first,
                        const Block<T>& to_second, const double* sums, const Block<const T>& dy,
                        const Block<const T> (&qkv)[3], bool first) {
  constexpr int widest = sizeof(T) == 4 ? 64 : 32;
  return launch_width<widest>(all.features, [&]<int Width>() {
    using Tile = TokenTile<T, Width, true>;
    launch_attention(Keys ? "shard::attend_keys" : "shard::attend_queries", space,
                     AttendBackTeamKernel<T, Width, Keys, lanes_of<Space, Tile::threads>>{
                         all, to_first, to_second, sums, dy, qkv[0], qkv[1], qkv[2], first,
                         attention_tiles(Keys ? all.shape.keys : all.shape.queries, Tile::own)});
  });
}

}  // namespace shard::impl

#endif
