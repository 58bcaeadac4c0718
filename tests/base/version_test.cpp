// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/base/version.hpp>

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(Version, LibraryAndHeadersAreOfOneRelease) {
  const shard::Version linked = shard::version();
  EXPECT_EQ(linked.major, SHARD_VERSION_MAJOR);
  EXPECT_EQ(linked.minor, SHARD_VERSION_MINOR);
  EXPECT_EQ(linked.patch, SHARD_VERSION_PATCH);
  EXPECT_STREQ(linked.text, SHARD_VERSION_STRING);
}

TEST(Version, TextSaysTheNumbers) {
  const shard::Version linked = shard::version();
  EXPECT_EQ(std::to_string(linked.major) + "." + std::to_string(linked.minor) + "." +
                std::to_string(linked.patch),
            linked.text);
}

}  // namespace
