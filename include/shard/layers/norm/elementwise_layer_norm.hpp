// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_ELEMENTWISE_LAYER_NORM_HPP
#define SHARD_LAYERS_NORM_ELEMENTWISE_LAYER_NORM_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/layers/impl/elementwise_norm_kernels.hpp"
#include "shard/layers/impl/linear_types.hpp"
#include "shard/layers/norm/norm_layer.hpp"

namespace shard {

namespace impl {

/// The types of fields of parameters per channel and point, for a field X = [batch, channel,
/// space...].
template <class X>
struct ElementwiseTypes;
template <class T, class Layout, class... Options>
struct ElementwiseTypes<ShardedView<T, Layout, Options...>> {
  using X                   = ShardedView<T, Layout, Options...>;
  static constexpr int rank = X::rank - 1;
  using device              = typename Concatenate<
      std::conditional_t<is_placement_v<Options>, AxisList<>, AxisList<Options>>...>::type;

  template <int... D>
  static auto cut(std::integer_sequence<int, D...>) ->
      typename Concatenate<cut_by<tensor_axis<X, D + 1>, D>...>::type;
  using cuts = decltype(cut(std::make_integer_sequence<int, rank>{}));

  template <class PartialAxes>
  using field = typename ViewWith<
      typename Pointers<typename X::non_const_value_type, rank>::type, Kokkos::LayoutRight,
      typename Concatenate<cuts, typename PartialsOver<PartialAxes>::type, device>::type>::type;
  using parameter = field<AxisList<>>;
  using gradient  = field<typename AxesOf<tensor_axis<X, 0>>::type>;
};

template <class X, class W>
constexpr bool cut_as_cells() {
  return []<int... D>(std::integer_sequence<int, D...>) {
    return W::rank == X::rank - 1 &&
           (std::is_same_v<tensor_axis<X, D + 1>, tensor_axis<W, D>> && ...);
  }
  (std::make_integer_sequence<int, X::rank - 1>{});
}

/// Parameters of x's channels and points as a block: from a field, or this rank's part of a View
/// with all values.
template <class T, bool Gradient = false, class W, class X>
Block<T> cells_block(std::string_view function, const W& weight, const X& x) {
  Block<T> b;
  b.batch    = x.extent(0);
  b.channels = x.extent(1);
  for (int d = 2; d < X::rank; ++d) b.end[d + 3 - X::rank] = x.extent(d);
  const auto at = [](int d) { return d == 1 ? 1 : d + 5 - X::rank; };
  if constexpr (is_sharded_view_v<W>) {
    using Batch =
        std::conditional_t<Gradient, typename AxesOf<tensor_axis<X, 0>>::type, AxisList<>>;
    static_assert(cut_as_cells<X, W>() && is_partial_over<W, Batch>(),
                  "elementwise parameters are sharded as the input's channels and points, their "
                  "gradients Partial over what shards its batch: elementwise_parameter_t, "
                  "elementwise_gradient_t");
    require_cells_of(function, weight.any_geometry(), x.geometry());
    b.origin = weight.origin();
    for (int d = 1; d < X::rank; ++d) b.stride[at(d)] = weight.stride(d - 1);
  } else {
    index_t count = 1;
    b.origin      = weight.data();
    for (int d = X::rank - 1; d >= 1; --d) {
      b.stride[at(d)] = count;
      b.origin += x.begin(d) * count;
      count *= x.global_extent(d);
    }
    require_extent(function, x.label(), "values of its parameters", count,
                   static_cast<index_t>(weight.size()));
  }
  return b;
}

}  // namespace impl

/// The field [channel, space...] of an ElementwiseLayerNorm's weight, and of its bias, for inputs
/// of type X: sharded as X's channels and space, without halos, and replicated over the axes that
/// shard X's batch.
template <class X>
using elementwise_parameter_t = typename impl::ElementwiseTypes<X>::parameter;
/// The field of their gradients: the same, but Partial over the mesh axes that shard X's batch.
/// `redistribute<elementwise_parameter_t<X>>(space, gradient)` is the sum; if the batch isn't
/// sharded both types are the same.
template <class X>
using elementwise_gradient_t = typename impl::ElementwiseTypes<X>::gradient;

/// Weight and bias of an ElementwiseLayerNorm as fields, or their gradients, or their tangents.
template <class Field>
struct ElementwiseParameters {
  using value_type = typename Field::non_const_value_type;  ///< of both
  Field weight;                                             ///< [channel, space...]
  Field bias;                                               ///< [channel, space...]
};

/// Layer normalisation over channels and `Dims` spatial dimensions with a weight and a bias for
/// each channel and point, PyTorch's LayerNorm([C, H, W]) (Ba, Kiros and Hinton 2016):
/// `ElementwiseLayerNorm<2>{{32, 61, 120}}`. With mean and (biased) variance of each batch entry
/// over all channels and points on all ranks:
///
///   y[n, c, i] = (x[n, c, i] - mean[n]) / sqrt(var[n] + eps) weight[c, i] + bias[c, i]
///
/// Fields are [batch, channel, space...], sharded in any way, shards uneven or empty. Weight and
/// bias are fields sharded like x's channels and points (`parameters`, elementwise_parameter_t), so
/// each rank has its own part. Or they are Views of all values on every rank (make_parameters,
/// models), of which a rank uses its own part.
///
/// Gradients of the parameters are sums over the batch only, so fields of gradients are Partial
/// over the mesh axes that shard the batch (elementwise_gradient_t).
///
/// Forward, dx and the tangent of x need one collective each, with sums as in SpatialLayerNorm.
/// Computed in double.
template <int Dims>
struct ElementwiseLayerNorm : NormPullbackParts<ElementwiseLayerNorm<Dims>> {
  static_assert(Dims >= 1 && Dims <= 3, "a layer's field has one to three spatial dimensions");

  std::array<index_t, Dims + 1> shape{};  ///< channels, and the global extents in space
  double eps  = 1e-5;                     ///< added to the variance
  bool affine = true;                     ///< whether there are a weight and a bias

  /// With a weight and a bias by default.
  constexpr ElementwiseLayerNorm(const std::array<index_t, Dims + 1>& shape_ = {},
                                 double eps_ = 1e-5, bool affine_ = true)
      : shape(shape_), eps(eps_), affine(affine_) {}

  static constexpr LayerSharding sharding = LayerSharding::collective;  ///< global moments

  /// Weight and bias, as one row of values each, of the global domain.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, Dims + 1, Memory>;

  /// Weight (1) and bias (0) of the global domain; none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!affine) return {};
    const std::vector<index_t> extents(shape.begin(), shape.end());
    return {{"weight", extents, 0.0, 1.0}, {"bias", extents, 0.0, 0.0}};
  }

  /// Collective over the mesh: weight (1) and bias (0) as fields for inputs like x. Empty fields
  /// unless affine.
  template <class X, class... MeshAxes>
  auto parameters(const Mesh<MeshAxes...>& mesh, const X& x, const std::string& label) const {
    auto p = make<elementwise_parameter_t<X>>(mesh, x, label);
    if (affine) Kokkos::deep_copy(p.weight.view(), typename decltype(p)::value_type(1));
    return p;
  }
  /// Collective over the mesh: zeros for their gradients.
  template <class X, class... MeshAxes>
  auto gradients(const Mesh<MeshAxes...>& mesh, const X& x, const std::string& label) const {
    return make<elementwise_gradient_t<X>>(mesh, x, label);
  }

  /// The state of one use of the layer: data of apply for pullback, and scratch memory. Allocates
  /// everything when it is made.
  template <class Memory>
  using State = impl::NormState<Memory>;

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    return impl::norm_state<State<typename X::memory_space>>(x, options());
  }

  /// Computes y's owned points. Collective over the ranks that share x's points. Throws
  /// ArgumentError, on every rank before any message, if shapes or partitions don't fit. y may be
  /// x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    using T = typename Y::non_const_value_type;
    require(y, x);
    impl::Block<const T> weight, bias;
    if constexpr (is_wanted_v<P>)
      if (affine) {
        weight = cells<const T>(parameters.weight, x);
        bias   = cells<const T>(parameters.bias, x);
      }
    impl::norm_statistics(space, state, options(), x);
    if (affine) {
      combine(space, state, y, {}, {}, x, weight, bias);
      mark_written(space, y);
    } else {
      impl::norm_apply(space, state, unweighted(), not_wanted, y, x);
    }
  }

  /// The tangent of y for the tangents of x and of the parameters, either of which may be
  /// not_wanted (zero): ty = weight rstd (tx - (T1 + xhat T2) / D) + xhat tweight + tbias, T1 and
  /// T2 the sums of tx and of tx xhat, D the number of values. x and the state must be unchanged
  /// since `apply`. Collective as apply, unless tx is not_wanted. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    using T = typename TY::non_const_value_type;
    require(ty, x);
    impl::Block<const T> from, weight, slope, shift;
    if constexpr (is_wanted_v<P>)
      if (affine) weight = cells<const T>(parameters.weight, x);
    if constexpr (is_wanted_v<TP>)
      if (affine) {
        slope = cells<const T>(parameter_tangents.weight, x);
        shift = cells<const T>(parameter_tangents.bias, x);
      }
    if constexpr (is_wanted_v<TX>) {
      require(tx, x);
      impl::norm_pushforward(space, state, unweighted(), false, not_wanted, not_wanted, ty, tx, x);
      if (!affine) return;
      from = impl::owned_input(ty);
    } else {
      weight.origin = nullptr;
    }
    combine(space, state, ty, from, weight, x, slope, shift);
    mark_written(space, ty);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients (dweight = sum over n of
  /// dy xhat, dbias = sum over n of dy) and sets dx = dJ/dx = rstd (g - (S1 + xhat S2) / D), g =
  /// weight dy, S1 and S2 the sums of g and of g xhat, either of them not_wanted. x and the state
  /// must be unchanged since apply. Collective as apply, unless dx is not_wanted. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    using T = typename DY::non_const_value_type;
    require(dy, x);
    if constexpr (is_wanted_v<DX>) require(dx, x);
    if constexpr (is_wanted_v<G>)
      if (affine)
        impl::ElementwiseNormKernels<Space, T>::add_gradients(
            space, cells<T, true>(gradients.weight, x), cells<T, true>(gradients.bias, x),
            impl::owned_input(dy), impl::owned_input(x), state.statistics.data(), state.groups);
    if constexpr (is_wanted_v<DX>) {
      impl::Block<const T> weight;
      if constexpr (is_wanted_v<P>)
        if (affine) weight = cells<const T>(parameters.weight, x);
      if (affine) {
        combine(space, state, dx, impl::owned_input(dy), weight, x, {}, {});
        impl::norm_pullback(space, state, unweighted(), false, not_wanted, not_wanted, dx, dx, x);
      } else {
        impl::norm_pullback(space, state, unweighted(), false, not_wanted, not_wanted, dx, dy, x);
      }
    }
  }

 private:
  static constexpr const char* name = "ElementwiseLayerNorm";

  impl::NormOptions options() const { return {name, {1, shape[0], false}, eps, affine}; }
  /// The parameters of the norm without weight and bias.
  impl::NormOptions unweighted() const { return {name, {1, shape[0], false}, eps, false}; }

  template <class Field, class Grid, class X>
  ElementwiseParameters<Field> make(const Grid& mesh, const X& x, const std::string& label) const {
    if (!affine) return {};
    std::array<Partition, static_cast<std::size_t>(X::rank - 1)> cells;
    for (int d = 1; d < X::rank; ++d) cells[static_cast<std::size_t>(d - 1)] = x.partition(d);
    return {Field(label + ".weight", mesh, cells), Field(label + ".bias", mesh, cells)};
  }

  template <class T, bool Gradient = false, class W, class X>
  static impl::Block<T> cells(const W& weight, const X& x) {
    return impl::cells_block<T, Gradient>(name, weight, x);
  }

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    static_assert(X::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each spatial dimension]");
    impl::require_norm(options(), y, x);
    for (int d = 2; d < X::rank; ++d)
      impl::require_extent(name, x.label(), "cells along a spatial dimension", x.global_extent(d),
                           shape[static_cast<std::size_t>(d - 1)]);
  }

  template <class Space, class S, class Y, class X, class T>
  void combine(const Space& space, S& state, const Y& y, const impl::Block<const T>& from,
               const impl::Block<const T>& factor, const X& x, const impl::Block<const T>& slope,
               const impl::Block<const T>& shift) const {
    impl::ElementwiseNormKernels<Space, T>::combine(
        space, impl::owned_block(impl::local(y)), from, factor, impl::owned_input(x),
        state.statistics.data(), state.groups, slope, shift);
  }
};

}  // namespace shard

#endif
