# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# How the MPI at hand is launched, and shard_add_test, which runs one program at several rank counts.

include_guard()

if(NOT SHARD_COMPILE_ONLY OR SHARD_DEVICE_TESTS)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version
    OUTPUT_VARIABLE shard_mpiexec_version ERROR_VARIABLE shard_mpiexec_version)
  set(flags)
  # UCX, which both MPIs load, else replaces functions of the C library in each process when it starts: as long as the
  # rest of a start.
  set(environment UCX_MEM_MMAP_HOOK_MODE=none)
  set(yield)  # what makes a rank that waits leave its core to the others
  if(shard_mpiexec_version MATCHES "Open MPI|OpenRTE|PRRTE")
    set(flags --allow-run-as-root --oversubscribe --bind-to none)
    # One node: opening the network libraries takes longer than most tests.
    list(APPEND environment OMPI_MCA_pml=ob1)
    if(shard_mpiexec_version MATCHES "[^0-9.][1-4]\\.[0-9]+\\.[0-9]+")
      list(APPEND environment OMPI_MCA_btl=self,vader)
    else()
      list(APPEND environment OMPI_MCA_btl=self,sm)
    endif()
    set(yield OMPI_MCA_mpi_yield_when_idle=1)
  elseif(shard_mpiexec_version MATCHES "HYDRA")
    set(yield MPIR_CVAR_POLLS_BEFORE_YIELD=1)
  endif()
  if(SHARD_SANITIZE)
    # OpenMPI rewrites the beginnings of mmap and its like, which the sanitizer has replaced.
    list(APPEND environment OMPI_MCA_memory=^patcher ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1)
  endif()
  set(SHARD_MPIEXEC_FLAGS "${flags}" CACHE STRING "What the tests give to mpiexec")
  set(SHARD_MPIEXEC_ENVIRONMENT "${environment}" CACHE STRING "Environment of the tests")
  set(SHARD_MPIEXEC_YIELD "${yield}" CACHE STRING "Environment where ranks exceed cores")
  cmake_host_system_information(RESULT shard_cores QUERY NUMBER_OF_LOGICAL_CORES)

  # `launch RANKS THREADS PROGRAM ...` in the build folder does by hand what the tests do.
  string(REPLACE ";" " " launch_flags "${SHARD_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG}")
  string(REPLACE ";" " " launch_environment "${SHARD_MPIEXEC_ENVIRONMENT}")
  string(REPLACE ";" " " launch_yield "${SHARD_MPIEXEC_YIELD}")
  if(launch_yield)
    string(PREPEND launch_yield "export ")
  else()
    set(launch_yield ":")
  endif()
  string(REPLACE ";" " " launch_preflags "${MPIEXEC_PREFLAGS}")
  configure_file(${CMAKE_CURRENT_LIST_DIR}/launch.in ${PROJECT_BINARY_DIR}/launch @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endif()

# shard_mpi_test(NAME name RANKS n COMMAND program [argument ...] [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT ...])
# One CTest entry: the program on n ranks.
function(shard_mpi_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  set(threads 1)
  if(arg_RANKS EQUAL 1 AND (Kokkos_ENABLE_OPENMP OR Kokkos_ENABLE_THREADS))
    set(threads 2)
  endif()
  math(EXPR processors "${arg_RANKS} * ${threads}")
  set(environment OMP_NUM_THREADS=${threads} OMP_PROC_BIND=false OMP_WAIT_POLICY=passive GTEST_COLOR=no
                  ${SHARD_MPIEXEC_ENVIRONMENT} ${arg_ENVIRONMENT})
  math(EXPR wanted "2 * ${processors}")  # ./test runs two entries for each core
  if(wanted GREATER shard_cores)
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

# shard_refusal_test(NAME name SAYS regex COMMAND program [argument ...] [LABELS ...])
# One CTest entry: the program, alone, ends with a status other than 0, without a crash, and says this.
function(shard_refusal_test)
  cmake_parse_arguments(arg "" "NAME;SAYS" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${arg_NAME}
    COMMAND ${CMAKE_COMMAND} "-DSAYS=${arg_SAYS}" -P ${PROJECT_SOURCE_DIR}/cmake/refused.cmake -- ${arg_COMMAND})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "1;${arg_LABELS}" TIMEOUT 60
    ENVIRONMENT "OMP_NUM_THREADS=1;OMP_PROC_BIND=false;${SHARD_MPIEXEC_ENVIRONMENT}")
endfunction()

# shard_add_test(NAME name SOURCES a.cpp [b.cpp ...] [RANKS 1 2 ...] [SERIAL_ONLY] [NO_MAIN] [ONCE] [OPTIMISED]
#                [LIBRARIES ...] [LABELS ...] [TIMEOUT seconds])
# One program of GoogleTests, and one CTest entry `name.rN` with label N for each rank count, which
# launches it once for all its cases. RANKS are 1 2 3 4 6 8 unless given; SERIAL_ONLY means RANKS 1.
# ONCE: not with SHARD_FEWER_TESTS: sources that take minutes to compile, and that run what others run too.
# OPTIMISED: without SHARD_TEST_FLAGS, for what takes longer to run at -O0 than it saves to compile.
# NO_MAIN: the sources have a main of their own, and start and end MPI and Kokkos themselves.
function(shard_add_test)
  cmake_parse_arguments(arg "SERIAL_ONLY;NO_MAIN;ONCE;OPTIMISED" "NAME;TIMEOUT" "SOURCES;RANKS;LIBRARIES;LABELS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "shard_add_test: NAME and SOURCES are needed; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_ONCE AND SHARD_FEWER_TESTS AND NOT SHARD_THOROUGH)
    return()
  endif()
  if(arg_SERIAL_ONLY)
    set(arg_RANKS 1)
  elseif(NOT arg_RANKS)
    set(arg_RANKS 1 2 3 4 6 8)
  endif()
  set(runs ON)
  if(SHARD_COMPILE_ONLY AND NOT arg_NAME IN_LIST SHARD_DEVICE_TESTS)
    set(runs OFF)
    add_library(test_${arg_NAME} OBJECT ${arg_SOURCES})
  else()
    add_executable(test_${arg_NAME} ${arg_SOURCES})
  endif()
  shard_own_target(test_${arg_NAME})
  target_link_libraries(test_${arg_NAME} PRIVATE shard::shard GTest::gtest shard_test_support ${arg_LIBRARIES})
  if(arg_OPTIMISED)
    shard_precompile(test_${arg_NAME})
  else()
    target_compile_options(test_${arg_NAME} PRIVATE ${SHARD_TEST_FLAGS})
    shard_precompile(test_${arg_NAME} REUSE_FROM shard_test_main)
  endif()
  if(NOT arg_NO_MAIN)
    target_link_libraries(test_${arg_NAME} PRIVATE shard_test_main)
  endif()
  if(NOT runs)
    return()
  endif()
  if(SHARD_COMPILE_ONLY)
    target_link_libraries(test_${arg_NAME} PRIVATE shard_fake_kokkos)
    add_dependencies(device_tests test_${arg_NAME})
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    shard_mpi_test(NAME ${arg_NAME}.r${ranks} RANKS ${ranks} COMMAND $<TARGET_FILE:test_${arg_NAME}>
      LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
  endforeach()
endfunction()
