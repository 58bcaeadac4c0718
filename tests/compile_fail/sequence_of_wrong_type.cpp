// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the type of an all-to-all of sequences is SplitToFull or FullToSplit
#include <shard/shard.hpp>

struct X;

static_assert(shard::ContextAllToAll<shard::Sum, X>::is_zigzag);
