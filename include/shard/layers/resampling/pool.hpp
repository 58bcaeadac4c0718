// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_RESAMPLING_POOL_HPP
#define SHARD_LAYERS_RESAMPLING_POOL_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/determinism.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/impl/pool_kernels.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/impl/window_checks.hpp"
#include "shard/layers/window/window_options.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Option of an AvgPool: excludes padding from the divisor (PyTorch's count_include_pad=False).
struct ExcludePadding {};

/// Option of a pooling: includes a last window that begins inside the domain or its low padding and
/// ends outside the padding (PyTorch's ceil_mode=True).
struct CeilMode {};

namespace impl {

/// Output extent of a pooling over `n` points with CeilMode: ceil((n + p_lo + p_hi - d(k-1) - 1) /
/// s) + 1, one less if the last window would begin at n + p_lo or later.
constexpr index_t ceil_output_extent(const Window& w, index_t n) {
  const index_t m = ceil_div(n + w.padding_lo + w.padding_hi - w.reach() - 1, w.stride) + 1;
  if (m <= 0) return 0;
  return (m - 1) * w.stride >= n + w.padding_lo ? m - 1 : m;
}

template <class Option>
inline constexpr bool is_of_poolings_v =
    std::is_same_v<Option, ExcludePadding> || std::is_same_v<Option, CeilMode>;

template <class Option>
inline constexpr bool is_stride_v = false;
template <int... S>
inline constexpr bool is_stride_v<Stride<S...>> = true;
/// The windows of a pooling; the default stride is the kernel.
template <class KernelSize, class... Options>
constexpr auto make_pool_windows() {
  auto windows = make_windows<KernelDims<KernelSize>::value, KernelSize,
                              std::conditional_t<is_of_poolings_v<Options>, Aligned, Options>...>();
  if (!(is_stride_v<Options> || ...))
    for (Window& w : windows) w.stride = w.kernel;
  return windows;
}

}  // namespace impl

/// Base of MaxPool and AvgPool.
template <class Layer, class KernelSize, class... Options>
struct PoolingLayer {
  static constexpr int dims = impl::KernelDims<KernelSize>::value;  ///< spatial dimensions
  /// The windows of the dimensions, from the template arguments.
  static constexpr auto windows = impl::make_pool_windows<KernelSize, Options...>();
  /// Needs points of neighbours.
  static constexpr LayerSharding sharding = LayerSharding::window;
  /// Whether shards must be aligned, see Aligned.
  static constexpr bool is_aligned = (std::is_same_v<Options, Aligned> || ...);
  /// Whether a last window may end outside the padding, see CeilMode.
  static constexpr bool ceil_mode = (std::is_same_v<Options, CeilMode> || ...);
  /// True: reads no point outside the domain.
  static constexpr bool zero_needs_no_halo = true;

  static_assert(std::is_void_v<typename impl::FindMode<Options...>::type>,
                "a pooling ignores cells outside the domain: it has no padding mode");
  static_assert(
      [] {
        for (const Window& w : windows)
          if (2 * impl::larger(w.padding_lo, w.padding_hi) > w.reach() + 1) return false;
        return true;
      }(),
      "a pooling's padding is at most half of its window");

  /// The window of spatial dimension `d`.
  static constexpr Window window(int d) { return windows[static_cast<std::size_t>(d)]; }

  /// The widest halo over all partitions (see required_halo_t), inside the domain.
  static constexpr LowHigh halo_bound(int d) {
    return is_aligned ? aligned_halo_bound(d)
                      : LowHigh{window(d).padding_lo,
                                impl::at_least_zero(window(d).reach() - window(d).padding_lo)};
  }
  /// The same for shards that begin at multiples of the stride (see aligned_halo_t).
  static constexpr LowHigh aligned_halo_bound(int d) {
    const Window w = window(d);
    return {w.padding_lo, impl::at_least_zero(w.reach() + 1 - w.stride - w.padding_lo)};
  }
  /// None: an unsharded dimension has all its points.
  static constexpr LowHigh unsharded_halo_bound(int) { return {0, 0}; }

  /// The halo of the output's gradient for an ordered pullback (see ordered_halo_t).
  static constexpr LowHigh ordered_halo_bound(int d) {
    const Window w = window(d);
    return {impl::at_least_zero(ceil_div(w.reach() - w.padding_lo, w.stride)),
            impl::at_least_zero(ceil_div(w.padding_lo, w.stride))};
  }

  /// Output extent in spatial dimension `d` of n points.
  static constexpr index_t output_extent(int d, index_t n) {
    return ceil_mode ? impl::ceil_output_extent(window(d), n) : conv_output_extent(window(d), n);
  }
  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// The natural partitions of the output for an input with these: begins min(M, ceil(b / s)), and
  /// the same channels.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    static_assert(Rank == dims + 2,
                  "partitions of [batch, channel, one dimension for each of the kernel's]");
    std::array<Partition, Rank> p = input;
    for (std::size_t d = 0; d < dims; ++d)
      p[d + 2] = input[d + 2].coarsened(window(static_cast<int>(d)).stride,
                                        output_extent(static_cast<int>(d), input[d + 2].size()));
    return p;
  }

 protected:
  /// Throws on every rank if fields don't fit.
  template <class Y, class X>
  static void require(const Y& y, const X& x) {
    static_assert(X::rank == dims + 2,
                  "the layer's field is [batch, channel, one dimension for each of the kernel's]");
    [[maybe_unused]] constexpr bool wide = []<int... S>(std::integer_sequence<int, S...>) {
      return (impl::require_wide_halo<Layer, X, S>() && ...);
    }
    (std::make_integer_sequence<int, dims>{});
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(Layer::name, y.geometry(), x.geometry());
    for (int d = 0; d < 2; ++d)
      impl::require_same_partition(Layer::name, y.label(), d, y.partition(d), x.partition(d));
    for (int d = 0; d < dims; ++d) {
      const Window w = window(d);
      impl::require_extent(Layer::name, y.label(), "cells along a spatial dimension",
                           y.global_extent(d + 2), output_extent(d, x.global_extent(d + 2)));
      if (is_aligned || !impl::is_coarsened(y.partition(d + 2), x.partition(d + 2), w.stride))
        impl::require_halo_for(Layer::name, x.label(), d + 2, x.partition(d + 2),
                               y.partition(d + 2), X::halo_lo(d + 2), X::halo_hi(d + 2), false,
                               reads, &w);
    }
  }

  /// Whether some shard reads beyond its own points.
  template <class Y, class X>
  static bool reads_halo(const Y& y, const X& x) {
    for (int d = 0; d < dims; ++d) {
      const Window w = window(d);
      if (impl::reads_beyond(x.partition(d + 2), y.partition(d + 2), false, reads, &w)) return true;
    }
    return false;
  }

  /// For the library's own use: the window in local indices of x and y.
  template <class Y, class X>
  static impl::PoolWindow local_window(const Y& y, const X& x) {
    impl::PoolWindow w;
    for (int d = 0; d < dims; ++d) {
      const Window from = window(d);
      const int to      = d + 3 - dims;
      w.kernel[to]      = from.kernel;
      w.stride[to]      = from.stride;
      w.dilation[to]    = from.dilation;
      w.offset[to]      = y.begin(d + 2) * from.stride - from.padding_lo - x.begin(d + 2);
      w.first[to]       = -x.begin(d + 2);
      w.last[to]        = x.global_extent(d + 2) - x.begin(d + 2);
      w.padded[to]      = w.last[to] + from.padding_hi;
    }
    return w;
  }

  /// Checks dy's halo for an ordered pullback, and fills it.
  template <class Space, class DY, class DX>
  static void bring_readers(const Space& space, const DY& dy, const DX& dx) {
    impl::require_wide_gradient_halos<Layer, DY>();
    for (int d = 0; d < dims; ++d) {
      const Window w = window(d);
      impl::require_gathered_halo_for(Layer::name, dy.label(), d + 2, dy.partition(d + 2),
                                      dx.partition(d + 2), DY::halo_lo(d + 2), DY::halo_hi(d + 2),
                                      {0, 0}, read_by, &w);
    }
    impl::exchange_inside(space, dy);
  }
  /// The points of dx that an ordered pullback sets, and the points of dy that it reads.
  template <class DX>
  static auto gathered_cells(const DX& dx) {
    return impl::block_of(impl::owned_block(impl::local(dx)), impl::edge_cells(dx));
  }
  /// For the library's own use: the points of dy that read an input.
  template <class DY>
  static auto reader_cells(const DY& dy) {
    return impl::block_of(impl::owned_input(dy), impl::inner_cells(dy));
  }

 private:
  static IndexRange reads(const void* window, IndexRange outputs) {
    return conv_reads(*static_cast<const Window*>(window), outputs);
  }
  static IndexRange read_by(const void* window, IndexRange inputs) {
    return conv_transpose_reads(*static_cast<const Window*>(window), inputs);
  }
};

/// The maximum of each window, in one, two or three dimensions:
/// `MaxPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>{}`. Options: Stride (default: the kernel, as
/// in PyTorch), Padding, Dilation, Aligned, CeilMode. Points outside the domain are ignored, for
/// any boundary. The first of equal points, row-major, gets the gradient; a NaN is larger than
/// every number, and the last of several counts (both as in PyTorch). Fields are [batch, channel,
/// space...] and may be sharded in all dimensions. A window without a point in the domain gives
/// -infinity.
template <class KernelSize, class... Options>
struct MaxPool : PoolingLayer<MaxPool<KernelSize, Options...>, KernelSize, Options...> {
  /// Windows, halos, partitions.
  using Base = PoolingLayer<MaxPool, KernelSize, Options...>;
  static_assert(!(std::is_same_v<Options, ExcludePadding> || ...),
                "a MaxPool counts no cells: ExcludePadding is for an AvgPool");

  /// The state of one use of the layer: the tap of each output, the position of its maximum in the
  /// window. Allocates everything when it is made.
  template <class Memory, std::size_t Rank>
  struct State {
    Kokkos::View<int*, Memory> taps;           ///< of each owned output, row-major
    std::array<Partition, Rank> partitions{};  ///< of the output
  };

  /// The same for an ordered pullback, with the taps as a field with dy's halo.
  template <class Memory, std::size_t Rank, class DY>
  struct OrderedState : State<Memory, Rank> {
    DY chosen;  ///< the tap of each output
  };

  /// The state for an input with x's partitions and the layer's own output_partitions. Allocates.
  template <class X>
  auto state(const X& x) const {
    return state(x, this->output_partitions(x.partitions()));
  }
  /// The same for an output with other partitions.
  template <class X, std::size_t Rank>
  auto state(const X& x, const std::array<Partition, Rank>& output) const {
    State<typename X::memory_space, Rank> s{{}, output};
    index_t cells = 1;
    for (std::size_t d = 0; d < Rank; ++d)
      cells *= output[d].count(x.geometry().dims[d].coordinate);
    s.taps = Kokkos::View<int*, typename X::memory_space>("shard::max_pool taps",
                                                          static_cast<std::size_t>(cells));
    return s;
  }

  /// The state for an ordered pullback from gradients dy with a halo. Allocates.
  template <class X, class DY>
  auto ordered_state(const X& x, const DY& dy) const {
    return OrderedState<typename X::memory_space, static_cast<std::size_t>(X::rank), DY>{
        state(x, dy.partitions()), dy.like("shard::max_pool taps")};
  }

  /// Fills x's halo (unless no shard reads beyond its own points), then computes y's owned points.
  template <class Space, class S, class Y, class X>
  void apply(const Space& space, const S& state, const Y& y, const X& x) const {
    require_state(state, y, x);
    if (Base::reads_halo(y, x)) exchange(space, x);
    impl::PoolKernels<Space, typename Y::non_const_value_type>::max(
        space, impl::owned_block(impl::local(y)), state.taps.data(), impl::haloed_input(x),
        Base::local_window(y, x));
    mark_written(space, y);
  }
  /// ty = the tangent of y for the tangent tx of x: the points of tx at the maxima of x. Fills tx's
  /// halo as apply fills x's.
  template <class Space, class S, class TY, class TX, class X>
  void pushforward(const Space& space, const S& state, const TY& ty, const TX& tx,
                   const X& x) const {
    require_state(state, ty, x);
    Base::require(ty, tx);
    if (Base::reads_halo(ty, tx)) exchange(space, tx);
    impl::PoolKernels<Space, typename TY::non_const_value_type>::max_tangent(
        space, impl::owned_block(impl::local(ty)), state.taps.data(), impl::haloed_input(tx),
        Base::local_window(ty, tx));
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy; the state must be unchanged since apply. Afterwards dx's halo
  /// is zero. dx may be not_wanted.
  ///
  /// `pullback<Determinism::ordered>`: bitwise the same for every number of ranks, mesh and
  /// partition, and equal to on_one_mesh on one rank. dy needs a halo for it (ordered_halo_t),
  /// whose points inside the domain are filled, and the state is an ordered_state.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class S, class DX, class DY,
            class X>
  void pullback(const Space& space, const S& state, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (!is_wanted_v<DX>) {
      return;
    } else if constexpr (Order == Determinism::ordered) {
      using Kernels = impl::PoolKernels<Space, typename DX::non_const_value_type>;
      require_state(state, dy, x);
      Base::require(dy, dx);
      Base::bring_readers(space, dy, dx);
      Kernels::taps_as_values(space, impl::owned_block(impl::local(state.chosen)),
                              state.taps.data());
      impl::exchange_inside(space, state.chosen);
      Kernels::max_pullback_ordered(space, Base::gathered_cells(dx),
                                    Base::reader_cells(state.chosen), Base::reader_cells(dy),
                                    Base::local_window(dy, dx));
      impl::add_edges(space, dx);
    } else {
      require_state(state, dy, x);
      Base::require(dy, dx);
      impl::PoolKernels<Space, typename DX::non_const_value_type>::max_pullback(
          space, impl::haloed_block(impl::local(dx)), state.taps.data(), impl::owned_input(dy),
          Base::local_window(dy, dx));
      if (Base::reads_halo(dy, dx)) exchange_adjoint(space, dx);
    }
  }

 private:
  friend Base;
  static constexpr const char* name = "MaxPool";

  template <class S, class Y, class X>
  static void require_state(const S& state, const Y& y, const X& x) {
    Base::require(y, x);
    for (int d = 0; d < Y::rank; ++d)
      impl::require_same_partition(name, y.label(), d, y.partition(d),
                                   state.partitions[static_cast<std::size_t>(d)]);
  }
};

/// The mean of each window, in one, two or three dimensions:
/// `AvgPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>{}`. Options: Stride (default: the kernel, as
/// in PyTorch), Padding, Aligned, CeilMode, ExcludePadding. Points outside the domain are not
/// summed, for any boundary. The divisor includes padding unless ExcludePadding is given, but never
/// points outside the padding (CeilMode). Fields are [batch, channel, space...] and may be sharded
/// in all dimensions.
template <class KernelSize, class... Options>
struct AvgPool : PoolingLayer<AvgPool<KernelSize, Options...>, KernelSize, Options...> {
  /// Windows, halos, partitions.
  using Base = PoolingLayer<AvgPool, KernelSize, Options...>;
  static_assert(
      [] {
        for (const Window& w : Base::windows)
          if (w.dilation != 1) return false;
        return true;
      }(),
      "an AvgPool has no dilation");

  /// Whether the divisor includes padding, see ExcludePadding.
  static constexpr bool count_padding = !(std::is_same_v<Options, ExcludePadding> || ...);

  /// Fills x's halo (unless no shard reads beyond its own points), then computes y's owned points.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    Base::require(y, x);
    if (Base::reads_halo(y, x)) exchange(space, x);
    impl::PoolKernels<Space, typename Y::non_const_value_type>::average(
        space, impl::owned_block(impl::local(y)), impl::haloed_input(x), Base::local_window(y, x),
        count_padding);
    mark_written(space, y);
  }
  /// ty = the tangent of y for the tangent tx of x: the mean of tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy; afterwards dx's halo is zero. dx may be not_wanted.
  ///
  /// `pullback<Determinism::ordered>`: bitwise the same for every number of ranks, mesh and
  /// partition, and equal to on_one_mesh on one rank. dy needs a halo for it (ordered_halo_t),
  /// whose points inside the domain are filled.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (!is_wanted_v<DX>) {
      return;
    } else if constexpr (Order == Determinism::ordered) {
      Base::require(dy, dx);
      Base::bring_readers(space, dy, dx);
      impl::PoolKernels<Space, typename DX::non_const_value_type>::average_pullback(
          space, Base::gathered_cells(dx), Base::reader_cells(dy), Base::local_window(dy, dx),
          count_padding);
      impl::add_edges(space, dx);
    } else {
      Base::require(dy, dx);
      impl::PoolKernels<Space, typename DX::non_const_value_type>::average_pullback(
          space, impl::haloed_block(impl::local(dx)), impl::owned_input(dy),
          Base::local_window(dy, dx), count_padding);
      if (Base::reads_halo(dy, dx)) exchange_adjoint(space, dx);
    }
  }

 private:
  friend Base;
  static constexpr const char* name = "AvgPool";
};

}  // namespace shard

#endif
