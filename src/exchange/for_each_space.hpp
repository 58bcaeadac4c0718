// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_FOR_EACH_SPACE_HPP
#define SHARD_SRC_EXCHANGE_FOR_EACH_SPACE_HPP

#include <Kokkos_Core.hpp>

/// \file
/// SHARD_FOR_EACH_MEMORY(M) calls the macro M(Memory) for each memory that plans are compiled for,
/// SHARD_FOR_EACH_SPACE(M) calls M(Memory, Space) for each execution space that runs them.

#if defined(KOKKOS_ENABLE_SERIAL)
#define SHARD_IF_SERIAL(M) M(Kokkos::HostSpace, Kokkos::Serial)
#else
#define SHARD_IF_SERIAL(M)
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
#define SHARD_IF_OPENMP(M) M(Kokkos::HostSpace, Kokkos::OpenMP)
#else
#define SHARD_IF_OPENMP(M)
#endif
#if defined(KOKKOS_ENABLE_THREADS)
#define SHARD_IF_THREADS(M) M(Kokkos::HostSpace, Kokkos::Threads)
#else
#define SHARD_IF_THREADS(M)
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#define SHARD_IF_DEVICE_MEMORY(M) M(Kokkos::DefaultExecutionSpace::memory_space)
#define SHARD_IF_DEVICE(M) \
  M(Kokkos::DefaultExecutionSpace::memory_space, Kokkos::DefaultExecutionSpace)
#else
#define SHARD_IF_DEVICE_MEMORY(M)
#define SHARD_IF_DEVICE(M)
#endif

#define SHARD_FOR_EACH_MEMORY(M) M(Kokkos::HostSpace) SHARD_IF_DEVICE_MEMORY(M)
#define SHARD_FOR_EACH_SPACE(M) \
  SHARD_IF_SERIAL(M) SHARD_IF_OPENMP(M) SHARD_IF_THREADS(M) SHARD_IF_DEVICE(M)

#endif
