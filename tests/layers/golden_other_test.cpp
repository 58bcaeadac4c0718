// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposed convolution, interpolation, group norm and SiLU against PyTorch's values, forward and
// all gradients, on every mesh of this number of ranks.

#include "layers/golden.hpp"
#include "shard/layers/conv_transpose.hpp"
#include "shard/layers/group_norm.hpp"
#include "shard/layers/interpolate.hpp"
#include "shard/layers/pointwise.hpp"

namespace shard::testing {
namespace {

template <class Layer>
void check_conv_transpose(const Json& one) {
  constexpr int dims = Layer::dims, rank = dims + 2;
  using X       = typename InputOf<double, Layer, Zero, Zero, dims>::type;
  using Y       = OutputOf<double, dims>;
  const auto x0 = golden_array<rank>(one["x"]), y0 = golden_array<rank>(one["y"]);
  const auto dy0 = golden_like(one["dy"], y0), dx0 = golden_like(one["dx"], x0);
  Layer layer{x0.n[1], y0.n[1]};
  layer.groups              = one["params"]["groups"];
  const auto output_padding = one["params"]["output_padding"].get<std::array<index_t, dims>>();
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p");
  set_values(parameters.weight, one["weight"]["data"].get<std::vector<double>>());
  set_values(parameters.bias, one["bias"]["data"].get<std::vector<double>>());
  on_all_meshes([&](const Grid& mesh, const std::array<int, 2>& shape, int which, Random& random) {
    const X x("x", mesh, some_partitions(x0.n, shape, which, random));
    const Y y("y", mesh, layer.output_partitions(x.partitions(), output_padding));
    const Y dy = y.like("dy");
    const X dx = x.like("dx");
    scatter(x, x0);
    layer.apply(space, parameters, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    scatter(dy, dy0);
    scatter(dx, World<rank>(x0.n));
    const auto gradients = make_parameters<double>(layer, "g");
    layer.pullback(space, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), 1e-12);
    EXPECT_LT(difference(summed(gradients.weight, x), one["dweight"].get<std::vector<double>>()),
              1e-12);
    EXPECT_LT(difference(summed(gradients.bias, x), one["dbias"].get<std::vector<double>>()),
              1e-12);
  });
}

template <class Layer>
void check_interpolate(const Json& one) {
  using X       = typename InputOf<double, Layer, Zero, Zero, 2>::type;
  using Y       = OutputOf<double, 2>;
  const auto x0 = golden_array<4>(one["x"]), y0 = golden_array<4>(one["y"]);
  const auto dy0 = golden_like(one["dy"], y0), dx0 = golden_like(one["dx"], x0);
  const Layer layer{};
  const Space space;
  on_all_meshes([&](const Grid& mesh, const std::array<int, 2>& shape, int which, Random& random) {
    const X x("x", mesh, some_partitions(x0.n, shape, which, random));
    const Y y("y", mesh, layer.output_partitions(x.partitions(), {y0.n[2], y0.n[3]}));
    const Y dy = y.like("dy");
    const X dx = x.like("dx");
    scatter(x, x0);
    layer.apply(space, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    scatter(dy, dy0);
    scatter(dx, World<4>(x0.n));
    layer.pullback(space, dx, dy);
    EXPECT_LT(difference(dx, dx0), 1e-12);
  });
}

template <int Rank>
void check_group_norm(const Json& one) {
  using X       = OutputOf<double, Rank - 2>;
  const auto x0 = golden_array<Rank>(one["x"]), y0 = golden_array<Rank>(one["y"]);
  const auto dy0 = golden_like(one["dy"], y0), dx0 = golden_like(one["dx"], x0);
  const GroupNorm layer{one["params"]["groups"].get<index_t>(), x0.n[1],
                        one["params"]["eps"].get<double>()};
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p");
  set_values(parameters.weight, one["weight"]["data"].get<std::vector<double>>());
  set_values(parameters.bias, one["bias"]["data"].get<std::vector<double>>());
  on_all_meshes([&](const Grid& mesh, const std::array<int, 2>& shape, int which, Random& random) {
    const X x("x", mesh, some_partitions(x0.n, shape, which, random));
    const X y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
    auto state = layer.state(x);
    scatter(x, x0);
    layer.apply(space, state, parameters, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    scatter(dy, dy0);
    const auto gradients = make_parameters<double>(layer, "g");
    layer.pullback(space, state, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), 1e-12);
    EXPECT_LT(difference(summed(gradients.weight, x), one["dweight"].get<std::vector<double>>()),
              1e-12);
    EXPECT_LT(difference(summed(gradients.bias, x), one["dbias"].get<std::vector<double>>()),
              1e-12);
  });
}

void check_silu(const Json& one) {
  using X       = OutputOf<double, 2>;
  const auto x0 = golden_array<4>(one["x"]), y0 = golden_array<4>(one["y"]);
  const auto dy0 = golden_like(one["dy"], y0), dx0 = golden_like(one["dx"], x0);
  const Space space;
  on_all_meshes([&](const Grid& mesh, const std::array<int, 2>& shape, int which, Random& random) {
    const X x("x", mesh, some_partitions(x0.n, shape, which, random));
    const X y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
    scatter(x, x0);
    SiLU{}.apply(space, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    scatter(dy, dy0);
    SiLU{}.pullback(space, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), 1e-12);
  });
}

template <int K, int S, int P, int OP, int D, int G>
void put(std::map<std::string, Handler>& table) {
  const auto two = [](int i) { return Json::array({i, i}); };
  table[key_of("conv_transpose2d", {{"kernel", two(K)},
                                    {"stride", two(S)},
                                    {"padding", two(P)},
                                    {"output_padding", two(OP)},
                                    {"dilation", two(D)},
                                    {"groups", G}})] =
      check_conv_transpose<
          ConvTranspose<Kernel<K, K>, Stride<S, S>, Padding<P, P>, Dilation<D, D>>>;
}

TEST(golden_layers, conv_transpose) {
  std::map<std::string, Handler> table;
  put<2, 2, 0, 0, 1, 1>(table);
  put<4, 2, 1, 0, 1, 1>(table);
  put<3, 2, 1, 1, 1, 1>(table);
  put<3, 2, 1, 0, 1, 1>(table);
  put<4, 2, 0, 0, 1, 1>(table);
  put<5, 2, 1, 0, 1, 1>(table);
  put<8, 2, 3, 0, 1, 1>(table);
  put<2, 2, 1, 1, 2, 1>(table);
  put<3, 1, 1, 0, 1, 1>(table);
  put<3, 3, 0, 0, 1, 1>(table);
  put<4, 2, 1, 0, 1, 2>(table);
  const auto three = [](int a, int b) { return Json::array({a, b, b}); };
  table[key_of("conv_transpose3d", {{"kernel", three(2, 4)},
                                    {"stride", three(2, 4)},
                                    {"padding", three(0, 0)},
                                    {"output_padding", three(0, 0)},
                                    {"dilation", three(1, 1)},
                                    {"groups", 1}})] =
      check_conv_transpose<ConvTranspose<Kernel<2, 4, 4>, Stride<2, 4, 4>>>;
  table[key_of("conv_transpose3d", {{"kernel", three(2, 4)},
                                    {"stride", three(2, 2)},
                                    {"padding", three(0, 1)},
                                    {"output_padding", three(0, 0)},
                                    {"dilation", three(1, 1)},
                                    {"groups", 1}})] =
      check_conv_transpose<ConvTranspose<Kernel<2, 4, 4>, Stride<2, 2, 2>, Padding<0, 1, 1>>>;
  run_golden(table);
}

TEST(golden_layers, interpolate) {
  int count = 0;
  for (const Json& one : golden_file()["cases"]) {
    if (one["op"] != "interpolate") continue;
    SCOPED_TRACE(one["params"].dump());
    const std::string mode = one["params"]["mode"];
    if (mode == "bilinear" && !one["params"]["align_corners"])
      check_interpolate<Interpolate<2>>(one);
    else if (mode == "bilinear")
      check_interpolate<Interpolate<2, LinearCorners>>(one);
    else if (mode == "nearest")
      check_interpolate<Interpolate<2, Nearest>>(one);
    else
      continue;
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(golden_layers, group_norm) {
  int count = 0;
  for (const Json& one : golden_file()["cases"]) {
    if (one["op"] != "group_norm") continue;
    SCOPED_TRACE(one["params"].dump());
    one["x"]["shape"].size() == 4 ? check_group_norm<4>(one) : check_group_norm<5>(one);
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(golden_layers, silu) { run_golden({{key_of("silu", Json::object()), check_silu}}); }

}  // namespace
}  // namespace shard::testing
