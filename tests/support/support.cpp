// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/support.hpp"

#include <mpi.h>

#include <cstdlib>
#include <utility>
#include <string>

namespace shard::testing {

std::uint64_t seed() {
  const char* given = std::getenv("SHARD_SEED");
  return given == nullptr || *given == '\0' ? 20240229 : std::strtoull(given, nullptr, 10);
}

int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

int ranks() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

bool thorough() {
  const char* given = std::getenv("SHARD_THOROUGH");
  return given != nullptr && *given != '\0' && std::string(given) != "0";
}

int million_or(int fewer, bool fast) {
  return thorough() ? 1000000 : fast && ranks() == 2 ? 100000 : fewer;
}

ScopedVariable::ScopedVariable(std::string name, const std::string& value)
    : name_(std::move(name)) {
  if (const char* text = std::getenv(name_.c_str())) before_ = text;
  setenv(name_.c_str(), value.c_str(), 1);
}

ScopedVariable::~ScopedVariable() {
  if (before_)
    setenv(name_.c_str(), before_->c_str(), 1);
  else
    unsetenv(name_.c_str());
}

}  // namespace shard::testing
