// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: Same padding needs a stride of 1
// expect: a layer has one padding: Padding, Same or Valid
// expect: a padding mode has one boundary, or one for each dimension of the kernel
// expect: a padding mode is a boundary: Zero, Periodic, Reflect, Clamp, Symmetric, PoleFold
// expect: a ConvTranspose's padding is a number: only a Conv takes Same
#include <shard/shard.hpp>

using namespace shard;

Conv<Kernel<3>, Stride<2>, Same> strided;
Conv<Kernel<3>, Padding<1>, Valid> padded_twice;
Conv<Kernel<3, 3, 3>, PaddingMode<Reflect, Periodic>>::boundary<0> too_few;
Conv<Kernel<3>, PaddingMode<int>> no_boundary;
ConvTranspose<Kernel<3>, Same> transposed;
