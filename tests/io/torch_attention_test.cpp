// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What attentions of published packages compute (tests/data/make_attention.py): the same here, and
// the gradients of their parameters, on every mesh.

#include "layers/layer_support.hpp"
#include "shard/io/safetensors.hpp"

namespace shard::testing {
namespace {

using Values = std::vector<double>;

Values read(const std::string& name) {
  return read_safetensors<double>(SHARD_TEST_DATA "/attention.safetensors", name);
}
template <int Rank>
World<Rank> read_world(const std::string& name) {
  const auto header = read_safetensors_header(SHARD_TEST_DATA "/attention.safetensors");
  std::array<index_t, Rank> n{};
  const auto& extents = header.find(name)->extents;
  std::copy(extents.begin(), extents.end(), n.begin());
  World<Rank> world(n);
  world.v = read(name);
  return world;
}

/// A layer's parameters, or their gradients, by the names of the package.
template <class Layer>
Values read_parameters(const Layer& layer, const std::string& prefix, const std::string& suffix) {
  Values all;
  for (const ParameterShape& shape : layer.parameter_shapes()) {
    const Values one = read(prefix + shape.name + suffix);
    EXPECT_EQ(static_cast<index_t>(one.size()), shape.count()) << shape.name;
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}
template <class P>
const auto& array_of(const P& p) {
  if constexpr (requires { p.values; })
    return p.values;
  else
    return p.weight;
}

/// Biased attention, with queries and keys through CosineNorm if `cosine`.
template <class Layer>
void check(const std::string& name, const std::string& prefix, const Layer& layer, bool cosine,
           double tolerance) {
  const World<4> q0 = read_world<4>(name + ".q"), k0 = read_world<4>(name + ".k"),
                 v0 = read_world<4>(name + ".v"), y0 = read_world<4>(name + ".y"),
                 dy0     = read_world<4>(name + ".dy");
  const std::string from = name + "." + prefix;
  const Space space;
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const OutputOf<double, 2> q("q", mesh, some_partitions(q0.n, shape, which, random));
    const auto k = q.like("k"), v = q.like("v"), y = q.like("y"), nq = q.like("nq"),
               nk = q.like("nk"), dq = q.like("dq"), dk = q.like("dk"), dv = q.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, v0);
    const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
    set_values(array_of(p), read_parameters(layer, from, ""));
    auto state = layer.state(q);
    const CosineNorm queries{layer.attention.heads}, keys{layer.attention.heads, false};
    auto of_queries = queries.state(q), of_keys = keys.state(k);
    const auto log  = make_parameters<double>(queries, "log"),
               dlog = make_parameters<double>(queries, "dlog"),
               none = make_parameters<double>(keys, "none");
    if (cosine) {
      set_values(log.weight, read_parameters(queries, from, ""));
      queries.apply(space, of_queries, log, nq, q);
      keys.apply(space, of_keys, none, nk, k);
    }
    const auto &to_q = cosine ? nq : q, &to_k = cosine ? nk : k;
    layer.apply(space, state, p, y, to_q, to_k, v);
    EXPECT_LT(difference(y, y0), tolerance);
    scatter(y, dy0);
    layer.pullback(space, state, p, g, dq, dk, dv, y, to_q, to_k, v);
    EXPECT_LT(difference(summed(array_of(g), q), read_parameters(layer, from, ".gradient")),
              tolerance);
    if (!cosine) return;
    queries.pullback(space, of_queries, log, dlog, dq, dq, q);
    EXPECT_LT(difference(summed(dlog.weight, q), read_parameters(queries, from, ".gradient")),
              tolerance);
  });
}

TEST(TorchAttention, SwinOfTimm) {
  check("swin", "", Biased<WindowAttention<3, 4>, RelativeBias>{{.heads = 2}}, false, 1e-12);
}
/// timm computes the coordinates in float.
TEST(TorchAttention, Swin2OfTimm) {
  check("swin2", "",
        Biased<WindowAttention<3, 4>, ContinuousBias>{{.heads = 2, .scale = 1.0}, {512}}, true,
        1e-5);
}
TEST(TorchAttention, CrossFormerOfMilesCredit) {
  check("crossformer_short", "dpb.", Biased<WindowAttention<3, 3>, DynamicBias>{{.heads = 2}, {6}},
        false, 1e-12);
  check("crossformer_long", "dpb.", Biased<GridAttention<3, 3>, DynamicBias>{{.heads = 2}, {6}},
        false, 1e-12);
}

TEST(TorchAttention, ShiftedWindowsOfAurora) {
  const WindowAttention<2, 3, 4> layer{
      .heads = 2, .shift = {1, 1, 2}, .masked = {true, true, false}, .centred = true};
  const World<5> q0 = read_world<5>("aurora.q"), dy0 = read_world<5>("aurora.dy");
  const Space space;
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const OutputOf<double, 3> q("q", mesh, some_partitions(q0.n, shape, which, random));
    const auto k = q.like("k"), v = q.like("v"), y = q.like("y"), dq = q.like("dq"),
               dk = q.like("dk"), dv = q.like("dv");
    scatter(q, q0);
    scatter(k, read_world<5>("aurora.k"));
    scatter(v, read_world<5>("aurora.v"));
    auto state = layer.state(q);
    layer.apply(space, state, y, q, k, v);
    EXPECT_LT(difference(y, read_world<5>("aurora.y")), 1e-12);
    scatter(y, dy0);
    layer.pullback(space, state, dq, dk, dv, y, q, k, v);
    EXPECT_LT(difference(dq, read_world<5>("aurora.q.gradient")), 1e-12);
    EXPECT_LT(difference(dk, read_world<5>("aurora.k.gradient")), 1e-12);
    EXPECT_LT(difference(dv, read_world<5>("aurora.v.gradient")), 1e-12);
  });
}

}  // namespace
}  // namespace shard::testing
