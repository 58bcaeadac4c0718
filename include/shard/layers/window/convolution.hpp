// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_CONVOLUTION_HPP
#define SHARD_LAYERS_WINDOW_CONVOLUTION_HPP

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/exchange_tangent.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/convolution_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/impl/window_checks.hpp"
#include "shard/layers/window/window_options.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// The window from a layer's template arguments, and shapes of weights.
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

/// The channels of a layer's output within a field.
struct ChannelSlice {
  index_t first, all;
};

template <class T>
Block<T> channels_of(Block<T> block, const ChannelSlice& slice, index_t count) {
  block.origin += slice.first * block.stride[1];
  block.channels = count;
  return block;
}

/// Correlation, or its transpose, of one block into another; sets or adds.
template <bool Transposed, class Space, class T>
void correlate_as(const Space& space, const Block<T>& to, const Block<const T>& from,
                  const T* weight, const T* bias, const LocalWindow& window) {
  if constexpr (Transposed)
    ConvolutionKernels<Space, T>::correlate_transposed(space, to, from, weight, bias, window);
  else
    ConvolutionKernels<Space, T>::correlate(space, to, from, weight, bias, window);
}
template <bool Transposed, class Space, class T>
void add_correlation(const Space& space, const Block<T>& to, const Block<const T>& from,
                     const T* weight, const LocalWindow& window) {
  if constexpr (Transposed)
    ConvolutionSumKernels<Space, T>::add_correlation_transposed(space, to, from, weight, window);
  else
    ConvolutionSumKernels<Space, T>::add_correlation(space, to, from, weight, window);
}

}  // namespace impl

/// Base of Conv and ConvTranspose, which are each other's adjoint: fine point i and coarse point o
/// are connected if i = o s - p + k d. The output is the coarse side of a convolution, the fine
/// side of a transposed one.
template <class Layer, class KernelSize, class... Options>
struct ConvolutionLayer {
  index_t in     = 1;     ///< input channels
  index_t out    = 1;     ///< output channels
  index_t groups = 1;     ///< groups of channels
  bool bias      = true;  ///< whether there is a bias

  /// The window of each dimension, from the template arguments.
  using Shape               = impl::WindowOf<KernelSize, Options...>;
  static constexpr int dims = Shape::dims;  ///< spatial dimensions

  /// Needs points of neighbours.
  static constexpr LayerSharding sharding = LayerSharding::window;
  /// The padding mode among the options, void if none is given.
  using padding_mode = typename impl::FindMode<Options...>::type;
  /// The padding mode's boundary in spatial dimension `D`; Zero without a padding mode (then the
  /// field's boundary applies).
  template <int D>
  using boundary = typename impl::BoundaryOf<padding_mode, D, dims>::type;
  /// Whether shards must be aligned, see Aligned.
  static constexpr bool is_aligned = (std::is_same_v<Options, Aligned> || ...);

  /// Weight ([out, in / groups, k...]; of a transposed convolution [in, out / groups, k...]) and
  /// bias [out], as in PyTorch; of the owned channels' groups if channels are sharded (see
  /// OwnedChannels).
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, dims + 2, Memory>;

  /// The window of spatial dimension `d`.
  static constexpr Window window(int d) { return Shape::windows[static_cast<std::size_t>(d)]; }

  /// Weight and bias, with PyTorch's default initialisation.
  std::vector<ParameterShape> parameter_shapes() const {
    const index_t first = Layer::transposed ? in : out, second = Layer::transposed ? out : in;
    auto shapes           = Shape::shapes(first, groups > 0 ? second / groups : 0, bias ? out : 0);
    shapes.front().linear = !Layer::transposed && groups == 1;
    return shapes;
  }
  /// Those of the groups of the owned input channels; each group must be on one rank.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels& owned) const {
    std::vector<ParameterShape> shapes = parameter_shapes();
    if (groups < 1 || in < groups || owned.count == in) return shapes;
    const index_t begin = owned.begin / (in / groups), count = owned.count / (in / groups);
    for (ParameterShape& shape : shapes) {
      const index_t each = shape.extents[0] / groups, rest = shape.count() / groups;
      shape.extents[0] = each * count;
      shape.first      = rest * begin;
    }
    return shapes;
  }

  /// Fills x's halo (unless no shard reads beyond its own points, for instance a window as wide as
  /// its stride on aligned shards), then computes y's owned points. Local except for the exchange.
  /// Throws ArgumentError, on every rank before any message, if extents or partitions don't fit.
  template <class Space, class P, class Y, class X>
  void apply(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    if (reads_halo(y, x)) exchange(space, x);
    compute(space, parameters, y, whole(), x);
    mark_written(space, y);
  }
  /// The same for an x whose halo is up to date.
  template <class Space, class P, class Y, class X>
  void apply_local(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    compute(space, parameters, y, whole(), x);
    mark_written(space, y);
  }

  /// ty = the tangent of y for the tangents tx of x and `tangents` of the parameters, either of
  /// which may be not_wanted (zero). Fills tx's halo as apply fills x's. x must be unchanged since
  /// apply. ty = conv(weight, tx) + tbias, then conv(tweight, x) is added.
  template <class Space, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, const P& parameters, const TP& tangents, const TY& ty,
                   const TX& tx, const X& x) const {
    static_assert(is_wanted_v<TX> || is_wanted_v<TP>,
                  "a tangent is that of the input, of the parameters or of both");
    require(ty, x);
    if constexpr (is_wanted_v<TX>) {
      require<true>(ty, tx);
      if (reads_halo(ty, tx)) exchange_tangent(space, tx);
    }
    compute_tangent(space, parameters, tangents, ty, whole(), tx, x);
    mark_written(space, ty);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients (see sum_gradients) and
  /// sets dx = dJ/dx, and adds its halo to the owners. x and its halo must be unchanged since
  /// apply. `gradients` or dx may be not_wanted, which skips its computation and messages.
  ///
  /// `pullback<Determinism::ordered>(...)`: dx is bitwise the same for every number of ranks, mesh
  /// and partition, and equal to on_one_mesh on one rank. dy needs a halo for it (ordered_halo_t),
  /// whose points inside the domain are filled. The parameters' gradients are sums over ranks in
  /// any case.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class P, class G, class DX,
            class DY, class X>
  void pullback(const Space& space, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<G>) pullback_parameters(space, gradients, dy, x);
    if constexpr (is_wanted_v<DX>) pullback_input<Order>(space, parameters, dx, dy);
  }
  /// Only the parameters' part. Local.
  template <class Space, class G, class DY, class X>
  void pullback_parameters(const Space& space, const G& gradients, const DY& dy, const X& x) const {
    require(dy, x);
    add_gradients(space, gradients, dy, whole(), x);
  }
  /// Only the input's part; afterwards dx's halo is zero.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class P, class DX, class DY>
  void pullback_input(const Space& space, const P& parameters, const DX& dx, const DY& dy) const {
    if constexpr (Order == Determinism::ordered) {
      require(dy, dx);
      require_gatherable(dy, dx);
      impl::exchange_inside(space, dy);
      gather(space, parameters, dx, dy,
             impl::block_of(impl::owned_block(impl::local(dx)), impl::edge_cells(dx)),
             impl::block_of(impl::owned_input(dy), impl::inner_cells(dy)));
      impl::add_edges(space, dx);
    } else {
      pullback_input_local(space, parameters, dx, dy);
      if (reads_halo(dy, dx)) exchange_adjoint(space, dx);
    }
  }
  /// The same without adding dx's halo to its owners; exchange_adjoint(dx) does that.
  template <class Space, class P, class DX, class DY>
  void pullback_input_local(const Space& space, const P& parameters, const DX& dx,
                            const DY& dy) const {
    require(dy, dx);
    gather(space, parameters, dx, dy, impl::haloed_block(impl::local(dx)), impl::owned_input(dy));
  }

 protected:
  /// The partition of the output's channels for one of the input's.
  Partition output_channels(const Partition& input) const {
    if (input.parts() == 1) return Partition::balanced(out, 1);
    impl::require_groups(Layer::name, in, out, groups);
    impl::require_extent(Layer::name, "x", "channels", input.size(), in);
    impl::require_whole_groups(Layer::name, "x", input, in / groups);
    return impl::regrouped(input, in / groups, out / groups);
  }

 private:
  template <class StrideSize, class... Kernels>
  friend struct CrossEmbed;

  /// All channels of the output.
  impl::ChannelSlice whole() const { return {0, out}; }

  /// The points of dy that the adjoint reads for those of dx.
  static IndexRange gathers(const void* window, IndexRange inputs) {
    const auto& w = *static_cast<const Window*>(window);
    return Layer::transposed ? conv_reads(w, inputs) : conv_transpose_reads(w, inputs);
  }

  template <class DY, class DX>
  static void require_gatherable(const DY& dy, const DX& dx) {
    impl::require_wide_gradient_halos<Layer, DY>();
    for (int d = 0; d < dims; ++d) {
      const Window w = window(d);
      impl::require_gathered_halo_for(Layer::name, dy.label(), d + 2, dy.partition(d + 2),
                                      dx.partition(d + 2), DY::halo_lo(d + 2), DY::halo_hi(d + 2),
                                      impl::edge_widths<DX>(d + 2), gathers, &w);
    }
  }

  /// Computes the points of `to`, a part of dx, from those of `from`, a part of dy.
  template <bool Adds = false, class Space, class P, class DX, class DY, class T>
  void gather(const Space& space, const P& parameters, const DX& dx, const DY& dy,
              const impl::Block<T>& to, const impl::Block<const T>& from) const {
    if constexpr (Adds)
      impl::add_correlation<!Layer::transposed, Space, T>(space, to, from, parameters.weight.data(),
                                                          local_window(dy, dx));
    else
      impl::correlate_as<!Layer::transposed, Space, T>(space, to, from, parameters.weight.data(),
                                                       nullptr, local_window(dy, dx));
  }

  /// Whether some shard reads beyond its own points. Only layers that can work without a halo check
  /// this.
  template <class Y, class X>
  static bool reads_halo(const Y& y, const X& x) {
    if constexpr (impl::can_do_without_halo<Layer, X>()) {
      for (int d = 0; d < dims; ++d) {
        const Window w = window(d);
        if (impl::reads_beyond(x.partition(d + 2), y.partition(d + 2),
                               X::halo_lo(d + 2) + X::halo_hi(d + 2) > 0, Layer::reads, &w))
          return true;
      }
      return false;
    } else {
      return true;
    }
  }

  template <bool Tangent = false, class Y, class X>
  void require(const Y& y, const X& x) const {
    require<Tangent>(y, whole(), x);
  }
  template <bool Tangent = false, class Y, class X>
  void require(const Y& y, const impl::ChannelSlice& channels, const X& x) const {
    impl::require_wide_halos<Layer, X>();
    if constexpr (!std::is_void_v<padding_mode>) impl::require_padding_modes<Layer, X, Tangent>();
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(Layer::name, y.geometry(), x.geometry());
    impl::require_groups(Layer::name, in, out, groups);
    impl::require_extent(Layer::name, x.label(), "channels", x.global_extent(1), in);
    impl::require_extent(Layer::name, y.label(), "channels", y.global_extent(1), channels.all);
    impl::require_same_partition(Layer::name, y.label(), 0, y.partition(0), x.partition(0));
    if constexpr (impl::is_cut_v<X, 1>) require_channels(y, x);
    Layer::require_space(y, x);
  }

  template <class Y, class X>
  void require_channels(const Y& y, const X& x) const {
    impl::require_whole_groups(Layer::name, x.label(), x.partition(1), in / groups);
    if (!impl::is_regrouped(x.partition(1), y.partition(1), in / groups, out / groups))
      impl::require_same_partition(Layer::name, y.label(), 1, y.partition(1),
                                   impl::regrouped(x.partition(1), in / groups, out / groups));
  }

  template <class Y, class X>
  impl::LocalWindow local_window(const Y& y, const X& x) const {
    impl::LocalWindow w = Shape::local(groups);
    if constexpr (impl::is_cut_v<X, 1>)  // at least 1, because the kernels divide by it
      w.groups = x.extent(1) == 0 ? 1 : x.extent(1) / (in / groups);
    for (int d = 0; d < dims; ++d) {
      const index_t coarse   = Layer::transposed ? x.begin(d + 2) : y.begin(d + 2),
                    fine     = Layer::transposed ? y.begin(d + 2) : x.begin(d + 2);
      w.offset[d + 3 - dims] = coarse * window(d).stride - window(d).padding_lo - fine;
    }
    return w;
  }

  /// The layer's channels of a block of Y with all or the owned channels.
  template <class Y, class T>
  impl::Block<T> outputs_of(const impl::Block<T>& block, const impl::ChannelSlice& channels) const {
    if constexpr (impl::is_cut_v<Y, 1>)
      return block;
    else
      return impl::channels_of(block, channels, out);
  }

  template <class Space, class P, class Y, class X>
  void compute(const Space& space, const P& parameters, const Y& y,
               const impl::ChannelSlice& channels, const X& x) const {
    using T = typename P::value_type;
    impl::correlate_as<Layer::transposed, Space, T>(
        space, outputs_of<Y>(impl::owned_block(impl::local(y)), channels), impl::haloed_input(x),
        parameters.weight.data(), bias ? parameters.bias.data() : nullptr, local_window(y, x));
  }

  template <class Space, class P, class TP, class TY, class TX, class X>
  void compute_tangent(const Space& space, const P& parameters, const TP& tangents, const TY& ty,
                       const impl::ChannelSlice& channels, const TX& tx, const X& x) const {
    using T              = typename TY::non_const_value_type;
    const auto to        = outputs_of<TY>(impl::owned_block(impl::local(ty)), channels);
    const T* bias_change = nullptr;
    if constexpr (is_wanted_v<TP>)
      if (bias) bias_change = tangents.bias.data();
    if constexpr (is_wanted_v<TX>) {
      impl::correlate_as<Layer::transposed, Space, T>(space, to, impl::haloed_input(tx),
                                                      parameters.weight.data(), bias_change,
                                                      local_window(ty, tx));
      if constexpr (is_wanted_v<TP>)
        impl::add_correlation<Layer::transposed, Space, T>(
            space, to, impl::haloed_input(x), tangents.weight.data(), local_window(ty, x));
    } else {
      impl::correlate_as<Layer::transposed, Space, T>(space, to, impl::haloed_input(x),
                                                      tangents.weight.data(), bias_change,
                                                      local_window(ty, x));
    }
  }

  template <class Space, class G, class DY, class X>
  void add_gradients(const Space& space, const G& gradients, const DY& dy,
                     const impl::ChannelSlice& channels, const X& x) const {
    using Kernels      = impl::ConvolutionKernels<Space, typename G::value_type>;
    const auto outputs = outputs_of<DY>(impl::owned_input(dy), channels);
    // an unused halo may have NaNs, which a zero weight wouldn't remove
    const auto inputs = reads_halo(dy, x) ? impl::haloed_input(x) : impl::owned_input(x);
    Kernels::correlate_weights(space, gradients.weight.data(), Layer::transposed ? inputs : outputs,
                               Layer::transposed ? outputs : inputs, local_window(dy, x));
    if (bias) Kernels::sum_channels(space, gradients.bias.data(), outputs);
  }
};

}  // namespace shard

#endif
