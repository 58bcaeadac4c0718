// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_ATTRIBUTE_TYPES_HPP
#define SHARD_SRC_IO_ATTRIBUTE_TYPES_HPP

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "shard/io/netcdf.hpp"

namespace shard::impl {

/// The value of an attribute that is a number.
inline std::optional<double> number_of(const NetcdfAttribute& attribute) {
  return std::visit(
      []<class V>(const V& value) -> std::optional<double> {
        if constexpr (std::is_arithmetic_v<V>)
          return static_cast<double>(value);
        else
          return std::nullopt;
      },
      attribute.value);
}

/// Whether a number of this name is compared with the variable's values (CF 2.5, 2.5.1).
inline bool has_variables_type(const std::string& name) {
  return name == "_FillValue" || name == "missing_value" || name == "valid_min" ||
         name == "valid_max";
}

}  // namespace shard::impl

#endif
