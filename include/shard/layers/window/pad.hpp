// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_PAD_HPP
#define SHARD_LAYERS_WINDOW_PAD_HPP

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/impl/moved_fields.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/per_dim.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// Throws ArgumentError, on every rank, unless `to` is `from` with this padding (negative: removed
/// points) on each side of each dimension, and the padding is possible.
void require_padding(const char* function, const Geometry& to, const Geometry& from,
                     const Reindexing* pads);

/// The partition of padded points (negative: removed points): each point stays with its owner, and
/// the first and last nonempty parts get the padding. Then begins are rounded up to multiples.
/// Throws ArgumentError for a negative extent.
Partition padded_partition(const char* function, const Partition& cells, index_t low, index_t high,
                           index_t multiple);

/// Kernels of padding, compiled for float and double, asynchronous on `space`.
template <class Space, class T>
struct PaddingKernels : RequireLayerKernels<Space> {
  /// x = 0
  static void clear(const Space& space, const Block<T>& x);
};

/// Base of Pad and Unpad: `Layer` has the widths and the boundaries.
template <class Layer, int Dims>
struct PaddingLayer {
  static constexpr int dims               = Dims;  ///< spatial dimensions
  static constexpr LayerSharding sharding = LayerSharding::moving;

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Output extent in spatial dimension `d` of n points.
  index_t output_extent(int d, index_t n) const {
    const Reindexing pad = self().pad(d);
    return n + pad.lo + pad.hi;
  }

  /// The natural partitions: each point stays with its owner, and padding belongs to the rank at
  /// that end; begins of a Pad are rounded up to its `multiple`. Throws ArgumentError for a
  /// negative extent.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    static_assert(Rank == Dims + 2,
                  "partitions of [batch, channel, one for each spatial dimension]");
    std::array<Partition, Rank> p = input;
    for (std::size_t d = 0; d < Dims; ++d) {
      const Reindexing pad = self().pad(static_cast<int>(d));
      p[d + 2]             = padded_partition(Layer::name, input[d + 2], pad.lo, pad.hi,
                                              self().multiple_of(static_cast<int>(d)));
    }
    return p;
  }

  /// Computes y's owned points; x's halo is neither read nor written. y may have any partition;
  /// there is at most one message for each pair of ranks. Collective over the mesh. Throws
  /// ArgumentError, on every rank before any message, if extents don't fit.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    run(space, false, y, x);
    mark_written(space, y);
  }
  /// The tangent: the same of tx, with zeros for constants.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    run(space, true, ty, tx);
    mark_written(space, ty);
  }
  /// Sets dx's owned points to dJ/dx from dy = dJ/dy: the owner adds all padded copies of each
  /// point, in a fixed order. Does nothing if dx is not_wanted. Collective as apply.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) {
      const auto pads = pads_of(true);
      require(dy, dx, pads.data());
      PaddingKernels<Space, typename DX::value_type>::clear(space, owned_block(local(dx)));
      MovedFields<PlanMemory<DX>> fields(Layer::name);
      fields.add(dy, dx, pads.data());
      fields.run(space, Direction::adjoint);
    }
  }

 private:
  const Layer& self() const { return static_cast<const Layer&>(*this); }

  std::array<Reindexing, Dims + 2> pads_of(bool tangent) const {
    std::array<Reindexing, Dims + 2> pads{};
    for (int d = 0; d < Dims; ++d) {
      Reindexing& pad = pads[Geometry::at(d + 2)];
      pad             = self().pad(d);
      if (tangent) pad.low.value = pad.high.value = 0.0;
    }
    return pads;
  }

  template <class Y, class X>
  static void require(const Y& y, const X& x, const Reindexing* pads) {
    static_assert(X::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each spatial dimension]");
    require_same_rank_and_value<Y, X>();
    static_assert(!std::is_const_v<typename Y::value_type>,
                  "a pad writes its first field: it needs a value type that isn't const");
    require_same_cut(Layer::name, y.geometry(), x.geometry());
    require_padding(Layer::name, y.geometry(), x.geometry(), pads);
  }

  template <class Space, class Y, class X>
  void run(const Space& space, bool tangent, const Y& y, const X& x) const {
    const auto pads = pads_of(tangent);
    require(y, x, pads.data());
    MovedFields<PlanMemory<Y>> fields(Layer::name);
    fields.add(y, x, pads.data());
    fields.run(space, Direction::forward);
  }
};

template <class Boundary, int Own, int Dims>
constexpr bool folds_well() {
  if constexpr (BoundaryTraits<Boundary>::valid)
    for (const BoundarySide& side : {BoundaryTraits<Boundary>::low, BoundaryTraits<Boundary>::high})
      if (side.longitude >= 0 &&
          (side.longitude < 2 || side.longitude >= Dims + 2 || side.longitude == Own))
        return false;
  return true;
}

template <class... Boundaries, int... D>
constexpr bool all_fold_well(std::integer_sequence<int, D...>) {
  return (folds_well<Boundaries, D + 2, static_cast<int>(sizeof...(Boundaries))>() && ...);
}

}  // namespace impl

/// Pads the domain, by `low` before each spatial dimension and `high` after it:
/// `Pad<Reflect, Periodic>{.low = {1, 1}, .high = {1, 2}}`. One boundary for each dimension (Zero,
/// Constant<...>, Periodic, Reflect, Symmetric, Odd, Clamp, PoleFold, or Sides of them) defines the
/// values: y[g] = x[source of g - low]. The padding may be wider than a shard, and wider than the
/// domain. Fields are [batch, channel, space...], sharded in any way.
///
/// With output_partitions only padding is sent, and what a `multiple` moves.
template <class... Boundaries>
struct Pad : impl::PaddingLayer<Pad<Boundaries...>, static_cast<int>(sizeof...(Boundaries))> {
  static_assert(sizeof...(Boundaries) >= 1 && sizeof...(Boundaries) <= 3 &&
                    (impl::is_boundary<Boundaries>::value && ...),
                "a Pad's options are boundaries, one for each of one to three spatial dimensions");
  static_assert((impl::pads_v<Boundaries> && ...),
                "a Pad's boundary is neither NorthFold, Given nor ByIndex");
  static_assert(impl::all_fold_well<Boundaries...>(
                    std::make_integer_sequence<int, static_cast<int>(sizeof...(Boundaries))>{}),
                "a PoleFold's longitude is another spatial dimension: 2 is the first");

  /// Padding before the first point, for each dimension or the same for all; not negative.
  PerDim<index_t, static_cast<int>(sizeof...(Boundaries))> low{};
  /// Padding after the last point; not negative.
  PerDim<index_t, static_cast<int>(sizeof...(Boundaries))> high{};
  /// Shards of output_partitions begin at multiples of this (0: anywhere), as a PixelUnshuffle
  /// needs.
  PerDim<index_t, static_cast<int>(sizeof...(Boundaries))> multiple{};

 private:
  friend impl::PaddingLayer<Pad, static_cast<int>(sizeof...(Boundaries))>;
  static constexpr const char* name = "Pad";

  impl::Reindexing pad(int d) const {
    constexpr BoundarySide sides[][2] = {
        {impl::BoundaryTraits<Boundaries>::low, impl::BoundaryTraits<Boundaries>::high}...};
    if (low[d] < 0 || high[d] < 0)
      impl::throw_argument(
          name, {"dimension ", impl::text(d), " in space is padded by ", impl::text(low[d]),
                 " and ", impl::text(high[d]), " cells; Unpad takes cells away"});
    return {static_cast<int>(low[d]), static_cast<int>(high[d]), sides[d][0], sides[d][1]};
  }
  index_t multiple_of(int d) const { return multiple[d]; }
};

/// [batch, channel, latitude, longitude]: rows beyond a pole are rows of this side mirrored about
/// the pole, which is between rows, and half the globe away; columns wrap round.
using EarthPad = Pad<PoleFold<3, Pole::between_rows>, Periodic>;
/// [batch, channel, latitude, longitude]: rows mirrored about the first and last one, which aren't
/// repeated; columns wrap round.
using MirrorPad = Pad<Reflect, Periodic>;

/// The inverse of Pad: removes `low` points before each spatial dimension and `high` after it.
/// `Unpad<2>{.low = {1, 1}, .high = {1, 2}}`. With output_partitions it is local; an output with
/// another partition works too.
template <int Dims>
struct Unpad : impl::PaddingLayer<Unpad<Dims>, Dims> {
  static_assert(Dims >= 1 && Dims <= 3, "an Unpad is of one, two or three dimensions");

  PerDim<index_t, Dims> low{};   ///< points removed at the low end; not negative
  PerDim<index_t, Dims> high{};  ///< points removed at the high end; not negative

 private:
  friend impl::PaddingLayer<Unpad, Dims>;
  static constexpr const char* name = "Unpad";

  impl::Reindexing pad(int d) const {
    if (low[d] < 0 || high[d] < 0)
      impl::throw_argument(
          name, {"dimension ", impl::text(d), " in space loses ", impl::text(low[d]), " and ",
                 impl::text(high[d]), " cells; Pad adds cells"});
    return {-static_cast<int>(low[d]), -static_cast<int>(high[d]), {}, {}};
  }
  static constexpr index_t multiple_of(int) { return 0; }
};

}  // namespace shard

#endif
