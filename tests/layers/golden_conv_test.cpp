// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions against PyTorch's values, forward and all gradients, on every mesh of this number of
// ranks.

#include "layers/golden.hpp"
#include "shard/layers/conv.hpp"

namespace shard::testing {
namespace {

template <class Layer, class B0, class B1>
void check_conv(const Json& one) {
  constexpr int dims = Layer::dims, rank = dims + 2;
  using X       = typename InputOf<double, Layer, B0, B1, dims>::type;
  using Y       = OutputOf<double, dims>;
  const auto x0 = golden_array<rank>(one["x"]), y0 = golden_array<rank>(one["y"]);
  const auto dy0 = golden_like(one["dy"], y0), dx0 = golden_like(one["dx"], x0);
  const bool bias = one.contains("bias");
  Layer layer{x0.n[1], y0.n[1]};
  layer.groups = one["params"].value("groups", 1);
  layer.bias   = bias;
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p");
  set_values(parameters.weight, one["weight"]["data"].get<std::vector<double>>());
  if (bias) set_values(parameters.bias, one["bias"]["data"].get<std::vector<double>>());
  on_all_meshes([&](const Grid& mesh, const std::array<int, 2>& shape, int which, Random& random) {
    const X x("x", mesh, some_partitions(x0.n, shape, which, random));
    const Y y("y", mesh, layer.output_partitions(x.partitions()));
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
    if (bias) {
      EXPECT_LT(difference(summed(gradients.bias, x), one["dbias"].get<std::vector<double>>()),
                1e-12);
    }
  });
}

template <int... I>
Json list() {
  return Json::array({I...});
}

std::map<std::string, Handler> table;

template <class K, class S, class P, class D>
void put(const char* op, const Json& k, const Json& s, const Json& p, const Json& d,
         std::initializer_list<int> groups = {1}) {
  for (int g : groups)
    table[key_of(op, {{"kernel", k},
                      {"stride", s},
                      {"padding", p},
                      {"dilation", d},
                      {"groups", g},
                      {"padding_mode", "zeros"}})] = check_conv<Conv<K, S, P, D>, Zero, Zero>;
}
template <int K0, int K1, int S0, int S1, int P0, int P1, int D0 = 1, int D1 = 1>
void put2(std::initializer_list<int> groups = {1}) {
  put<Kernel<K0, K1>, Stride<S0, S1>, Padding<P0, P1>, Dilation<D0, D1>>(
      "conv2d", list<K0, K1>(), list<S0, S1>(), list<P0, P1>(), list<D0, D1>(), groups);
}
template <int K0, int K1, int K2, int S0, int S1, int S2, int P>
void put3() {
  put<Kernel<K0, K1, K2>, Stride<S0, S1, S2>, Padding<P, P, P>, Dilation<1, 1, 1>>(
      "conv3d", list<K0, K1, K2>(), list<S0, S1, S2>(), list<P, P, P>(), list<1, 1, 1>());
}
template <class B0, class B1>
void put_mode(const char* mode) {
  table[key_of("conv2d", {{"kernel", list<5, 5>()},
                          {"stride", list<1, 1>()},
                          {"padding", list<2, 2>()},
                          {"dilation", list<1, 1>()},
                          {"groups", 1},
                          {"padding_mode", mode}})] =
      check_conv<Conv<Kernel<5, 5>, Padding<2, 2>>, B0, B1>;
}

TEST(golden_layers, conv) {
  put2<3, 3, 1, 1, 1, 1>({1, 4});
  put2<5, 5, 1, 1, 2, 2>();
  put2<3, 3, 2, 2, 1, 1>({1, 2});
  put2<4, 4, 2, 2, 1, 1>();
  put2<2, 2, 2, 2, 0, 0>();
  put2<3, 3, 1, 1, 0, 0>();
  put2<3, 3, 1, 1, 2, 2>();
  put2<4, 4, 1, 1, 1, 1>();
  put2<4, 4, 1, 1, 2, 2>();
  put2<3, 3, 1, 1, 2, 2, 2, 2>();
  put2<7, 7, 4, 4, 3, 3>();
  put2<5, 3, 2, 1, 2, 1>();
  put2<1, 1, 1, 1, 0, 0>();
  put2<1, 1, 2, 2, 0, 0>();
  put2<2, 2, 1, 1, 0, 0>();
  put2<2, 2, 1, 1, 1, 1>();
  put2<5, 5, 2, 2, 2, 2>();
  put2<3, 3, 3, 3, 0, 0>();
  put_mode<Periodic, Periodic>("circular");
  put_mode<Reflect, Reflect>("reflect");
  put_mode<Clamp, Clamp>("replicate");
  put<Kernel<3>, Stride<2>, Padding<1>, Dilation<1>>("conv1d", list<3>(), list<2>(), list<1>(),
                                                     list<1>());
  put3<2, 4, 4, 2, 4, 4, 0>();
  put3<3, 3, 3, 1, 1, 1, 1>();
  put3<3, 3, 3, 1, 2, 2, 1>();
  // circular longitude, reflecting latitude
  table[key_of("periodic_conv2d", {{"kernel", list<3, 3>()}, {"padding", 1}})] =
      check_conv<Conv<Kernel<3, 3>, Padding<1, 1>>, Reflect, Periodic>;
  table[key_of("periodic_conv2d", {{"kernel", list<5, 5>()}, {"padding", 2}})] =
      check_conv<Conv<Kernel<5, 5>, Padding<2, 2>>, Reflect, Periodic>;
  run_golden(table);
}

}  // namespace
}  // namespace shard::testing
