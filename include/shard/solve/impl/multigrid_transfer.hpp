// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_TRANSFER_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_TRANSFER_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/view/boundary.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// A cell and the cells of the other grid that it is computed from, along one dimension. Indices
/// are local.
struct TransferPoint {
  int first = 0, count = 0;
  int own          = 0;  ///< of a fine cell: which of them contains its centre
  double weight[4] = {};
};

/// Both grids along one dimension, on this rank. Any extents: both grids cover the same domain with
/// cells of equal widths.
struct TransferGrids {
  index_t fine_size = 1, coarse_size = 1;
  index_t fine_begin = 0, fine_end = 1, coarse_begin = 0, coarse_end = 1;
  bool periodic     = false;
  bool zero_wall[2] = {};  ///< the value at the wall is 0; else nothing flows through it

  /// Linear interpolation between the centres of coarse cells, for the fine cells from one before
  /// this rank's to one after.
  std::vector<TransferPoint> interpolation() const;
  /// Its transpose times coarse_size / fine_size, for this rank's coarse cells.
  std::vector<TransferPoint> restriction() const;
  /// The mean over each of this rank's coarse cells.
  std::vector<TransferPoint> means() const;
};

/// The coarse cell boundary nearest to a fine one, and the other way round. Shards that begin at
/// such pairs of cells need a halo of one cell for all transfers.
index_t nearest_begin(index_t begin, index_t from_size, index_t to_size);

/// The way between a grid and the next coarser one: for each dimension weights from tables, which
/// are multiplied. Where coefficients jump, the flux is continuous, not the slope: with the share
/// s = k_next / (k_own + k_next) the weight t of the next cell is 2 s t.
template <class Field, class K>
struct Transfer {
  static constexpr int rank     = Field::rank;
  static constexpr bool uniform = std::is_same_v<K, UnitCoefficient>;
  struct None {};
  const TransferPoint* fine[rank]   = {};  ///< from the cell before the rank's first
  const TransferPoint* coarse[rank] = {};
  double scale                      = 1.0;  ///< of the transpose
  /// Of coarse cells: the share of the next cell along each dimension.
  std::conditional_t<uniform, None, Kokkos::Array<Field, static_cast<std::size_t>(rank)>> share{};

  /// The weights of the coarse cells along dimension d in the interpolation to a fine cell, where
  /// `chosen` has the cells along the dimensions before. So a diagonal neighbour has a large weight
  /// only if the fine cell is well coupled to it by the way over these.
  KOKKOS_FORCEINLINE_FUNCTION void weights(const int* at, int d, [[maybe_unused]] const int* chosen,
                                           double (&w)[2]) const {
    const TransferPoint& p = fine[d][at[d] + 1];
    w[0]                   = p.weight[0];
    w[1]                   = p.weight[1];
    if constexpr (!uniform) {
      if (p.count < 2) return;
      int cell[rank];  // whose face is between the two
      for (int e = 0; e < rank; ++e)
        cell[e] =
            e < d ? chosen[e] : fine[e][at[e] + 1].first + (e == d ? 0 : fine[e][at[e] + 1].own);
      const double high = static_cast<double>(value(share[static_cast<std::size_t>(d)], cell)),
                   t    = p.weight[1 - p.own];
      w[1 - p.own]      = 2.0 * t * (p.own == 0 ? high : 1.0 - high);
      w[p.own]          = 1.0 - w[1 - p.own];
    }
  }
  template <class From>
  KOKKOS_FORCEINLINE_FUNCTION static double value(const From& from, const int* at) {
    return value(from, at, std::make_integer_sequence<int, rank>{});
  }

 private:
  template <class From, int... D>
  KOKKOS_FORCEINLINE_FUNCTION static double value(const From& from, const int* at,
                                                  std::integer_sequence<int, D...>) {
    return static_cast<double>(from(at[D]...));
  }
};

/// fine += P coarse. Reads the coarse halo, corners too.
template <class Field, class K>
struct ProlongKernel {
  static constexpr int rank = Field::rank;
  Field fine, coarse;
  Transfer<Field, K> transfer;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int at[rank];
    fine(i...) += static_cast<typename Field::value_type>(gather<0>(index, at));
  }

 private:
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* index, int* at) const {
    if constexpr (D == rank) {
      return transfer.value(coarse, at);
    } else {
      const TransferPoint& p = transfer.fine[D][index[D] + 1];
      double w[2];
      transfer.weights(index, D, at, w);
      at[D]            = p.first;
      const double low = w[0] * gather<D + 1>(index, at);
      if (p.count < 2) return low;
      at[D] = p.first + 1;
      return low + w[1] * gather<D + 1>(index, at);
    }
  }
};

/// coarse = P' fine, scaled. Reads the fine halo, corners too. Without coefficients any tensor
/// product of tables, such as means.
template <class Field, class K>
struct RestrictKernel {
  static constexpr int rank     = Field::rank;
  static constexpr bool uniform = Transfer<Field, K>::uniform;
  Field coarse, fine;
  Transfer<Field, K> transfer;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int at[rank];
    double sum = gather<0>(index, at);
    if constexpr (!uniform) sum *= transfer.scale;
    coarse(i...) = static_cast<typename Field::value_type>(sum);
  }

 private:
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* index, int* at) const {
    if constexpr (D == rank) {
      double product = transfer.value(fine, at);
      if constexpr (!uniform)
        for (int d = 0; d < rank; ++d) {
          double w[2];
          transfer.weights(at, d, index, w);
          product *= w[index[d] - transfer.fine[d][at[d] + 1].first];
        }
      return product;
    } else {
      const TransferPoint& p = transfer.coarse[D][index[D]];
      double sum             = 0.0;
      for (int n = 0; n < p.count; ++n) {
        at[D] = p.first + n;
        sum += (uniform ? p.weight[n] : 1.0) * gather<D + 1>(index, at);
      }
      return sum;
    }
  }
};

/// The inner dimension of a field: that of unit stride.
template <class Field>
inline constexpr int inner_dim =
    std::is_same_v<typename Field::layout, Kokkos::LayoutLeft> ? 0 : Field::rank - 1;

/// Adds to `line` the lines of `field` that begin at `from` and that points[d] name in every
/// dimension but the inner one, each with the product of its weights.
template <class Field, int D = 0>
KOKKOS_FORCEINLINE_FUNCTION void add_lines(const Field& field, const TransferPoint* const* points,
                                           const typename Field::value_type* from, double weight,
                                           double* line, int count) {
  if constexpr (D == Field::rank) {
    for (int n = 0; n < count; ++n) line[n] += weight * static_cast<double>(from[n]);
  } else if constexpr (D == inner_dim<Field>) {
    add_lines<Field, D + 1>(field, points, from, weight, line, count);
  } else {
    const TransferPoint& p = *points[D];
    for (int n = 0; n < p.count; ++n)
      add_lines<Field, D + 1>(field, points, from + (p.first + n) * field.stride(D),
                              weight * p.weight[n], line, count);
  }
}

/// The same as RestrictKernel with coefficients 1, for a host: an item is a part of a line of
/// coarse cells. First the fine lines are added, then the sum is restricted along the line.
template <class Field>
struct RestrictLines {
  static constexpr int rank = Field::rank, inner = inner_dim<Field>;
  static constexpr int cells = 64;  ///< of an item
  Field coarse, fine;
  Transfer<Field, UnitCoefficient> transfer;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    int index[]     = {i...};
    const int begin = index[inner] * cells, extent = static_cast<int>(coarse.extent(inner)),
              end              = begin + cells < extent ? begin + cells : extent;
    const TransferPoint* table = transfer.coarse[inner];
    const int first            = table[begin].first;
    double line[2 * cells + 2];
    const int count = table[end - 1].first + table[end - 1].count - first;
    for (int n = 0; n < count; ++n) line[n] = 0.0;
    const TransferPoint* points[rank];
    for (int d = 0; d < rank; ++d) points[d] = &transfer.coarse[d][index[d]];
    add_lines(fine, points, fine.origin() + first, 1.0, line, count);
    index[inner] = begin;
    auto* to     = coarse.origin();
    for (int d = 0; d < rank; ++d) to += index[d] * coarse.stride(d);
    for (int c = begin; c < end; ++c, ++to) {
      const TransferPoint& p = table[c];
      double sum             = 0.0;
      for (int n = 0; n < p.count; ++n) sum += p.weight[n] * line[p.first - first + n];
      *to = static_cast<typename Field::value_type>(sum);
    }
  }
};

/// The same as ProlongKernel with coefficients 1, for a host: an item is a part of a line of fine
/// cells.
template <class Field>
struct ProlongLines {
  static constexpr int rank = Field::rank, inner = inner_dim<Field>;
  static constexpr int cells = 128;  ///< of an item
  Field fine, coarse;
  Transfer<Field, UnitCoefficient> transfer;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    int index[]     = {i...};
    const int begin = index[inner] * cells, extent = static_cast<int>(fine.extent(inner)),
              end              = begin + cells < extent ? begin + cells : extent;
    const TransferPoint* table = transfer.fine[inner] + 1;
    const int first            = table[begin].first;
    double line[cells + 3];
    const int count = table[end - 1].first + table[end - 1].count - first;
    for (int n = 0; n <= count; ++n) line[n] = 0.0;  // one more, whose weight is 0
    const TransferPoint* points[rank];
    for (int d = 0; d < rank; ++d) points[d] = transfer.fine[d] + index[d] + 1;
    add_lines(coarse, points, coarse.origin() + first, 1.0, line, count);
    index[inner] = begin;
    auto* to     = fine.origin();
    for (int d = 0; d < rank; ++d) to += index[d] * fine.stride(d);
    for (int f = begin; f < end; ++f, ++to) {
      const TransferPoint& p = table[f];
      const double* at       = line + (p.first - first);
      *to += static_cast<typename Field::value_type>(p.weight[0] * at[0] + p.weight[1] * at[1]);
    }
  }
};

/// Runs a kernel of lines, or one of cells on a device and with coefficients.
template <template <class> class Lines, template <class, class> class Cells, class Space,
          class Field, class K>
void run_transfer(const char* label, const Space& space, const Field& to, const Field& from,
                  const Transfer<Field, K>& transfer) {
  auto region = owned_region(to);
  // lines are contiguous, unless the layout has strides of its own
  constexpr bool has_lines = !std::is_same_v<typename Field::layout, Kokkos::LayoutStride>;
  if constexpr (has_lines && std::is_same_v<K, UnitCoefficient> && is_host_space_v<Space>) {
    auto& end = region.boxes[0].end[Lines<Field>::inner];
    end       = (end + Lines<Field>::cells - 1) / Lines<Field>::cells;
    parallel_for(label, space, region, Lines<Field>{to, from, transfer});
  } else {
    parallel_for(label, space, region, Cells<Field, K>{to, from, transfer});
  }
  mark_written(space, to);
}

/// share = k_next / (k_own + k_next) of the face at the high end of dimension d; 1/2 if both are 0.
template <class Field>
struct ShareKernel {
  static constexpr int rank = Field::rank;
  Field share, k;
  int d;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    int next[] = {i...};
    ++next[d];
    const auto here = static_cast<double>(k(i...)), beside = Transfer<Field, Field>::value(k, next);
    share(i...) = static_cast<typename Field::value_type>(
        here + beside > 0.0 ? beside / (here + beside) : 0.5);
  }
};

/// The tables of a field's cells and of those of the next coarser grid on the same ranks.
template <class Fine, class Coarse>
std::array<TransferGrids, static_cast<std::size_t>(Fine::rank)> transfer_grids(
    const Fine& fine, const Coarse& coarse) {
  std::array<TransferGrids, static_cast<std::size_t>(Fine::rank)> all;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    const auto set = [&](TransferGrids& g, int d, const BoundarySide& low,
                         const BoundarySide& high) {
      g.fine_size    = fine.global_extent(d);
      g.fine_begin   = fine.begin(d);
      g.fine_end     = fine.begin(d) + fine.extent(d);
      g.coarse_size  = coarse.global_extent(d);
      g.coarse_begin = coarse.begin(d);
      g.coarse_end   = coarse.begin(d) + coarse.extent(d);
      g.periodic     = low.kind == BoundaryKind::periodic;
      g.zero_wall[0] = low.kind == BoundaryKind::constant;
      g.zero_wall[1] = high.kind == BoundaryKind::constant;
    };
    (set(all[D], D, BoundaryTraits<typename Fine::template boundary<D>>::low,
         BoundaryTraits<typename Fine::template boundary<D>>::high),
     ...);
  }
  (std::make_integer_sequence<int, Fine::rank>{});
  return all;
}

}  // namespace shard::impl

#endif
