// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/environment_variable.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

/// The allowed values of a variable: a number from `least` to `most`, or one of the words.
struct Variable {
  std::string_view name;
  const char* allowed;
  double least = 0, most = 1;
  bool whole = true;
  std::vector<std::string_view> words{};
};

constexpr double largest_int = 2147483647;

const std::array<Variable, 10>& variables() {
  static const std::array<Variable, 10> all = {{
      {"SHARD_CHECK", "0 or 1"},
      {"SHARD_GPU_AWARE", "1 if MPI takes device memory, to 0 if it doesn't"},
      {"SHARD_KEPT_PLANS", "a number of plans from 1 to 1000000", 1, 1e6},
      {"SHARD_LOG", "0 or 1"},
      {"SHARD_MESSAGE_LIMIT", "a number of bytes from 1 to 2147483647", 1, largest_int},
      {"SHARD_NCCL_SHARE_GPU", "0 or 1"},
      {"SHARD_PROGRESS_THREAD", "0 or 1"},
      {"SHARD_RANKS_PER_NODE",
       "a number of ranks from 1 to 2147483647, to 0 for those that MPI finds", 0, largest_int},
      {"SHARD_TRANSPORT", "automatic, mpi or nccl", 0, 0, true, {"automatic", "mpi", "nccl"}},
      {"SHARD_WATCHDOG_SECONDS", "a number of seconds from 0.001 to 1000000, to 0 for no watchdog",
       0, 1e6, false},
  }};
  return all;
}

std::optional<double> parsed(const Variable& variable, std::string_view text) {
  if (!variable.words.empty()) {
    const auto found = std::find(variable.words.begin(), variable.words.end(), text);
    if (found == variable.words.end()) return {};
    return static_cast<double>(std::distance(variable.words.begin(), found));
  }
  double value          = 0;
  const char* const end = text.data() + text.size();
  const auto read       = std::from_chars(text.data(), end, value);
  const bool is_number  = read.ec == std::errc() && read.ptr == end;
  // a NaN fails the first of these comparisons
  if (!is_number || !(value >= variable.least && value <= variable.most)) return {};
  if (variable.whole ? value != std::floor(value) : value > 0 && value < 0.001) return {};
  return value;
}

}  // namespace

std::optional<double> variable_from_text(std::string_view name, std::string_view text) {
  const auto& all = variables();
  const auto variable =
      std::find_if(all.begin(), all.end(), [&](const Variable& v) { return v.name == name; });
  if (variable == all.end())
    throw Error("shard: " + std::string(name) + " isn't an environment variable of the library");
  if (text.empty()) return {};
  const std::optional<double> value = parsed(*variable, text);
  if (!value)
    throw ArgumentError("shard: the environment variable " + std::string(name) + " is \"" +
                        std::string(text) + "\"; set it to " + variable->allowed +
                        ", or leave it unset");
  return value;
}

std::optional<std::string> environment_text(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

std::optional<double> environment_value(const char* name) {
  return variable_from_text(name, environment_text(name).value_or(std::string()));
}

bool environment_flag(const char* name) { return environment_value(name).value_or(0) != 0; }

std::string environment_complaint() {
  for (const Variable& variable : variables()) try {
      environment_value(variable.name.data());
    } catch (const ArgumentError& error) {
      return error.what();
    }
  return {};
}

}  // namespace shard::impl
