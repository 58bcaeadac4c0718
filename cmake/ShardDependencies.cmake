# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds what is switched on, and nothing else. Sets shard_public_libraries and shard_private_libraries.

set(SHARD_KOKKOS_MINIMUM 4.5)

# An installed Kokkos comes first, always: its backends and options are the user's choice.
if(NOT TARGET Kokkos::kokkos)
  find_package(Kokkos ${SHARD_KOKKOS_MINIMUM} CONFIG QUIET)
endif()
if(NOT TARGET Kokkos::kokkos)
  set(SHARD_KOKKOS_URL "https://github.com/kokkos/kokkos/releases/download/5.2.2/kokkos-5.2.2.tar.gz"
    CACHE STRING "Release of Kokkos that is built if none is found"
  )
  set(SHARD_KOKKOS_HASH "SHA256=d6557aaef39302282a15f9c770433d1fcdf4e961dfd6d9ed726b9d0d0f546b9f"
    CACHE STRING "Its hash as ALGORITHM=value, or nothing"
  )
  include(ShardFetchKokkos)
endif()

if(NOT TARGET MPI::MPI_CXX)
  find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
endif()

set(shard_public_libraries)
set(shard_private_libraries)
if(SHARD_ENABLE_NCCL AND SHARD_ENABLE_RCCL)
  message(FATAL_ERROR "SHARD_ENABLE_NCCL is for CUDA and SHARD_ENABLE_RCCL for HIP: choose the one of your Kokkos")
endif()
if(SHARD_ENABLE_NCCL)
  find_package(CUDAToolkit REQUIRED)
  find_package(NCCL REQUIRED)
  list(APPEND shard_private_libraries NCCL::nccl CUDA::cudart)
endif()
if(SHARD_ENABLE_RCCL)
  find_package(hip REQUIRED)
  find_package(rccl REQUIRED)
  list(APPEND shard_private_libraries roc::rccl hip::host)
endif()
if(SHARD_ENABLE_KERNELS)
  find_package(KokkosKernels CONFIG REQUIRED)
  if(TARGET Kokkos::kokkoskernels)
    set(shard_kernels_target Kokkos::kokkoskernels)
  else()
    set(shard_kernels_target KokkosKernels::all_libs)  # as Trilinos calls it
  endif()
  list(APPEND shard_public_libraries ${shard_kernels_target})
endif()
# The rooms io and solve are libraries of their own and link with these themselves.
if(SHARD_ENABLE_NETCDF OR SHARD_ENABLE_PICTURES OR SHARD_ENABLE_FFTW)
  find_package(PkgConfig REQUIRED)
endif()
if(SHARD_ENABLE_FFTW)
  pkg_check_modules(fftw REQUIRED IMPORTED_TARGET fftw3)
endif()
if(SHARD_ENABLE_NETCDF)
  pkg_check_modules(netcdf REQUIRED IMPORTED_TARGET netcdf)
endif()
if(SHARD_ENABLE_PNETCDF)
  find_package(PnetCDF REQUIRED)
endif()
if(SHARD_ENABLE_PICTURES)
  pkg_check_modules(cairo REQUIRED IMPORTED_TARGET cairo-png)
endif()
