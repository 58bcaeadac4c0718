# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

include(CheckCXXCompilerFlag)

# shard_own_target(TARGET): what holds for our own targets and for nobody who links with them.
function(shard_own_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE
      -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
      $<$<BOOL:${SHARD_WARNINGS_AS_ERRORS}>:-Werror>
    )
  endif()
  if(SHARD_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

# shard_arithmetic(TARGET): compilers vectorise loops that select between two values (GCC by default keeps the branch, since
# floating-point operations may trap), take whole registers (by default half of those of AVX-512, for processors of 2017 that
# lowered their clock), and fuse no products and sums, so that the source alone decides about rounding.
function(shard_arithmetic target)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND NOT Kokkos_ENABLE_CUDA AND NOT Kokkos_ENABLE_HIP)
    target_compile_options(${target} PRIVATE -fno-trapping-math -fno-math-errno -ffp-contract=off)
    check_cxx_compiler_flag(-mprefer-vector-width=512 SHARD_HAS_VECTOR_WIDTH)
    if(SHARD_HAS_VECTOR_WIDTH)
      target_compile_options(${target} PRIVATE -mprefer-vector-width=512)
    endif()
  endif()
endfunction()

# shard_own_library(TARGET): also what holds for the libraries that are installed.
function(shard_own_library target)
  shard_own_target(${target})
  shard_arithmetic(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    POSITION_INDEPENDENT_CODE ON
    VISIBILITY_INLINES_HIDDEN ON  # a program's copy of an inline function is of another processor level
    UNITY_BUILD ${SHARD_UNITY_BUILD}
    UNITY_BUILD_BATCH_SIZE 12
  )
endfunction()

# shard_precompile(TARGET [PRIVATE HEADER... | REUSE_FROM OTHER]): with SHARD_PRECOMPILE, the target gets a precompiled header
# of its own (PRIVATE) or that of OTHER, by default of shard_precompiled. Both must have the same compiler options.
function(shard_precompile target)
  if(NOT SHARD_PRECOMPILE)
    return()
  endif()
  if(NOT ARGN)
    set(ARGN REUSE_FROM shard_precompiled)
  endif()
  # without -fpch-preprocess ccache would compile all of them again
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${target} ${ARGN})
endfunction()
