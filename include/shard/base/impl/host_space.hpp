// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_HOST_SPACE_HPP
#define SHARD_BASE_IMPL_HOST_SPACE_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace shard::impl {

/// Whether an execution space's kernels run on the host's cores. This tests the space, not the
/// memory: on machines with unified memory the host can access all memory, and kernels still run on
/// the GPU.
template <class Space>
inline constexpr bool is_host_space_v =
    std::is_same_v<typename Space::memory_space, Kokkos::HostSpace>;

/// Host memory for copies of data in `Memory`. It is pinned if `Memory` is a device's: pinned
/// memory copies several times as fast, and kernels can access it.
template <class Memory>
using StagingMemory = std::conditional_t<std::is_same_v<Memory, Kokkos::HostSpace>,
                                         Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;

}  // namespace shard::impl

#endif
