// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_CONV_HPP
#define SHARD_LAYERS_CONV_HPP

#include <array>
#include <cmath>
#include <vector>

#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/kernels.hpp"
#include "shard/layers/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/window.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// What Conv and ConvTranspose share: the window from the template arguments, and shapes of
/// weights.
template <class KernelSize, class... Options>
struct WindowOf {
  static constexpr int dims     = KernelDims<KernelSize>::value;
  static constexpr auto windows = make_windows<dims, KernelSize, Options...>();

  static LocalWindow local(index_t groups) {
    LocalWindow w;
    w.groups = groups;
    for (int d = 0; d < dims; ++d) {
      const Window& from = windows[static_cast<std::size_t>(d)];
      const int to       = d + 3 - dims;
      w.kernel[to]       = from.kernel;
      w.stride[to]       = from.stride;
      w.dilation[to]     = from.dilation;
    }
    return w;
  }

  static std::vector<ParameterShape> shapes(index_t first, index_t second_per_group, index_t bias) {
    ParameterShape weight{"weight", {first, second_per_group}};
    index_t fan_in = second_per_group;
    for (const Window& w : windows) {
      weight.extents.push_back(w.kernel);
      fan_in *= w.kernel;
    }
    weight.bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
    if (bias == 0) return {weight};
    return {weight, {"bias", {bias}, weight.bound}};
  }
};

}  // namespace impl

/// Convolution (cross-correlation, as in PyTorch) in one, two or three dimensions: `Conv<Kernel<3,
/// 5>, Stride<2, 1>, Padding<1, 2>>{in, out}`.
///
///   y[n, a, o] = bias[a] + sum over b, k of weight[a][b][k] x[n, b, o s - p + k d]
///
/// Options: Stride, Padding, Dilation, one entry per dimension of the kernel. Cells beyond the
/// world are what x's boundary says (Zero: PyTorch's "zeros"). Fields are [batch, channel,
/// space...]; space and batch may be cut. Sums run over b, then k (the last dimension fastest),
/// beginning with the bias: the same bits on every number of ranks. The output may have any
/// partition that x's halo serves; output_partitions gives the natural one, which it always does.
template <class KernelSize, class... Options>
struct Conv {
  index_t in     = 1;     ///< input channels
  index_t out    = 1;     ///< output channels
  index_t groups = 1;     ///< channels are joined within so many groups only
  bool bias      = true;  ///< whether there is a bias

  /// The window of each dimension, from the template arguments.
  using Shape               = impl::WindowOf<KernelSize, Options...>;
  static constexpr int dims = Shape::dims;  ///< dimensions in space
  /// Whether a dimension that isn't cut needs no halo where zeros lie beyond the world.
  static constexpr bool zero_needs_no_halo = false;

  /// Weight [out, in / groups, k...] and bias [out], as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, dims + 2, Memory>;

  /// The window of dimension `d` in space.
  static constexpr Window window(int d) { return Shape::windows[static_cast<std::size_t>(d)]; }
  /// The widest halo over all partitions (see required_halo_t).
  static constexpr PaddingSides halo_bound(int d) { return impl::conv_bound(window(d)); }
  /// The same where shards begin and end at multiples of the stride (see aligned_halo_t).
  static constexpr PaddingSides aligned_halo_bound(int d) {
    return impl::conv_aligned_bound(window(d));
  }
  /// The halo in a dimension that isn't cut (see uncut_halo_t).
  static constexpr PaddingSides uncut_halo_bound(int d) {
    return impl::conv_uncut_bound(window(d));
  }

  /// Weight and bias, with PyTorch's default initialisation.
  std::vector<ParameterShape> parameter_shapes() const {
    return Shape::shapes(out, groups > 0 ? in / groups : 0, bias ? out : 0);
  }

  /// Output extent in dimension `d` in space of n cells.
  static constexpr index_t output_extent(int d, index_t n) {
    return conv_output_extent(window(d), n);
  }

  /// The natural partitions of the output for an input with these: begins min(M, ceil(b / s)).
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    static_assert(Rank == dims + 2,
                  "partitions of [batch, channel, one dimension for each of the kernel's]");
    std::array<Partition, Rank> p = input;
    p[1]                          = Partition::balanced(out, 1);
    for (std::size_t d = 0; d < dims; ++d)
      p[d + 2] = input[d + 2].coarsened(window(static_cast<int>(d)).stride,
                                        output_extent(static_cast<int>(d), input[d + 2].size()));
    return p;
  }

  /// Fills x's halo, then computes y's owned cells. Local but for the exchange. Throws
  /// ArgumentError, on every rank before any message, where extents or partitions don't fit.
  template <class Space, class P, class Y, class X>
  void apply(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    exchange(space, x);
    compute(space, parameters, y, x);
  }
  /// The same for an x whose halo is up to date.
  template <class Space, class P, class Y, class X>
  void apply_local(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    compute(space, parameters, y, x);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients (see sum_gradients) and
  /// sets dx = dJ/dx, whose halo parts go to their owners. x is as apply left it, its halo too.
  template <class Space, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    pullback_parameters(space, gradients, dy, x);
    pullback_input(space, parameters, dx, dy);
  }
  /// The parameters' part of it alone. Local.
  template <class Space, class G, class DY, class X>
  void pullback_parameters(const Space& space, const G& gradients, const DY& dy, const X& x) const {
    require(dy, x);
    using Kernels = impl::ConvolutionKernels<Space, typename G::value_type>;
    Kernels::correlate_weights(space, gradients.weight.data(), impl::owned_input(dy),
                               impl::haloed_input(x), local_window(dy, x));
    if (bias) Kernels::sum_channels(space, gradients.bias.data(), impl::owned_input(dy));
  }
  /// The input's part of it alone.
  template <class Space, class P, class DX, class DY>
  void pullback_input(const Space& space, const P& parameters, const DX& dx, const DY& dy) const {
    pullback_input_local(space, parameters, dx, dy);
    exchange_adjoint(space, dx);
  }
  /// The same, the halo's parts left where they are: exchange_adjoint(dx) brings them to their
  /// owners.
  template <class Space, class P, class DX, class DY>
  void pullback_input_local(const Space& space, const P& parameters, const DX& dx,
                            const DY& dy) const {
    require(dy, dx);
    impl::ConvolutionKernels<Space, typename P::value_type>::correlate_transposed(
        space, impl::haloed_block(impl::local(dx)), impl::owned_input(dy), parameters.weight.data(),
        nullptr, local_window(dy, dx));
  }

 private:
  static constexpr const char* name = "Conv";

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    impl::require_wide_halos<Conv, X>();
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(name, y.geometry(), x.geometry());
    impl::require_groups(name, in, out, groups);
    impl::require_extent(name, x.label(), "channels", x.global_extent(1), in);
    impl::require_extent(name, y.label(), "channels", y.global_extent(1), out);
    impl::require_same_partition(name, y.label(), 0, y.partition(0), x.partition(0));
    for (int d = 0; d < dims; ++d) {
      const Window w  = window(d);
      const index_t m = conv_output_extent(w, x.global_extent(d + 2));
      impl::require_extent(name, y.label(), "cells along a dimension in space",
                           y.global_extent(d + 2), m);
      if (!(y.partition(d + 2) == x.partition(d + 2).coarsened(w.stride, m)))
        impl::require_halo_for(name, x.label(), d + 2, x.partition(d + 2), y.partition(d + 2),
                               X::halo_lo(d + 2), X::halo_hi(d + 2), true, reads, &w);
    }
  }
  static IndexRange reads(const void* window, IndexRange outputs) {
    return conv_reads(*static_cast<const Window*>(window), outputs);
  }

  template <class Y, class X>
  impl::LocalWindow local_window(const Y& y, const X& x) const {
    impl::LocalWindow w = Shape::local(groups);
    for (int d = 0; d < dims; ++d)
      w.offset[d + 3 - dims] =
          y.begin(d + 2) * window(d).stride - window(d).padding_lo - x.begin(d + 2);
    return w;
  }

  template <class Space, class P, class Y, class X>
  void compute(const Space& space, const P& parameters, const Y& y, const X& x) const {
    impl::ConvolutionKernels<Space, typename P::value_type>::correlate(
        space, impl::owned_block(impl::local(y)), impl::haloed_input(x), parameters.weight.data(),
        bias ? parameters.bias.data() : nullptr, local_window(y, x));
    mark_written(space, y);
  }
};

}  // namespace shard

#endif
