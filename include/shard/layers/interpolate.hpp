// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_INTERPOLATE_HPP
#define SHARD_LAYERS_INTERPOLATE_HPP

#include <array>
#include <type_traits>
#include <vector>

#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/kernels.hpp"
#include "shard/layers/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/window.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Interpolation rules. Source positions of output o of M from N inputs, in global indices:
/// Linear x = max(0, (o + 1/2) N / M - 1/2); LinearCorners x = o (N - 1) / (M - 1) (PyTorch's
/// align_corners); Nearest floor(o N / M).
struct Linear;  // the layer, whose name the rule shares
struct LinearCorners {};
struct Nearest {};

/// The output may have the partition of a level that is finer by this factor in every dimension, of
/// which the input has the coarsened one: the halo covers it.
template <int Factor>
struct Meets {
  static_assert(Factor >= 1, "the finer level is finer by a factor of at least one");
};

namespace impl {

template <class Option>
inline constexpr int meets_factor_v = 0;
template <int Factor>
inline constexpr int meets_factor_v<Meets<Factor>> = Factor;

std::vector<index_t> interpolated_begins(InterpolationRule rule, const Partition& input, index_t m);

}  // namespace impl

/// Interpolation in one, two or three dimensions by global indices: `Interpolate<2>{}`,
/// `Interpolate<2, Nearest>{}`, `Interpolate<2, Linear, Meets<2>>{}`.
///
/// The output's extents are those of the field that it is given. With output_partitions, the
/// layer's own, a linear rule reads one cell beyond its shard on the high side, Nearest none, for
/// any sizes and partitions; other partitions need wider halos: Meets<Factor> for those of a finer
/// level, else apply throws where x's halo isn't wide enough. Neighbours beyond the world are not
/// read: indices are clamped, as in PyTorch.
template <int Dims, class... Options>
struct Interpolate {
  static_assert(Dims >= 1 && Dims <= 3, "interpolation is in one, two or three dimensions");
  static_assert(((std::is_same_v<Options, Linear> || std::is_same_v<Options, LinearCorners> ||
                  std::is_same_v<Options, Nearest> || impl::meets_factor_v<Options> > 0) &&
                 ...),
                "Interpolate's options are Linear, LinearCorners or Nearest, and Meets<Factor>");

  static constexpr int dims = Dims;  ///< dimensions in space
  /// Whether a dimension that isn't cut needs no halo where zeros lie beyond the world.
  static constexpr bool zero_needs_no_halo = true;
  static constexpr int factor = (impl::meets_factor_v<Options> + ... + 0);  ///< of Meets, else 0
  /// The rule as a value.
  static constexpr impl::InterpolationRule rule =
      (std::is_same_v<Options, Nearest> || ...) ? impl::InterpolationRule::nearest
      : (std::is_same_v<Options, LinearCorners> || ...)
          ? impl::InterpolationRule::linear_align_corners
          : impl::InterpolationRule::linear;

  /// The widest halo over all partitions (see required_halo_t).
  static constexpr PaddingSides halo_bound(int) {
    const bool nearest = rule == impl::InterpolationRule::nearest;
    if (factor == 0) return {0, nearest ? 0 : 1};
    if (nearest) return {factor > 1 ? 1 : 0, factor > 1 ? 1 : 0};
    if (rule == impl::InterpolationRule::linear_align_corners) return {factor > 1 ? 2 : 1, 1};
    return {static_cast<int>(floor_div(3 * factor - 3, 2 * factor)) + 1,
            static_cast<int>(ceil_div(factor - 3, 2 * factor)) + 1};
  }
  /// The same: nothing is gained where shards begin at multiples.
  static constexpr PaddingSides aligned_halo_bound(int d) { return halo_bound(d); }
  /// The halo in a dimension that isn't cut: none, for indices are clamped.
  static constexpr PaddingSides uncut_halo_bound(int) { return {0, 0}; }

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// The layer's own partitions of an output with these extents in space: part r begins at the
  /// first output whose position isn't below the first input of part r.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input,
                                                const std::array<index_t, Dims>& extents) const {
    static_assert(Rank == Dims + 2,
                  "partitions of [batch, channel, one for each dimension in space]");
    std::array<Partition, Rank> p = input;
    for (std::size_t d = 0; d < Dims; ++d)
      p[d + 2] =
          Partition::explicit_begins(impl::interpolated_begins(rule, input[d + 2], extents[d]));
    return p;
  }

  /// Fills x's halo (where the layer has one), then computes y's owned cells. Throws ArgumentError,
  /// on every rank before any message, where partitions don't fit.
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

  /// Sets dx = dJ/dx from dy = dJ/dy; the halo's parts go to their owners.
  ///
  /// `pullback<Determinism::ordered>`: with the same bits for every number of ranks, mesh and
  /// partition, those that on_one_mesh gives on one rank; afterwards dx's halo is zero. dy needs a
  /// halo in the dimensions that are cut: with the layer's own partition as many cells on the low
  /// side as there are outputs between two inputs, rounded up: M / N with Linear for M outputs of N
  /// inputs, (M - 1) / (N - 1) with LinearCorners, none with Nearest. Throws ArgumentError, on
  /// every rank before any message, where it is narrower.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    if constexpr (Order == Determinism::ordered) {
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
  /// The same, the halo's parts left where they are.
  template <class Space, class DX, class DY>
  void pullback_local(const Space& space, const DX& dx, const DY& dy) const {
    require(dy, dx);
    gather(space, dx, dy, impl::haloed_block(impl::local(dx)), impl::owned_input(dy));
  }

 private:
  static constexpr const char* name    = "Interpolate";
  static constexpr bool needs_exchange = halo_bound(0).lo > 0 || halo_bound(0).hi > 0;

  struct Context {
    index_t inputs, outputs;
  };
  static IndexRange reads(const void* context, IndexRange outputs) {
    const auto* c = static_cast<const Context*>(context);
    return {impl::interpolation_stencil(rule, c->inputs, c->outputs, outputs.begin).first,
            impl::interpolation_stencil(rule, c->inputs, c->outputs, outputs.end - 1).second + 1};
  }

  /// The outputs that read inputs: from the first that reads one of them with a weight to the last
  /// whose first input is one of them.
  static IndexRange read_by(const void* context, IndexRange inputs) {
    const auto* c = static_cast<const Context*>(context);
    IndexRange outputs{impl::first_interpolated(rule, c->inputs, c->outputs, inputs.begin - 1),
                       impl::first_interpolated(rule, c->inputs, c->outputs, inputs.end)};
    for (; !outputs.empty(); ++outputs.begin) {
      const auto s = impl::interpolation_stencil(rule, c->inputs, c->outputs, outputs.begin);
      if (s.first >= inputs.begin || (s.second >= inputs.begin && s.share != 0.0)) break;
    }
    return outputs;
  }

  template <class DY, class DX>
  static void require_gatherable(const DY& dy, const DX& dx) {
    for (int d = 2; d < DX::rank; ++d) {
      const Context c{dx.global_extent(d), dy.global_extent(d)};
      impl::require_gathered_halo_for(name, dy.label(), d, dy.partition(d), dx.partition(d),
                                      DY::halo_lo(d), DY::halo_hi(d), {0, 0}, read_by, &c);
    }
  }

  /// The cells of `to`, which is in dx, from those of `from`, which is in dy.
  template <class Space, class DX, class DY, class T>
  static void gather(const Space& space, const DX& dx, const DY& dy, const impl::Block<T>& to,
                     const impl::Block<const T>& from) {
    impl::InterpolatedDim w[3];
    fill(w, dy, dx);
    impl::InterpolationKernels<Space, T>::pullback(space, to, from, w, rule);
  }

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    static_assert(X::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each dimension in space]");
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(name, y.geometry(), x.geometry());
    [[maybe_unused]] constexpr bool wide = []<int... S>(std::integer_sequence<int, S...>) {
      return (impl::require_wide_halo<Interpolate, X, S>() && ...);
    }
    (std::make_integer_sequence<int, Dims>{});
    impl::require_same_partition(name, y.label(), 0, y.partition(0), x.partition(0));
    impl::require_same_partition(name, y.label(), 1, y.partition(1), x.partition(1));
    for (int d = 2; d < X::rank; ++d) {
      const Context c{x.global_extent(d), y.global_extent(d)};
      if (c.inputs == 0 && c.outputs > 0)
        impl::require_extent(name, y.label(), "cells along a dimension whose input has none",
                             c.outputs, 0);
      impl::require_halo_for(name, x.label(), d, x.partition(d), y.partition(d), X::halo_lo(d),
                             X::halo_hi(d), false, reads, &c);
    }
  }

  template <class Y, class X>
  static void fill(impl::InterpolatedDim* w, const Y& y, const X& x) {
    for (int d = 2; d < X::rank; ++d)
      w[d + 3 - X::rank] = {x.global_extent(d), y.global_extent(d), x.begin(d), y.begin(d)};
  }

  template <class Space, class Y, class X>
  void compute(const Space& space, const Y& y, const X& x) const {
    impl::InterpolatedDim w[3];
    fill(w, y, x);
    impl::InterpolationKernels<Space, typename Y::non_const_value_type>::apply(
        space, impl::owned_block(impl::local(y)), impl::haloed_input(x), w, rule);
    mark_written(space, y);
  }
};

}  // namespace shard

#endif
