// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_ENVIRONMENT_VARIABLE_HPP
#define SHARD_BASE_IMPL_ENVIRONMENT_VARIABLE_HPP

#include <optional>
#include <string>
#include <string_view>

namespace shard::impl {

/// The value that `text` gives to the environment variable `name`, one of the library's: a number,
/// or for a word its position among those that are allowed. Nothing if the text is empty. Throws
/// ArgumentError with the text and what is allowed. Every `SHARD_` variable of the library is read
/// by this function.
std::optional<double> variable_from_text(std::string_view name, std::string_view text);

/// The same for the text in this process' environment; nothing where the variable isn't set.
std::optional<double> environment_value(const char* name);

/// That text as it is.
std::optional<std::string> environment_text(const char* name);

/// Whether a variable that is 0 or 1 is 1; false where it isn't set.
bool environment_flag(const char* name);

/// What is wrong with the first of the library's variables whose text isn't allowed; empty if all
/// are right. Making a mesh asks this, so that no variable is ignored silently.
std::string environment_complaint();

}  // namespace shard::impl

#endif
