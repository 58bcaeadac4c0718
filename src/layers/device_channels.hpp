// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_CHANNELS_HPP
#define SHARD_SRC_LAYERS_DEVICE_CHANNELS_HPP

#include <Kokkos_Core.hpp>

#include "device_lines.hpp"
#include "device_sums.hpp"
#include "shard/layers/impl/channel_kernels.hpp"

/// \file
/// Layer norm over channels on a device: the channels of a cell are a line.

namespace shard::impl {

/// Mean of a cell's channels (0 unless `centred`), and sum of squared differences from it.
template <class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION void tile_moments(const Team& team, double* scratch,
                                              const LineTiles& tiles, const LineTiles::Place& p,
                                              const Block<const T>& x, bool centred, double& mean,
                                              double& squares) {
  const T* cell  = p.in(x);
  double sum[1]  = {};
  const auto end = p.there ? x.channels : index_t{0};
  if (centred) {
    for (index_t c = p.lane; c < end; c += tiles.lanes)
      sum[0] += static_cast<double>(cell[c * x.stride[1]]);
    tiles.sum(team, scratch, p, sum);
  }
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
  LineTiles tiles;
  double* moments;
  Block<const T> x;
  bool centred;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p = tiles.place(team);
    double mean = 0.0, squares = 0.0;
    tile_moments(team, team_memory(team, team.team_size()), tiles, p, x, centred, mean, squares);
    if (!p.there || p.lane > 0) return;
    moments[2 * p.line]     = mean;
    moments[2 * p.line + 1] = squares;
  }
};

template <class T>
struct ChannelNormTeamKernel {
  LineTiles tiles;
  Block<T> to;
  Block<const T> from;
  double* statistics;
  const T* weight;
  const T* bias;
  ChannelNormOptions options;
  bool given;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p    = tiles.place(team);
    double* const s = statistics + 2 * p.line;
    double mean = 0.0, rstd = 0.0;
    if (given) {
      mean = s[0];
      rstd = s[1];
    } else {
      tile_moments(team, team_memory(team, team.team_size()), tiles, p, from, options.centred, mean,
                   rstd);
      rstd = 1.0 / Kokkos::sqrt(rstd / static_cast<double>(from.channels) + options.eps);
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
                                           const LineTiles& tiles, const LineTiles::Place& p,
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
  LineTiles tiles;
  double* sums;
  Block<const T> from, x;
  const double* statistics;
  const T* weight;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p   = tiles.place(team);
    double both[2] = {};
    tile_sums(team, team_memory(team, 2 * team.team_size()), tiles, p, from, x,
              statistics + 2 * p.line, weight, both);
    if (!p.there || p.lane > 0) return;
    sums[2 * p.line]     = both[0];
    sums[2 * p.line + 1] = both[1];
  }
};

template <class T>
struct ChannelNormDerivativeTeamKernel {
  LineTiles tiles;
  Block<T> to;
  Block<const T> from, x;
  const double* statistics;
  const T* weight;
  const T* weight_tangent;
  const T* bias_tangent;
  bool adjoint, with_input, centred;
  CellSums given;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto p      = tiles.place(team);
    const double* s   = statistics + 2 * p.line;
    const double mean = s[0], rstd = s[1];
    const double count = given.sums == nullptr ? static_cast<double>(x.channels) : given.channels;
    double sums[2]     = {};
    if (with_input) {
      if (given.sums == nullptr) {
        tile_sums(team, team_memory(team, 2 * team.team_size()), tiles, p, from, x, s,
                  adjoint ? weight : nullptr, sums);
      } else {
        sums[0] = given.sums[2 * p.line];
        sums[1] = given.sums[2 * p.line + 1];
      }
    }
    if (!p.there) return;
    const double flat = centred ? sums[0] / count : 0.0, slope = sums[1] / count;
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
