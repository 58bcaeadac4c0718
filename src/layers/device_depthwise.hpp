// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_DEPTHWISE_HPP
#define SHARD_SRC_LAYERS_DEVICE_DEPTHWISE_HPP

#include <cstdint>

#include "correlation.hpp"
#include "launch.hpp"
#include "shard/base/impl/divisor.hpp"
#include "unroll.hpp"

namespace shard::impl {

/// Depthwise correlation or its transpose on a device, for windows of K by K without stride and
/// dilation. A thread computes a few cells of a column, and reads each row of the input once for
/// all of them.
template <class T, bool Transposed, int K>
struct DepthwiseKernel : Correlation<T, Transposed, LocalWindow> {
  using Operands = Correlation<T, Transposed, LocalWindow>;
  using Operands::bias, Operands::in, Operands::onto, Operands::out, Operands::out_per_group,
      Operands::window;
  static constexpr int rows = 8;

  Divisor by_x, by_blocks, by_z, by_channels;
  int blocks;

  explicit DepthwiseKernel(const Operands& operands)
      : Operands(operands), blocks(static_cast<int>((out.extent(1) + rows - 1) / rows)) {
    by_x        = Divisor::of(out.extent(2));
    by_blocks   = Divisor::of(blocks);
    by_z        = Divisor::of(out.extent(0));
    by_channels = Divisor::of(out.channels);
  }
  index_t items() const {
    return out.batch * out.channels * out.extent(0) * blocks * out.extent(2);
  }

  /// Offset from an output's index to the input index of the first tap.
  KOKKOS_FORCEINLINE_FUNCTION index_t first_input(int d) const {
    return Transposed ? 1 - window.kernel[d] - window.offset[d] : window.offset[d];
  }
  KOKKOS_FORCEINLINE_FUNCTION bool holds(int d, index_t at) const {
    return at >= in.begin[d] && at < in.end[d];
  }
  /// Divides `item` by the divisor, and returns the remainder.
  KOKKOS_FORCEINLINE_FUNCTION static std::uint32_t next(std::uint32_t& item, const Divisor& by) {
    const std::uint32_t above = by.quotient(item), below = item - above * by.divisor;
    item = above;
    return below;
  }

  KOKKOS_FUNCTION void operator()(index_t number) const {
    auto item       = static_cast<std::uint32_t>(number);
    const index_t x = out.begin[2] + next(item, by_x);
    const int row0  = static_cast<int>(next(item, by_blocks)) * rows;
    const index_t z = out.begin[0] + next(item, by_z), y = out.begin[1] + row0;
    const index_t channel = next(item, by_channels), n = item;
    const int left = static_cast<int>(out.extent(1)) - row0;

    T weights[K * K];
    const T* const given = this->weight + channel * (K * K);
    SHARD_UNROLL
    for (int t = 0; t < K * K; ++t) weights[t] = given[Transposed ? K * K - 1 - t : t];
    T* const to = &out.at(n, channel, z, y, x);
    T sums[rows];
    const T start = bias == nullptr ? T(0) : bias[channel];
    SHARD_UNROLL
    for (int o = 0; o < rows; ++o) sums[o] = onto && o < left ? to[o * out.stride[3]] : start;

    const index_t jz = z + first_input(0), jy = y + first_input(1), jx = x + first_input(2);
    const T* from = &in.at(n, channel / out_per_group, jz, jy, jx);
    bool in_line[K];
    SHARD_UNROLL
    for (int t = 0; t < K; ++t) in_line[t] = holds(0, jz) && holds(2, jx + t);
    SHARD_UNROLL
    for (int r = 0; r < rows + K - 1; ++r) {
      const bool in_column = r < left + K - 1 && holds(1, jy + r);
      T values[K];
      SHARD_UNROLL
      for (int t = 0; t < K; ++t)
        values[t] = in_column && in_line[t] ? from[t * in.stride[4]] : T(0);
      from += in.stride[3];
      SHARD_UNROLL
      for (int o = 0; o < rows; ++o) {
        if (r - o < 0 || r - o >= K) continue;
        SHARD_UNROLL
        for (int t = 0; t < K; ++t) sums[o] += weights[(r - o) * K + t] * values[t];
      }
    }
    SHARD_UNROLL
    for (int o = 0; o < rows; ++o)
      if (o < left) to[o * out.stride[3]] = sums[o];
  }
};

template <int K, class Space, class T, bool Transposed>
bool run_depthwise(const char* name, const Space& space,
                   const Correlation<T, Transposed, LocalWindow>& operands) {
  const LocalWindow& w = operands.window;
  if (w.kernel[0] != 1 || w.kernel[1] != K || w.kernel[2] != K) return false;
  const DepthwiseKernel<T, Transposed, K> kernel(operands);
  if (kernel.items() >> 31 != 0) return false;
  launch(name, space, kernel.items(), kernel);
  return true;
}

/// Runs DepthwiseKernel if it supports this correlation. Returns whether it did.
template <class Space, class T, bool Transposed>
bool correlate_depthwise(const char* name, const Space& space,
                         const Correlation<T, Transposed, LocalWindow>& operands) {
  const LocalWindow& w = operands.window;
  if (operands.in_per_group != 1 || (Transposed && operands.out_per_group != 1)) return false;
  for (int d = 0; d < 3; ++d)
    if (w.stride[d] != 1 || (w.dilation[d] != 1 && w.kernel[d] > 1)) return false;
  return run_depthwise<3>(name, space, operands) || run_depthwise<5>(name, space, operands) ||
         run_depthwise<7>(name, space, operands);
}

}  // namespace shard::impl

#endif
