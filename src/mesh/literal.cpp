// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "literal.hpp"

#include <charconv>
#include <limits>

namespace shard::impl {

namespace {

constexpr int deepest = 16;  // limit of nested brackets, to bound the stack

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '+' || c == '.';
}

class Parser {
 public:
  explicit Parser(std::string_view words) : rest_(words) {}

  /// Parses comma-separated values up to and including `closing` (0: the end of the text). A
  /// trailing comma is allowed.
  bool list(char closing, Literal& into, bool& comma_last) {
    into.kind  = Literal::Kind::list;
    comma_last = false;
    for (;;) {
      skip();
      if (take_closing(closing)) return true;
      if (!into.items.empty() && !comma_last) return false;
      comma_last = false;
      into.items.emplace_back();
      if (!value(into.items.back())) return false;
      skip();
      comma_last = take(',');
    }
  }

 private:
  bool value(Literal& into) {
    if (rest_.empty() || depth_ == deepest) return false;
    const char c = rest_.front();
    if (c == '(' || c == '[') {
      take(c);
      ++depth_;
      bool comma    = false;
      const bool ok = list(c == '(' ? ')' : ']', into, comma);
      --depth_;
      return ok;
    }
    if (c == '{') return dictionary(into);
    if (c == '\'' || c == '"') return string(into);
    return word(into);
  }

  bool dictionary(Literal& into) {
    take('{');
    ++depth_;
    into.kind = Literal::Kind::dictionary;
    for (;;) {
      skip();
      if (take('}')) break;
      Literal key;
      if (!into.keys.empty() && !(take(','))) return false;
      skip();
      if (take('}')) break;
      if (!value(key) || key.kind != Literal::Kind::string) return false;
      skip();
      if (!take(':')) return false;
      skip();
      into.keys.push_back(key.s);
      into.items.emplace_back();
      if (!value(into.items.back())) return false;
    }
    --depth_;
    return true;
  }

  bool string(Literal& into) {
    const char quote = rest_.front();
    into.kind        = Literal::Kind::string;
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return true;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) return false;
      into.s += rest_[i];
    }
    return false;
  }

  bool word(Literal& into) {
    std::size_t length = 0;
    while (length < rest_.size() && is_word(rest_[length])) ++length;
    if (length == 0) return false;
    into.s = std::string(rest_.substr(0, length));
    rest_.remove_prefix(length);
    const std::string& s = into.s;
    if (s == "None" || s == "none" || s == "null") {
      into.kind = Literal::Kind::none;
    } else if (s == "True" || s == "False" || s == "true" || s == "false") {
      into.kind = Literal::Kind::boolean;
    } else if (is_digit(s[0]) || s[0] == '-' || s[0] == '+' || s[0] == '.') {
      const char* first       = s.data() + (s[0] == '+' ? 1 : 0);
      const auto [end, wrong] = std::from_chars(first, s.data() + s.size(), into.i);
      into.kind = wrong == std::errc() && end == s.data() + s.size() ? Literal::Kind::integer
                                                                     : Literal::Kind::real;
    } else {
      into.kind = Literal::Kind::string;
    }
    return true;
  }

  void skip() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_closing(char closing) { return closing == 0 ? rest_.empty() : take(closing); }

  std::string_view rest_;
  int depth_ = 0;
};

std::string joined(const std::vector<int>& values) {
  std::string words;
  for (const int value : values) words += (words.empty() ? "" : ", ") + std::to_string(value);
  return words;
}

}  // namespace

std::optional<Literal> parse_literal(std::string_view words) {
  Literal all;
  bool comma = false;
  if (!Parser(words).list(0, all, comma)) return std::nullopt;
  if (all.items.size() == 1 && !comma) return all.items.front();
  return all;
}

std::optional<std::vector<int>> integers(const Literal& list) {
  if (list.kind != Literal::Kind::list) return std::nullopt;
  std::vector<int> values;
  for (const Literal& item : list.items) {
    if (item.kind != Literal::Kind::integer || item.i < std::numeric_limits<int>::min() ||
        item.i > std::numeric_limits<int>::max())
      return std::nullopt;
    values.push_back(static_cast<int>(item.i));
  }
  return values;
}

std::optional<std::vector<std::string>> strings(const Literal& list) {
  if (list.kind != Literal::Kind::list) return std::nullopt;
  std::vector<std::string> values;
  for (const Literal& item : list.items) {
    if (item.kind != Literal::Kind::string) return std::nullopt;
    values.push_back(item.s);
  }
  return values;
}

std::string quoted(std::string_view name) {
  std::string words = "'";
  for (const char c : name) {
    if (c == '\'' || c == '\\') words += '\\';
    words += c;
  }
  return words + "'";
}

std::string tuple_text(const std::vector<int>& values) {
  return "(" + joined(values) + (values.size() == 1 ? ",)" : ")");
}

std::string list_text(const std::vector<int>& values) { return "[" + joined(values) + "]"; }

}  // namespace shard::impl
