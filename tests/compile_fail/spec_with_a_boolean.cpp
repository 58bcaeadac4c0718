// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: no matching function for call to
// expect: PartitionSpec
#include <shard/shard.hpp>

const shard::PartitionSpec spec({0, true});
