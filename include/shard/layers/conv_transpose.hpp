// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_CONV_TRANSPOSE_HPP
#define SHARD_LAYERS_CONV_TRANSPOSE_HPP

#include <array>
#include <vector>

#include "shard/layers/conv.hpp"

namespace shard {

/// Transposed convolution in one, two or three dimensions: `ConvTranspose<Kernel<4, 4>, Stride<2,
/// 2>, Padding<1, 1>>{in, out}`.
///
///   y[n, b, o] = bias[b] + sum over a, k with o = i s - p + k d of weight[a][b][k] x[n, a, i]
///
/// The output padding isn't part of the type: it is what y's extents make it, (extent of y) - ((N -
/// 1) s - p_lo - p_hi + d (k - 1) + 1) in each dimension, and must lie in [0, max(s, d)). So y may
/// have the extents and partition of a finer level that it is to meet, of which x has the coarsened
/// ones: x's halo covers both that and the layer's own partition. Inputs beyond the world are what
/// x's boundary says (Zero: PyTorch's). Sums run over a, then k, beginning with the bias: the same
/// bits on every number of ranks.
template <class KernelSize, class... Options>
struct ConvTranspose {
  index_t in     = 1;     ///< input channels
  index_t out    = 1;     ///< output channels
  index_t groups = 1;     ///< channels are joined within so many groups only
  bool bias      = true;  ///< whether there is a bias

  /// The window of each dimension, from the template arguments.
  using Shape               = impl::WindowOf<KernelSize, Options...>;
  static constexpr int dims = Shape::dims;  ///< dimensions in space
  /// Whether a dimension that isn't cut needs no halo where zeros lie beyond the world.
  static constexpr bool zero_needs_no_halo = true;

  /// Weight [in, out / groups, k...] and bias [out], as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, dims + 2, Memory>;

  /// The window of dimension `d` in space.
  static constexpr Window window(int d) { return Shape::windows[static_cast<std::size_t>(d)]; }
  /// The widest halo over all partitions (see required_halo_t).
  static constexpr PaddingSides halo_bound(int d) { return impl::conv_transpose_bound(window(d)); }
  /// The same where shards begin and end at multiples of the stride (see aligned_halo_t).
  static constexpr PaddingSides aligned_halo_bound(int d) {
    return impl::conv_transpose_aligned_bound(window(d));
  }
  /// The halo in a dimension that isn't cut (see uncut_halo_t).
  static constexpr PaddingSides uncut_halo_bound(int d) {
    return impl::conv_transpose_bound(window(d));
  }

  /// Weight and bias, with PyTorch's default initialisation.
  std::vector<ParameterShape> parameter_shapes() const {
    return Shape::shapes(in, groups > 0 ? out / groups : 0, bias ? out : 0);
  }

  /// Output extent in dimension `d` in space of n cells.
  static constexpr index_t output_extent(int d, index_t n, index_t output_padding = 0) {
    return conv_transpose_output_extent(window(d), n, output_padding);
  }
  /// The output padding that gives m cells from n in dimension `d` in space; throws ArgumentError
  /// where there is none.
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

  /// The layer's own partitions of the output: begins clamp(b s, 0, M). To meet a finer level give
  /// y the finer field's partitions instead.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(
      const std::array<Partition, Rank>& input,
      const std::array<index_t, dims>& output_padding = {}) const {
    static_assert(Rank == dims + 2,
                  "partitions of [batch, channel, one dimension for each of the kernel's]");
    std::array<Partition, Rank> p = input;
    p[1]                          = Partition::balanced(out, 1);
    for (std::size_t d = 0; d < dims; ++d)
      p[d + 2] = input[d + 2].refined(
          window(static_cast<int>(d)).stride,
          output_extent(static_cast<int>(d), input[d + 2].size(), output_padding[d]));
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
    Kernels::correlate_weights(space, gradients.weight.data(), impl::haloed_input(x),
                               impl::owned_input(dy), local_window(dy, x));
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
    impl::ConvolutionKernels<Space, typename P::value_type>::correlate(
        space, impl::haloed_block(impl::local(dx)), impl::owned_input(dy), parameters.weight.data(),
        nullptr, local_window(dy, dx));
  }

 private:
  static constexpr const char* name = "ConvTranspose";

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    impl::require_wide_halos<ConvTranspose, X>();
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(name, y.geometry(), x.geometry());
    impl::require_groups(name, in, out, groups);
    impl::require_extent(name, x.label(), "channels", x.global_extent(1), in);
    impl::require_extent(name, y.label(), "channels", y.global_extent(1), out);
    impl::require_same_partition(name, y.label(), 0, y.partition(0), x.partition(0));
    [&]<int... D>(std::integer_sequence<int, D...>) { (require_dim<D>(y, x), ...); }
    (std::make_integer_sequence<int, dims>{});
  }
  template <int D, class Y, class X>
  void require_dim(const Y& y, const X& x) const {
    const Window w = window(D);
    output_padding(D, x.global_extent(D + 2), y.global_extent(D + 2));
    impl::require_halo_for(name, x.label(), D + 2, x.partition(D + 2), y.partition(D + 2),
                           X::halo_lo(D + 2), X::halo_hi(D + 2), !impl::is_zero_beyond_v<X, D + 2>,
                           reads, &w);
  }
  static IndexRange reads(const void* window, IndexRange outputs) {
    return conv_transpose_reads(*static_cast<const Window*>(window), outputs);
  }

  template <class Y, class X>
  impl::LocalWindow local_window(const Y& y, const X& x) const {
    impl::LocalWindow w = Shape::local(groups);
    for (int d = 0; d < dims; ++d)
      w.offset[d + 3 - dims] =
          x.begin(d + 2) * window(d).stride - window(d).padding_lo - y.begin(d + 2);
    return w;
  }

  template <class Space, class P, class Y, class X>
  void compute(const Space& space, const P& parameters, const Y& y, const X& x) const {
    impl::ConvolutionKernels<Space, typename P::value_type>::correlate_transposed(
        space, impl::owned_block(impl::local(y)), impl::haloed_input(x), parameters.weight.data(),
        bias ? parameters.bias.data() : nullptr, local_window(y, x));
    mark_written(space, y);
  }
};

}  // namespace shard

#endif
