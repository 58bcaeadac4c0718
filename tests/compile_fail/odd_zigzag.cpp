// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a zigzag order has an even number of chunks
#include <shard/shard.hpp>

constexpr auto inverse = shard::zigzag_inverse<5>();
