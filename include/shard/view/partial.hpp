// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_PARTIAL_HPP
#define SHARD_VIEW_PARTIAL_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

#include "shard/mesh/axis.hpp"

namespace shard {

struct Sum {};  ///< a reduction: the sum
struct Max {};  ///< a reduction: the largest value, NaN if there is one
struct Min {};  ///< a reduction: the smallest value, NaN if there is one

namespace impl {

enum class ReductionKind : std::uint8_t { sum, max, min };

template <class T>
inline constexpr bool has_order_v =
    (std::is_integral_v<T> && !std::is_same_v<T, bool>) || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_same_v<T, Kokkos::Experimental::half_t> ||
    std::is_same_v<T, Kokkos::Experimental::bhalf_t>;

template <class Op>
inline constexpr bool is_reduction_v =
    std::is_same_v<Op, Sum> || std::is_same_v<Op, Max> || std::is_same_v<Op, Min>;

/// A reduction of values of type T, and the checks of it.
template <class Op, class T>
constexpr ReductionKind reduction_kind() {
  static_assert(is_reduction_v<Op>, "a reduction is Sum, Max or Min");
  static_assert(has_order_v<T> || std::is_same_v<T, Kokkos::complex<float>> ||
                    std::is_same_v<T, Kokkos::complex<double>>,
                "a reduction needs an arithmetic value type");
  static_assert(std::is_same_v<Op, Sum> || has_order_v<T>,
                "Max and Min need values that have an order");
  return std::is_same_v<Op, Sum>   ? ReductionKind::sum
         : std::is_same_v<Op, Max> ? ReductionKind::max
                                   : ReductionKind::min;
}

/// The same of a field's Partials; `Op` is void if there are none.
template <class Op, class T>
inline constexpr ReductionKind reduction_of_partials_v = reduction_kind<Op, T>();
template <class T>
inline constexpr ReductionKind reduction_of_partials_v<void, T> = ReductionKind::sum;

template <class>
inline constexpr bool is_axis_list_v = false;
template <class... A>
inline constexpr bool is_axis_list_v<Axes<A...>> = true;

}  // namespace impl

/// An option of ShardedView: the ranks along a mesh axis have contributions, and the field is their
/// elementwise sum (or maximum, or minimum). Operations that contract a sharded dimension make such
/// fields. Only `redistribute` accepts them.
template <class Axis, class Op>
struct Partial {
  static_assert(!std::is_same_v<Axis, Unsharded>,
                "Partial names a mesh axis, and Unsharded is none");
  static_assert(!impl::is_axis_list_v<Axis>,
                "Partial names one mesh axis; give a Partial for each of several");
  static_assert(impl::is_reduction_v<Op>, "a Partial's reduction is Sum, Max or Min");

  using axis      = Axis;  ///< the mesh axis
  using reduction = Op;    ///< Sum, Max or Min
};

namespace impl {

template <class>
inline constexpr bool is_partial_v = false;
template <class Axis, class Op>
inline constexpr bool is_partial_v<Partial<Axis, Op>> = true;

template <class Option>
struct IsPartialOption : std::bool_constant<is_partial_v<Option>> {};

}  // namespace impl
}  // namespace shard

#endif
