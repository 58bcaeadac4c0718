// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_NCCL_RUNTIME_HPP
#define SHARD_SRC_COMM_NCCL_RUNTIME_HPP

/// @file Common names for NCCL with the CUDA runtime and RCCL with HIP's. NCCL and RCCL have the
/// same names, the runtimes don't.

#include "shard/config.hpp"

#if defined(SHARD_ENABLE_RCCL)
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#else
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif

namespace shard::impl::device {

#if defined(SHARD_ENABLE_RCCL)
constexpr const char* library = "RCCL";
using NativeStream            = hipStream_t;
using Status                  = hipError_t;
constexpr Status success      = hipSuccess;
inline const char* words(Status status) { return hipGetErrorString(status); }
inline Status current(int& device) { return hipGetDevice(&device); }
inline Status bus_of(int device, char* text, int size) {
  return hipDeviceGetPCIBusId(text, size, device);
}
#else
constexpr const char* library = "NCCL";
using NativeStream            = cudaStream_t;
using Status                  = cudaError_t;
constexpr Status success      = cudaSuccess;
inline const char* words(Status status) { return cudaGetErrorString(status); }
inline Status current(int& device) { return cudaGetDevice(&device); }
inline Status bus_of(int device, char* text, int size) {
  return cudaDeviceGetPCIBusId(text, size, device);
}
#endif

}  // namespace shard::impl::device

#endif
