// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_OVERLAPPED_HPP
#define SHARD_EXCHANGE_OVERLAPPED_HPP

#include <string>
#include <type_traits>
#include <utility>

#include "shard/exchange/exchange.hpp"
#include "shard/view/region.hpp"

namespace shard {

namespace impl {

/// Whether the same axes shard the same dimensions of two fields.
template <class A, class B>
inline constexpr bool cut_alike_v = [] {
  if constexpr (A::rank != B::rank)
    return false;
  else
    return []<int... D>(std::integer_sequence<int, D...>) {
      return (std::is_same_v<typename A::template axis<D>, typename B::template axis<D>> && ...);
    }
  (std::make_integer_sequence<int, A::rank>{});
}();

/// Runs a functor over `cells`, a region of `field` of one box, while halos of Fields are
/// exchanged: first over the points that read no halo from a message, then over the others.
template <class... Fields, class Space, AnyShardedView Field, class Functor>
void run_overlapped(const std::string& label, const Space& space, Pending<Space>& pending,
                    const Field& field, const RegionOf<Field>& cells, Widths<Field::rank> reach,
                    const Functor& functor) {
  reach          = reach_of_copies<FieldOf<Fields>...>(field, reach);
  unsigned sides = pending.fill_local();
  // else the sides of one field can't be mapped to those of the other
  if (pending.fills_later() || (sides != 0 && !(cut_alike_v<Field, FieldOf<Fields>> && ...)))
    sides = all_sides;
  auto core = inside(cells, field, reach, sides), rest = core;
  if constexpr (is_host_space_v<Space>) {
    // Unpack messages as soon as they arrive, while they are in a shared cache: a large interior
    // would evict them. After that there is no rim. MPI sends long messages while it is called.
    bool again = sides != 0 && pending.advance();
    for (int turn = 0; again && !pending.is_filled(); ++turn) {
      const int parts = pending.next_parts(turn);
      if (parts == 1) break;
      parallel_for(label, space, split_first(rest, parts), functor);
      again = pending.advance();
    }
    if (sides != 0 && pending.is_filled()) {
      keep_first(core, rest);
      rest.count = 0;
    }
  }
  parallel_for(label, space, rest, functor);
  pending.finish();
  parallel_for(label, space, without(cells, core), functor);
}

template <class... Fields, class Space, class Halos, class Field, class Functor>
void overlap(const std::string& label, const Space& space, const Halos& halos, const Field& field,
             const Functor& functor, const Widths<Field::rank>& reach) {
  require_int_indices("overlapped", field.geometry());
  halos.require_one_of("overlapped", field);
  auto pending = halos.start(space);
  run_overlapped<Fields...>(label, space, pending, field, owned_region(field), reach, functor);
}

}  // namespace impl

/// Overlaps an exchange with functor(i, j, ...) over a field's owned points: starts the exchange,
/// runs the points that read no halo from a message, finishes, runs the others. The functor may
/// read the halos of the exchange's fields as far as `reach` (default: the field's halo), and must
/// not write points that neighbours read. `halos` is an Exchange, with Custom boundaries
/// `halos.with(functors...)`, for swapped time levels `halos.of(fields...)`. Local. Throws
/// ArgumentError on every rank if some rank owns 2^31 points or more along a dimension, and if the
/// exchange has fields of this field's type, all in other memory: after a swap it would fill the
/// halo of the wrong time level.
template <class Space, FieldOrSet... Fields, AnyShardedView Field, class Functor, class... Halos>
void overlapped(const std::string& label, const Space& space, const Exchange<Fields...>& halos,
                const Field& field, const Functor& functor, Reach<Halos...> reach = {}) {
  impl::overlap<Fields...>(label, space, halos, field, functor, impl::widths_of<Field>(reach));
}

/// The same with the functors of Custom boundaries.
template <class Space, FieldOrSet... Fields, class... F, AnyShardedView Field, class Functor,
          class... Halos>
void overlapped(const std::string& label, const Space& space,
                const ExchangeWith<Exchange<Fields...>, F...>& halos, const Field& field,
                const Functor& functor, Reach<Halos...> reach = {}) {
  impl::overlap<Fields...>(label, space, halos, field, functor, impl::widths_of<Field>(reach));
}

}  // namespace shard

#endif
