// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_MODEL_FIELDS_HPP
#define SHARD_MODEL_IMPL_MODEL_FIELDS_HPP

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/autodiff/halo_exchange.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// A HaloExchange needs no conversion: it fills the halo of its output.
template <class... Dims>
struct sharding_rule<HaloExchange<Dims...>> {
  /// It is unchanged.
  static constexpr LayerSharding value = LayerSharding::local;
  /// In any dimension.
  static constexpr bool can_be_sharded(int) { return true; }
};

struct Add;
struct Axpby;
struct Flip;
struct IndexSelect;
struct Roll;
struct Slice;

namespace impl {

/// The rule of an operation that works on fields of any sharding.
struct AnySharding {
  static constexpr LayerSharding value = LayerSharding::moving;
  static constexpr bool can_be_sharded(int) { return true; }
};

}  // namespace impl

/// Sums and rearrangements need no conversion.
template <>
struct sharding_rule<Add> : impl::AnySharding {};
template <>
struct sharding_rule<Axpby> : impl::AnySharding {};
template <>
struct sharding_rule<Flip> : impl::AnySharding {};
template <>
struct sharding_rule<IndexSelect> : impl::AnySharding {};
template <>
struct sharding_rule<Roll> : impl::AnySharding {};
template <>
struct sharding_rule<Slice> : impl::AnySharding {};

namespace impl {

/// The axis that shards dimension `FieldDim` of a field of rank `Rank`; `Position` counts the plain
/// axes before it.
template <int Rank, int FieldDim, int Position, class... Cuts>
struct AxisAt {
  using type = Unsharded;
};
template <int Rank, int FieldDim, int Position, class First, class... Rest>
struct AxisAt<Rank, FieldDim, Position, First, Rest...>
    : std::conditional_t<Position + 2 == FieldDim, std::type_identity<First>,
                         AxisAt<Rank, FieldDim, Position + 1, Rest...>> {};
template <int Rank, int FieldDim, int Position, int Dim, class Axis, class... Rest>
struct AxisAt<Rank, FieldDim, Position, ShardDim<Dim, Axis>, Rest...>
    : std::conditional_t<(Dim < 0 ? Dim + Rank : Dim) == FieldDim, std::type_identity<Axis>,
                         AxisAt<Rank, FieldDim, Position, Rest...>> {};

/// The axes that shard the batch and the spatial dimensions of a model's fields.
template <class Batch, class... Space>
struct CutAxes {
  static constexpr int dims = static_cast<int>(sizeof...(Space));
  static constexpr int rank = dims + 2;
  using batch               = Batch;
  template <int D>
  using axis = std::tuple_element_t<static_cast<std::size_t>(D), std::tuple<Space...>>;
  template <int D>
  static constexpr bool is_cut = !std::is_same_v<axis<D>, Unsharded>;
};

/// The dimension that a cut names, negative ones counted from the end; -1 for a plain axis.
template <int Rank, class C>
inline constexpr int named_dim_v = -1;
template <int Rank, int Dim, class Axis>
inline constexpr int named_dim_v<Rank, ShardDim<Dim, Axis>> = Dim < -Rank ? Rank
                                                              : Dim < 0   ? Dim + Rank
                                                                          : Dim;
template <class C>
inline constexpr bool is_plain_axis_v = true;
template <int Dim, class Axis>
inline constexpr bool is_plain_axis_v<ShardDim<Dim, Axis>> = false;

/// Whether the cuts name different dimensions that a field of this rank has.
template <int Rank, class... Cuts>
constexpr bool cuts_fit() {
  bool cut[Rank] = {}, fit = true;
  [[maybe_unused]] int next         = 2;
  [[maybe_unused]] const auto place = [&](int d) {
    fit = fit && d < Rank && !cut[d];
    if (fit) cut[d] = true;
  };
  (place(is_plain_axis_v<Cuts> ? next++ : named_dim_v<Rank, Cuts>), ...);
  return fit;
}

template <int Dims, class... Cuts>
struct CutAxesOf {
  static_assert((!(is_shard_dim_v<Cuts> && is_plain_axis_v<Cuts>)&&...),
                "a ShardDim that shards a model has no Halo and no boundary: its layers say which "
                "they need");
  static_assert(cuts_fit<Dims + 2, Cuts...>(),
                "a cut names a dimension that the model's fields do not have, or one that another "
                "cut names");
  static_assert(std::is_same_v<typename AxisAt<Dims + 2, 1, 0, Cuts...>::type, Unsharded>,
                "a model's channels can't be sharded");
  template <int... D>
  static auto make(std::integer_sequence<int, D...>)
      -> CutAxes<typename AxisAt<Dims + 2, 0, 0, Cuts...>::type,
                 typename AxisAt<Dims + 2, D + 2, 0, Cuts...>::type...>;
  using type = decltype(make(std::make_integer_sequence<int, Dims>{}));
};

/// The halo and boundary that the consumer of a field needs along one spatial dimension.
template <int Lo, int Hi, class Boundary>
struct Want {
  static constexpr int lo = Lo, hi = Hi;
  using boundary = Boundary;
};
/// Along all of them.
template <class... W>
struct Wants {
  template <int D>
  using at = std::tuple_element_t<static_cast<std::size_t>(D), std::tuple<W...>>;
};

template <int Dims>
struct NoWantsOf {
  template <int... D>
  static auto make(std::integer_sequence<int, D...>)
      -> Wants<std::conditional_t<(D >= 0), Want<0, 0, Zero>, void>...>;
  using type = decltype(make(std::make_integer_sequence<int, Dims>{}));
};
/// Only the owned points.
template <int Dims>
using NoWants = typename NoWantsOf<Dims>::type;

/// The boundary of a layer's input: the layer's, else Zero.
template <class Layer, int D>
struct BoundaryOfLayer {
  using type = Zero;
};
template <class Layer, int D>
requires requires { typename Layer::template boundary<D>; }
struct BoundaryOfLayer<Layer, D> {
  using type = typename Layer::template boundary<D>;
};

/// The halo that a layer needs along a sharded dimension: none if it isn't a window.
template <class Layer>
constexpr LowHigh required_sides(int d) {
  if constexpr (requires { Layer::halo_bound(d); })
    return Layer::halo_bound(d);
  else
    return {0, 0};
}
template <class Layer>
constexpr LowHigh aligned_sides(int d) {
  if constexpr (requires { Layer::aligned_halo_bound(d); })
    return Layer::aligned_halo_bound(d);
  else
    return {0, 0};
}

/// The halo of a layer's input in spatial dimension `D`.
template <class Layer, class Cuts, int D>
constexpr LowHigh halo_of_layer() {
  if constexpr (requires { Layer::halo_bound(0); }) {
    static_assert(Layer::dims == Cuts::dims,
                  "the layers of a model have as many spatial dimensions as its cuts, or any");
    if (Cuts::template is_cut<D>) return Layer::halo_bound(D);
    if (Layer::zero_needs_no_halo && std::is_same_v<typename BoundaryOfLayer<Layer, D>::type, Zero>)
      return {0, 0};
    return Layer::unsharded_halo_bound(D);
  } else {
    return {0, 0};
  }
}

template <class Layer, class Cuts>
struct LayerWantsOf {
  template <int D>
  static constexpr LowHigh halo = halo_of_layer<Layer, Cuts, D>();
  template <int... D>
  static auto make(std::integer_sequence<int, D...>)
      -> Wants<Want<halo<D>.lo, halo<D>.hi,
                    std::conditional_t<halo<D>.lo + halo<D>.hi == 0, Zero,
                                       typename BoundaryOfLayer<Layer, D>::type>>...>;
  using type = decltype(make(std::make_integer_sequence<int, Cuts::dims>{}));
};
/// The halos and boundaries that a layer needs of its input.
template <class Layer, class Cuts>
using LayerWants = typename LayerWantsOf<Layer, Cuts>::type;

/// The field between two layers of a model: sharded by `Cuts`, with its consumer's halos and
/// boundaries.
template <class T, class Memory, class Cuts, class WantsOfIt>
struct ModelFieldOf {
  using Data = typename Pointers<T, Cuts::rank>::type;
  template <int... D>
  static auto make(std::integer_sequence<int, D...>) -> std::conditional_t<
      std::is_same_v<Memory, Kokkos::DefaultExecutionSpace::memory_space>,
      ShardedView<Data, Kokkos::LayoutRight, ShardDim<0, typename Cuts::batch>,
                  ShardDim<D + 2, typename Cuts::template axis<D>,
                           Halo<WantsOfIt::template at<D>::lo, WantsOfIt::template at<D>::hi>,
                           typename WantsOfIt::template at<D>::boundary>...>,
      ShardedView<Data, Kokkos::LayoutRight, ShardDim<0, typename Cuts::batch>,
                  ShardDim<D + 2, typename Cuts::template axis<D>,
                           Halo<WantsOfIt::template at<D>::lo, WantsOfIt::template at<D>::hi>,
                           typename WantsOfIt::template at<D>::boundary>...,
                  Memory>>;
  using type = decltype(make(std::make_integer_sequence<int, Cuts::dims>{}));
};
template <class T, class Memory, class Cuts, class WantsOfIt>
using ModelField = typename ModelFieldOf<T, Memory, Cuts, WantsOfIt>::type;

/// The cuts of a model of this many spatial dimensions whose fields aren't sharded.
template <int Dims>
struct NoCutsOf {
  template <int... D>
  static auto make(std::integer_sequence<int, D...>)
      -> CutAxes<Unsharded, std::conditional_t<(D >= 0), Unsharded, void>...>;
  using type = decltype(make(std::make_integer_sequence<int, Dims>{}));
};
/// A value of a model for the code that runs recorded operations: a field without halo whose type
/// doesn't name the mesh's axes, so that the library has this code for all models.
template <class T, class Memory, int Rank>
using RunField = ModelField<T, Memory, typename NoCutsOf<Rank - 2>::type, NoWants<Rank - 2>>;

/// Whether a layer's outputs depend on points outside its shard along a sharded dimension, with its
/// natural output partition.
template <class Layer, class Cuts, int D>
constexpr bool looks_past_shard() {
  if constexpr (!Cuts::template is_cut<D>) {
    return false;
  } else if constexpr (requires { Layer::halo_bound(0); }) {
    constexpr LowHigh aligned = Layer::aligned_halo_bound(D);
    if constexpr (is_transposed_v<Layer>)
      return aligned.lo + aligned.hi > 0;
    else
      return aligned.lo + aligned.hi + Layer::halo_bound(D).lo + Layer::halo_bound(D).hi > 0;
  } else if constexpr (has_sharding_rule_v<Layer, D>) {
    return sharding_rule<Layer>::value != LayerSharding::local;
  } else {
    return false;  // another check reports it
  }
}

template <class Layer, class Cuts>
inline constexpr bool looks_past_any_shard_v = []<int... D>(std::integer_sequence<int, D...>) {
  return (looks_past_shard<Layer, Cuts, D>() || ...);
}
(std::make_integer_sequence<int, Cuts::dims>{});

}  // namespace impl

/// Whether there is a rule for `Layer` if the field's dimension `Dim<...>` is sharded. A failed
/// check shows both names.
template <class Layer, class FieldDim>
struct layer_can_be_sharded;
/// The check itself.
template <class Layer, int FieldDim>
struct layer_can_be_sharded<Layer, Dim<FieldDim>> {
  /// Whether there is one.
  static constexpr bool value = has_sharding_rule_v<Layer, FieldDim - 2>;
};

namespace impl {

template <class Layer, class Cuts, int D>
constexpr bool require_sharding_rule() {
  if constexpr (Cuts::template is_cut<D>)
    static_assert(layer_can_be_sharded<Layer, Dim<D + 2>>::value,
                  "the layer has no sharding rule for a sharded dimension: give it one "
                  "(shard::sharding_rule), or redistribute before it");
  return true;
}
template <class Layer, class Cuts>
constexpr bool require_sharding_rules() {
  return []<int... D>(std::integer_sequence<int, D...>) {
    return (require_sharding_rule<Layer, Cuts, D>() && ...);
  }
  (std::make_integer_sequence<int, Cuts::dims>{});
}

}  // namespace impl
}  // namespace shard

#endif
