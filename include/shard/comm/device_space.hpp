// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_DEVICE_SPACE_HPP
#define SHARD_COMM_DEVICE_SPACE_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/comm/device_messages.hpp"
#include "shard/comm/transport.hpp"

namespace shard::impl {

/// Whose device memory a Kokkos memory space is.
template <class MemorySpace>
inline constexpr DeviceKind device_kind_of = DeviceKind::other;

/// The stream in whose order an execution-space instance works; null for spaces that have none.
template <class Space>
Stream stream_of([[maybe_unused]] const Space& space) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<Space, Kokkos::Cuda>) return {space.cuda_stream()};
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<Space, Kokkos::HIP>) return {space.hip_stream()};
#endif
  return {};
}

#if defined(KOKKOS_ENABLE_CUDA)
template <>
inline constexpr DeviceKind device_kind_of<Kokkos::CudaSpace> = DeviceKind::cuda;
template <>
inline constexpr DeviceKind device_kind_of<Kokkos::CudaUVMSpace> = DeviceKind::cuda;
#endif
#if defined(KOKKOS_ENABLE_HIP)
template <>
inline constexpr DeviceKind device_kind_of<Kokkos::HIPSpace> = DeviceKind::rocm;
template <>
inline constexpr DeviceKind device_kind_of<Kokkos::HIPManagedSpace> = DeviceKind::rocm;
#endif

}  // namespace shard::impl

#endif
