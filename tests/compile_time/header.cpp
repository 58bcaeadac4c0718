// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header alone.
#include <shard/shard.hpp>

int main() {}
