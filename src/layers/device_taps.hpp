// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_TAPS_HPP
#define SHARD_SRC_LAYERS_DEVICE_TAPS_HPP

#include <cstdint>

#include "correlation.hpp"
#include "device_tile.hpp"

namespace shard::impl {

/// A tap of a window, or of one channel: the steps in memory to its input and its weight, and the
/// bits that an output cell's mask must have. With these bits the input is inside the block.
struct alignas(16) Tap {
  std::uint64_t need = 0;
  std::int32_t input = 0, weight = 0;
};

/// The masks have a bit for each tap along x, then y, then z. A single tap along z has no bit: if
/// it is outside the block, the mask is empty.
struct TapBits {
  int x, y, z;

  KOKKOS_FUNCTION static std::uint64_t bit(int i) { return std::uint64_t(1) << i; }
  KOKKOS_FUNCTION std::uint64_t need(int tz, int ty, int tx) const {
    return bit(tx) | bit(x + ty) | (z > 1 ? bit(x + y + tz) : 0);
  }
  /// Bit t: `begin` <= at + t * step < `end`.
  KOKKOS_FUNCTION static std::uint64_t valid(int at, int step, int taps, int begin, int end) {
    const int last = at + (taps - 1) * step;
    if (at >= begin && at < end && last >= begin && last < end) return (bit(taps - 1) << 1) - 1;
    std::uint64_t bits = 0;
    for (int t = 0; t < taps; ++t, at += step)
      if (at >= begin && at < end) bits |= bit(t);
    return bits;
  }
  template <class T>
  KOKKOS_FUNCTION std::uint64_t mask(const Block<T>& b, int jz, int jy, int jx, int step_z,
                                     int step_y, int step_x) const {
    const std::uint64_t in_z = valid(jz, step_z, z, int(b.begin[0]), int(b.end[0]));
    if (in_z == 0) return 0;
    return valid(jx, step_x, x, int(b.begin[2]), int(b.end[2])) |
           valid(jy, step_y, y, int(b.begin[1]), int(b.end[1])) << x |
           (z > 1 ? in_z << (x + y) : 0);
  }
  /// True if a mask has enough bits for the window's taps.
  static bool fit(const LocalWindow& w) {
    return (w.kernel[0] > 1 ? w.kernel[0] : 0) + w.kernel[1] + w.kernel[2] <= 64 &&
           w.kernel[0] < 64 && w.taps() <= max_taps;
  }
  /// Entries of a team's table in scratch memory.
  static constexpr index_t max_taps = multiprocessor.scratch < 128 * 1024 ? 256 : 1024;
};

inline constexpr index_t short_limit = index_t(1) << 30;

/// True if the offsets of a batch entry's cells and channels, and of the window's cells outside the
/// block, are less than 2^30.
template <class T>
bool has_short_offsets(const Block<T>& b, const Block<T>& other, const LocalWindow& w) {
  index_t span = b.channels * (b.stride[1] < 0 ? -b.stride[1] : b.stride[1]);
  for (int d = 0; d < 3; ++d) {
    const auto reach = [&](index_t i) { return i < 0 ? -i : i; };
    index_t most     = 1;
    for (const index_t i : {b.begin[d], b.end[d], other.begin[d], other.end[d]})
      most = reach(i) > most ? reach(i) : most;
    most = most * w.stride[d] + w.kernel[d] * w.dilation[d] + reach(w.offset[d]);
    if (most >= short_limit) return false;
    span += most * reach(b.stride[d + 2]);
  }
  return span < short_limit;
}

}  // namespace shard::impl

#endif
