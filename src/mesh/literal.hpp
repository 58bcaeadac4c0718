// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_MESH_LITERAL_HPP
#define SHARD_SRC_MESH_LITERAL_HPP

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shard::impl {

/// A value as Python or JSON write it: what meshes and specs look like as text.
struct Literal {
  enum class Kind { none, boolean, integer, real, string, list, dictionary };
  Kind kind                     = Kind::none;
  long long i                   = 0;   // an integer
  std::string s                 = {};  // a string; of the others, the words
  std::vector<Literal> items    = {};  // of a list, or the values of a dictionary
  std::vector<std::string> keys = {};
};

/// One value that fills all the words, or several with commas between, which are then a list. None
/// if that isn't what the words are.
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
