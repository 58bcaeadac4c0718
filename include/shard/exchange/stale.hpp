// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_STALE_HPP
#define SHARD_EXCHANGE_STALE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/overlapped.hpp"

namespace shard {

namespace impl {

/// A box of local indices, whatever the rank.
struct FlatBox {
  std::array<index_t, max_rank> begin{}, end{};
};

/// Fills the field's halo but for the points in `kept` with marked values. `Space` is an enabled
/// execution space that reaches the field.
template <class Space>
void mark_stale(const Space& space, const FieldArgs& field, void* origin, const FlatBox& kept);

/// Sets the halo of a field to zero: of a gradient, where copies of owned points would be added to
/// them. The same `Space`.
template <class Space>
void zero_halo(const Space& space, const FieldArgs& field, void* origin);
template <class Space, class Field>
void zero_halo(const Space& space, const Field& field) {
  zero_halo(space, field_args(field), field.origin());
}

/// The error message for the first owned point, in the order of global indices, whose value comes
/// from a marked one; empty if there is none. Fences `space`.
template <class Space>
std::string stale_cell(const Space& space, const std::vector<FieldSpec>& fields,
                       const FieldAddresses& addresses, int rank);

/// The owned points.
FlatBox owned_box(const Geometry& geometry);

}  // namespace impl

/// Declares that a field's owned points were written, so its halo is stale. Does nothing without
/// `SHARD_CHECK=1`. With it, the halo is filled with signalling NaNs that the library recognises,
/// also in results of arithmetic (integers: a pattern; booleans and structs: nothing). If one is in
/// the owned points of a field at its next exchange, `finish` throws StaleHaloError. Call it after
/// the kernel that writes and before the next exchange (parallel_for and overlapped do so for the
/// fields of `writes`), but not for a gradient whose halo waits for exchange_adjoint. The library's
/// own functions call it. On NVIDIA GPUs arithmetic loses the mark, so only copies are found.
/// Local, ordered on `space`.
template <class Space, AnyShardedView Field>
void mark_written(const Space& space, const Field& field) {
  static_assert(!std::is_const_v<typename Field::value_type>,
                "mark_written writes halos: it needs a field of a value type that isn't const");
  static_assert(Kokkos::SpaceAccessibility<Space, typename Field::memory_space>::accessible,
                "the execution space can't reach the field's memory");
  if (impl::environment_flag("SHARD_CHECK") && impl::FieldAccess::is_made(field))
    impl::mark_stale(space, impl::field_args(field), field.origin(),
                     impl::owned_box(field.geometry()));
}

/// The same for all fields of a set.
template <class Space, FieldSet Fields>
void mark_written(const Space& space, const Fields& fields) {
  impl::each_field([&](const auto& field) { mark_written(space, field); }, fields);
}

/// The fields that a kernel writes: see `writes`.
template <FieldOrSet... Fields>
struct Writes {
  std::tuple<const Fields&...> fields;  ///< by reference, for one call only
};
/// `parallel_for("step", space, owned_region(next), Step{t, next}, writes(next))`: the last
/// argument of a launch, for the fields whose owned points it writes.
template <FieldOrSet... Fields>
Writes<Fields...> writes(const Fields&... fields) {
  return {{fields...}};
}

/// parallel_for over a region, then mark_written of the fields that the functor writes. If several
/// kernels write a field together, name it at the last of them. Asynchronous.
template <class Space, int Rank, int InnerDim, class Functor, FieldOrSet... Fields>
void parallel_for(const std::string& label, const Space& space,
                  const Region<Rank, InnerDim>& region, const Functor& functor,
                  const Writes<Fields...>& written) {
  parallel_for(label, space, region, functor);
  std::apply([&](const Fields&... f) { (mark_written(space, f), ...); }, written.fields);
}
/// `overlapped`, then mark_written of the fields that the functor writes.
template <class Space, FieldOrSet... Exchanged, AnyShardedView Field, class Functor, class... Halos,
          FieldOrSet... Fields>
void overlapped(const std::string& label, const Space& space, const Exchange<Exchanged...>& halos,
                const Field& field, const Functor& functor, Reach<Halos...> reach,
                const Writes<Fields...>& written) {
  overlapped(label, space, halos, field, functor, reach);
  std::apply([&](const Fields&... f) { (mark_written(space, f), ...); }, written.fields);
}
/// The same with the field's own halo as reach.
template <class Space, FieldOrSet... Exchanged, AnyShardedView Field, class Functor,
          FieldOrSet... Fields>
void overlapped(const std::string& label, const Space& space, const Exchange<Exchanged...>& halos,
                const Field& field, const Functor& functor, const Writes<Fields...>& written) {
  overlapped(label, space, halos, field, functor, Reach<>{}, written);
}

}  // namespace shard

#endif
