// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_DETERMINISM_HPP
#define SHARD_EXCHANGE_DETERMINISM_HPP

#include <cstdint>

#include "shard/exchange/exchange.hpp"

namespace shard {

/// For which meshes the gradient of an input is bitwise the same. On one mesh it has them from run
/// to run in any case, over every transport and for any number of threads.
enum class Determinism : std::uint8_t {
  /// On each mesh its own: every rank adds what its outputs say of its halo, the transposed
  /// exchange
  /// adds that to the owners. Meshes differ by rounding.
  on_one_mesh,
  /// The same for every number of ranks, mesh and partition, those of one rank: the output's
  /// gradient is exchanged, each owner gathers its cells in the serial kernel's order, and adds the
  /// images outside the domain after that in theirs. One more small exchange.
  ordered
};

namespace impl {

/// Fills the cells of a field's halo that lie inside the domain; the others stay as they are.
template <class Space, class Field>
void exchange_inside(const Space& space, const Field& field) {
  run_plan(
      *FieldPlan<PlanMemory<Field>>::find_part(ExchangeField<Field>::args(field), HaloPart::inside),
      space, Direction::forward, field);
}

/// Adds each cell outside the domain, as the rank at that edge has it, to the owned cell that it is
/// an image of, in an order of global indices. Then the whole halo is zero.
template <class Space, class Field>
void add_edges(const Space& space, const Field& field) {
  static_assert(can_add_v<Field>, "an ordered gradient is added: it needs arithmetic value types");
  run_plan(
      *FieldPlan<PlanMemory<Field>>::find_part(ExchangeField<Field>::args(field), HaloPart::edges),
      space, Direction::adjoint, field);
}

}  // namespace impl
}  // namespace shard

#endif
