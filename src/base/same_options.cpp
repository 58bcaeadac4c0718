// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/same_options.hpp"

#include <charconv>
#include <cstddef>
#include <string>

#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

void append(std::string& words, std::string_view name, double value) {
  words.append(words.empty() ? "" : ", ").append(name).append(" ").append(text_of(value));
}

}  // namespace

std::string text_of(double value) {
  char number[32];
  return {number, std::to_chars(number, number + sizeof(number), value).ptr};
}

std::string text_of(std::initializer_list<NamedNumber> options) {
  std::string words;
  for (const NamedNumber& option : options) append(words, option.name, option.value);
  return words;
}

void require_same_options(MPI_Comm comm, std::string_view function,
                          std::initializer_list<NamedNumber> options,
                          const std::vector<double>& weights) {
  std::string words = text_of(options);
  for (std::size_t row = 0; row < weights.size(); ++row)
    append(words, "weight of row " + std::to_string(row), weights[row]);
  require_agreement(comm, function, words);
}

}  // namespace shard::impl
