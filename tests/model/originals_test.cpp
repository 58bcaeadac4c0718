// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The distributed tests of credit.domain_parallel (test_domain_parallel_multigpu.py and
// test_domain_parallel_conv_transpose3d_multigpu.py): their shapes in float32 and their tolerances,
// with the gradients of parameters too, on any number of ranks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <vector>

#include "model_support.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

/// Their allclose: atol 1e-5, rtol 1e-5.
void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  index_t apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    apart += std::abs(a[i] - b[i]) <= 1e-5 + 1e-5 * std::abs(b[i]) ? 0 : 1;
  EXPECT_EQ(apart, 0) << "of " << a.size();
}

/// Values and all gradients of J = sum of y over latitude's shards, against one rank.
template <int Rank, class... Layers>
void check(const Extents<Rank>& extents, const Layers&... layers) {
  const auto model = sequential<float>(layers...);
  const auto on    = [&](MPI_Comm comm) {
    const auto sharded = domain_parallel<ShardDim<-2, Lat>>(model, Mesh<Lat>(comm, {0}));
    const Space space;
    const auto x = sharded.input("x", extents), dx = x.like("dx");
    fill(x, 0.1);
    const auto& y = sharded(space, x);
    const auto dy = y.like("dy");
    deep_copy(space, dy, 1.0F);
    Kokkos::deep_copy(space, sharded.gradients().values(), 0.0F);
    sharded.pullback(space, dx, dy, x);
    space.fence("results");
    return Results{world(y), world(dx), summed(sharded.gradients().values(), x.communicator())};
  };
  const Results serial = on(MPI_COMM_SELF), cut = on(MPI_COMM_WORLD);
  expect_close(cut.y, serial.y);
  expect_close(cut.dx, serial.dx);
  // sums over all cells, in another order: relative to the largest
  expect_near(cut.gradients, serial.gradients, 1e-5);
}

TEST(Originals, HaloValuesOfConstantShards) {
  using Halos = HaloExchange<ShardDim<2, Lat, Halo<1>>>;
  using Plain = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const int rank = mesh.coordinate<Lat>(), ranks = mesh.size<Lat>();
  const Space space;
  const Plain x("x", mesh, {1, 4, 8 * ranks, 16});
  deep_copy(space, x, static_cast<float>(rank + 1));
  const auto y = Halos{}.output(x);
  Halos{}.apply(space, y, x);
  const auto host = create_mirror_view(y);
  deep_copy(space, host, y);
  space.fence("halos");
  ASSERT_EQ(host.view().extent(2), 10U);
  for (int c = 0; c < 4; ++c)
    for (int j = 0; j < 16; ++j) {
      EXPECT_EQ(host(0, c, -1, j), static_cast<float>(rank));
      EXPECT_EQ(host(0, c, 8, j), static_cast<float>(rank + 1 < ranks ? rank + 2 : 0));
    }
}

TEST(Originals, Convolution) { check(Extents<4>{1, 4, 16, 32}, Conv3{4, 8}); }
TEST(Originals, GroupNorms) { check(Extents<4>{2, 16, 32, 64}, GroupNorm{4, 16}); }
TEST(Originals, ModelOfFourLayers) {
  check(Extents<4>{1, 4, 16, 32}, Conv3{4, 8}, GroupNorm{4, 8}, ReLU{}, Conv<Kernel<1, 1>>{8, 4});
}
TEST(Originals, GradientOfASumThroughAConvolution) { check(Extents<4>{1, 4, 8, 16}, Conv3{4, 4}); }
TEST(Originals, TransposedPatches) {
  check(Extents<5>{1, 192, 2, 8, 8}, ConvTranspose<Kernel<2, 4, 4>, Stride<2, 4, 4>>{192, 13});
}
TEST(Originals, TransposedWindowsThatOverlap) {
  check(Extents<5>{1, 8, 2, 8, 16},
        ConvTranspose<Kernel<2, 4, 4>, Stride<2, 2, 2>, Padding<0, 1, 1>>{8, 4});
}

}  // namespace
