// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_REDISTRIBUTE_HPP
#define SHARD_REDISTRIBUTE_REDISTRIBUTE_HPP

#include <memory>
#include <type_traits>
#include <utility>

#include "shard/exchange/exchange.hpp"

namespace shard {

namespace impl {

template <class To, class From>
inline constexpr bool cut_alike_v = []<int... D>(std::integer_sequence<int, D...>) {
  return (std::is_same_v<typename To::template axis<D>, typename From::template axis<D>> && ...);
}
(std::make_integer_sequence<int, To::rank>{});

template <class To, class From>
constexpr void check_redistribution() {
  static_assert(
      To::rank == From::rank &&
          std::is_same_v<typename To::non_const_value_type, typename From::non_const_value_type>,
      "redistribute is between fields of the same rank and value type");
  static_assert(cut_alike_v<To, From>,
                "redistribute moves between partitions over the same mesh axes");
  static_assert(
      std::is_same_v<PlanMemory<To>, PlanMemory<From>>,
      "redistribute is between fields that are both in host memory or both on the device");
}

template <class Space, class To, class From>
void run_move(const Space& space, Direction direction, const To& to, const From& from) {
  auto plan    = Plan<PlanMemory<To>>::find_move(ExchangeField<To>::args(to), field_args(from));
  void* reads  = const_cast<void*>(static_cast<const void*>(from.origin()));
  void* writes = const_cast<void*>(static_cast<const void*>(to.origin()));
  const Geometry* geometry = &from.geometry();
  Pending<Space>(plan, space, plan->start(space, {&reads, &writes, &geometry}, direction)).finish();
}

}  // namespace impl

/// Moves the owned cells of `from` into `to`: fields of the same global extents, cut over the same
/// mesh axes, whose ranks own other cells. Halos are not written. One message per pair of ranks
/// that share cells; cells that stay are copied. The plan is found again in the mesh; making it, on
/// the first call, is collective. Throws ArgumentError if the global extents differ.
template <class Space, AnyShardedView To, AnyShardedView From>
void redistribute(const Space& space, const To& to, const From& from) {
  impl::check_redistribution<To, From>();
  impl::run_move(space, impl::Direction::forward, to, from);
}

/// The transpose of `redistribute`: adds the owned cells of `to` to those of `from` that they came
/// from; `to` stays as it is.
template <class Space, AnyShardedView To, AnyShardedView From>
void redistribute_adjoint(const Space& space, const From& from, const To& to) {
  impl::check_redistribution<To, From>();
  static_assert(!std::is_const_v<typename From::value_type>,
                "the transpose of redistribute adds to `from`");
  static_assert(impl::can_add_v<From>,
                "the transpose of redistribute adds: it needs an arithmetic value type");
  impl::run_move(space, impl::Direction::adjoint, to, from);
}

}  // namespace shard

#endif
