// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_MESH_LITERAL_HPP
#define SHARD_SRC_MESH_LITERAL_HPP

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shard::impl {

/// A value in the syntax of Python or JSON, for meshes and specs as text.
struct Literal {
  enum class Kind { none, boolean, integer, real, string, list, dictionary };
  Kind kind                     = Kind::none;
  long long i                   = 0;   // an integer
  std::string s                 = {};  // a string; for other kinds the text
  std::vector<Literal> items    = {};  // of a list; the values of a dictionary
  std::vector<std::string> keys = {};
};

/// Parses one value, or several separated by commas, as a list. None if the text is invalid.
std::optional<Literal> parse_literal(std::string_view words);

/// The list's integers; none if something else is among them or one exceeds an int.
std::optional<std::vector<int>> integers(const Literal& list);
/// The list's strings; none if something else is among them.
std::optional<std::vector<std::string>> strings(const Literal& list);

/// "'name'", with a backslash before quotes and backslashes within.
std::string quoted(std::string_view name);

/// "(4, 2)", "(8,)", "()": integers in round brackets, as Python writes a tuple.
std::string tuple_text(const std::vector<int>& values);
/// "[4, 2]"
std::string list_text(const std::vector<int>& values);

}  // namespace shard::impl

#endif
