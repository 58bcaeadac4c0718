// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Norms over the features of heads against plain loops and central differences.

#include "shard/layers/attention/head_norm.hpp"

#include "layers/bits.hpp"
#include "layers/derivatives.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using Values = std::vector<double>;
using N4     = std::array<index_t, 4>;
constexpr N4 n{2, 6, 3, 5};
constexpr index_t heads = 2, features = 3;

/// y of x, and of the weights of the features of each head.
using Plain = std::function<Values(const Values& x, const Values& parameters)>;

/// One head of one point is replaced by what `norm` makes of it.
Values each_head(const Values& x, const std::function<void(Values& head, index_t h)>& norm) {
  const World<4> at(n);
  Values y(x.size());
  N4 i{};
  for (i[0] = 0; i[0] < n[0]; ++i[0])
    for (index_t h = 0; h < heads; ++h)
      for (i[2] = 0; i[2] < n[2]; ++i[2])
        for (i[3] = 0; i[3] < n[3]; ++i[3]) {
          Values head;
          for (i[1] = h * features; i[1] < (h + 1) * features; ++i[1]) head.push_back(x[at.at(i)]);
          norm(head, h);
          for (index_t f = 0; f < features; ++f) {
            i[1]        = h * features + f;
            y[at.at(i)] = head[static_cast<std::size_t>(f)];
          }
        }
  return y;
}

template <class Layer>
void check(const Layer& layer, const Plain& plain, double middle) {
  Random random(seed());
  const World<4> x0 = random_world(n, random), t0 = random_world(n, random),
                 dy0 = random_world(n, random);
  Values p0(static_cast<std::size_t>(parameter_count(layer))), tp0 = p0;
  for (double& p : p0) p = middle + random.real();
  for (double& t : tp0) t = random.real();
  const auto of_x = [&](const Values& x) { return plain(x, p0); };
  const auto of_p = [&](const Values& p) { return plain(x0.v, p); };
  World<4> y0(n), ty0(n), dx0(n);
  y0.v  = of_x(x0.v);
  ty0.v = tangent_by_differences(of_x, x0.v, t0.v);
  if (!p0.empty()) {
    const Values more = tangent_by_differences(of_p, p0, tp0);
    for (std::size_t i = 0; i < more.size(); ++i) ty0.v[i] += more[i];
  }
  dx0.v = gradient_by_differences([&](const Values& x) { return dot(of_x(x), dy0.v); }, x0.v);
  const Values dp0 =
      gradient_by_differences([&](const Values& p) { return dot(of_p(p), dy0.v); }, p0);
  const Space space;
  Values bits;
  const auto run = [&](const Grid& mesh, const auto& partitions, MPI_Comm comm) {
    const OutputOf<double, 2> x("x", mesh, partitions), y = x.like("y"), tx = x.like("tx"),
                                                        dx = x.like("dx");
    scatter(x, x0);
    scatter(tx, t0);
    const auto p = make_parameters<double>(layer, "p"), tp = make_parameters<double>(layer, "tp"),
               g   = make_parameters<double>(layer, "g");
    const auto set = [](const auto& parameters, const Values& values) {
      const auto weights = static_cast<std::ptrdiff_t>(parameters.weight.size());
      if (weights > 0)
        set_values(parameters.weight, Values(values.begin(), values.begin() + weights));
      if (parameters.bias.size() > 0)
        set_values(parameters.bias, Values(values.begin() + weights, values.end()));
    };
    set(p, p0);
    set(tp, tp0);
    set(g, Values(p0.size(), 0.5));
    auto state = layer.state(x);
    layer.apply(space, state, p, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    Values now = gathered(y, comm).v;
    layer.pushforward(space, state, p, tp, y, tx, x);
    EXPECT_LT(difference(y, ty0), 1e-8);
    scatter(y, dy0);
    layer.pullback(space, state, p, g, dx, y, x);
    EXPECT_LT(difference(dx, dx0), 1e-8);
    const Values more = gathered(dx, comm).v;
    now.insert(now.end(), more.begin(), more.end());
    if (bits.empty()) bits = now;
    EXPECT_EQ(different_bits(now, bits), 0);
    if (!p0.empty()) {
      Values dp = summed(g.weight, x);
      if (g.bias.size() > 0) {
        const Values db = summed(g.bias, x);
        dp.insert(dp.end(), db.begin(), db.end());
      }
      int size = 1;
      MPI_Comm_size(comm, &size);
      for (double& d : dp) d -= 0.5 * size;
      if (middle > 5.0) {
        for (const double d : dp) EXPECT_NEAR(d, 0.0, 1e-12);
      } else {
        EXPECT_LT(difference(dp, dp0), 1e-8);
      }
    }
    layer.pullback(space, state, p, not_wanted, y, y, x);  // in place
    EXPECT_LT(difference(y, dx0), 1e-8);
  };
  const Grid self(MPI_COMM_SELF, {1, 1});
  run(self,
      std::array<Partition, 4>{Partition::balanced(n[0], 1), Partition::balanced(n[1], 1),
                               Partition::balanced(n[2], 1), Partition::balanced(n[3], 1)},
      MPI_COMM_SELF);
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    run(mesh, some_partitions(n, shape, which, random), MPI_COMM_WORLD);
  });
}

TEST(head_norm, LayerNormAndRMSNormOfHeads) {
  for (const bool centred : {true, false})
    for (const bool affine : {true, false}) {
      const Plain plain = [&](const Values& x, const Values& p) {
        return each_head(x, [&](Values& head, index_t) {
          double mean = 0.0, squares = 0.0;
          if (centred)
            for (const double v : head) mean += v / 3.0;
          for (const double v : head) squares += (v - mean) * (v - mean) / 3.0;
          for (std::size_t f = 0; f < 3; ++f) {
            head[f] = (head[f] - mean) / std::sqrt(squares + 1e-3);
            if (affine) head[f] = head[f] * p[f] + (centred ? p[3 + f] : 0.0);
          }
        });
      };
      if (centred)
        check(HeadNorm<LayerNorm>{{features, 1e-3, affine}, heads}, plain, 0.0);
      else
        check(HeadNorm<RMSNorm>{{features, 1e-3, affine}, heads}, plain, 0.0);
    }
}

TEST(head_norm, CosineNormHasAFactorForEachHead) {
  for (const bool scaled : {true, false}) {
    const Plain plain = [&](const Values& x, const Values& p) {
      return each_head(x, [&](Values& head, index_t h) {
        double squares = 0.0;
        for (const double v : head) squares += v * v;
        const double factor =
            scaled ? std::exp(std::min(p[static_cast<std::size_t>(h)], std::log(100.0))) : 1.0;
        for (double& v : head) v *= factor / std::sqrt(squares);
      });
    };
    check(CosineNorm{heads, scaled}, plain, 1.0);
    if (scaled) check(CosineNorm{heads, scaled}, plain, 6.0);  // beyond ln 100
  }
}

/// Tokens of zeros, as windows' pads have.
TEST(head_norm, ZerosStayZeros) {
  const Grid self(MPI_COMM_SELF, {1, 1});
  const ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Lat>> x("x", self, {1, 4, 2, 2});
  const CosineNorm unit{2, false};
  auto state = unit.state(x);
  unit.apply(Space(), state, make_parameters<float>(unit, "p"), x, x);
  EXPECT_EQ(gathered(x, MPI_COMM_SELF).largest(), 0.0);
}

TEST(head_norm, HeadsMustFit) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> x("x", mesh, {1, 6, 9, 4});
  expect_parts(message_thrown_by<ArgumentError>([&] { CosineNorm{4}.state(x); }),
               {"6 channels", "4 heads"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 HeadNorm<RMSNorm>{{3}, 4}.state(x);
               }),
               {"\"x\""});
}

}  // namespace
}  // namespace shard::testing
