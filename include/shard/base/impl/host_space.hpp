// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_HOST_SPACE_HPP
#define SHARD_BASE_IMPL_HOST_SPACE_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace shard::impl {

/// Whether an execution space's kernels run on the host's cores. By what the space is and not by
/// what memory the host can reach: where a processor and a GPU share theirs that is all of it, and
/// the kernels are a GPU's none the less.
template <class Space>
inline constexpr bool is_host_space_v =
    std::is_same_v<typename Space::memory_space, Kokkos::HostSpace>;

/// Memory of the host for copies of what is in `Memory`: pinned where that is a device's, which
/// copies several times as fast as pageable memory and which kernels reach.
template <class Memory>
using StagingMemory = std::conditional_t<std::is_same_v<Memory, Kokkos::HostSpace>,
                                         Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;

}  // namespace shard::impl

#endif
