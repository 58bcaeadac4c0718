// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "shard/layers/attention/attention.hpp"
#include "shard/layers/attention/attention_bias.hpp"
#include "shard/layers/attention/attention_mask.hpp"
#include "shard/layers/attention/attention_neighbourhood.hpp"
#include "shard/layers/attention/attention_ring.hpp"
#include "shard/layers/attention/head_norm.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/pointwise/linear.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/layers/window/conv.hpp"
#include "timing.hpp"

namespace {

/// Operands and gradients like q and k, `keys` seen by each of the tokens.
template <class T, class Layer, class Field, class Keys>
void time_attention(const Layer& layer, const Field& q, const Keys& k, double keys, double least) {
  const Space space;
  const auto v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
  const auto y = q.like("y"), dy = q.like("dy"), dq = q.like("dq");
  for (const auto& f : {q, dy}) fill(f.view());
  for (const auto& f : {k, v}) fill(f.view());
  auto state = layer.state(q);
  answer<T>(least, {4 * keys * static_cast<double>(q.view().span())},
            {[&] { layer.apply(space, state, y, q, k, v); },
             [&] { layer.pullback(space, state, dq, dk, dv, dy, q, k, v); }});
}

template <class T, class Layer>
Case windows(Layer layer, int side, index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    const Plain<T> q("q", mesh, {1, channels, rows, columns});
    const index_t of_keys =
        layer.key_heads > 0 ? channels / layer.heads * layer.key_heads : channels;
    time_attention<T>(layer, q, Plain<T>("k", mesh, {1, of_keys, rows, columns}), side * side,
                      least);
  };
}

/// Windows of 10 x 10 with a mask for each window.
template <class T>
Case masked(index_t heads, index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    Kokkos::View<double****, Kokkos::LayoutRight, Kokkos::HostSpace> mask(
        "mask", static_cast<std::size_t>(rows * columns / 100), 1, 100, 100);
    for (std::size_t i = 0; i < mask.size(); ++i)
      mask.data()[i] =
          i % 7 == 0 ? -Kokkos::Experimental::infinity_v<double> : static_cast<double>(i % 5);
    const shard::Masked<shard::WindowAttention<10, 10>> layer{{.heads = heads}, mask};
    const Plain<T> q("q", mesh, {1, channels, rows, columns});
    time_attention<T>(layer, q, q.like("k"), 100, least);
  };
}

/// Neighbourhoods of 7 x 7, longitude periodic.
template <class T>
Case neighbours(index_t heads, index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    using Layer = shard::NeighbourhoodAttention<shard::Kernel<7, 7>,
                                                shard::PaddingMode<shard::Zero, shard::Periodic>>;
    using Keys  = shard::ShardedView<
        T****, Kokkos::LayoutRight,
        shard::ShardDim<2, Lat, shard::required_halo_t<Layer, 0>, shard::Zero>,
        shard::ShardDim<3, Lon, shard::required_halo_t<Layer, 1>, shard::Periodic>>;
    time_attention<T>(Layer{.heads = heads}, Plain<T>("q", mesh, {1, channels, rows, columns}),
                      Keys("k", mesh, {1, channels, rows, columns}), 49, least);
  };
}

/// Windows of 10 x 10 with Swin's table.
template <class T>
Case biased(index_t heads, index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    const Space space;
    const Plain<T> q("q", mesh, {1, channels, rows, columns});
    const auto k = q.like("k"), v = q.like("v"), y = q.like("y"), dy = q.like("dy"),
               dq = q.like("dq"), dk = q.like("dk"), dv = q.like("dv");
    for (const auto& f : {q, k, v, dy}) fill(f.view());
    const shard::Biased<shard::WindowAttention<10, 10>, shard::RelativeBias> layer{
        {.heads = heads}};
    const auto p = shard::make_parameters<T>(layer, "p"), g = shard::make_parameters<T>(layer, "g");
    shard::initialise(space, layer, p, 1, 0);
    auto state = layer.state(q);
    answer<T>(least, {400.0 * static_cast<double>(q.view().span())},
              {[&] { layer.apply(space, state, p, y, q, k, v); },
               [&] { layer.pullback(space, state, p, g, dq, dk, dv, dy, q, k, v); }});
  };
}

/// Scaled cosine attention in windows of 8 x 8.
template <class T>
Case cosine(index_t heads, index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    const Space space;
    const Plain<T> q("q", mesh, {1, channels, rows, columns});
    const auto k = q.like("k"), v = q.like("v"), y = q.like("y"), dy = q.like("dy"),
               dq = q.like("dq"), dk = q.like("dk"), dv = q.like("dv"), nq = q.like("nq"),
               nk = q.like("nk");
    for (const auto& f : {q, k, v, dy}) fill(f.view());
    const shard::CosineNorm queries{heads}, keys{heads, false};
    const shard::WindowAttention<8, 8> layer{.heads = heads, .scale = 1.0};
    const auto p    = shard::make_parameters<T>(queries, "p"),
               g    = shard::make_parameters<T>(queries, "g"),
               none = shard::make_parameters<T>(keys, "none");
    shard::initialise(space, queries, p, 1, 0);
    auto state = layer.state(q);
    auto sq = queries.state(q), sk = keys.state(k);
    answer<T>(least, {256.0 * static_cast<double>(q.view().span())},
              {[&] {
                 queries.apply(space, sq, p, nq, q);
                 keys.apply(space, sk, none, nk, k);
                 layer.apply(space, state, y, nq, nk, v);
               },
               [&] {
                 layer.pullback(space, state, dq, dk, dv, dy, nq, nk, v);
                 queries.pullback(space, sq, p, g, dq, dq, q);
                 keys.pullback(space, sk, none, shard::not_wanted, dk, dk, k);
               }});
  };
}

template <class T>
Case ring(index_t heads, index_t features, index_t tokens, bool causal) {
  return [=](const Grid& mesh, double least) {
    using Sequence = shard::ShardedView<T***, Kokkos::LayoutRight, shard::ShardDim<2, Lon>>;
    const Sequence q("q", mesh, {1, heads * features, tokens});
    time_attention<T>(shard::RingAttention{.heads = heads, .causal = causal}, q, q.like("k"),
                      static_cast<double>(tokens) / (causal ? 2 : 1), least);
  };
}

template <class T>
Case product(index_t in, index_t out, index_t tokens) {
  return [=](const Grid& mesh, double least) {
    using Rows = shard::ShardedView<T***, Kokkos::LayoutRight, shard::ShardDim<0, Lat>>;
    const Space space;
    const Rows x("x", mesh, {1, tokens, in}), dx = x.like("dx"), y("y", mesh, {1, tokens, out}),
                                              dy = y.like("dy");
    const shard::Linear layer{in, out};
    const auto parameters = shard::make_parameters<T>(layer, "p"),
               gradients  = shard::make_parameters<T>(layer, "g");
    fill(x.view());
    fill(dy.view());
    fill(parameters.weight);
    answer<T>(least, {2.0 * static_cast<double>(in * out * tokens)},
              {[&] { layer.apply(space, parameters, y, x); },
               [&] { layer.pullback(space, parameters, gradients, dx, dy, x); }});
  };
}

/// y = x + P(attend(Q n, K n, V n)), n = N(x); z = y + D gelu(U N(y)): a block of a CrossFormer,
/// windows of 10 x 10, 4 heads.
struct Block {
  static constexpr index_t channels = 128, rows = 90, columns = 180;
  using Field = Plain<float>;
  using Point = shard::Conv<shard::Kernel<1, 1>>;

  const Grid& mesh;
  Space space{};
  shard::LayerNorm norm{channels};
  Point one{channels, channels}, up{channels, 4 * channels}, down{4 * channels, channels};
  shard::GELU gelu;
  shard::WindowAttention<10, 10> attention{.heads = 4};

  explicit Block(const Grid& grid) : mesh(grid) {}

  Field field(index_t of = channels) const {
    const Field f("f", mesh, {1, of, rows, columns});
    fill(f.view());
    return f;
  }
  template <class Layer>
  auto parameters(const Layer& layer) const {
    const auto p    = shard::make_parameters<float>(layer, "p");
    const auto host = Kokkos::create_mirror_view(p.weight);
    for (std::size_t i = 0; i < host.span(); ++i)
      host.data()[i] = 0.05f * static_cast<float>(static_cast<double>(i * 31 % 17) - 8);
    Kokkos::deep_copy(p.weight, host);
    return p;
  }

  void time(double least) const {
    const Field x = field(), n = field(), q = field(), k = field(), v = field(), a = field(),
                p = field(), y = field(), m = field(), h = field(4 * channels),
                g = field(4 * channels), o = field(), z = field();
    const Field dz = field(), dy = field(), dm = field(), dh = field(4 * channels),
                dg = field(4 * channels), da = field(), dq = field(), dk = field(), dv = field(),
                dn = field(), more = field(), dx = field();
    const auto pn = parameters(norm), pm = parameters(norm), gn = parameters(norm),
               gm = parameters(norm);
    const auto pq = parameters(one), pk = parameters(one), pv = parameters(one),
               pp = parameters(one), gq = parameters(one), gk = parameters(one),
               gv = parameters(one), gp = parameters(one);
    const auto pu = parameters(up), gu = parameters(up);
    const auto pd = parameters(down), gd = parameters(down);
    auto sn = norm.state(x), sm = norm.state(y);
    auto sa            = attention.state(q);
    const double cells = rows * columns;
    answer<float>(least, {2.0 * cells * channels * channels * 12 + 4.0 * cells * channels * 100},
                  {[&] {
                     norm.apply(space, sn, pn, n, x);
                     one.apply(space, pq, q, n);
                     one.apply(space, pk, k, n);
                     one.apply(space, pv, v, n);
                     attention.apply(space, sa, a, q, k, v);
                     one.apply(space, pp, p, a);
                     shard::add(space, y, x, p);
                     norm.apply(space, sm, pm, m, y);
                     up.apply(space, pu, h, m);
                     gelu.apply(space, g, h);
                     down.apply(space, pd, o, g);
                     shard::add(space, z, y, o);
                   },
                   [&] {
                     down.pullback(space, pd, gd, dg, dz, g);
                     gelu.pullback(space, dh, dg, h);
                     up.pullback(space, pu, gu, dm, dh, m);
                     norm.pullback(space, sm, pm, gm, more, dm, y);
                     shard::add_gradients(space, dy, dz, more);
                     one.pullback(space, pp, gp, da, dy, a);
                     attention.pullback(space, sa, dq, dk, dv, da, q, k, v);
                     one.pullback(space, pq, gq, dn, dq, n);
                     one.pullback(space, pk, gk, more, dk, n);
                     shard::add_gradients(space, dn, dn, more);
                     one.pullback(space, pv, gv, more, dv, n);
                     shard::add_gradients(space, dn, dn, more);
                     norm.pullback(space, sn, pn, gn, more, dn, x);
                     shard::add_gradients(space, dx, dy, more);
                   }});
  }
};

}  // namespace

// op/type/channels x rows x columns/heads, or in, out, tokens
void add_attention(Cases& cases, bool large) {
  using shard::GridAttention, shard::WindowAttention;
  cases.insert(
      {{"windows10/float/256x60x120/h8",
        windows<float>(WindowAttention<10, 10>{.heads = 8}, 10, 256, 60, 120)},
       {"windows10/double/256x60x120/h8",
        windows<double>(WindowAttention<10, 10>{.heads = 8}, 10, 256, 60, 120)},
       {"shifted8/float/128x64x128/h4",
        windows<float>(WindowAttention<8, 8>{.heads = 4, .shift = {4, 4}}, 8, 128, 64, 128)},
       {"grid10/float/256x60x120/h8",
        windows<float>(GridAttention<10, 10>{.heads = 8}, 10, 256, 60, 120)},
       {"biased10/float/256x60x120/h8", biased<float>(8, 256, 60, 120)},
       {"shared10/float/256x60x120/h8",
        windows<float>(WindowAttention<10, 10>{.heads = 8, .key_heads = 2}, 10, 256, 60, 120)},
       {"masked10/float/256x60x120/h8", masked<float>(8, 256, 60, 120)},
       {"neighbours7/float/128x64x128/h4", neighbours<float>(4, 128, 64, 128)},
       {"neighbours7/double/128x64x128/h4", neighbours<double>(4, 128, 64, 128)},
       {"cosine8/float/128x64x128/h4", cosine<float>(4, 128, 64, 128)},
       {"ring/float/512x2048/h8", ring<float>(8, 64, 2048, false)},
       {"ring_causal/float/512x2048/h8", ring<float>(8, 64, 2048, true)},
       {"matrix/float/512x2048x4096", product<float>(512, 2048, 4096)},
       {"matrix/double/512x2048x4096", product<double>(512, 2048, 4096)},
       {"crossformer_block/float/128x90x180",
        [](const Grid& mesh, double least) { Block(mesh).time(least); }}});
  if (large)
    cases.insert({{"windows16/float/128x192x384/h4",
                   windows<float>(WindowAttention<16, 16>{.heads = 4}, 16, 128, 192, 384)}});
}
