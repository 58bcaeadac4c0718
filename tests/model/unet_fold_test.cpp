// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unet_test.hpp"

namespace unet_test {

template <template <class> class Upward>
using Folded = Net<shard::PoleFold<3, shard::Pole::on_row>, shard::Periodic, Upward>;

TEST(UNet, folded_poles_61_x_120) { compare<Folded<Transposed>>(61, 120); }
TEST(UNet, folded_poles_7_x_8) { compare<Folded<Transposed>>(7, 8); }
TEST(UNet, folded_poles_61_x_120_interpolated) { compare<Folded<Interpolated>>(61, 120); }
TEST(UNet, folded_poles_7_x_8_interpolated) { compare<Folded<Interpolated>>(7, 8); }

}  // namespace unet_test
