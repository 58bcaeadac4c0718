// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposed windows of credit.domain_parallel's tables, right ones and wrong ones: the serial
// answer, all gradients and tangents, on every mesh.

#include "layers/window_reference.hpp"

namespace shard::testing {
namespace {

using Wide    = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<4>>,
                         ShardDim<3, Lon, Halo<2>>>;
using Flat    = OutputOf<double, 2>;
using Deep    = ShardedView<double*****, Kokkos::LayoutRight, ShardDim<2, Unsharded, Halo<2>>,
                         ShardDim<3, Lat, Halo<2>>, ShardDim<4, Lon, Halo<2>>>;
using DeepOut = OutputOf<double, 3>;

/// Kernel, stride, padding and dilation along latitude; 2, 2, 0 along longitude.
template <int K, int S, int P, int D = 1>
using Row = ConvTranspose<Kernel<K, 2>, Stride<S, 2>, Padding<P, 0>, Dilation<D, 1>>;

template <class Layer>
void check_row(index_t output_padding, index_t serial_rows, index_t rows = 16, index_t groups = 1) {
  ASSERT_EQ(Layer::output_extent(0, rows, output_padding), serial_rows);
  Layer layer{4, 2};
  layer.groups   = groups;
  layer.bias     = groups == 1;
  const Window w = Layer::window(0);
  check_everywhere(
      any<Wide, Flat>("kernel " + std::to_string(w.kernel) + ", stride " +
                          std::to_string(w.stride) + ", padding " + std::to_string(w.padding_lo) +
                          ", dilation " + std::to_string(w.dilation) + ", output padding " +
                          std::to_string(output_padding),
                      layer, true, {output_padding, 0}),
      {1, 4, rows, 3});
}

TEST(windows_transposed, those_that_they_get_right) {
  check_row<Row<2, 2, 0>>(0, 32);
  check_row<Row<4, 2, 1>>(0, 32);
  check_row<Row<3, 2, 1>>(1, 32);
  check_row<Row<3, 1, 1>>(0, 16);
  check_row<Row<5, 1, 2>>(0, 16);
  check_row<Row<8, 2, 3>>(0, 32);
  check_row<Row<6, 2, 2>>(0, 32);
  check_row<Row<5, 2, 2>>(1, 32);
  check_row<Row<3, 3, 0>>(0, 48);
  check_row<Row<5, 3, 1>>(0, 48);
  check_row<Row<8, 4, 2>>(0, 64);
  check_row<Row<7, 4, 2>>(1, 64);
  check_row<Row<2, 4, 0>>(2, 64);
  check_row<Row<3, 2, 2, 2>>(1, 32);
  check_row<Row<3, 1, 2, 2>>(0, 16);
  check_row<Row<4, 2, 1>>(0, 32, 16, 2);
}

TEST(windows_transposed, B5_output_extents_that_are_not_the_stride_times_the_input) {
  check_row<Row<4, 2, 0>>(0, 34);
  check_row<Row<3, 2, 1>>(0, 31);
  check_row<Row<5, 2, 1>>(0, 33);
  check_row<Row<3, 2, 0>>(0, 33);
  check_row<Row<3, 2, 0>>(0, 33, 16, 2);
}

TEST(windows_transposed, B5_dilated_kernels_no_wider_than_the_stride) {
  check_row<Row<2, 2, 1, 2>>(1, 32);
}

TEST(windows_transposed, B3_one_rank_is_the_serial_layer) {
  const ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>> layer{2, 3};
  check_on(MPI_COMM_SELF, {{1, 1}}, any<Wide, Flat, true>("alone", layer, true), {1, 2, 8, 6});
}

TEST(windows_transposed, three_dimensions) {
  const auto check = [](const auto& layer, const std::array<index_t, 5>& n) {
    check_everywhere(any<Deep, DeepOut, true>("three dimensions", layer, true), n);
  };
  check(ConvTranspose<Kernel<2, 4, 4>, Stride<2, 4, 4>>{4, 3}, {1, 4, 2, 8, 8});
  check(ConvTranspose<Kernel<2, 4, 4>, Stride<2, 2, 2>, Padding<0, 1, 1>>{4, 2, 2},
        {1, 4, 2, 8, 6});
}

TEST(windows_transposed, T5_T6_random_extents_and_partitions) {
  Random random(seed() + 8);
  const auto check = [&](const auto& layer, index_t output_padding) {
    for (int i = 0; i < (thorough() ? 20 : 2); ++i)
      check_everywhere(any<Wide, Flat>("random", layer, true, {output_padding, 0}),
                       {1 + random.below(2), 4, 3 + random.below(12), 2 + random.below(5)});
  };
  check(Row<6, 4, 2>{4, 2, 2}, 3);
  check(ConvTranspose<Kernel<4, 3>, Stride<3, 2>, Padding<low_high<0, 3>, low_high<1, 0>>>{4, 3},
        2);
  check(ConvTranspose<Kernel<3, 2>, Stride<1, 2>, Padding<3, 0>, Dilation<3, 1>>{4, 4, 4, false},
        2);
}

}  // namespace
}  // namespace shard::testing
