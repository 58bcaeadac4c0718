// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: each mesh axis appears at most once in a spec
#include <shard/shard.hpp>

constexpr auto sharding = shard::StaticMesh<4, 2>().op_sharding({{0}, {1, 0}});
