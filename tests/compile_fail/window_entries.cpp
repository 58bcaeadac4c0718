// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a window has one, two or three dimensions
// expect: a window has at least one cell in each dimension
// expect: a stride is at least one
// expect: a dilation is at least one
// expect: a stride has one entry for each dimension of the kernel
// expect: a dilation has one entry for each dimension of the kernel
// expect: a padding has one entry for each dimension of the kernel
// expect: a padding isn't negative
#include <shard/shard.hpp>

using namespace shard;

Kernel<1, 1, 1, 1> of_four;
Kernel<3, 0> of_nothing;
Stride<0> standing;
Dilation<0> on_one_cell;
Conv<Kernel<3, 3>, Stride<2>> one_stride;
Conv<Kernel<3, 3>, Dilation<2>> one_dilation;
Conv<Kernel<3, 3>, Padding<1, 1, 1>> three_paddings;
Conv<Kernel<3>, Padding<low_high<0, -1>>> taken_away;
