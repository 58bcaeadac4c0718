// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: Partial names a mesh axis, and Unsharded is none
// expect: Partial names one mesh axis; give a Partial for each of several
// expect: a Partial's reduction is Sum, Max or Min
#include <shard/shard.hpp>

struct X;
struct Y;
struct Mean;

shard::Partial<shard::Unsharded, shard::Sum> over_none;
shard::Partial<shard::Axes<X, Y>, shard::Sum> over_two;
shard::Partial<X, Mean> of_no_reduction;
