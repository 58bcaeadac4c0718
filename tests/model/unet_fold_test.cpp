// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unet_test.hpp"

namespace unet_test {

template <shard::Upward Up>
using Net =
    shard::UNet<double, Lat, Lon, shard::PoleFold<3, shard::Pole::on_row>, shard::Periodic, Up>;

TEST(UNet, folded_poles_61_x_120) { compare<Net<shard::Upward::transposed>>(61, 120); }
TEST(UNet, folded_poles_7_x_8) { compare<Net<shard::Upward::transposed>>(7, 8); }
TEST(UNet, folded_poles_61_x_120_interpolated) {
  compare<Net<shard::Upward::interpolated>>(61, 120);
}
TEST(UNet, folded_poles_7_x_8_interpolated) { compare<Net<shard::Upward::interpolated>>(7, 8); }

}  // namespace unet_test
