// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_STALE_HPP
#define SHARD_EXCHANGE_STALE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/exchange/exchange.hpp"

namespace shard {

namespace impl {

/// A box of local indices, whatever the rank.
struct FlatBox {
  std::array<index_t, max_rank> begin{}, end{};
};

/// Fills the field's halo but for the cells in `kept` with marked values. `Space` is an enabled
/// execution space that reaches the field.
template <class Space>
void mark_stale(const Space& space, const FieldArgs& field, void* origin, const FlatBox& kept);

/// What to say of the first owned cell, in the order of global indices, whose value comes from a
/// marked one; empty if there is none. Waits for `space`.
template <class Space>
std::string stale_cell(const Space& space, const std::vector<FieldSpec>& fields,
                       const FieldAddresses& addresses, int rank);

/// The owned cells.
FlatBox owned_box(const Geometry& geometry);

}  // namespace impl

/// Says that a field's owned cells were written and its halo is out of date. Does nothing but under
/// `SHARD_CHECK=1`: then the halo is filled with signalling NaNs that the library knows again
/// (integers: with a pattern; booleans and structs are left), also as the result of arithmetic, and
/// the next exchange of a field in whose owned cells one of them turns up throws StaleHaloError
/// from its `finish`. To be called after the kernel that writes and before the field is exchanged;
/// never for a gradient whose halo waits for exchange_adjoint. The layers' `apply` calls it for
/// what it computes, and steps_per_exchange for what is stepped.
/// GPUs that return one NaN for all (NVIDIA's) keep copies of the marks alone, not results. Local,
/// in the order of `space`.
template <class Space, AnyShardedView Field>
void mark_written(const Space& space, const Field& field) {
  static_assert(!std::is_const_v<typename Field::value_type>,
                "mark_written writes halos: it needs a field of a value type that isn't const");
  static_assert(Kokkos::SpaceAccessibility<Space, typename Field::memory_space>::accessible,
                "the execution space can't reach the field's memory");
  if (impl::environment_flag("SHARD_CHECK"))
    impl::mark_stale(space, impl::field_args(field), field.origin(),
                     impl::owned_box(field.geometry()));
}

}  // namespace shard

#endif
