// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_NORM_HPP
#define SHARD_SRC_LAYERS_DEVICE_NORM_HPP

#include <Kokkos_Core.hpp>

#include "device_sums.hpp"
#include "norm_slope.hpp"
#include "shard/layers/impl/norm_kernels.hpp"

/// \file
/// Kernels of batch, group and instance norm on a device.

namespace shard::impl {

/// Moments of a piece in one pass: count, mean, sum of squared differences. Sums x - s and its
/// square, where s is the piece's first value: this avoids cancellation for a large mean.
template <class T>
struct NormMomentsTerm {
  static constexpr int kinds = 3;
  Block<const T> x;
  NormRows rows;

  struct Cell {
    T value;
    double weight;
  };
  struct Plane {
    const T* cells;
    NormRows rows;
    double shift;

    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {cells[at.offset[0]],
              rows.weights == nullptr ? 1.0 : rows.weights[at.along(rows.dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      const double d = static_cast<double>(cell.value) - shift;
      if (rows.weights == nullptr) {
        sums[1] += d;
        sums[2] += d * d;
      } else {
        sums[0] += cell.weight;
        sums[1] += cell.weight * d;
        sums[2] += cell.weight * (d * d);
      }
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&sums)[kinds], double count) const {
      if (rows.weights == nullptr) sums[0] = count;
      const double more    = sums[0] > 0.0 ? sums[1] / sums[0] : 0.0;
      const double squares = sums[2] - sums[1] * more;
      sums[1]              = sums[0] > 0.0 ? shift + more : 0.0;
      sums[2]              = squares < 0.0 ? 0.0 : squares;
    }
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At& first) const {
    const T* cells = plane_of(x, n, c);
    return {cells, rows, x.cells() > 0 ? static_cast<double>(cells[first.offset[0]]) : 0.0};
  }
  BoxStrides<1> box() const {
    return rows.weights == nullptr ? plane_box(x).merged() : plane_box(x);
  }
};

/// Merges the moments at(0), ..., at(count - 1) by the formula of Chan, Golub and LeVeque: the mean
/// of the means, then the squared differences from it.
template <class Team, class At>
KOKKOS_FORCEINLINE_FUNCTION Moments team_merge(const Team& team, index_t count, const At& at) {
  double* const scratch = team_memory(team, 2 * team.team_size());
  double first[2]       = {};
  for (index_t i = team.team_rank(); i < count; i += team.team_size()) {
    const double* m = at(i);
    first[0] += m[0];
    first[1] += m[0] * m[1];
  }
  team_sum(team, scratch, first);
  const double weight = first[0], mean = weight > 0.0 ? first[1] / weight : 0.0;
  double second[1] = {};
  for (index_t i = team.team_rank(); i < count; i += team.team_size()) {
    const double* m = at(i);
    const double d  = m[1] - mean;
    second[0] += m[2] + (m[0] > 0.0 ? m[0] * (d * d) : 0.0);
  }
  team_sum(team, scratch, second);
  return {weight, mean, second[0]};
}

/// The moments of (batch, channel) from those of their pieces.
struct NormPieces {
  const double* parts;
  index_t pieces;

  KOKKOS_FORCEINLINE_FUNCTION index_t count(index_t) const { return pieces; }
  KOKKOS_FORCEINLINE_FUNCTION const double* at(index_t item, index_t i) const {
    return parts + 3 * (pieces * item + i);
  }
};
/// Those of slots from those of (batch, channel).
struct NormPlanes {
  const double* moments;
  index_t batch, channels;
  NormGroups groups;

  KOKKOS_FORCEINLINE_FUNCTION index_t count(index_t slot) const {
    const SlotRange r = groups.range(slot, batch, channels);
    return r.c1 > r.c0 ? (r.n1 - r.n0) * (r.c1 - r.c0) : 0;
  }
  KOKKOS_FORCEINLINE_FUNCTION const double* at(index_t slot, index_t i) const {
    const SlotRange r  = groups.range(slot, batch, channels);
    const index_t wide = r.c1 - r.c0;
    return moments + 3 * ((r.n0 + i / wide) * channels + r.c0 + i % wide);
  }
};
/// Those of slots from those of all ranks.
struct NormRanks {
  const double* gathered;
  index_t ranks, slots;

  KOKKOS_FORCEINLINE_FUNCTION index_t count(index_t) const { return ranks; }
  KOKKOS_FORCEINLINE_FUNCTION const double* at(index_t slot, index_t i) const {
    return gathered + 3 * (i * slots + slot);
  }
};

/// Merges moments. Writes moments, or statistics: Final.
template <class Parts, bool Final>
struct NormMergeKernel {
  double* to;
  Parts parts;
  double eps, correction;

  struct At {
    Parts parts;
    index_t item;
    KOKKOS_FORCEINLINE_FUNCTION const double* operator()(index_t i) const {
      return parts.at(item, i);
    }
  };
  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const index_t item = team.league_rank();
    const Moments m    = team_merge(team, parts.count(item), At{parts, item});
    if (team.team_rank() > 0) return;
    double* const s = to + 3 * item;
    if constexpr (Final) {
      const double variance = m.weight > 0.0 ? m.squares / m.weight : 0.0;
      s[0]                  = m.mean;
      s[1]                  = 1.0 / Kokkos::sqrt(variance + eps);
      s[2]                  = variance * correction;
    } else {
      s[0] = m.weight;
      s[1] = m.mean;
      s[2] = m.squares;
    }
  }
};
static_assert(statistics_per_slot == 3);

template <bool Final, class Space, class Parts>
void device_norm_merge(const char* label, const Space& space, double* to, index_t items,
                       const Parts& parts, double eps = 0.0, double correction = 1.0) {
  launch_teams(label, space, items, team_threads<Space>, team_bytes(2 * team_threads<Space>),
               NormMergeKernel<Parts, Final>{to, parts, eps, correction});
}

/// Sums of r a and r a xhat, r the row's weight.
template <class T>
struct NormPairTerm {
  static constexpr int kinds = 2;
  Block<const T> a, x;
  const double* statistics;
  NormGroups groups;
  NormRows rows;

  struct Cell {
    T a, x;
    double weight;
  };
  struct Plane {
    const T *a, *x;
    NormRows rows;
    double mean, rstd;

    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {a[at.offset[0]], x[at.offset[1]],
              rows.weights == nullptr ? 1.0 : rows.weights[at.along(rows.dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      double value = static_cast<double>(cell.a);
      if (rows.weights != nullptr) value *= cell.weight;
      sums[0] += value;
      sums[1] += value * (static_cast<double>(cell.x) - mean);
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&sums)[kinds], double) const {
      sums[1] *= rstd;
    }
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    const double* s = statistics + statistics_per_slot * groups.slot(n, c);
    return {plane_of(a, n, c), plane_of(x, n, c), rows, s[0], s[1]};
  }
  BoxStrides<2> box() const {
    return rows.weights == nullptr ? plane_box(a, x).merged() : plane_box(a, x);
  }
};

/// y = (x - mean) scale + shift
template <class T>
struct NormApplyOp {
  Block<T> to;
  Block<const T> from;
  const double* statistics;
  const T* weight;  ///< may be null
  const T* bias;    ///< may be null
  NormGroups groups;

  struct Cell {
    index_t to;
    T value;
  };
  struct Plane {
    T* to;
    const T* from;
    T mean, scale, shift;
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {at.offset[0], from[at.offset[1]]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void store(const Cell& cell) const {
      to[cell.to] = (cell.value - mean) * scale + shift;
    }
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c) const {
    const double* s = statistics + statistics_per_slot * groups.slot(n, c);
    const double w  = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
    return {plane_of(to, n, c), plane_of(from, n, c), static_cast<T>(s[0]),
            static_cast<T>(s[1] * w), bias == nullptr ? T(0) : bias[c]};
  }
  BoxStrides<2> box() const { return plane_box(to, from).merged(); }
};

/// to = a from - r (b + c (x - mean)), see NormSlope.
template <class T>
struct NormDerivativeOp {
  Block<T> to;
  Block<const T> from, x;
  NormSlope<T> slope;

  struct Cell {
    index_t to;
    T from, x;
    double weight;
  };
  struct Plane {
    T* to;
    const T *from, *x;
    NormRows rows;
    typename NormSlope<T>::Channel by;
    T flat, slope;

    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {at.offset[0], from[at.offset[1]], x[at.offset[2]],
              rows.weights == nullptr ? 1.0 : rows.weights[at.along(rows.dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void store(const Cell& cell) const {
      const T d = cell.x - by.mean;
      if (rows.weights == nullptr)
        to[cell.to] = by.scale * cell.from - flat - slope * d;
      else
        to[cell.to] = by.scale * cell.from -
                      static_cast<T>(cell.weight * (by.b + by.c * static_cast<double>(d)));
    }
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c) const {
    const auto by = slope.channel(n, c);
    return {plane_of(to, n, c),   plane_of(from, n, c), plane_of(x, n, c), slope.rows, by,
            static_cast<T>(by.b), static_cast<T>(by.c)};
  }
  BoxStrides<3> box() const {
    const auto planes = plane_box(to, from, x);
    return slope.rows.weights == nullptr ? planes.merged() : planes;
  }
};

template <class Space, class T>
void device_norm_moments(const Space& space, double* moments, const Block<const T>& x,
                         const NormRows& rows, double* parts) {
  const index_t items = x.batch * x.channels;
  if (sum_pieces("shard::norm_moments", space, NormMomentsTerm<T>{x, rows}, items, x.channels,
                 x.cells(), moments, parts))
    device_norm_merge<false>("shard::norm_moments_merge", space, moments, items,
                             NormPieces{parts, CellPieces::of(x.cells()).count});
}

}  // namespace shard::impl

#endif
