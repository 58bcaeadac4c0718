// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_SHARD_DIM_HPP
#define SHARD_VIEW_SHARD_DIM_HPP

#include <type_traits>

#include "shard/mesh/axis.hpp"
#include "shard/view/boundary.hpp"
#include "shard/view/halo.hpp"
#include "shard/view/partial.hpp"

namespace shard {

/// An option of a ShardDim: the dimension's elements are those of the index space `Tag`. It stands
/// in place of Halo and boundary: the halo lies behind the owned elements, as long as the
/// IndexSpace says.
template <class Tag>
struct Indices {};

/// An option of a ShardDim: the dimension counts blocks of the BlockGrid `Tag`. Two other,
/// unsharded dimensions have the points of a block, and a halo with the boundaries LinkedY and
/// LinkedX.
template <class Tag>
struct Blocks {};

namespace impl {

template <class>
inline constexpr bool is_blocks_v = false;
template <class Tag>
inline constexpr bool is_blocks_v<Blocks<Tag>> = true;
template <class Option>
struct IsBlocksOption : std::bool_constant<is_blocks_v<Option>> {};

template <class>
inline constexpr bool is_indices_v = false;
template <class Tag>
inline constexpr bool is_indices_v<Indices<Tag>> = true;
template <class Option>
struct IsIndicesOption : std::bool_constant<is_indices_v<Option>> {};

template <class Option>
inline constexpr bool is_boundary_v = BoundaryTraits<Option>::valid;

/// Whether a type is an option of a ShardDim. A failed check shows its name.
template <class Option>
struct is_shard_dim_option {
  static constexpr bool value =
      is_halo_v<Option> || is_boundary_v<Option> || is_indices_v<Option> || is_blocks_v<Option>;
};

/// The first of `Options` for which `Is` holds, else `Default`.
template <template <class> class Is, class Default, class... Options>
struct FirstOption {
  using type = Default;
};
template <template <class> class Is, class Default, class First, class... Rest>
struct FirstOption<Is, Default, First, Rest...> {
  using type = typename std::conditional_t<Is<First>::value, std::type_identity<First>,
                                           FirstOption<Is, Default, Rest...>>::type;
};

template <class Option>
struct IsHaloOption : std::bool_constant<is_halo_v<Option>> {};
template <class Option>
struct IsBoundaryOption : std::bool_constant<is_boundary_v<Option>> {};

}  // namespace impl

/// How one dimension of a field is sharded: dimension `Dim` over mesh axis `AxisType` (or `Axes<A,
/// B>`, or `Unsharded` for a halo on a dimension that isn't sharded). Options, in any order: a
/// `Halo` (else none) and a boundary (else Zero). Of a model (domain_parallel) without options, and
/// with a negative `Dim` counted from the end.
template <int Dim, class AxisType, class... Options>
struct ShardDim {
  static_assert((impl::is_shard_dim_option<Options>::value && ...),
                "a ShardDim's options are one Halo and one boundary (Zero, Constant, Periodic, "
                "Reflect, Symmetric, Odd, Clamp, PoleFold, NorthFold, Given, Custom, ByIndex, "
                "LinkedY, LinkedX or Sides), or Indices, or Blocks");
  static_assert((impl::is_halo_v<Options> + ... + 0) <= 1 &&
                    (impl::is_boundary_v<Options> + ... + 0) <= 1,
                "a ShardDim has at most one Halo and one boundary");
  static_assert(
      (impl::is_indices_v<Options> + ... + 0) == 0 || sizeof...(Options) == 1,
      "the halo of an index space has neither a width nor a boundary: Indices is the only "
      "option");
  static_assert((impl::is_blocks_v<Options> + ... + 0) == 0 || sizeof...(Options) == 1,
                "the dimension that counts blocks has no halo: Blocks is the only option");

  static constexpr int dim = Dim;       ///< the dimension
  using axis               = AxisType;  ///< the mesh axis that shards it
  using halo =
      typename impl::FirstOption<impl::IsHaloOption, Halo<0>, Options...>::type;  ///< its halo
  using boundary = typename impl::FirstOption<impl::IsBoundaryOption, Zero,
                                              Options...>::type;  ///< its boundary
  using indices  = typename impl::FirstOption<impl::IsIndicesOption, void,
                                             Options...>::type;  ///< Indices, or void
  using blocks   = typename impl::FirstOption<impl::IsBlocksOption, void,
                                            Options...>::type;  ///< Blocks, or void
};

namespace impl {

template <class>
inline constexpr bool is_shard_dim_v = false;
template <int Dim, class Axis, class... Options>
inline constexpr bool is_shard_dim_v<ShardDim<Dim, Axis, Options...>> = true;

/// Whether an option of a ShardedView is a placement; else it is its device.
template <class Option>
inline constexpr bool is_placement_v = is_shard_dim_v<Option> || is_partial_v<Option>;

/// The ShardDim of dimension `Dim` in a list of options, else that of an unsharded dimension
/// without a halo.
template <int Dim, class... Options>
struct ShardDimOf {
  using type = ShardDim<Dim, Unsharded>;
};
template <int Dim, class First, class... Rest>
struct ShardDimOf<Dim, First, Rest...> : ShardDimOf<Dim, Rest...> {};
template <int Dim, class Axis, class... Options, class... Rest>
struct ShardDimOf<Dim, ShardDim<Dim, Axis, Options...>, Rest...> {
  using type = ShardDim<Dim, Axis, Options...>;
};

template <class Option>
constexpr int dim_of() {
  if constexpr (is_shard_dim_v<Option>)
    return Option::dim;
  else
    return -1;
}

/// Whether no dimension has two ShardDims.
template <class... Options>
constexpr bool one_shard_dim_each() {
  const int dims[] = {dim_of<Options>()..., -1};
  for (int i = 0; i < static_cast<int>(sizeof...(Options)); ++i)
    for (int j = 0; j < i; ++j)
      if (dims[i] >= 0 && dims[i] == dims[j]) return false;
  return true;
}

/// Mesh axes in order, without Unsharded.
template <class... A>
struct AxisList {
  static constexpr int count = static_cast<int>(sizeof...(A));
};
template <class Axis>
struct AxesOf {
  using type = AxisList<Axis>;
};
template <>
struct AxesOf<Unsharded> {
  using type = AxisList<>;
};
template <class... A>
struct AxesOf<Axes<A...>> {
  using type = AxisList<A...>;
};

template <class...>
struct Concatenate {
  using type = AxisList<>;
};
template <class... A>
struct Concatenate<AxisList<A...>> {
  using type = AxisList<A...>;
};
template <class... A, class... B, class... Rest>
struct Concatenate<AxisList<A...>, AxisList<B...>, Rest...>
    : Concatenate<AxisList<A..., B...>, Rest...> {};

template <class Option>
struct AxesOfOption {
  using type = AxisList<>;
};
template <int Dim, class Axis, class... Options>
struct AxesOfOption<ShardDim<Dim, Axis, Options...>> : AxesOf<Axis> {};

template <class Option>
struct PartialAxisOf {
  using type = AxisList<>;
};
template <class Axis, class Op>
struct PartialAxisOf<Partial<Axis, Op>> {
  using type = AxisList<Axis>;
};

template <class Option>
struct ReductionOf {
  using type = void;
};
template <class Axis, class Op>
struct ReductionOf<Partial<Axis, Op>> {
  using type = Op;
};

/// Whether all Partials among the options have this reduction.
template <class Op, class... Options>
inline constexpr bool one_reduction_v =
    ((std::is_same_v<typename ReductionOf<Options>::type, void> ||
      std::is_same_v<typename ReductionOf<Options>::type, Op>)&&...);

/// Position of an axis in a list, or -1.
template <class Axis, class... A>
constexpr int position_in(AxisList<A...>) {
  return position<Axis, A...>();
}

template <class List>
inline constexpr bool axes_differ_v = true;
template <class... A>
inline constexpr bool axes_differ_v<AxisList<A...>> = all_different_v<A...>;

}  // namespace impl
}  // namespace shard

#endif
