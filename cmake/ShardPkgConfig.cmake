# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Files for pkg-config, for models that are built by make.

# the modules of pkg-config behind the targets of ShardDependencies
set(shard_module_of_netcdf netcdf)
set(shard_module_of_fftw fftw3)
set(shard_module_of_cairo cairo-png)

# shard_flags(VARIABLE ITEM...): those that C++ has among generator expressions, as words
function(shard_flags variable)
  string(REPLACE ";" " " words "${ARGN}")
  string(REGEX REPLACE "\\$<\\$<(COMPILE|LINK)_LANGUAGE:CXX>:([^<>]*)>" "\\2" words "${words}")
  while(words MATCHES "\\$<[^<>]*>")  # the innermost ones first
    string(REGEX REPLACE "\\$<[^<>]*>" "" words "${words}")
  endwhile()
  string(REPLACE "SHELL:" "" words "${words}")
  separate_arguments(words UNIX_COMMAND "${words}")
  set(${variable} ${words} PARENT_SCOPE)
endfunction()

# shard_pkg_config(NAME TARGET LANGUAGE INCLUDE DESCRIPTION): installs NAME.pc for those who link with TARGET by a compiler
# of this language; INCLUDE is a folder of the installation. Libs has all that CMake would link with: for a static library
# also the libraries behind it, since --static would pull in NetCDF's and Cairo's private ones, too.
function(shard_pkg_config name target language include description)
  set(stack ${target})
  set(seen)
  set(libs)
  set(flags)
  set(options)
  set(requires)
  while(stack)  # depth first; what is done goes to the front, so that an archive comes before what it needs
    list(POP_FRONT stack link)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
    if(link MATCHES "^done (.*)$")
      list(PREPEND libs ${CMAKE_MATCH_1})
    elseif(link IN_LIST seen)
    elseif(link MATCHES "^PkgConfig::(.*)$")
      list(APPEND requires ${shard_module_of_${CMAKE_MATCH_1}})
    elseif(TARGET ${link})
      foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS LINK_OPTIONS LINK_LIBRARIES)
        get_target_property(${property} ${link} INTERFACE_${property})
        if(NOT ${property})
          set(${property})
        endif()
      endforeach()
      if(language STREQUAL CXX)
        shard_flags(words ${INCLUDE_DIRECTORIES})
        list(TRANSFORM words PREPEND -I)
        list(APPEND flags ${words})
        shard_flags(words ${COMPILE_DEFINITIONS})
        list(TRANSFORM words PREPEND -D)
        list(APPEND flags ${words})
        shard_flags(words ${COMPILE_OPTIONS})
        list(APPEND flags ${words})
        shard_flags(words ${LINK_OPTIONS})
        list(APPEND options ${words})
      endif()
      get_target_property(type ${link} TYPE)
      get_target_property(imported ${link} IMPORTED)
      if(type STREQUAL INTERFACE_LIBRARY)
      elseif(imported)
        list(PREPEND stack "done $<TARGET_LINKER_FILE:${link}>")
      else()
        list(PREPEND stack "done -l$<TARGET_FILE_BASE_NAME:${link}>")
      endif()
      list(REVERSE LINK_LIBRARIES)
      list(PREPEND stack ${LINK_LIBRARIES})
    elseif(link MATCHES "^[-/]")
      list(PREPEND libs ${link})
    elseif(NOT link MATCHES "^\\$<|^$")
      list(PREPEND libs -l${link})
    endif()
    list(APPEND seen ${link})
  endwhile()
  list(APPEND libs ${options})
  list(REMOVE_DUPLICATES flags)
  list(REMOVE_DUPLICATES requires)
  if(NOT language STREQUAL CXX)
    set(runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
    list(FILTER runtime EXCLUDE REGEX "^(gcc|gcc_s|c|atomic_asneeded)$")
    list(REMOVE_DUPLICATES runtime)
    list(TRANSFORM runtime PREPEND -l)
    list(APPEND libs ${runtime})
  endif()
  list(JOIN libs " " libs)
  list(JOIN flags " " flags)
  list(JOIN requires " " requires)

  set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  set(prefix ${CMAKE_INSTALL_PREFIX})
  if(NOT IS_ABSOLUTE ${folder})
    file(RELATIVE_PATH up /${folder} /)
    string(REGEX REPLACE "/$" "" up ${up})
    set(prefix "\${pcfiledir}/${up}")
  endif()
  set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/${include})
  set(lib_folder ${CMAKE_INSTALL_LIBDIR})
  foreach(path include_folder lib_folder)
    string(REGEX REPLACE "/$" "" ${path} ${${path}})
    if(NOT IS_ABSOLUTE ${${path}})
      string(PREPEND ${path} "\${prefix}/")
    endif()
  endforeach()
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/pkgconfig/$<CONFIG>/${name}.pc CONTENT
"prefix=${prefix}
includedir=${include_folder}
libdir=${lib_folder}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${includedir} ${flags}
Libs: -L\${libdir} ${libs}
")
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/$<CONFIG>/${name}.pc DESTINATION ${folder})
endfunction()

shard_pkg_config(shard shard CXX "" "${PROJECT_DESCRIPTION}")
shard_pkg_config(shard-io shard_io CXX "" "NetCDF and maps of shard's fields")
shard_pkg_config(shard-solve shard_solve CXX "" "Solvers for shard's fields")
shard_pkg_config(shard-c shard_c C "" "The C interface of shard")
if(SHARD_ENABLE_FORTRAN)
  get_target_property(modules shard_fortran Fortran_MODULE_DIRECTORY)
  file(RELATIVE_PATH modules ${PROJECT_BINARY_DIR} ${modules})
  shard_pkg_config(shard-fortran shard_fortran Fortran shard/${modules} "The Fortran module of shard")
endif()
