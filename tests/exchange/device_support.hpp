// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_EXCHANGE_DEVICE_SUPPORT_HPP
#define SHARD_TESTS_EXCHANGE_DEVICE_SUPPORT_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <vector>

#include "shard/comm/impl/device_space.hpp"
#include "shard/exchange/impl/field_plan.hpp"

namespace shard::testing {

/// Memory that plays a device's where there is none: plans take it for a device's by its type, and
/// while a DeviceScope lives only kernels and deep copies find there what was written. For the host
/// it is filled with junk, and what the host writes is noticed and lost.
using PlayedSpace  = Kokkos::DefaultHostExecutionSpace;
using PlayedMemory = Kokkos::Device<PlayedSpace, Kokkos::HostSpace>;

/// Notices what Kokkos allocates from now on: what a plan reads and writes there is the device's,
/// but for what it stages in; and so is a view whose label begins with "device ".
void play_device();

/// What was seen since the scope began.
struct DeviceCounts {
  int host_writes = 0;                   ///< pieces of device memory that the host wrote
  int messages = 0, nccl_runs = 0;       ///< started
  std::vector<std::string> fence_names;  ///< but for those of the tools
};

/// Host code is kept from device memory. MPI too, unless it is said to take such memory: messages
/// are to be small then, for those that MPI sends in pieces are read when other code runs.
class DeviceScope {
 public:
  explicit DeviceScope(bool mpi_takes_it = false);
  ~DeviceScope();
  DeviceScope(const DeviceScope&)            = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  DeviceCounts counts() const;
};

/// What MPI's persistent requests were made with since the last call.
struct MadeRequests {
  int in_device_memory = 0, in_host_memory = 0;
  int strided = 0;  ///< of a datatype with gaps
};
MadeRequests made_requests();

/// Whether address is one of the device's.
bool in_device_memory(const void* address);

/// NCCL as plans see it: its messages go by MPI, but as kernels do.
struct PlayedNccl {
  bool built_in = false, usable = true;
  int made = 0, ended = 0;  ///< groups
};
PlayedNccl& played_nccl();

/// Whether launches are captured in a graph.
bool& capturing();

}  // namespace shard::testing

namespace shard::impl {

template <>
inline constexpr DeviceKind device_kind_of<shard::testing::PlayedMemory> = DeviceKind::cuda;

template <>
inline constexpr bool moves_lines_v<shard::testing::PlayedMemory, shard::testing::PlayedSpace> =
    false;

template <>
inline bool is_captured(const shard::testing::PlayedSpace&) {
  return shard::testing::capturing();
}

}  // namespace shard::impl

#endif
