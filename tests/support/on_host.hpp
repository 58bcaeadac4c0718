// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_ON_HOST_HPP
#define SHARD_TESTS_SUPPORT_ON_HOST_HPP

#include <Kokkos_Core.hpp>

#include "shard/view/copy.hpp"

namespace shard::testing {

/// A field's values where the host can read them: a copy, or the field itself.
template <class Field>
auto on_host(const Field& f) {
  const Kokkos::DefaultExecutionSpace space;
  const auto host = create_mirror_view(f);
  deep_copy(space, host, f);
  space.fence("on the host now");
  return host;
}

}  // namespace shard::testing

#endif
