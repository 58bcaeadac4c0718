// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models of layers, cut over a mesh, against the same model on one rank.
#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "model_support.hpp"
#include "shard/autodiff/checks.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

using Conv3 = Conv<Kernel<3, 3>, Padding<1, 1>>;
using Down  = Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
using Up    = ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
using Head  = Conv<Kernel<1, 1>>;

auto unet() {
  return sequential<double>(
      named<"stem">(Conv3{2, 4}), GroupNorm{2, 4}, SiLU{},
      concat(Down{4, 6}, SiLU{}, residual(Conv3{6, 6}, SiLU{}), Up{6, 4}, GroupNorm{1, 4}),
      Head{8, 2});
}

TEST(Model, IsTheSerialModelOnEveryMesh) {
  const auto model = unet();
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Extents<4>& extents : {Extents<4>{1, 2, 13, 10}, Extents<4>{2, 2, 8, 11}}) {
    const Results serial = run(domain_parallel<>(model, self), extents);
    for (int rows = 1; rows <= ranks; ++rows) {
      if (ranks % rows != 0) continue;
      const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {rows, ranks / rows});
      const Results cut = run(domain_parallel<Lat, Lon>(model, mesh), extents);
      if (ranks == 1) {
        EXPECT_EQ(cut.y, serial.y);
        EXPECT_EQ(cut.dx, serial.dx);
        EXPECT_EQ(cut.gradients, serial.gradients);
      }
      expect_near(cut.y, serial.y, 1e-12);
      expect_near(cut.dx, serial.dx, 1e-12);
      expect_near(cut.gradients, serial.gradients, 1e-12);
    }
    // batch over one axis, latitude over another, named from the end
    const Mesh<Data, Lat> data(MPI_COMM_WORLD, {0, ranks % 2 == 0 ? 2 : 1});
    const Results cut = run(domain_parallel<Cut<-2, Lat>, Cut<0, Data>>(model, data), extents);
    expect_near(cut.y, serial.y, 1e-12);
    expect_near(cut.dx, serial.dx, 1e-12);
    expect_near(cut.gradients, serial.gradients, 1e-12);
  }
}

}  // namespace
