// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_LAUNCH_HPP
#define SHARD_BASE_IMPL_LAUNCH_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

#include "shard/base/impl/host_space.hpp"
#include "shard/base/types.hpp"

namespace shard::impl {

/// Whether `const Functor` can be called with `Arguments...` and one int for each of `Rank`
/// dimensions.
template <int Rank, class Functor, class... Arguments>
inline constexpr bool takes_indices_v = []<int... D>(std::integer_sequence<int, D...>) {
  return std::is_invocable_v<const Functor&, Arguments..., decltype(D)...>;
}
(std::make_integer_sequence<int, Rank>{});

/// Limit of a functor's size in bytes: CUDA has 4 KiB of kernel arguments, and Kokkos adds its
/// policy to the functor.
inline constexpr std::size_t max_functor_bytes = 3840;

/// The policy with which a device's kernel has the functor as an argument, for any size. Without
/// the hint Kokkos passes functors of 512 bytes and more through one constant buffer per device.
/// Then the host waits for the previous kernel, and a captured graph replays whichever functor is
/// in the buffer.
template <class Functor, class Policy>
auto with_functor_as_argument(const Policy& policy) {
  static_assert(sizeof(Functor) <= max_functor_bytes,
                "this functor is too large for the arguments of a device's kernel");
  if constexpr (is_host_space_v<typename Policy::execution_space>)
    return policy;
  else
    return Kokkos::Experimental::require(policy,
                                         Kokkos::Experimental::WorkItemProperty::HintLightWeight);
}

/// The policy of the work items from `first` to `items`.
template <class Functor, class Space>
auto range_policy(const Space& space, index_t items, index_t first = 0) {
  // Kokkos checks the value of a zero of another type, with strings, at each launch
  const Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>> policy(space, first, items);
  return with_functor_as_argument<Functor>(policy);
}

/// Runs functor(i) for i in [first, items). Without items it launches nothing.
template <class Label, class Space, class Functor>
void launch(const Label& label, const Space& space, index_t items, const Functor& functor,
            index_t first = 0) {
  if (items > first)
    Kokkos::parallel_for(label, range_policy<Functor>(space, items, first), functor);
}

/// The policy of `teams` teams of `threads` threads with `scratch` bytes of scratch memory each.
/// Properties: LaunchBounds, for instance.
template <class Functor, class... Properties, class Space>
auto team_policy(const Space& space, index_t teams, int threads, std::size_t scratch) {
  Kokkos::TeamPolicy<Space, Kokkos::IndexType<index_t>, Properties...> policy(
      space, static_cast<int>(teams), threads);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch)));
  return with_functor_as_argument<Functor>(policy);
}

/// Runs functor(team) for each team. Without teams it launches nothing.
template <class Label, class Space, class Functor>
void launch_teams(const Label& label, const Space& space, index_t teams, int threads,
                  std::size_t scratch, const Functor& functor) {
  if (teams > 0)
    Kokkos::parallel_for(label, team_policy<Functor>(space, teams, threads, scratch), functor);
}

}  // namespace shard::impl

#endif
