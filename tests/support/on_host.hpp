// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_ON_HOST_HPP
#define SHARD_TESTS_SUPPORT_ON_HOST_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/base/impl/host_space.hpp"
#include "shard/view/copy.hpp"

namespace shard::testing {

/// A field's values where the host can read them: the field itself, or a copy of a device's.
template <class F>
auto on_host(const F& f) {
  const Kokkos::DefaultExecutionSpace space;
  const auto host = create_mirror_view(f);
  if constexpr (!std::is_same_v<std::remove_const_t<decltype(host)>, F>) deep_copy(space, host, f);
  space.fence("on the host now");
  return host;
}

/// Whether the default space computes on the host: only there are a layer's bits those of the
/// plain loops, for a device's compiler fuses products and sums, and has its own exp.
inline constexpr bool computes_on_host = impl::is_host_space_v<Kokkos::DefaultExecutionSpace>;

}  // namespace shard::testing

#endif
