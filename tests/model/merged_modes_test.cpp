// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What lies beyond the world is set anew between merged layers, by each layer's own padding mode:
// merged models against the model on one rank.
#include <gtest/gtest.h>

#include "merged_support.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

template <class Rows, class Columns>
using Conv33 = Conv<Kernel<3, 3>, Padding<1, 1>, PaddingMode<Rows, Columns>>;
template <class Rows, class Columns>
using Conv53 = Conv<Kernel<5, 3>, Padding<2, 2>, Dilation<1, 2>, PaddingMode<Rows, Columns>>;
/// Rows that look one way only.
template <class Rows, class Columns>
using Lopsided =
    Conv<Kernel<3, 3>, Padding<low_high<2, 0>, low_high<1, 1>>, PaddingMode<Rows, Columns>>;

template <class ModelType, class... Cuts>
constexpr HaloChains all_merged = halo_chains<ModelType, MergeHalos<MergeAlways>, Cuts...>();

TEST(MergedModes, RowsReflectClampAndMirrorWhileColumnsWrap) {
  // at the end a window that looks one way only: its images lie beyond what it reads
  const auto model = sequential<double>(
      Conv33<Reflect, Periodic>{2, 3}, SiLU{}, Conv33<Clamp, Periodic>{3, 4},
      Conv53<Symmetric, Periodic>{4, 2, 2, false}, GELU{}, Lopsided<Reflect, Periodic>{2, 2});
  constexpr auto chains = all_merged<decltype(model), Lat, Lon>;
  static_assert(chains.count == 1 && chains.list[0].layers == 6);
  check_merged<Lat, Lon>(model, {2, 2, 13, 10}, true);
}

TEST(MergedModes, RowsWrapAndEndWhileColumnsAreConstants) {
  const auto model = sequential<double>(
      Conv33<Periodic, Zero>{2, 3}, Tanh{}, Conv53<Periodic, Constant<3>>{3, 2},
      MaxPool<Kernel<1, 3>, Stride<1, 1>, Padding<0, 1>>{}, Conv33<Periodic, Reflect>{2, 2},
      Conv33<Sides<Constant<2>, Reflect>, Sides<Zero, Clamp>>{2, 2});
  constexpr auto chains = all_merged<decltype(model), Lat, Lon>;
  static_assert(chains.count == 1 && chains.list[0].layers == 6);
  check_merged<Lat, Lon>(model, {1, 2, 11, 8}, true);
}

TEST(MergedModes, PolesFoldWhereLongitudeIsWhole) {
  using OnRow      = PoleFold<3, Pole::on_row>;
  using Between    = PoleFold<3, Pole::between_rows, Parity::odd>;
  const auto model = sequential<double>(
      Conv33<OnRow, Periodic>{2, 3}, ReLU{}, Lopsided<Between, Reflect>{3, 2},
      Conv33<OnRow, Constant<1>>{2, 2}, LeakyReLU{0.2}, Conv53<Between, Periodic>{2, 2});
  constexpr auto chains = all_merged<decltype(model), Lat>;
  static_assert(chains.count == 1 && chains.list[0].layers == 6);
  // over a longitude that is cut the images lie on other ranks: only the first layer may fold
  static_assert(all_merged<decltype(model), Lat, Lon>.count == 0);
  check_merged<Lat>(model, {1, 2, 9, 8}, false);
}

TEST(MergedModes, PoolingsAndWindowsWithoutPadding) {
  using Max3            = MaxPool<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>, Dilation<1, 1>>;
  using Mean3           = AvgPool<Kernel<3, 2>, Stride<1, 1>, Padding<1, 0>, ExcludePadding>;
  using Valid3          = Conv<Kernel<3, 3>, Valid>;
  using Same42          = Conv<Kernel<4, 2>, Same, PaddingMode<Zero, Reflect>>;
  const auto model      = sequential<double>(Max3{}, Valid3{2, 3}, Sigmoid{}, Mean3{}, Same42{3, 2},
                                        Max3{}, Conv<Kernel<1, 1>>{2, 2}, Valid3{2, 1});
  constexpr auto chains = all_merged<decltype(model), Lat, Lon>;
  static_assert(chains.count == 1 && chains.list[0].layers == 8);
  check_merged<Lat, Lon>(model, {1, 2, 14, 12}, true);
}

}  // namespace
