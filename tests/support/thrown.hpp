// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_THROWN_HPP
#define SHARD_TESTS_SUPPORT_THROWN_HPP

#include <gtest/gtest.h>

#include <exception>
#include <initializer_list>
#include <string>
#include <typeinfo>

namespace shard::testing {

/// The message of the exception of exactly type `Expected` that `function` throws; anything else is
/// a failure. Every rank is to call it: a rank that doesn't throw fails here and doesn't hang.
template <class Expected, class Function>
std::string message_thrown_by(const Function& function) {
  try {
    function();
  } catch (const Expected& e) {
    EXPECT_EQ(typeid(e).name(), std::string(typeid(Expected).name())) << e.what();
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// Expects all parts in the message.
inline void expect_parts(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(message.find(part), std::string::npos)
        << "no \"" << part << "\" in \"" << message << "\"";
}

}  // namespace shard::testing

#endif
