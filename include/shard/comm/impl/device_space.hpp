// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_DEVICE_SPACE_HPP
#define SHARD_COMM_IMPL_DEVICE_SPACE_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/base/impl/host_space.hpp"
#include "shard/comm/impl/device_messages.hpp"
#include "shard/comm/impl/transport.hpp"

namespace shard::impl {

/// The kind of device memory of a Kokkos memory space.
template <class MemorySpace>
inline constexpr DeviceKind device_kind_of = DeviceKind::other;

/// Whether a work item of a plan is some lines (on a host) or one value (on a device).
template <class MemorySpace, class Space>
inline constexpr bool moves_lines_v = is_host_space_v<Space>;

/// The stream of an execution-space instance; null for spaces without streams.
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
inline void check_device(cudaError_t status, const char* function) {
  if (status != cudaSuccess)
    throw Error(std::string("shard: ") + function + " failed: " + cudaGetErrorString(status));
}
#endif
#if defined(KOKKOS_ENABLE_HIP)
inline void check_device(hipError_t status, const char* function) {
  if (status != hipSuccess)
    throw Error(std::string("shard: ") + function + " failed: " + hipGetErrorString(status));
}
#endif

/// Whether the instance's stream is being captured in a graph.
template <class Space>
bool is_captured([[maybe_unused]] const Space& space) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<Space, Kokkos::Cuda>) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_device(cudaStreamIsCapturing(space.cuda_stream(), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<Space, Kokkos::HIP>) {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    check_device(hipStreamIsCapturing(space.hip_stream(), &status), "hipStreamIsCapturing");
    return status != hipStreamCaptureStatusNone;
  }
#endif
  return false;
}

/// Orders later work on `after` behind the work so far on `before`: by an event between streams, by
/// a fence for other spaces.
template <class Space>
void run_after(const Space& before, [[maybe_unused]] const Space& after) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<Space, Kokkos::Cuda>) {
    cudaEvent_t event = nullptr;
    check_device(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    check_device(cudaEventRecord(event, before.cuda_stream()), "cudaEventRecord");
    check_device(cudaStreamWaitEvent(after.cuda_stream(), event, 0), "cudaStreamWaitEvent");
    check_device(cudaEventDestroy(event), "cudaEventDestroy");
    return;
  }
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<Space, Kokkos::HIP>) {
    hipEvent_t event = nullptr;
    check_device(hipEventCreateWithFlags(&event, hipEventDisableTiming), "hipEventCreate");
    check_device(hipEventRecord(event, before.hip_stream()), "hipEventRecord");
    check_device(hipStreamWaitEvent(after.hip_stream(), event, 0), "hipStreamWaitEvent");
    check_device(hipEventDestroy(event), "hipEventDestroy");
    return;
  }
#endif
  before.fence("shard: buffers change hands");
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
