// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_LINEAR_TYPES_HPP
#define SHARD_LAYERS_IMPL_LINEAR_TYPES_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/layers/parameters.hpp"
#include "shard/view/placements.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

template <class Tensor, int D>
struct TensorAxis {
  using type = Unsharded;
};
template <class T, class Layout, class... Options, int D>
struct TensorAxis<ShardedView<T, Layout, Options...>, D> {
  using type = typename ShardedView<T, Layout, Options...>::template axis<D>;
};
/// The axes that shard dimension D of a tensor; a View isn't sharded.
template <class Tensor, int D>
using tensor_axis = typename TensorAxis<Tensor, D>::type;

template <class Tensor>
inline constexpr int last_dim = static_cast<int>(Tensor::rank) - 1;
template <class Tensor>
using last_axis = tensor_axis<Tensor, last_dim<Tensor>>;

template <class Tensor, int... D>
auto collect_leading_axes(std::integer_sequence<int, D...>) ->
    typename Concatenate<typename AxesOf<tensor_axis<Tensor, D>>::type...>::type;
/// The mesh axes that shard any dimension but the last.
template <class Tensor>
using leading_axes =
    decltype(collect_leading_axes<Tensor>(std::make_integer_sequence<int, last_dim<Tensor>>{}));

template <class A, class B, int... D>
constexpr bool same_axes(std::integer_sequence<int, D...>) {
  return (std::is_same_v<tensor_axis<A, D>, tensor_axis<B, D>> && ...);
}
/// Whether all dimensions but the last are sharded alike.
template <class A, class B>
constexpr bool same_leading_axes() {
  if constexpr (last_dim<A> != last_dim<B>)
    return false;
  else
    return same_axes<A, B>(std::make_integer_sequence<int, last_dim<A>>{});
}

template <class... A, class List>
constexpr bool all_among(AxisList<A...>, List) {
  return ((position_in<A>(List{}) >= 0) && ...);
}
/// Whether a tensor is a Partial sum over exactly these axes. True for a View, whose type can't
/// tell.
template <class Tensor, class Axes>
constexpr bool is_partial_over() {
  if constexpr (!is_sharded_view_v<Tensor>)
    return true;
  else if constexpr (Axes::count == 0)
    return Tensor::partial_axes::count == 0;
  else
    return std::is_same_v<typename Tensor::reduction, Sum> &&
           Tensor::partial_axes::count == Axes::count &&
           all_among(Axes{}, typename Tensor::partial_axes{});
}

template <class X, class W>
constexpr void require_contractible() {
  static_assert(
      std::is_same_v<last_axis<X>, tensor_axis<W, 1>>,
      "a Linear sums over x's last dimension: the same mesh axes shard it and the weight's "
      "columns, or none shards either");
  static_assert(
      axes_differ_v<typename Concatenate<leading_axes<X>, typename AxesOf<last_axis<X>>::type,
                                         typename AxesOf<tensor_axis<W, 0>>::type>::type>,
      "a mesh axis that shards a Linear's input can't shard the weight's rows too");
}

template <class A, class... Others>
constexpr void require_linear_values() {
  static_assert(
      (std::is_same_v<typename A::non_const_value_type, typename Others::non_const_value_type> &&
       ...),
      "a Linear's tensors have the same value type");
}

template <bool Right>
constexpr void require_placement() {
  static_assert(
      Right,
      "a Linear's tensor is sharded or Partial over other mesh axes than the arguments say; "
      "linear_result_t and its like name its type");
}

template <class Axis, int D>
using cut_by =
    std::conditional_t<std::is_same_v<Axis, Unsharded>, AxisList<>, AxisList<ShardDim<D, Axis>>>;
template <class List>
struct PartialsOver;
template <class... A>
struct PartialsOver<AxisList<A...>> {
  using type = AxisList<Partial<A, Sum>...>;
};

/// The fields of a Linear on X = ShardedView<T, Layout, Options...>.
template <class X, class W>
struct LinearTypes;
template <class T, class Layout, class... Options, class W>
struct LinearTypes<ShardedView<T, Layout, Options...>, W> {
  using X                  = ShardedView<T, Layout, Options...>;
  static constexpr int end = last_dim<X>;
  using value              = typename X::non_const_value_type;
  using layout =
      std::conditional_t<std::is_same_v<Layout, Kokkos::LayoutStride>, Kokkos::LayoutRight, Layout>;
  using device = typename Concatenate<
      std::conditional_t<is_placement_v<Options>, AxisList<>, AxisList<Options>>...>::type;
  using rows    = tensor_axis<W, 0>;
  using columns = last_axis<X>;

  template <int... D>
  static auto cut_leading(std::integer_sequence<int, D...>) ->
      typename Concatenate<cut_by<tensor_axis<X, D>, D>...>::type;
  using leading = decltype(cut_leading(std::make_integer_sequence<int, end>{}));

  template <int Rank, class Cuts, class PartialAxes>
  using field = typename ViewWith<
      typename Pointers<value, Rank>::type, layout,
      typename Concatenate<Cuts, typename PartialsOver<PartialAxes>::type, device>::type>::type;

  using y_cuts = typename Concatenate<leading, cut_by<rows, end>>::type;
  using y      = field<end + 1, y_cuts, typename AxesOf<columns>::type>;
  using dy     = field<end + 1, y_cuts, AxisList<>>;
  using dx     = field<end + 1, typename Concatenate<leading, cut_by<columns, end>>::type,
                   typename AxesOf<rows>::type>;
  using dw =
      field<2, typename Concatenate<cut_by<rows, 0>, cut_by<columns, 1>>::type, leading_axes<X>>;
  using db = field<1, cut_by<rows, 0>, leading_axes<X>>;
};

}  // namespace impl

}  // namespace shard

#endif
