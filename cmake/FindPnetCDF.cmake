# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds PnetCDF: target PnetCDF::pnetcdf. PnetCDF_ROOT and PNETCDF_DIR are searched. Debian's pnetcdf.pc names folders
# that don't exist.
include(FindPackageHandleStandardArgs)

find_path(PnetCDF_INCLUDE_DIR pnetcdf.h HINTS ENV PNETCDF_DIR PATH_SUFFIXES include)
find_library(PnetCDF_LIBRARY pnetcdf HINTS ENV PNETCDF_DIR PATH_SUFFIXES lib lib64)
mark_as_advanced(PnetCDF_INCLUDE_DIR PnetCDF_LIBRARY)
find_package_handle_standard_args(PnetCDF REQUIRED_VARS PnetCDF_LIBRARY PnetCDF_INCLUDE_DIR)

if(PnetCDF_FOUND AND NOT TARGET PnetCDF::pnetcdf)
  add_library(PnetCDF::pnetcdf UNKNOWN IMPORTED)
  set_target_properties(PnetCDF::pnetcdf PROPERTIES
    IMPORTED_LOCATION "${PnetCDF_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${PnetCDF_INCLUDE_DIR}")
endif()
