// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_INSTANCES_HPP
#define SHARD_TESTS_SUPPORT_INSTANCES_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace shard::testing {

/// An instance of an execution space that isn't the default one.
template <class Space>
Space another() {
  if constexpr (std::is_constructible_v<Space, int>)
    return Space(1);  // OpenMP's own partitions are all the default one
  else
    return Kokkos::Experimental::partition_space(Space(), 1)[0];
}

}  // namespace shard::testing

#endif
