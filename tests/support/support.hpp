// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_SUPPORT_HPP
#define SHARD_TESTS_SUPPORT_SUPPORT_HPP

#include <cstdint>
#include <optional>
#include <string>

namespace shard::testing {

/// The seed of everything random in the tests: SHARD_SEED, or a fixed number if that is not set.
/// The same on every rank; each test program prints it.
std::uint64_t seed();

/// This process among those of MPI_COMM_WORLD, and how many they are.
int rank();
int ranks();

/// SHARD_THOROUGH=1: also what is too long for every day.
bool thorough();

/// How many exchanges show that nothing wears out: 10^6 with SHARD_THOROUGH=1, 10^5 on 2 ranks if
/// they are fast; else `fewer`.
int million_or(int fewer, bool fast);

/// Sets an environment variable for as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value);
  ~ScopedVariable();
  ScopedVariable(const ScopedVariable&)            = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace shard::testing

#endif
