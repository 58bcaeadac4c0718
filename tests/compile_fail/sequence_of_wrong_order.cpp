// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the order of a sequence's shards is Zigzag or Contiguous
#include <shard/shard.hpp>

struct X;

static_assert(shard::ContextAllToAll<shard::SplitToFull, X, shard::Sum>::is_split_to_full);
