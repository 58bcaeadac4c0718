// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_CHANNELS_HPP
#define SHARD_SRC_LAYERS_DEVICE_CHANNELS_HPP

#include <Kokkos_Core.hpp>

#include "device_sums.hpp"
#include "shard/layers/impl/channel_kernels.hpp"

/// \file
/// Layer norm and softmax over channels on a device. A team has 32 consecutive cells; eight of its
/// threads share a cell's channels. A second pass over the values hits the cache.

namespace shard::impl {

/// Divides a block's cells into tiles, one for each team.
struct ChannelTiles {
  index_t cells = 0;
  index_t extent[3], begin[3];
  int width = 1, lanes = 1;

  template <class Space, class T>
  static ChannelTiles of(const Space&, const Block<T>& b) {
    ChannelTiles t;
    for (int d = 0; d < 3; ++d) {
      t.extent[d] = b.extent(d);
      t.begin[d]  = b.begin[d];
    }
    t.cells = b.batch * b.cells();
    t.lanes = team_threads<Space> < 8 ? 1 : 8;
    t.width = team_threads<Space> / t.lanes;
    return t;
  }

  /// A thread's cell, and the first of its channels, which are `lanes` apart.
  struct Place {
    index_t cell, n, at[3];
    int column, lane;
    bool there;

    template <class T>
    KOKKOS_FORCEINLINE_FUNCTION T* in(const Block<T>& b) const {
      return &b.at(n, 0, at[0], at[1], at[2]);
    }
  };
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION Place place(const Team& team) const {
    Place p;
    p.column = team.team_rank() % width;
    p.lane   = team.team_rank() / width;
    p.cell   = static_cast<index_t>(team.league_rank()) * width + p.column;
    p.there  = p.cell < cells;
    if (!p.there) p.cell = 0;
    index_t rest = p.cell;
    for (int d = 2; d >= 0; --d) {
      p.at[d] = begin[d] + rest % extent[d];
      rest /= extent[d];
    }
    p.n = rest;
    return p;
  }

  /// Sums over the threads of a cell, lanes ascending. Every thread gets the result.
  template <int Kinds, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void sum(const Team& team, double* scratch, const Place& p,
                                       double (&values)[Kinds]) const {
    const int threads = team.team_size();
    for (int k = 0; k < Kinds; ++k) scratch[k * threads + team.team_rank()] = values[k];
    team.team_barrier();
    for (int k = 0; k < Kinds; ++k) {
      values[k] = 0.0;
      for (int l = 0; l < lanes; ++l) values[k] += scratch[k * threads + l * width + p.column];
    }
    team.team_barrier();
  }
  /// The maximum over the threads of a cell.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION double most(const Team& team, double* scratch, const Place& p,
                                          double value) const {
    scratch[team.team_rank()] = value;
    team.team_barrier();
    for (int l = 0; l < lanes; ++l) {
      const double other = scratch[l * width + p.column];
      value              = other > value ? other : value;
    }
    team.team_barrier();
    return value;
  }
};

template <class Space, class Functor>
void launch_tiles(const char* label, const Space& space, const ChannelTiles& tiles,
                  const Functor& functor) {
  launch_teams(label, space, (tiles.cells + tiles.width - 1) / tiles.width, team_threads<Space>,
               team_bytes(2 * team_threads<Space>), functor);
}

/// Mean of a cell's channels, and sum of squared differences from it.
template <class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION void tile_moments(const Team& team, double* scratch,
                                              const ChannelTiles& tiles,
                                              const ChannelTiles::Place& p, const Block<const T>& x,
                                              double& mean, double& squares) {
  const T* cell  = p.in(x);
  double sum[1]  = {};
  const auto end = p.there ? x.channels : index_t{0};
  for (index_t c = p.lane; c < end; c += tiles.lanes)
    sum[0] += static_cast<double>(cell[c * x.stride[1]]);
  tiles.sum(team, scratch, p, sum);
  mean   = x.channels > 0 ? sum[0] / static_cast<double>(x.channels) : 0.0;
  sum[0] = 0.0;
  for (index_t c = p.lane; c < end; c += tiles.lanes) {
    const double d = static_cast<double>(cell[c * x.stride[1]]) - mean;
    sum[0] += d * d;
  }
  tiles.sum(team, scratch, p, sum);
  squares = sum[0];
}

template <class T>
struct ChannelMomentsTeamKernel {
  ChannelTiles tiles;
  double* moments;
  Block<const T> x;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p = tiles.place(team);
    double mean = 0.0, squares = 0.0;
    tile_moments(team, team_memory(team, team.team_size()), tiles, p, x, mean, squares);
    if (!p.there || p.lane > 0) return;
    moments[2 * p.cell]     = mean;
    moments[2 * p.cell + 1] = squares;
  }
};

template <class T>
struct ChannelNormTeamKernel {
  ChannelTiles tiles;
  Block<T> to;
  Block<const T> from;
  double* statistics;
  const T* weight;
  const T* bias;
  double eps;
  bool given;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p    = tiles.place(team);
    double* const s = statistics + 2 * p.cell;
    double mean = 0.0, rstd = 0.0;
    if (given) {
      mean = s[0];
      rstd = s[1];
    } else {
      tile_moments(team, team_memory(team, team.team_size()), tiles, p, from, mean, rstd);
      rstd = 1.0 / Kokkos::sqrt(rstd / static_cast<double>(from.channels) + eps);
      if (p.there && p.lane == 0) {
        s[0] = mean;
        s[1] = rstd;
      }
    }
    if (!p.there) return;
    T* y       = p.in(to);
    const T* x = p.in(from);
    for (index_t c = p.lane; c < from.channels; c += tiles.lanes) {
      const double w      = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
      const double b      = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
      const double value  = static_cast<double>(x[c * from.stride[1]]);
      y[c * to.stride[1]] = static_cast<T>((value - mean) * rstd * w + b);
    }
  }
};

/// Sums over a cell's channels of w a and w a xhat; w may be null.
template <class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION void tile_sums(const Team& team, double* scratch,
                                           const ChannelTiles& tiles, const ChannelTiles::Place& p,
                                           const Block<const T>& a, const Block<const T>& x,
                                           const double* s, const T* weight, double (&sums)[2]) {
  const T *factor = p.in(a), *value = p.in(x);
  const auto end = p.there ? x.channels : index_t{0};
  for (index_t c = p.lane; c < end; c += tiles.lanes) {
    const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
    const double g = w * static_cast<double>(factor[c * a.stride[1]]);
    sums[0] += g;
    sums[1] += g * (static_cast<double>(value[c * x.stride[1]]) - s[0]);
  }
  sums[1] *= s[1];
  tiles.sum(team, scratch, p, sums);
}

template <class T>
struct ChannelCellSumsTeamKernel {
  ChannelTiles tiles;
  double* sums;
  Block<const T> from, x;
  const double* statistics;
  const T* weight;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p   = tiles.place(team);
    double both[2] = {};
    tile_sums(team, team_memory(team, 2 * team.team_size()), tiles, p, from, x,
              statistics + 2 * p.cell, weight, both);
    if (!p.there || p.lane > 0) return;
    sums[2 * p.cell]     = both[0];
    sums[2 * p.cell + 1] = both[1];
  }
};

template <class T>
struct ChannelNormDerivativeTeamKernel {
  ChannelTiles tiles;
  Block<T> to;
  Block<const T> from, x;
  const double* statistics;
  const T* weight;
  const T* weight_tangent;
  const T* bias_tangent;
  bool adjoint, with_input;
  CellSums given;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p      = tiles.place(team);
    const double* s   = statistics + 2 * p.cell;
    const double mean = s[0], rstd = s[1];
    const double count = given.sums == nullptr ? static_cast<double>(x.channels) : given.channels;
    double sums[2]     = {};
    if (with_input) {
      if (given.sums == nullptr) {
        tile_sums(team, team_memory(team, 2 * team.team_size()), tiles, p, from, x, s,
                  adjoint ? weight : nullptr, sums);
      } else {
        sums[0] = given.sums[2 * p.cell];
        sums[1] = given.sums[2 * p.cell + 1];
      }
    }
    if (!p.there) return;
    const double flat = sums[0] / count, slope = sums[1] / count;
    T* out      = p.in(to);
    const T *in = p.in(from), *value = p.in(x);
    for (index_t c = p.lane; c < x.channels; c += tiles.lanes) {
      const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
      const double h = (static_cast<double>(value[c * x.stride[1]]) - mean) * rstd;
      double sum     = 0.0;
      if (weight_tangent != nullptr) sum += h * static_cast<double>(weight_tangent[c]);
      if (bias_tangent != nullptr) sum += static_cast<double>(bias_tangent[c]);
      if (with_input)
        sum += (adjoint ? 1.0 : w) * rstd *
               ((adjoint ? w : 1.0) * static_cast<double>(in[c * from.stride[1]]) -
                (flat + h * slope));
      out[c * to.stride[1]] = static_cast<T>(sum);
    }
  }
};

/// y = softmax(x); or, if `a` isn't null, b = y (a - sum of y a).
template <class T>
struct ChannelSoftmaxTeamKernel {
  ChannelTiles tiles;
  Block<T> to;
  Block<const T> a, x;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p          = tiles.place(team);
    double* const scratch = team_memory(team, 2 * team.team_size());
    const T* value        = p.in(x);
    const T* factor       = a.origin == nullptr ? nullptr : p.in(a);
    const auto end        = p.there ? x.channels : index_t{0};
    T largest             = -Kokkos::Experimental::infinity_v<T>;
    for (index_t c = p.lane; c < end; c += tiles.lanes) {
      const T v = value[c * x.stride[1]];
      largest   = v > largest ? v : largest;
    }
    largest        = static_cast<T>(tiles.most(team, scratch, p, static_cast<double>(largest)));
    double sums[2] = {};
    for (index_t c = p.lane; c < end; c += tiles.lanes) {
      const double e = static_cast<double>(Kokkos::exp(value[c * x.stride[1]] - largest));
      sums[0] += e;
      if (factor != nullptr) sums[1] += e * static_cast<double>(factor[c * a.stride[1]]);
    }
    tiles.sum(team, scratch, p, sums);
    const double inverse = 1.0 / sums[0], mean = sums[1] * inverse;
    T* out = p.in(to);
    for (index_t c = p.lane; c < end; c += tiles.lanes) {
      double y = static_cast<double>(Kokkos::exp(value[c * x.stride[1]] - largest)) * inverse;
      if (factor != nullptr) y *= static_cast<double>(factor[c * a.stride[1]]) - mean;
      out[c * to.stride[1]] = static_cast<T>(y);
    }
  }
};

/// Sums over cells of dy and dy xhat.
template <class T>
struct ChannelPairTerm {
  static constexpr int kinds = 2;
  Block<const T> dy, x;
  const double* statistics;

  struct Cell {
    T dy, x;
    double mean, rstd;
  };
  struct Plane {
    const T *dy, *x;
    const double* statistics;

    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {dy[at.offset[0]], x[at.offset[1]], statistics[at.offset[2]],
              statistics[at.offset[2] + 1]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      const double value = static_cast<double>(cell.dy);
      sums[0] += value;
      sums[1] += value * ((static_cast<double>(cell.x) - cell.mean) * cell.rstd);
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    return {plane_of(dy, n, c), plane_of(x, n, c), statistics + 2 * n * x.cells()};
  }
  BoxStrides<3> box() const {
    auto fields          = plane_box(dy, x, x);
    const index_t line   = 2 * x.extent(2);
    const index_t own[3] = {line * x.extent(1), line, 2};
    for (int d = 0; d < 3; ++d) fields.stride[2][d] = own[d];
    return fields;
  }
};

}  // namespace shard::impl

#endif
