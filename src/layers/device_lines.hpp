// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_LINES_HPP
#define SHARD_SRC_LAYERS_DEVICE_LINES_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

#include "device_sums.hpp"
#include "shard/layers/impl/kernels.hpp"

/// \file
/// Sums, and softmax, along the lines of a block on a device: over channels, or along a spatial
/// dimension. Several threads of a team share a line. A second pass over the values hits the cache.

namespace shard::impl {

/// Divides a block's lines along one dimension into tiles, one for each team. Neighbouring threads
/// have neighbouring points: of one line along the last dimension, else of neighbouring lines.
struct LineTiles {
  static constexpr int channel_dim = 1, last_dim = 4;  ///< dimensions as in Block::stride

  index_t lines = 0, length = 0;
  index_t extent[5], begin[5];  ///< of the lines' first points
  int dim   = channel_dim;
  int width = 1, lanes = 1;  ///< lines of a team, and threads of a line

  template <class Space, class T>
  static LineTiles of(const Space&, const Block<T>& b, int dim) {
    LineTiles t;
    t.dim       = dim;
    t.extent[0] = b.batch;
    t.extent[1] = b.channels;
    t.begin[0] = t.begin[1] = 0;
    for (int d = 0; d < 3; ++d) {
      t.extent[2 + d] = b.extent(d);
      t.begin[2 + d]  = b.begin[d];
    }
    t.length      = t.extent[dim];
    t.extent[dim] = 1;
    t.lines       = 1;
    for (const index_t n : t.extent) t.lines *= n;
    const int shared = dim == last_dim ? 32 : 8;
    t.lanes          = team_threads<Space> < shared ? 1 : shared;
    t.width          = team_threads<Space> / t.lanes;
    return t;
  }

  /// A thread's line, and the first of its points, which are `lanes` apart.
  struct Place {
    index_t line, at[5];
    int column, lane;
    bool there;

    /// The line's first point.
    template <class T>
    KOKKOS_FORCEINLINE_FUNCTION T* in(const Block<T>& b) const {
      return &b.at(at[0], at[1], at[2], at[3], at[4]);
    }
  };
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION Place place(const Team& team) const {
    Place p;
    const int thread = team.team_rank();
    p.column         = dim == last_dim ? thread / lanes : thread % width;
    p.lane           = dim == last_dim ? thread % lanes : thread / width;
    p.line           = static_cast<index_t>(team.league_rank()) * width + p.column;
    p.there          = p.line < lines;
    if (!p.there) p.line = 0;
    if (p.line >> 32 == 0)
      find(static_cast<std::uint32_t>(p.line), p.at);
    else
      find(static_cast<std::uint64_t>(p.line), p.at);
    return p;
  }

  /// Sums over the threads of a line, lanes ascending. Every thread gets the result.
  template <int Kinds, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void sum(const Team& team, double* scratch, const Place& p,
                                       double (&values)[Kinds]) const {
    const int threads = team.team_size();
    for (int k = 0; k < Kinds; ++k) scratch[k * threads + team.team_rank()] = values[k];
    team.team_barrier();
    for (int k = 0; k < Kinds; ++k) {
      values[k] = 0.0;
      for (int l = 0; l < lanes; ++l) values[k] += scratch[k * threads + thread(p.column, l)];
    }
    team.team_barrier();
  }
  /// The maximum over the threads of a line.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION double most(const Team& team, double* scratch, const Place& p,
                                          double value) const {
    scratch[team.team_rank()] = value;
    team.team_barrier();
    for (int l = 0; l < lanes; ++l) {
      const double other = scratch[thread(p.column, l)];
      value              = other > value ? other : value;
    }
    team.team_barrier();
    return value;
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION int thread(int column, int lane) const {
    return dim == last_dim ? column * lanes + lane : lane * width + column;
  }
  /// The first point of a line. A device divides numbers of 32 bits in a quarter of the time.
  template <class Number>
  KOKKOS_FORCEINLINE_FUNCTION void find(Number line, index_t (&at)[5]) const {
    for (int d = last_dim; d > 0; --d) {
      const auto n      = static_cast<Number>(extent[d]);
      const Number next = line / n;
      at[d]             = begin[d] + static_cast<index_t>(line - next * n);
      line              = next;
    }
    at[0] = static_cast<index_t>(line);
  }
};

template <class Space, class Functor>
void launch_tiles(const char* label, const Space& space, const LineTiles& tiles,
                  const Functor& functor) {
  launch_teams(label, space, (tiles.lines + tiles.width - 1) / tiles.width, team_threads<Space>,
               team_bytes(2 * team_threads<Space>), functor);
}

template <class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION T line_maximum(const Team& team, double* scratch,
                                           const LineTiles& tiles, const LineTiles::Place& p,
                                           const Block<const T>& x) {
  const T* value     = p.in(x);
  const index_t step = x.stride[tiles.dim], end = p.there ? tiles.length : 0;
  T most = -Kokkos::Experimental::infinity_v<T>;
  for (index_t i = p.lane; i < end; i += tiles.lanes) {
    const T v = value[i * step];
    most      = v > most ? v : most;
  }
  return static_cast<T>(tiles.most(team, scratch, p, static_cast<double>(most)));
}

/// Sums over a line of exp(x - most) and, if `a` isn't null, of a exp(x - most). Where the maximum
/// is minus infinity the sums are 0, or NaN if a value is.
template <class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION void line_sums(const Team& team, double* scratch,
                                           const LineTiles& tiles, const LineTiles::Place& p,
                                           const Block<const T>& x, const Block<const T>& a, T most,
                                           double (&sums)[2]) {
  const T *value = p.in(x), *factor = a.origin == nullptr ? nullptr : p.in(a);
  const T base       = most == -Kokkos::Experimental::infinity_v<T> ? T(0) : most;
  const index_t step = x.stride[tiles.dim], end = p.there ? tiles.length : 0;
  sums[0] = sums[1] = 0.0;
  for (index_t i = p.lane; i < end; i += tiles.lanes) {
    const double e = static_cast<double>(Kokkos::exp(value[i * step] - base));
    sums[0] += e;
    if (factor != nullptr) sums[1] += e * static_cast<double>(factor[i * a.stride[tiles.dim]]);
  }
  tiles.sum(team, scratch, p, sums);
}

/// statistics[2 * line]: the maximum and the sum of exp(x - maximum).
template <class T>
struct LineExponentialsTeamKernel {
  LineTiles tiles;
  double* statistics;
  Block<const T> x;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p          = tiles.place(team);
    double* const scratch = team_memory(team, 2 * team.team_size());
    const T most          = line_maximum(team, scratch, tiles, p, x);
    double sums[2];
    line_sums(team, scratch, tiles, p, x, Block<const T>{}, most, sums);
    if (!p.there || p.lane > 0) return;
    statistics[2 * p.line]     = static_cast<double>(most);
    statistics[2 * p.line + 1] = sums[0];
  }
};

/// y = softmax(x). Statistics that aren't given are computed, and stored unless `statistics` is
/// null.
template <class T, bool Given>
struct LineSoftmaxTeamKernel {
  LineTiles tiles;
  Block<T> to;
  Block<const T> x;
  std::conditional_t<Given, const double*, double*> statistics = nullptr;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p   = tiles.place(team);
    T most         = T(0);
    double sums[2] = {};
    if constexpr (Given) {
      most    = static_cast<T>(statistics[2 * p.line]);
      sums[0] = statistics[2 * p.line + 1];
    } else {
      double* const scratch = team_memory(team, 2 * team.team_size());
      most                  = line_maximum(team, scratch, tiles, p, x);
      line_sums(team, scratch, tiles, p, x, Block<const T>{}, most, sums);
      if (statistics != nullptr && p.there && p.lane == 0) {
        statistics[2 * p.line]     = static_cast<double>(most);
        statistics[2 * p.line + 1] = sums[0];
      }
    }
    if (!p.there) return;
    const double inverse = 1.0 / sums[0];
    const T* value       = p.in(x);
    T* out               = p.in(to);
    for (index_t i = p.lane; i < tiles.length; i += tiles.lanes)
      out[i * to.stride[tiles.dim]] = static_cast<T>(
          static_cast<double>(Kokkos::exp(value[i * x.stride[tiles.dim]] - most)) * inverse);
  }
};

/// sums[line]: the sum of y a, y the softmax.
template <class T>
struct LineDotsTeamKernel {
  LineTiles tiles;
  double* sums;
  Block<const T> a, x;
  const double* statistics;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p    = tiles.place(team);
    const double* s = statistics + 2 * p.line;
    double both[2];
    line_sums(team, team_memory(team, 2 * team.team_size()), tiles, p, x, a, static_cast<T>(s[0]),
              both);
    if (p.there && p.lane == 0) sums[p.line] = both[1] / s[1];
  }
};

/// b = y (a - dot), y the softmax. Statistics and dots that are null are computed.
template <class T>
struct LineSoftmaxDerivativeTeamKernel {
  LineTiles tiles;
  Block<T> to;
  Block<const T> a, x;
  const double* statistics = nullptr;
  const double* dots       = nullptr;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p          = tiles.place(team);
    double* const scratch = team_memory(team, 2 * team.team_size());
    const T most          = statistics == nullptr ? line_maximum(team, scratch, tiles, p, x)
                                                  : static_cast<T>(statistics[2 * p.line]);
    double sums[2]        = {};
    if (dots == nullptr) line_sums(team, scratch, tiles, p, x, a, most, sums);
    if (!p.there) return;
    const double inverse = 1.0 / (statistics == nullptr ? sums[0] : statistics[2 * p.line + 1]);
    const double dot     = dots == nullptr ? sums[1] * inverse : dots[p.line];
    const T *value = p.in(x), *factor = p.in(a);
    T* out = p.in(to);
    for (index_t i = p.lane; i < tiles.length; i += tiles.lanes) {
      const double y =
          static_cast<double>(Kokkos::exp(value[i * x.stride[tiles.dim]] - most)) * inverse;
      out[i * to.stride[tiles.dim]] =
          static_cast<T>(y * (static_cast<double>(factor[i * a.stride[tiles.dim]]) - dot));
    }
  }
};

}  // namespace shard::impl

#endif
