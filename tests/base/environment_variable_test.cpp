// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each of the library's environment variables is understood, or refused with what it may be.
#include "shard/base/impl/environment_variable.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

#include "shard/base/environment.hpp"
#include "shard/base/error.hpp"
#include "shard/mesh/mesh.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

struct X;

using namespace shard;
using shard::impl::environment_complaint;
using shard::impl::variable_from_text;
using namespace shard::testing;

struct Case {
  const char *name, *text, *allowed;
};

constexpr Case wrong[] = {
    {"SHARD_CHECK", "yes", "0 or 1"},
    {"SHARD_CHECK", "2", "0 or 1"},
    {"SHARD_GPU_AWARE", "maybe", "1 if MPI takes device memory"},
    {"SHARD_KEPT_PLANS", "0", "from 1 to 1000000"},
    {"SHARD_KEPT_PLANS", "2.5", "from 1 to 1000000"},
    {"SHARD_LOG", "no", "0 or 1"},
    {"SHARD_MESSAGE_LIMIT", "2147483648", "from 1 to 2147483647"},
    {"SHARD_MESSAGE_LIMIT", "1k", "from 1 to 2147483647"},
    {"SHARD_RANKS_PER_NODE", "-1", "a number of ranks"},
    {"SHARD_RANKS_PER_NODE", " 2", "a number of ranks"},
    {"SHARD_TRANSPORT", "pigeon", "automatic, mpi or nccl"},
    {"SHARD_WATCHDOG_SECONDS", "abc", "a number of seconds"},
    {"SHARD_WATCHDOG_SECONDS", "-1", "a number of seconds"},
    {"SHARD_WATCHDOG_SECONDS", "nan", "a number of seconds"},
    {"SHARD_WATCHDOG_SECONDS", "inf", "a number of seconds"},
    {"SHARD_WATCHDOG_SECONDS", "1e300", "a number of seconds"},
    {"SHARD_WATCHDOG_SECONDS", "1e-9", "a number of seconds"},
};

TEST(EnvironmentVariable, WhatIsUnderstood) {
  EXPECT_EQ(variable_from_text("SHARD_CHECK", "1"), 1);
  EXPECT_EQ(variable_from_text("SHARD_CHECK", ""), std::nullopt);
  EXPECT_EQ(variable_from_text("SHARD_KEPT_PLANS", "64"), 64);
  EXPECT_EQ(variable_from_text("SHARD_MESSAGE_LIMIT", "2147483647"), 2147483647);
  EXPECT_EQ(variable_from_text("SHARD_TRANSPORT", "mpi"), 1);
  EXPECT_EQ(variable_from_text("SHARD_WATCHDOG_SECONDS", "0.5"), 0.5);
  EXPECT_EQ(variable_from_text("SHARD_WATCHDOG_SECONDS", "0"), 0);
  EXPECT_THROW(variable_from_text("SHARD_NO_SUCH", "1"), shard::Error);
}

TEST(EnvironmentVariable, WhatIsNotUnderstoodThrows) {
  EXPECT_EQ(environment_complaint(), "");
  for (const Case& c : wrong) {
    const std::string is = std::string(c.name) + " is \"" + c.text + "\"; set it to ";
    expect_parts(message_thrown_by<ArgumentError>([&] { variable_from_text(c.name, c.text); }),
                 {is.c_str(), c.allowed, "or leave it unset"});
    const ScopedVariable set(c.name, c.text);
    expect_parts(environment_complaint(), {is.c_str()});
  }
}

TEST(EnvironmentVariable, AnEnvironmentRefusesWhatIsNotUnderstood) {
  char name[]       = "program";
  char* arguments[] = {name, nullptr};
  int count         = 1;
  char** given      = arguments;
  const shard::Environment right(count, given);
  for (const Case& c : wrong) {
    const ScopedVariable set(c.name, c.text);
    const std::string is = std::string(c.name) + " is \"" + c.text + "\"; set it to ";
    expect_parts(message_thrown_by<ArgumentError>([&] { shard::Environment(count, given); }),
                 {is.c_str(), c.allowed, "or leave it unset"});
    const ScopedVariable empty(c.name, "");
    const shard::Environment with_it_empty(count, given);
  }
}

TEST(EnvironmentVariable, AMeshRefusesWhatIsNotUnderstood) {
  for (const Case& c : wrong) {
    const ScopedVariable set(c.name, c.text);
    expect_parts(message_thrown_by<ArgumentError>([] { Mesh<X>(MPI_COMM_WORLD, {0}); }),
                 {c.name, c.text, c.allowed});
  }
  if (ranks() == 1) return;
  const ScopedVariable set("SHARD_WATCHDOG_SECONDS", rank() == 0 ? "abc" : "");
  expect_parts(message_thrown_by<AgreementError>([] { Mesh<X>(MPI_COMM_WORLD, {0}); }),
               {"rank 0", "SHARD_WATCHDOG_SECONDS is \"abc\""});
}

}  // namespace
