// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/arguments.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// The arguments after a program's name.
support::Arguments arguments(std::vector<std::string> words) {
  words.insert(words.begin(), "/somewhere/program");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return {static_cast<int>(pointers.size()), pointers.data(), "[--count N]"};
}

struct Taken {
  bool understood = false, quick = false;
  int count = 7, turns = 8;
  double seconds = 0.5;
  std::string file, name;
};
Taken take(const std::vector<std::string>& words) {
  support::Arguments given = arguments(words);
  Taken taken;
  taken.quick = given.flag("--quick");
  given.take("--count", taken.count, 1);
  given.take("--seconds", taken.seconds);
  given.take("--name", taken.name);
  given.take_output("--file", taken.file);
  given.next("TURNS", taken.turns, 1);
  taken.understood = given.understood();
  return taken;
}

TEST(Arguments, AreTakenInAnyOrder) {
  const Taken none = take({});
  EXPECT_TRUE(none.understood);
  EXPECT_FALSE(none.quick);
  EXPECT_EQ(none.count, 7);
  const Taken all = take({"12", "--count=3", "--name", "--odd", "--quick", "--seconds", "1e-3"});
  EXPECT_TRUE(all.understood);
  EXPECT_TRUE(all.quick);
  EXPECT_EQ(all.count, 3);
  EXPECT_EQ(all.turns, 12);
  EXPECT_EQ(all.seconds, 1e-3);
  EXPECT_EQ(all.name, "--odd");
}

TEST(Arguments, WhatIsNotUnderstoodIsRefused) {
  const std::string nowhere = "/nowhere/file";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--counts", "3"},
                                             {"--count", "3", "--count", "4"},
                                             {"--count"},
                                             {"--count", "0"},
                                             {"--count", "3x"},
                                             {"--count="},
                                             {"--count", "1e3"},
                                             {"--count", "99999999999"},
                                             {"--seconds", "nan"},
                                             {"--seconds", "inf"},
                                             {"--seconds", "0"},
                                             {"--seconds", "-1"},
                                             {"--seconds", "1,5"},
                                             {"--seconds", "1e999"},
                                             {"--file", nowhere},
                                             {"0"},
                                             {"5", "6"},
                                             {"five"},
                                             {"--quick=1"}}) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    testing::internal::CaptureStderr();
    EXPECT_FALSE(take(words).understood) << line;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.rfind("program: ", 0), 0U) << said;
    EXPECT_NE(said.find("usage: program [--count N]"), std::string::npos) << said;
  }
  const std::string path = testing::TempDir() + "shard-arguments-" + std::to_string(getpid());
  EXPECT_TRUE(take({"--file", path}).understood);
  EXPECT_NE(access(path.c_str(), F_OK), 0);  // tried under another name
}

TEST(Arguments, AFileIsWrittenInTheEndAndNoOtherThingReplaced) {
  const std::string path = testing::TempDir() + "shard-output-" + std::to_string(getpid());
  const auto text        = [&] {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const std::string words : {"before", "after"}) {
    EXPECT_TRUE(take({"--file", path}).understood);
    support::write_output(path, words);
    EXPECT_EQ(text(), words);
  }
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // whose other end nobody opens
  for (const std::string& special : {path, testing::TempDir(), std::string("/dev/null")}) {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(take({"--file", special}).understood);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("can't be written: it is a"),
              std::string::npos);
    EXPECT_THROW(support::write_output(special, "after"), std::runtime_error);
  }
  std::remove(path.c_str());
}

}  // namespace
