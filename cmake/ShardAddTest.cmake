# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# How the MPI at hand is launched, and shard_add_test, which runs one program at several rank counts.

include_guard()

execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version
  OUTPUT_VARIABLE shard_mpiexec_version ERROR_VARIABLE shard_mpiexec_version)
set(SHARD_MPIEXEC_FLAGS)
set(SHARD_MPIEXEC_YIELD)  # environment that makes waiting ranks leave the core to others
if(shard_mpiexec_version MATCHES "Open MPI|OpenRTE|PRRTE")
  set(SHARD_MPIEXEC_FLAGS --allow-run-as-root --oversubscribe --bind-to none)
  set(SHARD_MPIEXEC_YIELD OMPI_MCA_mpi_yield_when_idle=1)
elseif(shard_mpiexec_version MATCHES "HYDRA")
  set(SHARD_MPIEXEC_YIELD MPIR_CVAR_POLLS_BEFORE_YIELD=1)
endif()
cmake_host_system_information(RESULT shard_cores QUERY NUMBER_OF_LOGICAL_CORES)

# shard_mpi_test(NAME name RANKS n COMMAND program [argument ...] [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT ...])
# One CTest entry: the program on n ranks.
function(shard_mpi_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  set(threads 1)
  if(arg_RANKS EQUAL 1 AND (Kokkos_ENABLE_OPENMP OR Kokkos_ENABLE_THREADS))
    set(threads 2)
  endif()
  math(EXPR processors "${arg_RANKS} * ${threads}")
  set(environment OMP_NUM_THREADS=${threads} KOKKOS_NUM_THREADS=${threads} OMP_PROC_BIND=false
                  ${arg_ENVIRONMENT})
  if(processors GREATER shard_cores)
    list(APPEND environment ${SHARD_MPIEXEC_YIELD})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME ${arg_NAME}
    COMMAND ${MPIEXEC_EXECUTABLE} ${SHARD_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS}
            ${MPIEXEC_PREFLAGS} ${arg_COMMAND} ${MPIEXEC_POSTFLAGS})
  set_tests_properties(${arg_NAME} PROPERTIES
    LABELS "${arg_RANKS};${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${processors}
    ENVIRONMENT "${environment}")
endfunction()

# shard_add_test(NAME name SOURCES a.cpp [b.cpp ...] [RANKS 1 2 ...] [SERIAL_ONLY] [NO_MAIN]
#                [LIBRARIES ...] [LABELS ...] [TIMEOUT seconds])
# One program of GoogleTests, and one CTest entry `name.rN` with label N for each rank count, which
# launches it once for all its cases. RANKS are 1 2 3 4 6 8 unless given; SERIAL_ONLY means RANKS 1.
# NO_MAIN: the sources have a main of their own, and start and end MPI and Kokkos themselves.
function(shard_add_test)
  cmake_parse_arguments(arg "SERIAL_ONLY;NO_MAIN" "NAME;TIMEOUT" "SOURCES;RANKS;LIBRARIES;LABELS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "shard_add_test: NAME and SOURCES are needed; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_SERIAL_ONLY)
    set(arg_RANKS 1)
  elseif(NOT arg_RANKS)
    set(arg_RANKS 1 2 3 4 6 8)
  endif()
  if(SHARD_COMPILE_ONLY)
    add_library(test_${arg_NAME} OBJECT ${arg_SOURCES})
  else()
    add_executable(test_${arg_NAME} ${arg_SOURCES})
  endif()
  shard_own_target(test_${arg_NAME})
  target_link_libraries(test_${arg_NAME} PRIVATE shard::shard GTest::gtest shard_test_support ${arg_LIBRARIES})
  if(NOT arg_NO_MAIN)
    target_link_libraries(test_${arg_NAME} PRIVATE shard_test_main)
  endif()
  if(SHARD_COMPILE_ONLY)
    return()
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    shard_mpi_test(NAME ${arg_NAME}.r${ranks} RANKS ${ranks} COMMAND $<TARGET_FILE:test_${arg_NAME}>
      LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
  endforeach()
endfunction()
