// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_NETCDF_ATTRIBUTES_HPP
#define SHARD_SRC_IO_NETCDF_ATTRIBUTES_HPP

#include <netcdf.h>

#include <cmath>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shard/io/netcdf.hpp"

/// \file
/// Failures of the NetCDF library, and the attributes of a variable's values.

namespace shard::impl::netcdf {

[[noreturn]] inline void fail(const std::string& path, const std::string& variable,
                              const std::string& what) {
  throw NetcdfError("shard: NetCDF file '" + path + "'" +
                    (variable.empty() ? "" : ", variable '" + variable + "'") + ": " + what);
}

inline void check(int code, const std::string& path, const std::string& variable,
                  const char* action) {
  if (code != NC_NOERR) {
    fail(path, variable, std::string("cannot ") + action + ": " + nc_strerror(code));
  }
}

/// The NetCDF library works for one thread at a time; ReadAhead reads in one of its own.
inline std::unique_lock<std::recursive_mutex> one_at_a_time() {
  static std::recursive_mutex library;
  return std::unique_lock(library);
}

inline bool is_floating(nc_type type) { return type == NC_FLOAT || type == NC_DOUBLE; }

/// A variable of an open file, with the attributes of its values.
struct VariableAt {
  int file, id;
  const std::string& path;
  const std::string& name;

  /// The values of an attribute, none if there is no such attribute. Throws unless they are
  /// numbers, `count` of them (0: one or more); NaN is an error where `nan` is false.
  [[nodiscard]] std::vector<double> numbers(const char* attribute, std::size_t count, bool nan,
                                            nc_type* stored = nullptr) const {
    nc_type type       = NC_NAT;
    std::size_t length = 0;
    const int code     = nc_inq_att(file, id, attribute, &type, &length);
    if (code == NC_ENOTATT) return {};
    check(code, path, name, "look an attribute up");
    const std::string what = "its attribute " + std::string(attribute);
    if (type < NC_BYTE || type > NC_UINT64 || type == NC_CHAR)
      fail(path, name, what + " is no number; correct it in the file (ncatted)");
    if (length == 0 || (count != 0 && length != count))
      fail(path, name,
           what + " has " + std::to_string(length) + " values, " +
               (count == 0 ? "one or more" : std::to_string(count)) + " are needed");
    std::vector<double> values(length);
    check(nc_get_att_double(file, id, attribute, values.data()), path, name, "read an attribute");
    for (const double value : values)
      if (std::isnan(value) && !nan) fail(path, name, what + " is NaN; correct it in the file");
    if (stored != nullptr) *stored = type;
    return values;
  }

  /// scale_factor or add_offset.
  [[nodiscard]] std::optional<double> packing(const char* attribute) const {
    const std::vector<double> values = numbers(attribute, 1, false);
    if (values.empty()) return std::nullopt;
    if (std::isinf(values[0]))
      fail(path, name,
           "its attribute " + std::string(attribute) +
               " is infinite; correct it in "
               "the file");
    return values[0];
  }
};

}  // namespace shard::impl::netcdf

#endif
