// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_CONV_HPP
#define SHARD_LAYERS_WINDOW_CONV_HPP

#include <array>
#include <cstddef>

#include "shard/layers/window/convolution.hpp"

namespace shard {

/// Convolution (cross-correlation, as in PyTorch) in one, two or three dimensions: `Conv<Kernel<3,
/// 5>, Stride<2, 1>, Padding<1, 2>>{in, out}`.
///
///   y[n, a, o] = bias[a] + sum over b, k of weight[a][b][k] x[n, b, o s - p + k d]
///
/// Options: Stride, Padding (or Same or Valid), Dilation, one entry per dimension of the kernel;
/// PaddingMode; Aligned. x's boundary defines the points outside the domain (Zero: PyTorch's
/// "zeros"); a PaddingMode checks it. Fields are [batch, channel, space...]. Space and batch may be
/// sharded, and channels if every group is on one rank. Sums begin with the bias and run over b,
/// then k (the last dimension fastest), so the output is bitwise the same on any number of ranks.
/// The output may have any partition for which x's halo is wide enough; output_partitions returns
/// the natural one.
template <class KernelSize, class... Options>
struct Conv : ConvolutionLayer<Conv<KernelSize, Options...>, KernelSize, Options...> {
  /// Channels, groups and bias, apply and pullback.
  using Base = ConvolutionLayer<Conv, KernelSize, Options...>;
  using Base::dims, Base::window, Base::out;

  /// Whether the convolution is transposed.
  static constexpr bool transposed = false;
  /// Whether an unsharded dimension with a Zero boundary needs no halo.
  static constexpr bool zero_needs_no_halo = false;

  /// The widest halo over all partitions (see required_halo_t).
  static constexpr LowHigh halo_bound(int d) {
    return Base::is_aligned ? impl::conv_aligned_bound(window(d)) : impl::conv_bound(window(d));
  }
  /// The same for shards that begin and end at multiples of the stride (see aligned_halo_t).
  static constexpr LowHigh aligned_halo_bound(int d) { return impl::conv_aligned_bound(window(d)); }
  /// The halo in an unsharded dimension (see unsharded_halo_t).
  static constexpr LowHigh unsharded_halo_bound(int d) {
    return impl::conv_unsharded_bound(window(d));
  }
  /// The halo of the output's gradient for an ordered pullback (see ordered_halo_t).
  static constexpr LowHigh ordered_halo_bound(int d) { return impl::conv_ordered_bound(window(d)); }

  /// Output extent in spatial dimension `d` of n points.
  static constexpr index_t output_extent(int d, index_t n) {
    return conv_output_extent(window(d), n);
  }

  /// The natural partitions of the output for an input with these: begins min(M, ceil(b / s)).
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    static_assert(Rank == dims + 2,
                  "partitions of [batch, channel, one dimension for each of the kernel's]");
    std::array<Partition, Rank> p = input;
    p[1]                          = this->output_channels(input[1]);
    for (std::size_t d = 0; d < dims; ++d)
      p[d + 2] = input[d + 2].coarsened(window(static_cast<int>(d)).stride,
                                        output_extent(static_cast<int>(d), input[d + 2].size()));
    return p;
  }

 private:
  friend Base;
  static constexpr const char* name = "Conv";

  template <class Y, class X>
  static void require_space(const Y& y, const X& x) {
    for (int d = 0; d < dims; ++d) {
      const Window w  = window(d);
      const index_t m = conv_output_extent(w, x.global_extent(d + 2));
      impl::require_extent(name, y.label(), "cells along a spatial dimension",
                           y.global_extent(d + 2), m);
      if (Base::is_aligned || !impl::is_coarsened(y.partition(d + 2), x.partition(d + 2), w.stride))
        impl::require_halo_for(name, x.label(), d + 2, x.partition(d + 2), y.partition(d + 2),
                               X::halo_lo(d + 2), X::halo_hi(d + 2), true, reads, &w);
    }
  }
  static IndexRange reads(const void* window, IndexRange outputs) {
    return conv_reads(*static_cast<const Window*>(window), outputs);
  }
};

}  // namespace shard

#endif
