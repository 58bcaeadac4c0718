// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention with biases against plain attention over lists of cells: values, tangents, and the
// gradients of all inputs and parameters.

#include "shard/layers/attention/attention_bias.hpp"

#include "layers/bits.hpp"
#include "layers/derivatives.hpp"
#include "layers/plain_attention.hpp"
#include "shard/layers/attention/attention_bias_network.hpp"
#include "shard/layers/impl/dot.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using Values = std::vector<double>;
using Right  = Kokkos::LayoutRight;
template <std::size_t Rank>
using Place = std::function<index_t(const std::array<index_t, Rank>& cell, std::size_t dim)>;

/// A bias by plain loops: its table for these parameters, and the entry of a pair.
template <std::size_t Rank>
struct PlainTable {
  std::function<Values(const Values& parameters)> table;
  std::function<std::size_t(index_t head, const std::array<index_t, Rank>& i,
                            const std::array<index_t, Rank>& j)>
      entry;
};

template <class P>
auto& array_of(const P& p) {
  if constexpr (requires { p.values; })
    return p.values;
  else
    return p.weight;
}

template <class T, class Layout, class Layer, std::size_t Rank>
void check(const Layer& layer, const std::array<index_t, Rank>& n,
           const Sees<static_cast<int>(Rank)>& sees, const PlainTable<Rank>& plain,
           double by_differences) {
  constexpr int rank = static_cast<int>(Rank);
  using F            = OutputOf<T, rank - 2, Layout>;
  Random random(seed());
  const World<rank> q0 = random_world(n, random), k0 = random_world(n, random),
                    v0 = random_world(n, random), dy0 = random_world(n, random);
  const World<rank> t0[3] = {random_world(n, random), random_world(n, random),
                             random_world(n, random)};
  Values p0(static_cast<std::size_t>(parameter_count(layer))), tp0 = p0;
  for (double& p : p0) p = random.real();
  for (double& t : tp0) t = random.real();
  const Values table = plain.table(p0), tangent = tangent_by_differences(plain.table, p0, tp0);
  Values slope(table.size(), 0.0);
  PlainBias<rank> bias;
  bias.value = [&](index_t h, const auto& i, const auto& j) { return table[plain.entry(h, i, j)]; };
  bias.tangent = [&](index_t h, const auto& i, const auto& j) {
    return tangent[plain.entry(h, i, j)];
  };
  bias.pull = [&](index_t h, const auto& i, const auto& j, double s) {
    slope[plain.entry(h, i, j)] += s;
  };
  const Serial<rank> serial(q0, k0, v0, dy0, t0, layer.attention.heads, sees, bias);
  const Values dp0 =
      gradient_by_differences([&](const Values& p) { return dot(plain.table(p), slope); }, p0);
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  const double rough     = std::max(tolerance, by_differences);
  const Space space;
  const auto run = [&](const Grid& mesh, const auto& partitions, const auto& use) {
    const F q("q", mesh, partitions), k = q.like("k"), v = q.like("v"), y = q.like("y"),
                                      dq = q.like("dq"), dk = q.like("dk"), dv = q.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, v0);
    const auto p = make_parameters<T>(layer, "parameters"), g = make_parameters<T>(layer, "g"),
               tp = make_parameters<T>(layer, "tp");
    set_values(array_of(p), p0);
    set_values(array_of(tp), tp0);
    set_values(array_of(g), Values(p0.size(), 0.5));
    auto state = layer.state(q);
    layer.apply(space, state, p, y, q, k, v);
    use(state, p, g, tp, q, k, v, y, dq, dk, dv);
  };
  Values first;  // dq and y on one rank
  const Grid self(MPI_COMM_SELF, {1, 1});
  std::array<Partition, Rank> whole;
  for (std::size_t d = 0; d < Rank; ++d) whole[d] = Partition::balanced(n[d], 1);
  run(self, whole,
      [&](auto& state, const auto& p, const auto& g, const auto&, const auto& q, const auto& k,
          const auto& v, const auto& y, const auto& dq, const auto& dk, const auto& dv) {
        first = gathered(y, MPI_COMM_SELF).v;
        scatter(y, dy0);
        layer.pullback(space, state, p, g, dq, dk, dv, y, q, k, v);
        for (const auto* d : {&dq, &dk, &dv}) {
          const Values more = gathered(*d, MPI_COMM_SELF).v;
          first.insert(first.end(), more.begin(), more.end());
        }
      });
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    if (rank == 3 && shape[1] > 1) return;  // several ranks would have the same points
    run(mesh, some_partitions(n, shape, which, random),
        [&](auto& state, const auto& p, const auto& g, const auto& tp, const auto& q, const auto& k,
            const auto& v, const auto& y, const auto& dq, const auto& dk, const auto& dv) {
          EXPECT_LT(difference(y, serial.y), tolerance);
          Values bits   = gathered(y, MPI_COMM_WORLD).v;
          const auto ty = q.like("ty");
          for (int f = 0; f < 3; ++f) scatter(f == 0 ? dq : f == 1 ? dk : dv, t0[f]);
          layer.pushforward(space, state, p, tp, ty, dq, dk, dv, q, k, v);
          EXPECT_LT(difference(ty, serial.ty), rough);
          scatter(y, dy0);
          layer.pullback(space, state, p, g, dq, dk, dv, y, q, k, v);
          EXPECT_LT(difference(dq, serial.dq), tolerance);
          EXPECT_LT(difference(dk, serial.dk), tolerance);
          EXPECT_LT(difference(dv, serial.dv), tolerance);
          for (const auto* d : {&dq, &dk, &dv}) {
            const Values more = gathered(*d, MPI_COMM_WORLD).v;
            bits.insert(bits.end(), more.begin(), more.end());
          }
          EXPECT_EQ(different_bits(bits, first), 0);
          Values dp = summed(array_of(g), q);
          for (double& d : dp) d -= 0.5 * world_size();
          EXPECT_LT(difference(dp, dp0), rough);
          // one at a time
          set_values(array_of(g), Values(p0.size(), 0.0));
          layer.pullback(space, state, p, g, not_wanted, not_wanted, not_wanted, y, q, k, v);
          EXPECT_LT(difference(summed(array_of(g), q), dp0), rough);
          scatter(dq, World<rank>(n));
          layer.pullback(space, state, p, not_wanted, dq, not_wanted, not_wanted, y, q, k, v);
          EXPECT_LT(difference(dq, serial.dq), tolerance);
          layer.pushforward(space, state, p, not_wanted, ty, not_wanted, not_wanted, dv, q, k, v);
          double mine[2] = {shard::dot(space, ty, y), shard::dot(space, dv, dv)};
          EXPECT_NEAR(mine[0], mine[1], tolerance * (std::abs(mine[1]) + 1.0));
        });
  });
}

/// The row of Swin's table that a pair reads.
template <std::size_t Rank>
std::function<index_t(const std::array<index_t, Rank>&, const std::array<index_t, Rank>&)>
relative_row(const std::array<index_t, Rank - 2>& size, const Place<Rank>& place) {
  return [=](const auto& i, const auto& j) {
    index_t row = 0;
    for (std::size_t d = 0; d < Rank - 2; ++d)
      row = row * (2 * size[d] - 1) + place(i, d) - place(j, d) + size[d] - 1;
    return row;
  };
}
template <std::size_t Rank>
Place<Rank> in_window(std::array<index_t, Rank> n, std::array<index_t, Rank - 2> size,
                      std::array<index_t, Rank - 2> shift = {}) {
  return [=](const std::array<index_t, Rank>& c, std::size_t d) {
    return (c[d + 2] - shift[d] + n[d + 2]) % n[d + 2] % size[d];
  };
}
template <std::size_t Rank>
Place<Rank> in_grid(std::array<index_t, Rank> n, std::array<index_t, Rank - 2> size) {
  return [=](const std::array<index_t, Rank>& c, std::size_t d) {
    return c[d + 2] / (n[d + 2] / size[d]);
  };
}

template <std::size_t Rank>
PlainTable<Rank> swin(const std::array<index_t, Rank - 2>& size, index_t heads,
                      const Place<Rank>& place) {
  const auto row = relative_row<Rank>(size, place);
  return {[](const Values& p) { return p; },
          [=](index_t h, const auto& i, const auto& j) {
            return static_cast<std::size_t>(row(i, j) * heads + h);
          }};
}

TEST(attention_bias, RelativeTablesOfWindowsAndGrids) {
  const std::array<index_t, 4> n{2, 4, 8, 6};
  check<double, Right>(Biased<WindowAttention<4, 3>, RelativeBias>{{.heads = 2}}, n,
                       same_window<4>(n, {4, 3}), swin<4>({4, 3}, 2, in_window<4>(n, {4, 3})),
                       1e-9);
  const std::array<index_t, 4> odd{1, 3, 7, 10};  // the last windows are smaller
  check<double, Right>(
      Biased<WindowAttention<3, 4>, RelativeBias>{
          {.heads = 3, .shift = {1, 2}, .masked = {true, false}}},
      odd, same_window<4>(odd, {3, 4}, {1, 2}, {true, false}),
      swin<4>({3, 4}, 3, in_window<4>(odd, {3, 4}, {1, 2})), 1e-9);
  const std::array<index_t, 3> line{2, 4, 13};
  check<float, Kokkos::LayoutLeft>(Biased<WindowAttention<5>, RelativeBias>{{.heads = 2}}, line,
                                   same_window<3>(line, {5}),
                                   swin<3>({5}, 2, in_window<3>(line, {5})), 1e-9);
  const std::array<index_t, 4> spread{2, 4, 12, 10};
  const Place<4> tooth = in_grid<4>(spread, {3, 5});
  check<double, Right>(
      Biased<GridAttention<3, 5>, RelativeBias>{{.heads = 2}}, spread,
      [&](const auto& i, const auto& j) { return i[2] % 4 == j[2] % 4 && i[3] % 2 == j[3] % 2; },
      swin<4>({3, 5}, 2, tooth), 1e-9);
  const std::array<index_t, 5> space{1, 2, 4, 5, 6};
  check<double, Right>(Biased<WindowAttention<2, 3, 3>, RelativeBias>{{.heads = 1}}, space,
                       same_window<5>(space, {2, 3, 3}),
                       swin<5>({2, 3, 3}, 1, in_window<5>(space, {2, 3, 3})), 1e-9);
}

/// Pangu's index: (dlon + w - 1), (lat_i + w lat_j) and (z_i + w z_j), the first one fastest.
template <std::size_t Rank>
PlainTable<Rank> earth(const std::array<index_t, Rank>& n,
                       const std::array<index_t, Rank - 2>& size, index_t heads,
                       const std::array<index_t, Rank - 2>& shift = {}) {
  constexpr std::size_t dims = Rank - 2, lon = dims - 1;
  const Place<Rank> place = in_window<Rank>(n, size, shift);
  index_t types           = 1;
  for (std::size_t d = 0; d < lon; ++d) types *= (n[d + 2] + size[d] - 1) / size[d];
  return {[](const Values& p) { return p; },
          [=](index_t h, const auto& i, const auto& j) {
            index_t row  = place(i, lon) - place(j, lon) + size[lon] - 1;
            index_t step = 2 * size[lon] - 1, type = 0;
            for (std::size_t d = lon; d-- > 0; step *= size[d] * size[d])
              row += step * (place(i, d) + size[d] * place(j, d));
            for (std::size_t d = 0; d < lon; ++d)
              type = type * ((n[d + 2] + size[d] - 1) / size[d]) +
                     (i[d + 2] - shift[d] + n[d + 2]) % n[d + 2] / size[d];
            return static_cast<std::size_t>((row * types + type) * heads + h);
          }};
}

TEST(attention_bias, EarthBiasHasATableForEachRowOfWindows) {
  const std::array<index_t, 5> n{2, 4, 4, 7, 6};
  check<double, Right>(
      Biased<WindowAttention<2, 3, 3>, EarthBias>{{.heads = 2, .shift = {1, 1, 2}}, {6}}, n,
      same_window<5>(n, {2, 3, 3}, {1, 1, 2}), earth<5>(n, {2, 3, 3}, 2, {1, 1, 2}), 1e-9);
  const std::array<index_t, 4> plane{1, 4, 13, 8};
  check<double, Right>(Biased<WindowAttention<3, 4>, EarthBias>{{.heads = 1}, {5}}, plane,
                       same_window<4>(plane, {3, 4}), earth<4>(plane, {3, 4}, 1), 1e-9);
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> q("q", mesh, {1, 4, 13, 8});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 Biased<WindowAttention<3, 4>, EarthBias>{{.heads = 1}, {4}}.state(q);
               }),
               {"\"q\" has 5 rows of windows", "4"});
}

/// Each row of windows is on one rank, and so are its parameters' gradients.
TEST(attention_bias, GradientsOfEarthBiasAreWholeOnTheirOwners) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> q("q", mesh, {2, 2, 14, 6}), y = q.like("y");
  Random random(seed());
  scatter(q, random_world(std::array<index_t, 4>{2, 2, 14, 6}, random));
  const Biased<WindowAttention<3, 4>, EarthBias> layer{{.heads = 2}, {5}};
  const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
  auto state = layer.state(q);
  layer.apply(Space(), state, p, y, q, q, q);
  layer.pullback(Space(), state, p, g, not_wanted, not_wanted, not_wanted, q, q, q, q);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), g.weight);
  std::vector<int> owners(5, 0);
  for (std::size_t type = 0; type < 5; ++type)
    for (std::size_t row = 0; row < host.extent(0); ++row)
      if (host(row, type, 0) != 0.0) owners[type] = 1;
  MPI_Allreduce(MPI_IN_PLACE, owners.data(), 5, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(owners, std::vector<int>(5, 1));
}

/// Heads of more features than the tiles' buffers hold use kernels of single queries.
TEST(attention_bias, WideHeads) {
  const std::array<index_t, 3> n{1, 8200, 5};
  check<double, Right>(Biased<WindowAttention<3>, RelativeBias>{{.heads = 1}}, n,
                       same_window<3>(n, {3}), swin<3>({3}, 1, in_window<3>(n, {3})), 1e-9);
}

/// y = W x + b, with parameters from `at` on.
Values linear(const Values& x, const Values& p, std::size_t& at, std::size_t out, bool bias) {
  Values y(out, 0.0);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += p[at + o * x.size() + i] * x[i];
  at += out * x.size();
  if (!bias) return y;
  for (std::size_t o = 0; o < out; ++o) y[o] += p[at + o];
  at += out;
  return y;
}
Values norm(Values x, const Values& p, std::size_t& at) {
  double mean = 0.0, squares = 0.0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean) / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (x[i] - mean) / std::sqrt(squares + 1e-5) * p[at + i] + p[at + x.size() + i];
  at += 2 * x.size();
  return x;
}
Values relu(Values x) {
  for (double& v : x) v = std::max(v, 0.0);
  return x;
}

TEST(attention_bias, DynamicBiasReadsTheRowsOfThePublishedIndex) {
  const index_t m = 5, h = 4, w = 3;
  const std::array<index_t, 4> n{2, 4, 8, 6};
  const Place<4> place = in_window<4>(n, {h, w});
  for (const bool published : {true, false}) {
    const auto value = [&](double y, double x, const Values& p) {
      std::size_t at = 0;
      Values a       = relu(norm(linear({y, x}, p, at, m, true), p, at));
      for (int twice = 0; twice < 2; ++twice) a = relu(norm(linear(a, p, at, m, true), p, at));
      return linear(a, p, at, 1, true)[0];
    };
    // all that the package evaluates, and the strides of the smaller table
    const index_t ny = published ? h : h - 1, nx = published ? w : w - 1;
    const PlainTable<4> plain{
        [&](const Values& p) {
          Values all;
          for (index_t y = -ny; y <= ny; ++y)
            for (index_t x = -nx; x <= nx; ++x)
              all.push_back(value(static_cast<double>(y), static_cast<double>(x), p));
          return all;
        },
        [&](index_t, const auto& i, const auto& j) {
          const index_t dy = place(i, 0) - place(j, 0) + h - 1,
                        dx = place(i, 1) - place(j, 1) + w - 1;
          return static_cast<std::size_t>(dy * (2 * w - 1) + dx);
        }};
    check<double, Right>(Biased<WindowAttention<h, w>, DynamicBias>{{.heads = 2}, {m, published}},
                         n, same_window<4>(n, {h, w}), plain, 1e-7);
  }
}

TEST(attention_bias, ContinuousBiasOfSwin2) {
  const index_t m = 6, heads = 2, h = 3, w = 4;
  const std::array<index_t, 4> n{1, 4, 7, 10};
  for (const std::array<index_t, 2>& trained :
       {std::array<index_t, 2>{}, std::array<index_t, 2>{8, 5}}) {
    const auto coordinate = [&](index_t offset, index_t size) {
      const double c = 8.0 * static_cast<double>(offset) / static_cast<double>(size - 1);
      return (c < 0.0 ? -1.0 : 1.0) * std::log2(1.0 + std::abs(c)) / std::log2(8.0);
    };
    PlainTable<4> plain = swin<4>({h, w}, heads, in_window<4>(n, {h, w}, {1, 1}));
    plain.table         = [&](const Values& p) {
      Values all;
      for (index_t y = 1 - h; y < h; ++y)
        for (index_t x = 1 - w; x < w; ++x) {
          std::size_t at = 0;
          const Values a = relu(linear({coordinate(y, trained[0] > 0 ? trained[0] : h),
                                        coordinate(x, trained[1] > 0 ? trained[1] : w)},
                                               p, at, m, true));
          for (const double b : linear(a, p, at, heads, false))
            all.push_back(16.0 / (1.0 + std::exp(-b)));
        }
      return all;
    };
    check<double, Right>(
        Biased<WindowAttention<h, w>, ContinuousBias>{{.heads = heads, .shift = {1, 1}},
                                                      {m, trained}},
        n, same_window<4>(n, {h, w}, {1, 1}), plain, 1e-7);
  }
}

/// Names as in the published models.
TEST(attention_bias, NamesOfParameters) {
  const auto names = [](const auto& layer) {
    std::string all;
    for (const ParameterShape& shape : layer.parameter_shapes()) {
      all += shape.name;
      for (const index_t e : shape.extents) all += " " + std::to_string(e);
      all += ", ";
    }
    return all;
  };
  EXPECT_EQ(names(Biased<WindowAttention<7, 5>, RelativeBias>{{.heads = 3}}),
            "relative_position_bias_table 117 3, ");
  EXPECT_EQ(names(Biased<WindowAttention<7, 5>, ContinuousBias>{{.heads = 3}}),
            "cpb_mlp.0.weight 512 2, cpb_mlp.0.bias 512, cpb_mlp.2.weight 3 512, ");
  EXPECT_EQ(names(Biased<GridAttention<2, 2>, DynamicBias>{{.heads = 3}, {8}}),
            "layers.0.weight 8 2, layers.0.bias 8, layers.1.weight 8, layers.1.bias 8, "
            "layers.3.weight 8 8, layers.3.bias 8, layers.4.weight 8, layers.4.bias 8, "
            "layers.6.weight 8 8, layers.6.bias 8, layers.7.weight 8, layers.7.bias 8, "
            "layers.9.weight 1 8, layers.9.bias 1, ");
}

}  // namespace
}  // namespace shard::testing
