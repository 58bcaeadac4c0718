// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_UNROLL_HPP
#define SHARD_SRC_LAYERS_UNROLL_HPP

/// Unrolls the next loop on a device, because its body indexes an array that must be in registers.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define SHARD_UNROLL _Pragma("unroll")
#else
#define SHARD_UNROLL
#endif

#endif
