// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_RESAMPLING_INTERPOLATE_HPP
#define SHARD_LAYERS_RESAMPLING_INTERPOLATE_HPP

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/interpolation_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/per_dim.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Interpolation rules. Source positions of output o of M from N inputs, in global indices:
/// Linear x = max(0, (o + 1/2) N / M - 1/2); LinearCorners x = o (N - 1) / (M - 1) (PyTorch's
/// align_corners); Nearest floor(o N / M); Bicubic x = (o + 1/2) N / M - 1/2 and BicubicCorners as
/// LinearCorners, by Keys' kernel with a = -3/4 (PyTorch's); Area<Ratio> the mean of the inputs
/// floor(o N / M) to ceil((o + 1) N / M) - 1 (PyTorch's "area"), N / M <= Ratio.
struct Linear;  // the layer of the same name
struct LinearCorners {};
struct Nearest {};
struct Bicubic {};
struct BicubicCorners {};
template <int Ratio = 1>
struct Area {
  static_assert(Ratio >= 1, "an area's ratio of inputs to outputs is at least one");
};

/// The output may have the partition of a level that is finer by this factor in every dimension, if
/// the input's is its coarsened partition. The halo covers it. Not with Area.
template <int Factor>
struct Meets {
  static_assert(Factor >= 1, "the finer level is finer by a factor of at least one");
};

namespace impl {

template <class Option>
inline constexpr int meets_factor_v = 0;
template <int Factor>
inline constexpr int meets_factor_v<Meets<Factor>> = Factor;
template <class Option>
inline constexpr int area_ratio_v = 0;
template <int Ratio>
inline constexpr int area_ratio_v<Area<Ratio>> = Ratio;

template <class Option>
inline constexpr bool is_interpolation_rule_v =
    std::is_same_v<Option, Linear> || std::is_same_v<Option, LinearCorners> ||
    std::is_same_v<Option, Nearest> || std::is_same_v<Option, Bicubic> ||
    std::is_same_v<Option, BicubicCorners> || area_ratio_v<Option> >= 1;

}  // namespace impl

/// Interpolation in one, two or three dimensions by global indices: `Interpolate<2>{}`,
/// `Interpolate<2, Nearest>{.size = {61, 120}}`, `Interpolate<2, Bicubic>{.scale = 2}`,
/// `Interpolate<2, Linear, Meets<2>>{}`.
///
/// The output's extents are `size` if given, else floor(N scale), else those of the output field.
/// With output_partitions the halo is fixed for all sizes: Linear one point on the high side,
/// Bicubic one on the low and two on the high side, Nearest none, Area<Ratio> `Ratio` on the high
/// side. Other partitions need wider halos: Meets<Factor> for those of a finer level, else apply
/// throws if x's halo is too narrow. Indices are clamped at the boundaries, as in PyTorch.
template <int Dims, class... Options>
struct Interpolate {
  static_assert(Dims >= 1 && Dims <= 3, "interpolation is in one, two or three dimensions");
  static_assert(((impl::is_interpolation_rule_v<Options> || impl::meets_factor_v<Options> > 0) &&
                 ...),
                "Interpolate's options are one of Linear, LinearCorners, Nearest, Bicubic, "
                "BicubicCorners and Area<Ratio>, and Meets<Factor>");
  static_assert((impl::is_interpolation_rule_v<Options> + ... + 0) <= 1,
                "Interpolate has one rule");

  PerDim<index_t, Dims> size{};  ///< global extents of the output; 0: not given
  PerDim<double, Dims> scale{};  ///< of the extents; 0: not given
  /// With a scale: use N / M of the extents for positions, not 1 / scale (PyTorch's option of this
  /// name; corners and areas always use the extents).
  bool recompute_scale_factor = false;

  static constexpr int dims = Dims;  ///< spatial dimensions
  /// Whether an unsharded dimension with a Zero boundary needs no halo.
  static constexpr bool zero_needs_no_halo = true;
  static constexpr int factor = (impl::meets_factor_v<Options> + ... + 0);  ///< of Meets, else 0
  /// Whether the output may have the partitions of a finer level.
  static constexpr bool can_meet = factor > 0;
  static constexpr int ratio     = (impl::area_ratio_v<Options> + ... + 0);  ///< of Area, else 0
  /// Whether the first and last points of input and output coincide.
  static constexpr bool align_corners =
      ((std::is_same_v<Options, LinearCorners> || std::is_same_v<Options, BicubicCorners>) || ...);
  /// The rule as a value.
  static constexpr impl::InterpolationRule rule =
      (std::is_same_v<Options, Nearest> || ...) ? impl::InterpolationRule::nearest
      : ratio > 0                               ? impl::InterpolationRule::area
      : ((std::is_same_v<Options, Bicubic> || std::is_same_v<Options, BicubicCorners>) || ...)
          ? impl::InterpolationRule::cubic
          : impl::InterpolationRule::linear;
  /// Reads points of neighbours, except Nearest with its own partition.
  static constexpr LayerSharding sharding = rule == impl::InterpolationRule::nearest && factor <= 1
                                                ? LayerSharding::local
                                                : LayerSharding::window;
  static_assert(ratio == 0 || factor == 0, "an area's output has its own partition, not Meets");

  /// The widest halo over all partitions (see required_halo_t).
  static constexpr LowHigh halo_bound(int) {
    if (rule == impl::InterpolationRule::area) return {0, ratio};
    const bool nearest = rule == impl::InterpolationRule::nearest;
    const int more =
        rule == impl::InterpolationRule::cubic ? 1 : 0;  // points per side more than linear
    if (factor == 0) return {more, nearest ? 0 : 1 + more};
    if (nearest) return {factor > 1 ? 1 : 0, factor > 1 ? 1 : 0};
    if (align_corners) return {(factor > 1 ? 2 : 1) + more, 1 + more};
    return {static_cast<int>(floor_div(3 * factor - 3, 2 * factor)) + 1 + more,
            static_cast<int>(ceil_div(factor - 3, 2 * factor)) + 1 + more};
  }
  /// The same: aligned shards need the same halo.
  static constexpr LowHigh aligned_halo_bound(int d) { return halo_bound(d); }
  /// The halo in an unsharded dimension: none, because indices are clamped.
  static constexpr LowHigh unsharded_halo_bound(int) { return {0, 0}; }

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Output extent in spatial dimension `d` of n points, by size or scale, else n Factor of a
  /// Meets<Factor>. Throws ArgumentError if none of them is given.
  index_t output_extent(int d, index_t n) const {
    if (factor > 0 && size[d] == 0 && !(scale[d] > 0.0)) return n * factor;
    return impl::interpolated_extent(n, size[d], scale[d]);
  }

  /// The natural partitions of an output with these spatial extents: part r begins at the first
  /// output whose position isn't below the first input of part r.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input,
                                                const std::array<index_t, Dims>& extents) const {
    static_assert(Rank == Dims + 2,
                  "partitions of [batch, channel, one for each spatial dimension]");
    std::array<Partition, Rank> p = input;
    for (std::size_t d = 0; d < Dims; ++d)
      p[d + 2] = Partition::explicit_begins(impl::interpolated_begins(
          how(static_cast<int>(d), input[d + 2].size(), extents[d]), input[d + 2]));
    return p;
  }
  /// The same by size or scale.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    std::array<index_t, Dims> extents{};
    for (std::size_t d = 0; d < Dims; ++d)
      extents[d] = output_extent(static_cast<int>(d), input[d + 2].size());
    return output_partitions(input, extents);
  }

  /// Fills x's halo (if the layer needs one), then computes y's owned points. Throws ArgumentError,
  /// on every rank before any message, if partitions don't fit.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    require(y, x);
    if constexpr (needs_exchange) exchange(space, x);
    compute(space, y, x);
  }
  /// The same for an x whose halo is up to date.
  template <class Space, class Y, class X>
  void apply_local(const Space& space, const Y& y, const X& x) const {
    require(y, x);
    compute(space, y, x);
  }

  /// The tangent: the interpolation of tx. Fills tx's halo as apply fills x's.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }

  /// Sets dx = dJ/dx from dy = dJ/dy, and adds its halo to the owners. Does nothing if dx is
  /// not_wanted.
  ///
  /// `pullback<Determinism::ordered>`: bitwise the same for every number of ranks, mesh and
  /// partition, and equal to on_one_mesh on one rank; afterwards dx's halo is zero. dy needs a halo
  /// in sharded dimensions: with the natural partition, on the low side, the number of outputs
  /// between two inputs, rounded up: M / N with Linear for M outputs of N inputs, (M - 1) / (N - 1)
  /// with LinearCorners, none with Nearest. Throws ArgumentError, on every rank before any message,
  /// if it is narrower.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    if constexpr (!is_wanted_v<DX>) {
      return;
    } else if constexpr (Order == Determinism::ordered) {
      require(dy, dx);
      require_gatherable(dy, dx);
      impl::exchange_inside(space, dy);
      gather(space, dx, dy,
             impl::block_of(impl::owned_block(impl::local(dx)), impl::edge_cells(dx)),
             impl::block_of(impl::owned_input(dy), impl::inner_cells(dy)));
      impl::add_edges(space, dx);
    } else {
      pullback_local(space, dx, dy);
      if constexpr (needs_exchange) exchange_adjoint(space, dx);
    }
  }
  /// The same with the input, as for all layers; it is ignored.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    pullback<Order>(space, dx, dy);
  }
  /// The same without adding dx's halo to its owners.
  template <class Space, class DX, class DY>
  void pullback_local(const Space& space, const DX& dx, const DY& dy) const {
    require(dy, dx);
    gather(space, dx, dy, impl::haloed_block(impl::local(dx)), impl::owned_input(dy));
  }

 private:
  static constexpr const char* name    = "Interpolate";
  static constexpr bool needs_exchange = halo_bound(0).lo > 0 || halo_bound(0).hi > 0;

  /// Spatial dimension `d`, from n points to m.
  impl::InterpolatedDim how(int d, index_t n, index_t m) const {
    const bool by_scale = !recompute_scale_factor && size[d] == 0 && scale[d] > 0.0 &&
                          rule != impl::InterpolationRule::area && !align_corners;
    return {rule, align_corners, by_scale ? 1.0 / scale[d] : 0.0, n, m};
  }

  template <class DY, class DX>
  void require_gatherable(const DY& dy, const DX& dx) const {
    for (int d = 2; d < DX::rank; ++d) {
      const auto c = how(d - 2, dx.global_extent(d), dy.global_extent(d));
      impl::require_gathered_halo_for(name, dy.label(), d, dy.partition(d), dx.partition(d),
                                      DY::halo_lo(d), DY::halo_hi(d), {0, 0},
                                      impl::interpolation_read_by, &c);
    }
  }

  /// Computes the points of `to`, a part of dx, from those of `from`, a part of dy.
  template <class Space, class DX, class DY, class T>
  void gather(const Space& space, const DX& dx, const DY& dy, const impl::Block<T>& to,
              const impl::Block<const T>& from) const {
    impl::InterpolatedDim w[3];
    fill(w, dy, dx);
    impl::InterpolationKernels<Space, T>::pullback(space, to, from, w);
  }

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    static_assert(X::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each spatial dimension]");
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(name, y.geometry(), x.geometry());
    [[maybe_unused]] constexpr bool wide = []<int... S>(std::integer_sequence<int, S...>) {
      return (impl::require_wide_halo<Interpolate, X, S>() && ...);
    }
    (std::make_integer_sequence<int, Dims>{});
    impl::require_same_partition(name, y.label(), 0, y.partition(0), x.partition(0));
    impl::require_same_partition(name, y.label(), 1, y.partition(1), x.partition(1));
    for (int d = 2; d < X::rank; ++d) {
      const auto c = how(d - 2, x.global_extent(d), y.global_extent(d));
      if (size[d - 2] > 0 || scale[d - 2] > 0.0)
        impl::require_extent(name, y.label(), "cells along a spatial dimension", c.outputs,
                             output_extent(d - 2, c.inputs));
      if (c.inputs == 0 && c.outputs > 0)
        impl::require_extent(name, y.label(), "cells along a dimension whose input has none",
                             c.outputs, 0);
      impl::require_halo_for(name, x.label(), d, x.partition(d), y.partition(d), X::halo_lo(d),
                             X::halo_hi(d), false, impl::interpolation_reads, &c);
    }
  }

  template <class Y, class X>
  void fill(impl::InterpolatedDim* w, const Y& y, const X& x) const {
    for (int d = 2; d < X::rank; ++d) {
      auto& one        = w[d + 3 - X::rank];
      one              = how(d - 2, x.global_extent(d), y.global_extent(d));
      one.input_begin  = x.begin(d);
      one.output_begin = y.begin(d);
    }
  }

  template <class Space, class Y, class X>
  void compute(const Space& space, const Y& y, const X& x) const {
    impl::InterpolatedDim w[3];
    fill(w, y, x);
    impl::InterpolationKernels<Space, typename Y::non_const_value_type>::apply(
        space, impl::owned_block(impl::local(y)), impl::haloed_input(x), w);
    mark_written(space, y);
  }
};

}  // namespace shard

#endif
