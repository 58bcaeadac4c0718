# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What this MPI has to be asked by whether it takes device memory. Sets SHARD_HAVE_MPI_EXT (the header
# mpi-ext.h) and SHARD_HAVE_MPIX_<FUNCTION> for each query function, and shard_mpi_definitions, the list
# of those that are true. Compiled, never run: the machine that builds may have no device.
include_guard()
include(CheckCXXSourceCompiles)

function(shard_check_mpi_extensions)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
  set(CMAKE_REQUIRED_QUIET ON)
  set(begin "#include <mpi.h>\n#if __has_include(<mpi-ext.h>)\n#include <mpi-ext.h>\n#endif\n")
  check_cxx_source_compiles("#include <mpi.h>\n#include <mpi-ext.h>\nint main() {}" SHARD_HAVE_MPI_EXT)
  check_cxx_source_compiles("${begin}int main() { return MPIX_Query_cuda_support(); }"
    SHARD_HAVE_MPIX_QUERY_CUDA_SUPPORT)
  check_cxx_source_compiles("${begin}int main() { return MPIX_Query_rocm_support(); }"
    SHARD_HAVE_MPIX_QUERY_ROCM_SUPPORT)
  check_cxx_source_compiles(
    "${begin}int main() { int yes = 0; return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA + MPIX_GPU_SUPPORT_HIP, &yes); }"
    SHARD_HAVE_MPIX_GPU_QUERY_SUPPORT)
  set(definitions)
  foreach(name IN ITEMS SHARD_HAVE_MPI_EXT SHARD_HAVE_MPIX_QUERY_CUDA_SUPPORT
                        SHARD_HAVE_MPIX_QUERY_ROCM_SUPPORT SHARD_HAVE_MPIX_GPU_QUERY_SUPPORT)
    if(${name})
      list(APPEND definitions ${name})
    endif()
  endforeach()
  set(shard_mpi_definitions ${definitions} PARENT_SCOPE)
endfunction()

shard_check_mpi_extensions()
