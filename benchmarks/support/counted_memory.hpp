// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_COUNTED_MEMORY_HPP
#define SHARD_BENCHMARKS_SUPPORT_COUNTED_MEMORY_HPP

#include <cstddef>

/// Counts what a program that links it has allocated with new.
namespace counted_memory {

/// Forgets the most so far; bytes allocated now.
std::size_t start();
/// The most bytes at once since.
std::size_t most();

}  // namespace counted_memory

#endif
