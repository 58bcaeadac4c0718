// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_ENVIRONMENT_VARIABLE_HPP
#define SHARD_BASE_IMPL_ENVIRONMENT_VARIABLE_HPP

#include <optional>
#include <string>
#include <string_view>

namespace shard::impl {

/// The value of the library's environment variable `name` with this text: a number, or for a word
/// its position among the allowed words. None if the text is empty. Throws ArgumentError with the
/// text and the allowed values. Every `SHARD_` variable is read by this function.
std::optional<double> variable_from_text(std::string_view name, std::string_view text);

/// The same for the text in this process' environment; none if the variable isn't set.
std::optional<double> environment_value(const char* name);

/// The text of the variable; none if it isn't set.
std::optional<std::string> environment_text(const char* name);

/// Whether a variable of 0 or 1 is 1; false if it isn't set.
bool environment_flag(const char* name);

/// The error message for the first of the library's variables with an invalid text; empty if all
/// are valid. Making a mesh calls this, so that no variable is ignored silently.
std::string environment_complaint();

}  // namespace shard::impl

#endif
