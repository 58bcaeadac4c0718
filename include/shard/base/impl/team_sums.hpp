// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_TEAM_SUMS_HPP
#define SHARD_BASE_IMPL_TEAM_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "shard/base/impl/divisor.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/types.hpp"

/// \file
/// Sums over points by teams of threads on a device.

namespace shard::impl {

/// Threads of a team. 1 on a host, where only tests run these kernels.
template <class Space>
inline constexpr int team_threads = is_host_space_v<Space> ? 1 : 256;

/// The extents of a box of points, the last dimension the fastest, and its strides in some fields.
template <int Fields>
struct BoxStrides {
  index_t extent[3];
  index_t stride[Fields][3];

  /// Change of the offset in field f for a step along x, for a new line and for a new plane.
  index_t step(int f) const { return stride[f][2]; }
  index_t line(int f) const { return stride[f][1] - extent[2] * stride[f][2]; }
  index_t plane(int f) const { return stride[f][0] - extent[1] * stride[f][1]; }

  /// The same points as one line, if they are one in every field: then no number has to be divided.
  BoxStrides merged() const {
    if (extent[0] * extent[1] * extent[2] >> 31 != 0) return *this;
    for (int f = 0; f < Fields; ++f) {
      const index_t along_y = extent[2] * stride[f][2], along_z = extent[1] * along_y;
      if ((extent[1] > 1 && stride[f][1] != along_y) || (extent[0] > 1 && stride[f][0] != along_z))
        return *this;
    }
    BoxStrides line_of_points = *this;
    line_of_points.extent[2] *= extent[0] * extent[1];
    line_of_points.extent[0] = line_of_points.extent[1] = 1;
    for (int f = 0; f < Fields; ++f)
      for (int d = 0; d < 2; ++d)
        line_of_points.stride[f][d] = line_of_points.extent[2] * stride[f][2];
    return line_of_points;
  }

  /// Whether the extents and the distances between `count` points are less than 2^30.
  bool are_short(index_t count) const {
    constexpr double most = 1 << 30;
    for (int d = 0; d < 3; ++d)
      if (static_cast<double>(extent[d]) >= most) return false;
    for (int f = 0; f < Fields; ++f) {
      const double reach = std::fabs(static_cast<double>(step(f))) +
                           std::fabs(static_cast<double>(line(f))) +
                           std::fabs(static_cast<double>(plane(f)));
      if (reach * static_cast<double>(count) >= most) return false;
    }
    return true;
  }
};

/// The points of a box by number, and their offsets in some fields. A 64-bit division takes a
/// device a hundred instructions, so a thread divides for its first point only, and computes the
/// others from their distance to it.
/// \tparam Index type of the distances: int if they are short.
template <int Fields, class Index>
class BoxCells {
 public:
  explicit BoxCells(const BoxStrides<Fields>& box) {
    for (int d = 0; d < 3; ++d) extent_[d] = static_cast<std::uint32_t>(box.extent[d]);
    by_x_      = Divisor::of(box.extent[2]);
    by_y_      = Divisor::of(box.extent[1]);
    line_only_ = box.extent[0] == 1 && box.extent[1] == 1;
    for (int f = 0; f < Fields; ++f) {
      step_[f]  = static_cast<Index>(box.step(f));
      line_[f]  = static_cast<Index>(box.line(f));
      plane_[f] = static_cast<Index>(box.plane(f));
    }
  }

  struct Cell {
    index_t offset[Fields];
    std::uint32_t z, y, x;

    /// The index along dimension d.
    KOKKOS_FORCEINLINE_FUNCTION index_t along(int d) const { return d == 0 ? z : d == 1 ? y : x; }
  };
  KOKKOS_FUNCTION Cell at(index_t number) const {
    Cell cell;
    if (number >> 32 == 0)
      split(static_cast<std::uint32_t>(number), cell);
    else
      split(static_cast<std::uint64_t>(number), cell);
    for (int f = 0; f < Fields; ++f) {
      const index_t along_y = line_[f] + index_t{extent_[2]} * step_[f],
                    along_z = plane_[f] + index_t{extent_[1]} * along_y;
      cell.offset[f]        = cell.z * along_z + cell.y * along_y + index_t{cell.x} * step_[f];
    }
    return cell;
  }
  /// The point whose number is larger by `count`, which is less than 2^30.
  KOKKOS_FORCEINLINE_FUNCTION Cell behind(const Cell& first, std::uint32_t count) const {
    Cell cell;
    cell.x = first.x + count;
    if (line_only_) {
      cell.y = cell.z = 0;
      for (int f = 0; f < Fields; ++f)
        cell.offset[f] = first.offset[f] + static_cast<Index>(count) * step_[f];
      return cell;
    }
    const std::uint32_t lines = by_x_.quotient(cell.x);
    cell.x -= lines * extent_[2];
    cell.y                     = first.y + lines;
    const std::uint32_t planes = by_y_.quotient(cell.y);
    cell.y -= planes * extent_[1];
    cell.z = first.z + planes;
    for (int f = 0; f < Fields; ++f)
      cell.offset[f] = first.offset[f] + (static_cast<Index>(count) * step_[f] +
                                          static_cast<Index>(lines) * line_[f] +
                                          static_cast<Index>(planes) * plane_[f]);
    return cell;
  }

 private:
  template <class Number>
  KOKKOS_FORCEINLINE_FUNCTION void split(Number number, Cell& cell) const {
    const Number x = extent_[2] > 0 ? extent_[2] : 1, y = extent_[1] > 0 ? extent_[1] : 1;
    cell.x = static_cast<std::uint32_t>(number % x);
    number /= x;
    cell.y = static_cast<std::uint32_t>(number % y);
    cell.z = static_cast<std::uint32_t>(number / y);
  }

  std::uint32_t extent_[3];
  bool line_only_;
  Divisor by_x_, by_y_;
  Index step_[Fields], line_[Fields], plane_[Fields];
};

/// Calls use(cells) with the points of a box, for threads that stay within `count` points.
template <int Fields, class Use>
void with_box_cells(const BoxStrides<Fields>& box, index_t count, const Use& use) {
  if (box.are_short(count))
    use(BoxCells<Fields, int>(box));
  else
    use(BoxCells<Fields, index_t>(box));
}

/// Calls take(load(cell)) for a thread's points in [first, end), one in `team_size`. It loads
/// several before it takes the first, so that their latencies overlap.
template <class Cells, class Load, class Take>
KOKKOS_FORCEINLINE_FUNCTION void for_own_cells(const Cells& cells, index_t first, index_t end,
                                               int team_size, const Load& load, const Take& take) {
  constexpr int in_flight = 4;
  const auto step         = static_cast<std::uint32_t>(team_size);
  if (first >= end) return;
  const auto begin = cells.at(first);
  const auto count = static_cast<std::uint32_t>(end - first);
  using Value      = decltype(load(begin));
  std::uint32_t i  = 0;
  for (; i + (in_flight - 1) * step < count; i += in_flight * step) {
    Value values[in_flight];
    for (int n = 0; n < in_flight; ++n) values[n] = load(cells.behind(begin, i + n * step));
    for (int n = 0; n < in_flight; ++n) take(values[n]);
  }
  for (; i < count; i += step) take(load(cells.behind(begin, i)));
}

/// Adds the threads' values in an order that depends only on the team's size: first those of each
/// sixteenth thread, then the sixteen sums. Every thread gets the result. `scratch` holds Kinds
/// numbers for each thread.
template <int Kinds, class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION void team_sum(const Team& team, T* scratch, T (&values)[Kinds]) {
  constexpr int sixteen = 16;
  const int t = team.team_rank(), threads = team.team_size();
  for (int k = 0; k < Kinds; ++k) scratch[k * threads + t] = values[k];
  team.team_barrier();
  if (t < sixteen)
    for (int k = 0; k < Kinds; ++k) {
      T sum = T(0);
      for (int i = t; i < threads; i += sixteen) sum += scratch[k * threads + i];
      scratch[k * threads + t] = sum;
    }
  team.team_barrier();
  const int lanes = threads < sixteen ? threads : sixteen;
  for (int k = 0; k < Kinds; ++k) {
    T sum = T(0);
    for (int i = 0; i < lanes; ++i) sum += scratch[k * threads + i];
    values[k] = sum;
  }
  team.team_barrier();
}

template <class T = double, class Team>
KOKKOS_FORCEINLINE_FUNCTION T* team_memory(const Team& team, int numbers) {
  using Memory = Kokkos::View<T*, typename Team::execution_space::scratch_memory_space,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  return Memory(team.team_scratch(0), static_cast<std::size_t>(numbers)).data();
}
/// Bytes of scratch memory for team_memory(team, numbers), which is aligned.
constexpr std::size_t team_bytes(int numbers) {
  return static_cast<std::size_t>(numbers) * sizeof(double) + sizeof(double);
}

}  // namespace shard::impl

#endif
