# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# No Kokkos is installed: builds the pinned release along with shard. Backends are chosen as always,
# by Kokkos_ENABLE_CUDA and the like; FETCHCONTENT_SOURCE_DIR_KOKKOS names a source folder instead.
include(FetchContent)

message(STATUS "No Kokkos ${SHARD_KOKKOS_MINIMUM} or later was found: building ${SHARD_KOKKOS_URL}")
set(shard_kokkos_hash)
if(SHARD_KOKKOS_HASH)
  set(shard_kokkos_hash URL_HASH ${SHARD_KOKKOS_HASH})
endif()
FetchContent_Declare(Kokkos URL ${SHARD_KOKKOS_URL} ${shard_kokkos_hash} SYSTEM)
FetchContent_MakeAvailable(Kokkos)
