// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_LAUNCH_HPP
#define SHARD_SRC_LAYERS_LAUNCH_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

#include "shard/base/impl/divisor.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

template <class Space>
inline constexpr bool is_host_v = std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>;

/// Channels of a cell that a device's thread takes at once where finding what a cell reads takes
/// longer than reading it.
inline constexpr int channels_at_once = 8;

/// Divides a block's cells into work items: rows on a host, single cells on a device. Indices are
/// local to the block.
struct RowSplit {
  index_t batch = 0, channels = 0;
  index_t begin[3] = {}, extent[3] = {};
  index_t chunk = 1, chunks = 0;
  index_t group = 1;      ///< channels of an item
  bool narrow   = false;  ///< fewer than 2^31 items: 32-bit divisions
  Divisor by[4];          ///< divisors: the extents from the last one, then the channels

  template <class Space, class T>
  static RowSplit of(const Space& space, const Block<T>& b) {
    return of(space, b, b.channels);
  }
  /// Channels in groups of channels_at_once: a row's c is the first one of its group.
  template <class Space, class T>
  static RowSplit of_groups(const Space& space, const Block<T>& b) {
    RowSplit s = of(space, b, (b.channels + channels_at_once - 1) / channels_at_once);
    s.group    = channels_at_once;
    return s;
  }
  template <class Space, class T>
  static RowSplit of(const Space&, const Block<T>& b, index_t channels) {
    RowSplit s;
    s.batch    = b.batch;
    s.channels = channels;
    for (int d = 0; d < 3; ++d) {
      s.begin[d]  = b.begin[d];
      s.extent[d] = b.extent(d);
    }
    s.chunk  = is_host_v<Space> ? s.extent[2] : 1;
    s.chunks = s.chunk > 0 ? (s.extent[2] + s.chunk - 1) / s.chunk : 0;
    s.narrow = !is_host_v<Space> && s.items() > 0 && s.items() >> 31 == 0;
    if (s.narrow) {
      for (int d = 0; d < 3; ++d) s.by[2 - d] = Divisor::of(s.extent[d]);
      s.by[3] = Divisor::of(s.channels);
    }
    return s;
  }
  index_t items() const { return batch * channels * extent[0] * extent[1] * chunks; }

  struct Row {
    index_t n, c, z, y, x, count;
  };
  KOKKOS_FUNCTION Row row(index_t item) const {
    Row r;
    if (narrow) {
      std::uint32_t index[4] = {};
      auto rest              = static_cast<std::uint32_t>(item);
      for (int d = 0; d < 4; ++d) {
        const std::uint32_t next = by[d].quotient(rest);
        index[d]                 = rest - next * by[d].divisor;
        rest                     = next;
      }
      return {rest,
              index[3] * group,
              begin[0] + static_cast<index_t>(index[2]),
              begin[1] + static_cast<index_t>(index[1]),
              begin[2] + static_cast<index_t>(index[0]),
              1};
    }
    r.x     = begin[2] + item % chunks * chunk;
    r.count = begin[2] + extent[2] - r.x < chunk ? begin[2] + extent[2] - r.x : chunk;
    item /= chunks;
    r.y = begin[1] + item % extent[1];
    item /= extent[1];
    r.z = begin[0] + item % extent[0];
    item /= extent[0];
    r.c = item % channels * group;
    r.n = item / channels;
    return r;
  }
};

}  // namespace shard::impl

/// SHARD_KERNELS(Kernels) instantiates Kernels<Space, T> for float and double in the spaces that
/// layers are compiled for.
#define SHARD_KERNELS_IN(Kernels, Space) \
  template struct Kernels<Space, float>; \
  template struct Kernels<Space, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#define SHARD_KERNELS(Kernels)                             \
  SHARD_KERNELS_IN(Kernels, Kokkos::DefaultExecutionSpace) \
  SHARD_KERNELS_IN(Kernels, Kokkos::DefaultHostExecutionSpace)
#else
#define SHARD_KERNELS(Kernels) SHARD_KERNELS_IN(Kernels, Kokkos::DefaultExecutionSpace)
#endif

#endif
