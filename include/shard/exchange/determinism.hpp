// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_DETERMINISM_HPP
#define SHARD_EXCHANGE_DETERMINISM_HPP

#include <cstdint>

#include "shard/exchange/exchange.hpp"

namespace shard {

/// The meshes for which the gradient of an input is bitwise the same. On one mesh it is always
/// bitwise reproducible, over every transport and for any number of threads.
enum class Determinism : std::uint8_t {
  /// Every rank adds its outputs' contributions to its halo, and the transposed exchange adds the
  /// halo to the owners. Results on different meshes differ by rounding.
  on_one_mesh,
  /// Bitwise that of one rank for every number of ranks, mesh and partition. The output's gradient
  /// is exchanged, and each owner sums in the serial kernel's order, then adds the contributions
  /// from outside the domain in a fixed order. Needs one more small exchange.
  ordered
};

namespace impl {

/// Fills the points of a field's halo inside the domain; the others are unchanged.
template <class Space, class Field>
void exchange_inside(const Space& space, const Field& field) {
  static_assert(renews_itself_v<Field>,
                "an ordered gradient is neither of NorthFold, Given nor ByIndex");
  run_plan(
      FieldPlan<PlanMemory<Field>>::find_part(ExchangeField<Field>::args(field), HaloPart::inside)
          .get(),
      space, Direction::forward, field);
}

/// Adds each point outside the domain, from the rank at that edge, to the owned point that is its
/// source, in the order of global indices. Then zeroes the whole halo.
template <class Space, class Field>
void add_edges(const Space& space, const Field& field) {
  static_assert(renews_itself_v<Field>,
                "an ordered gradient is neither of NorthFold, Given nor ByIndex");
  static_assert(can_add_v<Field>, "an ordered gradient is added: it needs arithmetic value types");
  run_plan(
      FieldPlan<PlanMemory<Field>>::find_part(ExchangeField<Field>::args(field), HaloPart::edges)
          .get(),
      space, Direction::adjoint, field);
}

}  // namespace impl
}  // namespace shard

#endif
