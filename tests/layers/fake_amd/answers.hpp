// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the fake MIOpen and rocBLAS are to answer, and what they were called with.
#ifndef SHARD_TESTS_LAYERS_FAKE_AMD_ANSWERS_HPP
#define SHARD_TESTS_LAYERS_FAKE_AMD_ANSWERS_HPP

#include <cstddef>
#include <string>

namespace fake {

/// The solutions that MIOpen lists, the fastest first.
inline constexpr int implicit_gemm = 501, direct = 502, gemm = 503;

struct Answers {
  int list = 0, compile = 0, run = 0, product = 0;  ///< statuses
  std::size_t workspace        = 1000;              ///< of the implicit GEMM and the GEMM
  std::size_t direct_workspace = 100;
};

struct State {
  Answers answers;
  std::string calls;  ///< a line for each
};
State& state();

}  // namespace fake

#endif
