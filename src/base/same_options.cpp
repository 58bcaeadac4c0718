// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/same_options.hpp"

#include <charconv>
#include <cstddef>
#include <string>

#include "shard/base/error.hpp"

namespace shard::impl {

void require_same_options(MPI_Comm comm, std::string_view function,
                          std::initializer_list<NamedNumber> options,
                          const std::vector<double>& weights) {
  std::string words;
  const auto add = [&](std::string_view name, double value) {
    char number[32];
    const auto end = std::to_chars(number, number + sizeof(number), value);
    words.append(words.empty() ? "" : ", ").append(name).append(" ").append(number, end.ptr);
  };
  for (const NamedNumber& option : options) add(option.name, option.value);
  for (std::size_t row = 0; row < weights.size(); ++row)
    add("weight of row " + std::to_string(row), weights[row]);
  require_agreement(comm, function, words);
}

}  // namespace shard::impl
