// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_CONV_TRANSPOSE_HPP
#define SHARD_LAYERS_WINDOW_CONV_TRANSPOSE_HPP

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "shard/layers/window/convolution.hpp"

namespace shard {

/// Transposed convolution in one, two or three dimensions: `ConvTranspose<Kernel<4, 4>, Stride<2,
/// 2>, Padding<1, 1>>{in, out}`.
///
///   y[n, b, o] = bias[b] + sum over a, k with o = i s - p + k d of weight[a][b][k] x[n, a, i]
///
/// The output padding follows from y's extents: (extent of y) - ((N - 1) s - p_lo - p_hi + d (k -
/// 1) + 1) in each dimension; it must be in [0, max(s, d)). So y may have the extents and partition
/// of a finer level (a skip connection) whose coarsened partition x has. x's halo covers both that
/// and the natural partition; with the option Aligned only the latter. x's boundary defines the
/// points outside the domain (a PaddingMode checks it). Channels may be sharded as for Conv. Sums
/// begin with the bias and run over a, then k, so the output is bitwise the same on any number of
/// ranks.
template <class KernelSize, class... Options>
struct ConvTranspose
    : ConvolutionLayer<ConvTranspose<KernelSize, Options...>, KernelSize, Options...> {
  /// Channels, groups and bias, apply and pullback.
  using Base = ConvolutionLayer<ConvTranspose, KernelSize, Options...>;
  using Base::dims, Base::window, Base::out;
  static_assert(!(std::is_same_v<Options, Same> || ...),
                "a ConvTranspose's padding is a number: only a Conv takes Same");

  /// Whether the convolution is transposed.
  static constexpr bool transposed = true;
  /// Whether the output may have the partitions of a finer level.
  static constexpr bool can_meet = true;
  /// Whether an unsharded dimension with a Zero boundary needs no halo.
  static constexpr bool zero_needs_no_halo = true;

  /// The widest halo over all partitions (see required_halo_t).
  static constexpr LowHigh halo_bound(int d) {
    return Base::is_aligned ? impl::conv_transpose_aligned_bound(window(d))
                            : impl::conv_transpose_bound(window(d));
  }
  /// The same for shards that begin and end at multiples of the stride (see aligned_halo_t).
  static constexpr LowHigh aligned_halo_bound(int d) {
    return impl::conv_transpose_aligned_bound(window(d));
  }
  /// The halo in an unsharded dimension (see unsharded_halo_t).
  static constexpr LowHigh unsharded_halo_bound(int d) {
    return impl::conv_transpose_bound(window(d));
  }
  /// The halo of the output's gradient for an ordered pullback (see ordered_halo_t).
  static constexpr LowHigh ordered_halo_bound(int d) {
    return impl::conv_transpose_ordered_bound(window(d));
  }

  /// Output extent in spatial dimension `d` of n points.
  static constexpr index_t output_extent(int d, index_t n, index_t output_padding = 0) {
    return conv_transpose_output_extent(window(d), n, output_padding);
  }
  /// The output padding that gives m points from n in spatial dimension `d`; throws ArgumentError
  /// if there is none.
  static index_t output_padding(int d, index_t n, index_t m) {
    const index_t op = m - conv_transpose_output_extent(window(d), n, 0);
    if (!is_output_padding(window(d), op))
      impl::throw_argument(
          "ConvTranspose",
          {"dimension ", impl::text(d), " in space gives ", impl::text(output_extent(d, n)),
           " cells from ", impl::text(n), " and an output padding in [0, ",
           impl::text(impl::larger(window(d).stride, window(d).dilation)), ") more, not ",
           impl::text(m)});
    return op;
  }

  /// The natural partitions of the output: begins clamp(b s, 0, M). For a skip connection give y
  /// the finer field's partitions instead.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(
      const std::array<Partition, Rank>& input,
      const std::array<index_t, dims>& output_padding = {}) const {
    static_assert(Rank == dims + 2,
                  "partitions of [batch, channel, one dimension for each of the kernel's]");
    std::array<Partition, Rank> p = input;
    p[1]                          = this->output_channels(input[1]);
    for (std::size_t d = 0; d < dims; ++d)
      p[d + 2] = input[d + 2].refined(
          window(static_cast<int>(d)).stride,
          output_extent(static_cast<int>(d), input[d + 2].size(), output_padding[d]));
    return p;
  }

 private:
  friend Base;
  static constexpr const char* name = "ConvTranspose";

  template <class Y, class X>
  static void require_space(const Y& y, const X& x) {
    [&]<int... D>(std::integer_sequence<int, D...>) { (require_dim<D>(y, x), ...); }
    (std::make_integer_sequence<int, dims>{});
  }
  template <int D, class Y, class X>
  static void require_dim(const Y& y, const X& x) {
    const Window w = window(D);
    output_padding(D, x.global_extent(D + 2), y.global_extent(D + 2));
    impl::require_halo_for(name, x.label(), D + 2, x.partition(D + 2), y.partition(D + 2),
                           X::halo_lo(D + 2), X::halo_hi(D + 2), !impl::is_zero_beyond_v<X, D + 2>,
                           reads, &w);
  }
  static IndexRange reads(const void* window, IndexRange outputs) {
    return conv_transpose_reads(*static_cast<const Window*>(window), outputs);
  }
};

}  // namespace shard

#endif
