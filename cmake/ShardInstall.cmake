# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include(CMakePackageConfigHelpers)

set(shard_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/shard)
install(TARGETS shard EXPORT shard-targets)
install(DIRECTORY include/shard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/include/shard/config.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shard)
install(EXPORT shard-targets NAMESPACE shard:: DESTINATION ${shard_cmake_dir})

configure_package_config_file(cmake/shard-config.cmake.in shard-config.cmake
  INSTALL_DESTINATION ${shard_cmake_dir})
write_basic_package_version_file(shard-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/shard-config.cmake
  ${PROJECT_BINARY_DIR}/shard-config-version.cmake
  cmake/FindcuDNN.cmake
  cmake/FindNCCL.cmake
  cmake/FindPnetCDF.cmake
  DESTINATION ${shard_cmake_dir})

include(ShardPkgConfig)

configure_file(packaging/modulefiles/shard.lua.in modulefiles/${PROJECT_VERSION}.lua @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefiles/${PROJECT_VERSION}.lua DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/shard)
