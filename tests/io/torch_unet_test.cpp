// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A U-Net that PyTorch made (tests/data/make_torch_unet.py), with its weights, an input and what
// PyTorch computes from it: the same here, on every mesh.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "shard/io/safetensors.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/model/parameter_arena.hpp"
#include "shard/view/copy.hpp"
#include "support/support.hpp"

namespace shard::testing {
namespace {

struct Lat;
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;
using Field = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                          ShardDim<3, Lon, Halo<1>>>;
using Grid  = Mesh<Lat, Lon>;
using Arena = ParameterArena<float>;

template <int S>
using Window = Conv<Kernel<3, 3>, Stride<S, S>, Padding<1, 1>>;

/// silu(norm(conv(x)))
template <int S>
struct Block {
  Window<S> conv;
  GroupNorm norm;
  typename Window<S>::template Parameters<float> conv_parameters;
  GroupNorm::Parameters<float> norm_parameters;

  Block(Arena& arena, const std::string& name, index_t in, index_t out)
      : conv{in, out},
        norm{4, out},
        conv_parameters(arena.take(name + ".conv", conv)),
        norm_parameters(arena.take(name + ".norm", norm)) {}

  Field operator()(const Grid& mesh, const Field& x) const {
    const Field y("y", mesh, conv.output_partitions(x.partitions()));
    auto state = norm.state(y);
    conv.apply(Space(), conv_parameters, y, x);
    norm.apply(Space(), state, norm_parameters, y, y);
    SiLU().apply(Space(), y, y);
    return y;
  }
};

/// A transposed convolution up to where `skip` is, and both one after the other.
template <class Layer>
struct Rise {
  Layer layer;
  typename Layer::template Parameters<float> parameters;

  Rise(Arena& arena, const std::string& name, index_t in, index_t out)
      : layer{in, out}, parameters(arena.take(name, layer)) {}

  Field operator()(const Grid& mesh, const Field& x, const Field& skip) const {
    auto partitions = skip.partitions();
    partitions[1]   = Partition::balanced(layer.out, 1);
    const Field y("y", mesh, partitions);
    layer.apply(Space(), parameters, y, x);
    partitions[1] = Partition::balanced(layer.out + skip.extent(1), 1);
    const Field joined("joined", mesh, partitions);
    concat_channels(Space(), joined, skip, y);
    return joined;
  }
};

struct UNet {
  Arena arena{"parameters", 30034};
  Block<1> enter{arena, "enter", 3, 8};
  Block<2> down1{arena, "down1", 8, 16};
  Block<2> down2{arena, "down2", 16, 32};
  Block<1> middle{arena, "middle", 32, 32};
  Rise<ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>> up1{arena, "up1", 32, 16};
  Block<1> merge1{arena, "merge1", 32, 16};
  Rise<ConvTranspose<Kernel<2, 2>, Stride<2, 2>>> up0{arena, "up0", 16, 8};
  Block<1> merge0{arena, "merge0", 16, 8};
  Conv<Kernel<1, 1>> head{8, 2};
  Conv<Kernel<1, 1>>::Parameters<float> head_parameters = arena.take("head", head);

  Field operator()(const Grid& mesh, const Field& x) const {
    const Field skip0 = enter(mesh, x), skip1 = down1(mesh, skip0);
    const Field low = middle(mesh, down2(mesh, skip1));
    const Field one = merge1(mesh, up1(mesh, low, skip1));
    const Field all = merge0(mesh, up0(mesh, one, skip0));
    const Field y("y", mesh, head.output_partitions(all.partitions()));
    head.apply(Space(), head_parameters, y, all);
    return y;
  }
};

TEST(TorchUNet, computes_what_pytorch_computes) {
  const std::string path = SHARD_TEST_DATA "/torch_unet.safetensors";
  const UNet net;
  const SafetensorsReport report =
      load_safetensors(path, net.arena, MPI_COMM_WORLD, {.strict = false});
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"example.input", "example.output"}));
  const auto input  = read_safetensors<float>(path, "example.input");
  const auto output = read_safetensors<float>(path, "example.output");
  ASSERT_EQ(output.size(), 2U * 2 * 20 * 28);

  std::mt19937_64 engine(seed());
  for (const Extents<2>& shape : {Extents<2>{ranks(), 1}, Extents<2>{1, ranks()}, Extents<2>{0, 0}})
    for (const bool even : {true, false}) {
      const Grid mesh(MPI_COMM_WORLD, shape);
      SCOPED_TRACE(std::to_string(mesh.size<Lat>()) + " x " + std::to_string(mesh.size<Lon>()) +
                   (even ? ", balanced" : ", uneven"));
      const auto partition = [&](index_t n, int parts) {
        if (even) return Partition::balanced(n, parts);
        std::vector<index_t> begins{0, n};
        std::uniform_int_distribution<index_t> anywhere(0, n);
        for (int p = 1; p < parts; ++p) begins.push_back(anywhere(engine));
        std::sort(begins.begin(), begins.end());
        return Partition::explicit_begins(begins);
      };
      const Partition lat = partition(20, mesh.size<Lat>()), lon = partition(28, mesh.size<Lon>());
      const Field x("x", mesh, {Partition::balanced(2, 1), Partition::balanced(3, 1), lat, lon});
      const auto host = create_mirror_view(x);
      for (index_t b = 0; b < 2; ++b)
        for (index_t c = 0; c < 3; ++c)
          for (index_t i = 0; i < host.extent(2); ++i)
            for (index_t j = 0; j < host.extent(3); ++j)
              host(b, c, i, j) = input[static_cast<std::size_t>(
                  ((b * 3 + c) * 20 + host.to_global(2, i)) * 28 + host.to_global(3, j))];
      deep_copy(Space(), x, host);
      const Field y  = net(mesh, x);
      const auto got = create_mirror_view(y);
      deep_copy(Space(), got, y);
      Kokkos::fence();
      float apart = 0.0F;
      for (index_t b = 0; b < 2; ++b)
        for (index_t c = 0; c < 2; ++c)
          for (index_t i = 0; i < got.extent(2); ++i)
            for (index_t j = 0; j < got.extent(3); ++j)
              apart = std::max(
                  apart,
                  std::abs(
                      got(b, c, i, j) -
                      output[static_cast<std::size_t>(
                          ((b * 2 + c) * 20 + got.to_global(2, i)) * 28 + got.to_global(3, j))]));
      EXPECT_LT(apart, 1e-5F);
    }
}

}  // namespace
}  // namespace shard::testing
