// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_POOL_WINDOW_HPP
#define SHARD_SRC_LAYERS_POOL_WINDOW_HPP

#include "shard/layers/impl/pool_kernels.hpp"

namespace shard::impl {

/// The taps [begin, end) of an output's window whose cells are inside the domain, along one
/// dimension. Tap k reads the cell base + k * dilation.
struct TapRange {
  index_t base;
  int begin, end;

  KOKKOS_FUNCTION static TapRange of(const PoolWindow& w, int d, index_t output) {
    TapRange r{output * w.stride[d] + w.offset[d], 0, w.kernel[d]};
    while (r.begin < r.end && r.base + r.begin * static_cast<index_t>(w.dilation[d]) < w.first[d])
      ++r.begin;
    while (r.end > r.begin &&
           r.base + (r.end - 1) * static_cast<index_t>(w.dilation[d]) >= w.last[d])
      --r.end;
    return r;
  }
  KOKKOS_FUNCTION int count() const { return end - begin; }
  /// The number of the window's cells inside the domain or its padding. For a window without
  /// dilation that begins there.
  KOKKOS_FUNCTION int padded(const PoolWindow& w, int d) const {
    const index_t room = w.padded[d] - base;
    return room < w.kernel[d] ? static_cast<int>(room) : w.kernel[d];
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION index_t linear(const Block<T>& b, index_t n, index_t c, index_t z, index_t y,
                                      index_t x) {
  return (((n * b.channels + c) * b.extent(0) + z) * b.extent(1) + y) * b.extent(2) + x;
}

}  // namespace shard::impl

#endif
