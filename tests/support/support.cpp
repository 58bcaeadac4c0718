// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/support.hpp"

#include <cstdlib>
#include <string>

namespace shard::testing {

std::uint64_t seed() {
  const char* given = std::getenv("SHARD_SEED");
  return given == nullptr || *given == '\0' ? 20240229 : std::strtoull(given, nullptr, 10);
}

bool thorough() {
  const char* given = std::getenv("SHARD_THOROUGH");
  return given != nullptr && *given != '\0' && std::string(given) != "0";
}

}  // namespace shard::testing
