# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# One build for every x86-64 processor: beside the library for the baseline a copy for x86-64-v3 (AVX2) and one for x86-64-v4
# (AVX-512). glibc's loader (2.33) looks into glibc-hwcaps/<level> in each folder where it looks for a library, and takes the
# highest level that the processor has. So only shared libraries have levels.
set(shard_levels x86-64-v3 x86-64-v4)

# shard_levels_possible(RESULT): whether the option is on by default.
function(shard_levels_possible result)
  set(options "${CMAKE_CXX_FLAGS} $ENV{CXXFLAGS}")
  foreach(part Kokkos::kokkos Kokkos::kokkoscore)
    if(TARGET ${part})
      get_target_property(of_part ${part} INTERFACE_COMPILE_OPTIONS)
      string(APPEND options " ${of_part}")
    endif()
  endforeach()
  set(${result} OFF PARENT_SCOPE)
  if(BUILD_SHARED_LIBS AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"
     AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND NOT Kokkos_ENABLE_CUDA AND NOT Kokkos_ENABLE_HIP AND NOT SHARD_COMPILE_ONLY
     AND NOT SHARD_SANITIZE AND NOT options MATCHES "-m(arch|avx)|-xHost")
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# shard_add_levels(TARGET): the copies of a shared library.
function(shard_add_levels target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(name ${target} OUTPUT_NAME)
  if(NOT name)
    set(name ${target})
  endif()
  foreach(level IN LISTS shard_levels)
    set(copy ${target}_${level})
    add_library(${copy} SHARED ${sources})
    shard_own_library(${copy})
    foreach(property INCLUDE_DIRECTORIES LINK_LIBRARIES COMPILE_DEFINITIONS)
      get_target_property(values ${target} ${property})
      if(values)
        set_target_properties(${copy} PROPERTIES ${property} "${values}")
      endif()
    endforeach()
    target_compile_options(${copy} PRIVATE -march=${level})
    set_target_properties(${copy} PROPERTIES
      OUTPUT_NAME ${name}
      LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:${target}>/glibc-hwcaps/${level}
      INSTALL_RPATH "$ORIGIN/../..;${CMAKE_INSTALL_RPATH}"
    )
    # programs don't link with a copy, so nothing else would build it before they run
    add_dependencies(${target} ${copy})
    if(SHARD_INSTALL)
      install(TARGETS ${copy} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level} NAMELINK_SKIP)
    endif()
  endforeach()
endfunction()
