// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modulated norms against plain loops and central differences, for each kind of scale and shift.

#include "shard/layers/norm/modulated.hpp"

#include <functional>
#include <map>

#include "layers/bits.hpp"
#include "layers/broadcast_cases.hpp"
#include "layers/derivatives.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using broadcast::for_values;
using broadcast::N4;
using Field  = OutputOf<double, 2>;
using Values = std::vector<double>;

constexpr N4 n{2, 4, 3, 5};

World<4> world_of(const N4& extents, Values v) {
  World<4> w(extents);
  w.v = std::move(v);
  return w;
}

/// (x - mean) / sqrt(variance + eps) weight + bias; statistics are over the channels of a point, or
/// over a group of channels and all points; or of RMSNorm.
struct PlainNorm {
  index_t groups = 0;  ///< 0: the channels of a point
  bool centred   = true;
  double eps     = 1e-3;
  Values weight{1.0, 1.0, 1.0, 1.0}, bias{0.0, 0.0, 0.0, 0.0};

  Values operator()(const Values& x) const {
    const World<4> at(n);
    const auto slot = [&](const N4& i) {
      return groups == 0 ? (i[0] * n[2] + i[2]) * n[3] + i[3]
                         : i[0] * groups + i[1] / (n[1] / groups);
    };
    std::vector<double> sum(70), count(70), squares(70);
    const auto each = [&](const auto& visit) {
      N4 i{};
      for (i[0] = 0; i[0] < n[0]; ++i[0])
        for (i[1] = 0; i[1] < n[1]; ++i[1])
          for (i[2] = 0; i[2] < n[2]; ++i[2])
            for (i[3] = 0; i[3] < n[3]; ++i[3])
              visit(at.at(i), static_cast<std::size_t>(slot(i)), static_cast<std::size_t>(i[1]));
    };
    each([&](std::size_t i, std::size_t s, std::size_t) {
      sum[s] += centred ? x[i] : 0.0;
      count[s] += 1.0;
    });
    each([&](std::size_t i, std::size_t s, std::size_t) {
      squares[s] += std::pow(x[i] - sum[s] / count[s], 2);
    });
    Values y(x.size());
    each([&](std::size_t i, std::size_t s, std::size_t c) {
      y[i] =
          (x[i] - sum[s] / count[s]) / std::sqrt(squares[s] / count[s] + eps) * weight[c] + bias[c];
    });
    return y;
  }
};

/// y and its derivatives, for values of extents nz.
struct Expected {
  Values y, with_tx, with_tscale, with_tshift, dx, dscale, dshift;
};

struct Inputs {
  World<4> x, tx, dy, scale, tscale, shift, tshift;

  explicit Inputs(const N4& nz) {
    Random random(seed());
    for (World<4>* w : {&x, &tx, &dy}) *w = random_world(n, random);
    for (World<4>* w : {&scale, &tscale, &shift, &tshift}) *w = random_world(nz, random);
  }
};

Values modulated(const PlainNorm& norm, double base, const N4& nz, const Values& x,
                 const Values& scale, const Values& shift) {
  Values y = norm(x);
  broadcast::for_points(
      n, nz, [&](std::size_t i, std::size_t k) { y[i] = y[i] * (base + scale[k]) + shift[k]; });
  return y;
}

Expected expected_of(const PlainNorm& norm, double base, const N4& nz) {
  const Inputs in(nz);
  const auto of_x = [&](const Values& v) {
    return modulated(norm, base, nz, v, in.scale.v, in.shift.v);
  };
  const auto of_scale = [&](const Values& v) {
    return modulated(norm, base, nz, in.x.v, v, in.shift.v);
  };
  const auto of_shift = [&](const Values& v) {
    return modulated(norm, base, nz, in.x.v, in.scale.v, v);
  };
  const auto gradient = [&](const auto& f, const Values& v) {
    return gradient_by_differences([&](const Values& at) { return dot(in.dy.v, f(at)); }, v);
  };
  return {of_x(in.x.v),
          tangent_by_differences(of_x, in.x.v, in.tx.v),
          tangent_by_differences(of_scale, in.scale.v, in.tscale.v),
          tangent_by_differences(of_shift, in.shift.v, in.tshift.v),
          gradient(of_x, in.x.v),
          gradient(of_scale, in.scale.v),
          gradient(of_shift, in.shift.v)};
}

template <class Norm>
void check(const char* name, const Modulated<Norm>& layer, const PlainNorm& plain) {
  SCOPED_TRACE(name);
  static_assert(Modulated<Norm>::sharding == Norm::sharding);
  std::map<N4, Expected> all;
  const Space space;
  auto parameters = make_parameters<double>(layer, "p"),
       gradients  = make_parameters<double>(layer, "g");
  if (layer.norm.affine) {
    set_values(parameters.weight, plain.weight);
    set_values(parameters.bias, plain.bias);
  }
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions), dx = x.like("dx");
    const Field y("y", mesh, partitions), tx = y.like("tx"), dy = y.like("dy");
    for_values(mesh, x, [&](const auto& scale, const N4& nz) {
      if (all.count(nz) == 0) all.emplace(nz, expected_of(plain, layer.base, nz));
      const Expected& e = all.at(nz);
      const Inputs in(nz);
      const auto shift = broadcast::like(scale), tscale = broadcast::like(scale),
                 tshift = broadcast::like(scale), dscale = broadcast::like(scale),
                 dshift = broadcast::like(scale);
      broadcast::set(scale, in.scale);
      broadcast::set(shift, in.shift);
      broadcast::set(tscale, in.tscale);
      broadcast::set(tshift, in.tshift);
      scatter(x, in.x);
      scatter(tx, in.tx);
      scatter(dy, in.dy);
      auto state = layer.state(x, scale, shift);
      layer.apply(space, state, parameters, y, x, scale, shift);
      EXPECT_LT(difference(y, world_of(n, e.y)), 1e-12);
      const auto pushed = [&](const auto& a, const auto& b, const auto& c) {
        layer.pushforward(space, state, parameters, not_wanted, y, a, b, c, x, scale, shift);
        return gathered(y, MPI_COMM_WORLD).v;
      };
      EXPECT_LT(difference(pushed(tx, not_wanted, not_wanted), e.with_tx), 1e-8);
      EXPECT_LT(difference(pushed(not_wanted, tscale, not_wanted), e.with_tscale), 1e-8);
      EXPECT_LT(difference(pushed(not_wanted, not_wanted, tshift), e.with_tshift), 1e-8);
      const Values ty = pushed(tx, tscale, tshift);
      layer.pullback(space, state, parameters, not_wanted, dx, dscale, dshift, dy, x, scale, shift);
      EXPECT_LT(difference(dx, world_of(n, e.dx)), 1e-8);
      EXPECT_LT(broadcast::difference(dscale, world_of(nz, e.dscale)), 1e-8);
      EXPECT_LT(broadcast::difference(dshift, world_of(nz, e.dshift)), 1e-8);
      EXPECT_NEAR(dot(ty, in.dy.v),
                  dot(in.tx.v, gathered(dx, MPI_COMM_WORLD).v) + dot(in.tscale.v, e.dscale) +
                      dot(in.tshift.v, e.dshift),
                  1e-7);
      layer.pullback(space, state, parameters, not_wanted, not_wanted, not_wanted, not_wanted, dy,
                     x, scale, shift);
      layer.pullback(space, state, parameters, not_wanted, dy, not_wanted, not_wanted, dy, x, scale,
                     shift);  // in place
      EXPECT_EQ(difference(dy, gathered(dx, MPI_COMM_WORLD)), 0.0);
      layer.apply(space, state, parameters, x, x, scale, shift);
      EXPECT_LT(difference(x, world_of(n, e.y)), 1e-12);
    });
  });
}

TEST(modulated, layer_norm) {
  check("AdaLN", Modulated<LayerNorm>{{4, 1e-3, false}}, {});
  check("AdaLN, base 0", Modulated<LayerNorm>{{4, 1e-3, false}, 0.0}, {});
}
TEST(modulated, rms_norm) {
  check("RMSNorm", Modulated<RMSNorm>{{4, 1e-3, false}}, {.centred = false});
}
TEST(modulated, group_norm) {
  check("GroupNorm", Modulated<GroupNorm>{{2, 4, 1e-3}},
        {2, true, 1e-3, {1.0, 0.5, -2.0, 3.0}, {0.1, 0.2, 0.3, -4.0}});
}

/// The gradients of an affine norm's parameters, with and without that of x; their tangents.
TEST(modulated, parameters_of_the_norm) {
  const Modulated<GroupNorm> layer{{2, 4, 1e-3}};
  const PlainNorm plain{2, true, 1e-3, {1.0, 0.5, -2.0, 3.0}, {0.1, 0.2, 0.3, -4.0}};
  const N4 nz{2, 4, 1, 1};
  const Inputs in(nz);
  const auto of = [&](const Values& both) {
    PlainNorm norm = plain;
    norm.weight    = {both.begin(), both.begin() + 4};
    norm.bias      = {both.begin() + 4, both.end()};
    return modulated(norm, 1.0, nz, in.x.v, in.scale.v, in.shift.v);
  };
  Values both = plain.weight;
  both.insert(both.end(), plain.bias.begin(), plain.bias.end());
  const Values tangents{0.3, -0.2, 0.7, 1.0, -1.0, 0.25, 0.5, -0.125};
  const Values expected =
      gradient_by_differences([&](const Values& v) { return dot(in.dy.v, of(v)); }, both);
  const Values ty0 = tangent_by_differences(of, both, tangents);
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p"),
             pushed     = make_parameters<double>(layer, "t");
  set_values(parameters.weight, plain.weight);
  set_values(parameters.bias, plain.bias);
  set_values(pushed.weight, {tangents.begin(), tangents.begin() + 4});
  set_values(pushed.bias, {tangents.begin() + 4, tangents.end()});
  const broadcast::Vectors scale("scale", 2, 4), shift("shift", 2, 4);
  set_values(scale, in.scale.v);
  set_values(shift, in.shift.v);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field x("x", mesh, partitions), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
    scatter(x, in.x);
    scatter(dy, in.dy);
    auto state = layer.state(x);
    layer.apply(space, state, parameters, y, x, scale, shift);
    const auto gradients = [&](const auto& to) {
      const auto g = make_parameters<double>(layer, "g");
      layer.pullback(space, state, parameters, g, to, not_wanted, not_wanted, dy, x, scale, shift);
      Values sums = summed(g.weight, x), more = summed(g.bias, x);
      sums.insert(sums.end(), more.begin(), more.end());
      return sums;
    };
    EXPECT_LT(difference(gradients(dx), expected), 1e-8);
    EXPECT_LT(difference(gradients(not_wanted), expected), 1e-8);
    layer.pushforward(space, state, parameters, pushed, y, not_wanted, not_wanted, not_wanted, x,
                      scale, shift);
    EXPECT_LT(difference(y, world_of(n, ty0)), 1e-8);
  });
}

/// What is sent: of an AdaLN only the sums of the gradients.
TEST(modulated, messages) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field x("x", mesh, n), y = x.like("y");
  const broadcast::Vectors scale("scale", 2, 4), shift("shift", 2, 4);
  const Modulated<LayerNorm> layer{{4, 1e-5, false}};
  const auto none = make_parameters<double>(layer, "none");
  auto state      = layer.state(x);
  const Space space;
  const auto counted = [&](const auto& what) {
    what();
    const Counts counts = count(what);
    EXPECT_EQ(counts.allocations, 0) << counts;
    return counts.collectives + counts.messages;
  };
  EXPECT_EQ(counted([&] { layer.apply(space, state, none, y, x, scale, shift); }), 0);
  EXPECT_EQ(counted([&] {
              layer.pullback(space, state, none, not_wanted, y, not_wanted, not_wanted, x, x, scale,
                             shift);
            }),
            0);
  EXPECT_EQ(counted([&] {
              layer.pullback(space, state, none, not_wanted, y, scale, shift, x, x, scale, shift);
            }),
            world_size() > 1 ? 2 : 0);
}

}  // namespace
}  // namespace shard::testing
