// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_TOOLS_JSON_HPP
#define SHARD_SRC_TOOLS_JSON_HPP

#include <concepts>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shard::tools {

/// A JSON value (RFC 8259) as text: written, never read. Members keep their order.
class Json {
 public:
  Json(bool value) : text_(value ? "true" : "false") {}
  template <std::integral Integer>
  Json(Integer value) : text_(std::to_string(value)) {}
  Json(const char* words) : Json(std::string_view(words)) {}
  Json(const std::string& words) : Json(std::string_view(words)) {}
  Json(std::string_view words) : text_("\"") {
    for (const char c : words) {
      if (c == '"' || c == '\\') text_ += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
        text_ += escaped;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  template <class Value>
  Json(const std::vector<Value>& values) : text_("[") {
    for (const Value& value : values) text_ += (text_.size() > 1 ? ", " : "") + Json(value).text();
    text_ += "]";
  }

  using Members = std::vector<std::pair<std::string, Json>>;
  static Json object(const Members& members) {
    Json json(0);
    json.text_ = "{";
    for (const auto& [name, value] : members)
      json.text_ += (json.text_.size() > 1 ? ", " : "") + Json(name).text() + ": " + value.text();
    json.text_ += "}";
    return json;
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace shard::tools

#endif
