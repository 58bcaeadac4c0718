// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every kind of layer stands in a model, in one, two and three dimensions, on any partition.
#include <gtest/gtest.h>
#include <mpi.h>

#include <random>
#include <string>

#include "model_support.hpp"
#include "shard/autodiff/checks.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

/// The model cut over all meshes, and its tangent and adjoint, against the same model on one rank.
template <class Model, int Rank>
void check(const Model& model, const Extents<Rank>& extents) {
  using Grid           = Mesh<Lat, Lon>;
  const auto on        = [&](const Grid& mesh) { return domain_parallel<Lat, Lon>(model, mesh); };
  const Results serial = run(on(Grid(MPI_COMM_SELF, {1, 1})), extents);
  std::mt19937_64 engine(seed());
  for (const Extents<2>& shape : mesh_shapes()) {
    const Grid mesh(MPI_COMM_WORLD, shape);
    SCOPED_TRACE(std::to_string(mesh.size<Lat>()) + " x " + std::to_string(mesh.size<Lon>()));
    const auto sharded = on(mesh);
    using Input        = typename decltype(on(mesh))::Input;
    expect_near(run(sharded, extents), serial, 1e-11);
    const std::array<int, 2> parts{mesh.size<Lat>(), mesh.size<Lon>()};
    const Input x("x", mesh, random_partitions(extents, parts, engine)), tx = x.like("tx");
    // another model: the state of a Dropout counts its steps
    expect_near(run_on(on(mesh), x), serial, 1e-11);
    const auto dy = sharded.output(x);
    fill(tx, 0.2);
    fill(dy, 0.3);
    EXPECT_LT(dot_product_error(Space(), sharded, x, tx, dy), 1e-12);
  }
}

TEST(EveryLayer, WindowsPoolsAndNorms) {
  check(sequential<double>(CrossEmbed<Stride<2, 2>, Kernel<2, 2>, Kernel<4, 4>>{2, {3, 1}},
                           BatchNorm{4}, GELU{}, Dropout{0.25, 7},
                           MaxPool<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>{},
                           InstanceNorm{4, 1e-5, true}, PixelShuffle<2>{},
                           PeriodicConv<Kernel<3, 3>>{1, 3}, LayerNorm{3}, Tanh{},
                           AvgPool<Kernel<3, 3>, Stride<2, 1>, Padding<1, 1>, ExcludePadding>{}),
        Extents<4>{2, 2, 14, 12});
}

TEST(EveryLayer, ResamplingAndSoftmaxes) {
  check(sequential<double>(Interpolate<2, Bicubic>{.size = {9, 8}}, SpatialLayerNorm{3},
                           LeakyReLU{0.2}, MirrorPad{.low = {1, 2}, .high = {2, 0}},
                           concat(MaxPool<Kernel<2, 2>>{}, ReLU{}, Interpolate<2, Meets<2>>{}),
                           Unpad<2>{.low = {1, 2}, .high = {2, 0}}, Softmax{}, SpatialSoftmax<0>{},
                           Sigmoid{}),
        Extents<4>{1, 3, 11, 7});
}

TEST(EveryLayer, OfTransformers) {
  check(
      sequential<double>(Conv<Kernel<3, 3>, Padding<1, 1>>{2, 12}, RMSNorm{12}, Rotary{2}, SwiGLU{},
                         LayerScale{6, 0.5}, DropPath{0.25, 3}, Conv<Kernel<1, 1>>{6, 8},
                         PixelShuffle<2, 2, PixelOrder::points_first>{}),
      Extents<4>{4, 2, 9, 7});
}

TEST(EveryLayer, ThreeDimensions) {
  using Stem       = Conv<Kernel<2, 3, 3>, Stride<1, 2, 2>, Padding<1, 1, 1>,
                    PaddingMode<Zero, Reflect, Periodic>>;
  using Up         = ConvTranspose<Kernel<2, 4, 4>, Stride<1, 2, 2>, Padding<0, 1, 1>>;
  const auto model = sequential<double>(Stem{2, 4}, GroupNorm{2, 4}, SiLU{}, Up{4, 2});
  const Mesh<Lat, Lon> alone(MPI_COMM_SELF, {1, 1});
  const Extents<5> extents{1, 2, 3, 8, 6};
  const Results serial =
      run(domain_parallel<ShardDim<-2, Lat>, ShardDim<-1, Lon>>(model, alone), extents);
  for (const Extents<2>& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto sharded = domain_parallel<ShardDim<-2, Lat>, ShardDim<-1, Lon>>(model, mesh);
    expect_near(run(sharded, extents), serial, 1e-11);
  }
}

/// Two levels under one skip, of which the last way up takes the skip's extents, and under two.
TEST(EveryLayer, TwoLevels) {
  using Down  = Conv<Kernel<3>, Stride<2>, Padding<1>>;
  using Twice = ConvTranspose<Kernel<4>, Stride<2>, Padding<1>>;
  using Up    = ConvTranspose<Kernel<3>, Stride<2>, Padding<1>>;
  const auto one =
      sequential<double>(concat(Down{1, 2}, Down{2, 2}, SiLU{}, Twice{2, 2}, Up{2, 1}));
  const auto two = sequential<double>(concat(Down{1, 2}, concat(Down{2, 2}, Up{2, 2}), Up{4, 1}));
  const Mesh<Lat> alone(MPI_COMM_SELF, {1}), mesh(MPI_COMM_WORLD, {0});
  const auto compare = [&](const auto& model, index_t n) {
    const Extents<3> extents{2, 1, n};
    const Results serial = run(domain_parallel<Lat>(model, alone), extents);
    EXPECT_EQ(serial.y.size(), 4U * static_cast<std::size_t>(n));
    expect_near(run(domain_parallel<Lat>(model, mesh), extents), serial, 1e-11);
  };
  for (const index_t n : {4, 8, 12, 16, 20, 28}) compare(one, n);
  for (const index_t n : {13, 14, 16}) compare(two, n);
  std::mt19937_64 engine(seed());
  const auto sharded = domain_parallel<Lat>(one, mesh);
  const Extents<3> extents{2, 1, 20};
  const Results serial = run(domain_parallel<Lat>(one, alone), extents);
  for (int i = 0; i < 5; ++i)
    expect_near(run_on(sharded, decltype(sharded)::Input(
                                    "x", mesh,
                                    random_partitions(extents, std::array<int, 1>{mesh.size<Lat>()},
                                                      engine))),
                serial, 1e-11);
}

TEST(EveryLayer, OneDimension) {
  const auto model =
      sequential<double>(Conv<Kernel<4>, Stride<3>, Padding<low_high<2, 1>>>{2, 4}, GroupNorm{2, 4},
                         SiLU{}, residual(Conv<Kernel<3>, Padding<1>, PaddingMode<Clamp>>{4, 4}));
  const Extents<3> extents{2, 2, 23};
  const Results serial = run(domain_parallel<Lat>(model, Mesh<Lat>(MPI_COMM_SELF, {1})), extents);
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const auto sharded = domain_parallel<Lat>(model, mesh);
  expect_near(run(sharded, extents), serial, 1e-11);
  std::mt19937_64 engine(seed());
  for (int i = 0; i < 3; ++i)
    expect_near(run_on(sharded, decltype(sharded)::Input(
                                    "x", mesh,
                                    random_partitions(extents, std::array<int, 1>{mesh.size<Lat>()},
                                                      engine))),
                serial, 1e-11);
}

}  // namespace
