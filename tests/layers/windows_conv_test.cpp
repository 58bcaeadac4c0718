// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows that credit.domain_parallel gets right, and those that it gets wrong: each must give the
// serial answer, with all gradients and tangents, on every mesh. One field type with wide halos
// serves them all.

#include "layers/window_reference.hpp"

namespace shard::testing {
namespace {

template <class B0, class B1 = B0>
using Wide    = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<16>, B0>,
                         ShardDim<3, Lon, Halo<3>, B1>>;
using Flat    = OutputOf<double, 2>;
using Deep    = ShardedView<double*****, Kokkos::LayoutRight, ShardDim<2, Unsharded, Halo<2>>,
                         ShardDim<3, Lat, Halo<4>>, ShardDim<4, Lon, Halo<4>>>;
using DeepOut = OutputOf<double, 3>;

/// Kernel, stride, padding, dilation along latitude; 3 with padding 1 along longitude.
template <int K, int S, int P, int D = 1>
using Row = Conv<Kernel<K, 3>, Stride<S, 1>, Padding<P, 1>, Dilation<D, 1>>;

/// A row of table 1.4 with its number of rows in the world and, over one rank or more, serial rows.
template <class X, class Layer>
void check_row(index_t rows, index_t serial_rows, index_t groups = 1) {
  ASSERT_EQ(Layer::output_extent(0, rows), serial_rows);
  Layer layer{4, 2};
  layer.groups   = groups;
  layer.bias     = groups == 1;
  const Window w = Layer::window(0);
  check_everywhere(
      any<X, Flat>("kernel " + std::to_string(w.kernel) + ", stride " + std::to_string(w.stride) +
                       ", padding " + std::to_string(w.padding_lo) + ", dilation " +
                       std::to_string(w.dilation) + ", groups " + std::to_string(groups),
                   layer, false),
      {1, 4, rows, 6});
}

TEST(windows, convolutions_that_they_get_right) {
  using X = Wide<Zero>;
  check_row<X, Row<3, 1, 1>>(16, 16);
  check_row<X, Row<5, 1, 2>>(16, 16);
  check_row<X, Row<7, 1, 3>>(16, 16);
  check_row<X, Row<9, 1, 4>>(8, 8);  // over 4 ranks: 2 rows each, a halo of 4
  check_row<X, Row<4, 2, 1>>(16, 8);
  check_row<X, Row<8, 2, 3>>(32, 16);
  check_row<X, Row<5, 3, 1>>(24, 8);
  check_row<X, Row<2, 2, 0>>(16, 8);
  check_row<X, Row<4, 4, 0>>(16, 4);
  check_row<X, Row<3, 3, 0>>(16, 5);
  check_row<X, Row<1, 2, 0>>(16, 8);
  check_row<X, Row<3, 1, 1>>(16, 16, 2);
  check_row<X, Row<4, 2, 1>>(16, 8, 2);
}

TEST(windows, B2_strides_with_odd_kernel_minus_stride) {
  check_row<Wide<Zero>, Row<3, 2, 1>>(16, 8);
  check_row<Wide<Zero>, Row<3, 2, 1>>(16, 8, 2);
  check_row<Wide<Zero>, Row<7, 4, 3>>(32, 8);
}

TEST(windows, B4_paddings_that_do_not_fit_the_kernel) {
  using X = Wide<Zero>;
  check_row<X, Row<3, 1, 0>>(16, 14);
  check_row<X, Row<3, 1, 2>>(16, 18);
  check_row<X, Row<3, 2, 0>>(16, 7);
  check_row<X, Row<5, 2, 2>>(16, 8);
  check_row<X, Row<7, 2, 3>>(16, 8);
  check_row<X, Row<4, 2, 0>>(16, 7);
  check_row<X, Row<4, 2, 2>>(16, 9);
}

TEST(windows, B4_even_kernels) {
  using X = Wide<Zero>;
  check_row<X, Row<4, 1, 1>>(16, 15);
  check_row<X, Row<4, 1, 2>>(16, 17);
  check_row<X, Row<2, 1, 0>>(16, 15);
  check_row<X, Row<2, 1, 1>>(16, 17);
  check_row<X, Row<2, 1, 1>>(16, 17, 2);
}

TEST(windows, B4_dilation) {
  check_row<Wide<Zero>, Row<3, 1, 2, 2>>(16, 16);
  check_row<Wide<Zero>, Row<3, 1, 1, 2>>(16, 14);
}

TEST(windows, B4_shards_that_the_stride_does_not_divide) {
  check_row<Wide<Zero>, Row<4, 2, 1>>(12, 6);  // 3 rows each over 4 ranks
}

TEST(windows, B4_a_halo_wider_than_the_shard) { check_row<Wide<Zero>, Row<9, 1, 4>>(8, 8); }

TEST(windows, B4_padding_modes) {
  using Kernel33 = Kernel<3, 3>;
  check_row<Wide<Periodic>, Conv<Kernel33, Padding<1, 1>, PaddingMode<Periodic>>>(16, 16);
  check_row<Wide<Reflect, Periodic>, Conv<Kernel33, Padding<1, 1>, PaddingMode<Reflect, Periodic>>>(
      16, 16);
  check_row<Wide<Clamp, Periodic>,
            Conv<Kernel<5, 3>, Stride<2, 1>, Padding<2, 1>, PaddingMode<Clamp, Periodic>>>(16, 8);
  check_row<Wide<Zero>, Conv<Kernel33, Padding<1, 1>, PaddingMode<Zero>>>(16, 16);
}

TEST(windows, B4_padding_by_name) {
  check_row<Wide<Zero>, Conv<Kernel<3, 3>, Same>>(16, 16);
  check_row<Wide<Zero>, Conv<Kernel<4, 3>, Same>>(16, 16);
  check_row<Wide<Zero>, Conv<Kernel<4, 2>, Dilation<3, 1>, Same>>(16, 16);
  check_row<Wide<Reflect, Periodic>, Conv<Kernel<4, 2>, Same, PaddingMode<Reflect, Periodic>>>(16,
                                                                                               16);
  check_row<Wide<Zero>, Conv<Kernel<3, 3>, Valid>>(16, 14);
  static_assert(Conv<Kernel<4, 2>, Dilation<3, 1>, Same>::window(0).padding_lo == 4);
  static_assert(Conv<Kernel<4, 2>, Dilation<3, 1>, Same>::window(0).padding_hi == 5);
  static_assert(Conv<Kernel<4, 2>, Dilation<3, 1>, Same>::window(1).padding_lo == 0);
}

TEST(windows, B4_longitude_cut) {  // "shard_dim=-1": 20 columns there
  const Conv<Kernel<3, 3>, Padding<1, 1>> layer{2, 3};
  check_on(MPI_COMM_WORLD, {{1, world_size()}},
           any<Wide<Zero>, Flat, true>("columns", layer, false), {2, 2, 16, 16});
}

TEST(windows, B3_one_rank_is_the_serial_layer) {
  const Conv<Kernel<3, 3>, Padding<1, 1>> layer{2, 3};
  check_on(MPI_COMM_SELF, {{1, 1}}, any<Wide<Zero>, Flat, true>("alone", layer, false),
           {1, 2, 8, 6});
}

TEST(windows, three_dimensions) {
  const auto check = [](const auto& layer, const std::array<index_t, 5>& n) {
    check_everywhere(any<Deep, DeepOut>("three dimensions", layer, false), n);
  };
  check(Conv<Kernel<3, 3, 3>, Padding<1, 1, 1>>{2, 2, 2}, {1, 2, 3, 8, 6});
  check(Conv<Kernel<2, 4, 4>, Stride<2, 4, 4>>{2, 3}, {1, 2, 2, 8, 16});
  check(Conv<Kernel<2, 3, 3>, Stride<1, 2, 2>, Padding<0, 1, 1>>{2, 2}, {2, 2, 2, 9, 7});
}

/// Any window of eight that stand for all, on any partition of any extents.
TEST(windows, T5_T6_random_extents_and_partitions) {
  Random random(seed() + 7);
  using X          = Wide<Clamp, Periodic>;
  const auto check = [&](const auto& layer) {
    for (int i = 0; i < (thorough() ? 20 : 2); ++i)
      check_everywhere(any<X, Flat>("random", layer, false),
                       {1 + random.below(2), 4, 8 + random.below(15), 5 + random.below(6)});
  };
  check(Row<6, 4, 2>{4, 2, 2});
  check(Conv<Kernel<5, 4>, Stride<2, 3>, Padding<low_high<0, 4>, low_high<3, 0>>>{4, 3});
  check(Conv<Kernel<3, 2>, Stride<5, 1>, Padding<7, 1>, Dilation<3, 2>>{4, 4, 4, false});
  check(Conv<Kernel<2, 1>, Stride<3, 2>, Dilation<4, 1>>{4, 1});
}

}  // namespace
}  // namespace shard::testing
