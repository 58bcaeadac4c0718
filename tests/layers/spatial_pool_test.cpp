// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pooling of all points to nodes and back, beside plain loops, on every mesh.

#include "shard/layers/resampling/spatial_pool.hpp"

#include "layers/bits.hpp"
#include "layers/derivatives.hpp"
#include "layers/layer_support.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using Values = std::vector<double>;

/// Weights of nodes and points, stored [node][point] or [point][node].
struct Weights {
  index_t nodes = 0, points = 0;
  bool points_first = false;
  Values v;

  std::size_t at(index_t k, index_t i) const {
    return static_cast<std::size_t>(points_first ? i * nodes + k : k * points + i);
  }
  Weights with(const Values& values) const { return {nodes, points, points_first, values}; }
};

template <int Rank>
index_t planes_of(const World<Rank>& x) {
  return x.n[0] * x.n[1];
}
/// Sums over all points: [batch, channel, nodes, 1...].
template <int Rank>
World<Rank> pooled(const World<Rank>& x, const Weights& w) {
  std::array<index_t, Rank> n{x.n[0], x.n[1], w.nodes};
  for (std::size_t d = 3; d < Rank; ++d) n[d] = 1;
  World<Rank> s(n);
  for (index_t p = 0; p < planes_of(x); ++p)
    for (index_t k = 0; k < w.nodes; ++k)
      for (index_t i = 0; i < w.points; ++i)
        s.v[static_cast<std::size_t>(p * w.nodes + k)] +=
            x.v[static_cast<std::size_t>(p * w.points + i)] * w.v[w.at(k, i)];
  return s;
}
/// A field of these extents in space.
template <int Rank>
World<Rank> spread(const World<Rank>& s, decltype(World<Rank>::n) n, const Weights& w) {
  n[1] = s.n[1];
  World<Rank> y(n);
  for (index_t p = 0; p < planes_of(s); ++p)
    for (index_t i = 0; i < w.points; ++i)
      for (index_t k = 0; k < w.nodes; ++k)
        y.v[static_cast<std::size_t>(p * w.points + i)] +=
            s.v[static_cast<std::size_t>(p * w.nodes + k)] * w.v[w.at(k, i)];
  return y;
}
template <int Rank>
Values products(const World<Rank>& x, const World<Rank>& s, const Weights& w) {
  Values g(w.v.size());
  for (index_t p = 0; p < planes_of(x); ++p)
    for (index_t k = 0; k < w.nodes; ++k)
      for (index_t i = 0; i < w.points; ++i)
        g[w.at(k, i)] += x.v[static_cast<std::size_t>(p * w.points + i)] *
                         s.v[static_cast<std::size_t>(p * w.nodes + k)];
  return g;
}
template <int Rank>
World<Rank> plus(World<Rank> a, const World<Rank>& b) {
  for (std::size_t i = 0; i < a.v.size(); ++i) a.v[i] += b.v[i];
  return a;
}

/// The ranks that share a field's batch and channels.
template <class X>
auto sharing(const X& x) {
  unsigned dims = 0;
  for (int d = 2; d < X::rank; ++d) dims |= 1U << d;
  return impl::RankGroup::of(x.geometry(), dims);
}

/// Values of nodes on x's mesh: adjoints are complete.
template <class S, class X>
struct OnMesh {
  static constexpr int rank = X::rank;
  const Grid& mesh;
  const X& x;
  std::array<Partition, static_cast<std::size_t>(X::rank)> partitions;

  S field(const char* name) const { return S(name, mesh, partitions); }
  void set(const S& s, const World<rank>& world) const { scatter(s, world); }
  double difference(const S& s, const World<rank>& world) const {
    return shard::testing::difference(s, world);
  }
  void set_adjoint(const S& s, const World<rank>& world) const { set(s, world); }
  double adjoint_difference(const S& s, const World<rank>& world) const {
    return difference(s, world);
  }
};

/// Values of nodes on a mesh of each rank: adjoints are a rank's part.
template <class S, class X>
struct Beside {
  static constexpr int rank = X::rank;
  Grid own{MPI_COMM_SELF, {1, 1}};
  const X& x;
  std::array<Partition, static_cast<std::size_t>(X::rank)> partitions;

  S field(const char* name) const {
    std::array<Partition, static_cast<std::size_t>(X::rank)> p;
    for (std::size_t d = 0; d < p.size(); ++d)
      p[d] = Partition::whole(d == 0   ? x.extent(0)
                              : d == 1 ? owned_channels()
                                       : partitions[d].size());
    return S(name, own, p);
  }
  void set(const S& s, const World<rank>& world) const { scatter(s, part(world)); }
  /// Relative to the whole world's largest value: a rank may have no batch entries.
  double difference(const S& s, const World<rank>& world) const {
    const auto own_part = part(world);
    return shard::testing::difference(s, own_part) * std::max(own_part.largest(), 1e-300) /
           std::max(world.largest(), 1e-300);
  }
  void set_adjoint(const S& s, World<rank> world) const {
    const auto group  = sharing(x);
    const auto& state = *x.geometry().mesh;
    const auto ranks  = group->mesh_ranks(state);
    int mine          = 0;
    MPI_Comm_rank(x.communicator(), &mine);
    double share = 0.0, all = 0.0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const double weight = 0.75 + static_cast<double>(r);
      all += weight;
      if (ranks[r] == mine) share = weight;
    }
    for (double& v : world.v) v *= share / all;
    set(s, world);
  }
  double adjoint_difference(const S& s, const World<rank>& world) const {
    Space().fence();
    const auto host = create_mirror_view(s);
    deep_copy(Space(), host, s);
    Space().fence();
    Values mine;
    for_owned(host, [&](const auto&, const auto& v) { mine.push_back(v); });
    const auto group = sharing(x);
    Values scratch(mine.size() * static_cast<std::size_t>(group->size()));
    group->sum_few(mine.data(), static_cast<int>(mine.size()), scratch.data());
    double here = shard::testing::difference(mine, part(world).v), all = 0.0;
    MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

 private:
  static constexpr bool whole_channels = std::is_same_v<typename X::template axis<1>, Unsharded>;
  index_t first_channel() const { return whole_channels ? 0 : x.begin(1); }
  index_t owned_channels() const { return whole_channels ? partitions[1].size() : x.extent(1); }
  /// This rank's batch and channels.
  World<rank> part(const World<rank>& world) const {
    auto n = world.n;
    n[0]   = x.extent(0);
    n[1]   = owned_channels();
    World<rank> own_part(n);
    const index_t nodes = n[2];
    for (index_t b = 0; b < n[0]; ++b)
      for (index_t c = 0; c < n[1]; ++c)
        for (index_t k = 0; k < nodes; ++k)
          own_part.v[static_cast<std::size_t>((b * n[1] + c) * nodes + k)] =
              world.v[static_cast<std::size_t>(
                  ((b + x.begin(0)) * world.n[1] + c + first_channel()) * nodes + k)];
    return own_part;
  }
};

template <std::size_t Rank>
auto extents_of(const std::array<Partition, Rank>& p) {
  std::array<index_t, Rank> n;
  for (std::size_t d = 0; d < Rank; ++d) n[d] = p[d].size();
  return n;
}
template <std::size_t Rank>
auto space_of(const std::array<Partition, Rank>& p) {
  std::array<index_t, Rank - 2> n;
  for (std::size_t d = 2; d < Rank; ++d) n[d - 2] = p[d].size();
  return n;
}

/// A layer's parameters of these values.
template <class Layer>
auto parameters(const Layer& layer, const Values& v) {
  const auto p = make_parameters<double>(layer, "p");
  set_values(p.weight, v);
  return p;
}
/// Of these extents, whose product may be large: of size 1.
Weights random_weights(index_t nodes, index_t points, bool points_first, Random& random) {
  return {nodes, points, points_first,
          random_world(std::array<index_t, 2>{nodes, points}, random).v};
}

constexpr double tolerance = 1e-12;

template <class F, class Nodes, std::size_t Rank>
void check_pool(const Nodes& nodes, const F& x, const std::array<Partition, Rank>& partitions,
                index_t count) {
  constexpr int rank = static_cast<int>(Rank);
  Random random(seed());
  const SpatialPool<rank - 2> layer{count, space_of(partitions)};
  const auto n         = extents_of(partitions);
  const World<rank> x0 = random_world(n, random), tx0 = random_world(n, random);
  const Weights w0   = random_weights(count, impl::count_of_points(layer.points), false, random);
  const Weights tw0  = w0.with(random_weights(count, w0.points, false, random).v);
  const auto s0      = pooled(x0, w0);
  const auto ds0     = random_world(s0.n, random);
  const auto dx0     = spread(ds0, n, w0);
  const auto dw0     = products(x0, ds0, w0);
  const auto with_tx = pooled(tx0, w0), with_tw = pooled(x0, tw0);
  EXPECT_NEAR(dot(with_tx.v, ds0.v), dot(tx0.v, dx0.v), 1e-12 * dot(tx0.v, tx0.v));
  EXPECT_NEAR(dot(with_tw.v, ds0.v), dot(tw0.v, dw0), 1e-12 * dot(x0.v, x0.v));

  const Space space;
  const F tx = x.like("tx"), dx = x.like("dx");
  scatter(x, x0);
  scatter(tx, tx0);
  scatter(dx, tx0);  // has to be overwritten
  const auto s = nodes.field("s"), ts = nodes.field("ts"), ds = nodes.field("ds");
  nodes.set(s, ds0);
  nodes.set_adjoint(ds, ds0);
  const auto p = parameters(layer, w0.v), tp = parameters(layer, tw0.v),
             g = make_parameters<double>(layer, "g");
  auto state   = layer.state(x);
  layer.apply(space, state, p, s, x);
  EXPECT_LT(nodes.difference(s, s0), tolerance);
  layer.pushforward(space, state, p, tp, ts, tx, x);
  EXPECT_LT(nodes.difference(ts, plus(with_tx, with_tw)), tolerance);
  layer.pushforward(space, state, p, not_wanted, ts, tx, x);
  EXPECT_LT(nodes.difference(ts, with_tx), tolerance);
  layer.pushforward(space, state, p, tp, ts, not_wanted, x);
  EXPECT_LT(nodes.difference(ts, with_tw), tolerance);
  layer.pushforward(space, state, p, not_wanted, ts, not_wanted, x);
  EXPECT_EQ(nodes.difference(ts, World<rank>(s0.n)), 0.0);
  layer.pullback(space, state, p, g, dx, ds, x);
  EXPECT_LT(difference(dx, dx0), tolerance);
  EXPECT_LT(difference(summed(g.weight, x), dw0), tolerance);
  scatter(dx, tx0);
  layer.pullback(space, state, p, not_wanted, dx, ds, x);
  EXPECT_LT(difference(dx, dx0), tolerance);
  layer.pullback(space, state, p, g, not_wanted, ds, x);  // adds
  Values twice = dw0;
  for (double& v : twice) v *= 2.0;
  EXPECT_LT(difference(summed(g.weight, x), twice), tolerance);
}

template <class F, class Nodes, std::size_t Rank>
void check_unpool(const Nodes& nodes, const F& x, const F& y,
                  const std::array<Partition, Rank>& partitions, index_t count) {
  constexpr int rank = static_cast<int>(Rank);
  Random random(seed() + 1);
  const SpatialUnpool<rank - 2> layer{count, space_of(partitions)};
  auto n               = extents_of(nodes.partitions);
  const World<rank> s0 = random_world(n, random), ts0 = random_world(n, random);
  const Weights w0   = random_weights(count, impl::count_of_points(layer.points), true, random);
  const Weights tw0  = w0.with(random_weights(count, w0.points, true, random).v);
  const auto y0      = spread(s0, extents_of(partitions), w0);
  const auto with_ts = spread(ts0, y0.n, w0), with_tw = spread(s0, y0.n, tw0);
  const auto dy0 = random_world(y0.n, random);
  const auto ds0 = pooled(dy0, w0);
  const auto dw0 = products(dy0, s0, w0);
  EXPECT_NEAR(dot(with_ts.v, dy0.v), dot(ts0.v, ds0.v), 1e-12 * dot(dy0.v, dy0.v));
  EXPECT_NEAR(dot(with_tw.v, dy0.v), dot(tw0.v, dw0), 1e-12 * dot(dy0.v, dy0.v));

  const Space space;
  const F dy = y.like("dy"), dx = x.like("dx");
  scatter(dy, dy0);
  scatter(y, dy0);
  scatter(x, random_world(extents_of(partitions), random));
  scatter(dx, random_world(extents_of(partitions), random));
  const auto s = nodes.field("s"), ts = nodes.field("ts"), ds = nodes.field("ds");
  nodes.set(s, s0);
  nodes.set(ts, ts0);
  const auto p = parameters(layer, w0.v), tp = parameters(layer, tw0.v),
             g = make_parameters<double>(layer, "g");
  auto state   = layer.state(x, s);
  layer.apply(space, state, p, y, x, s);
  EXPECT_LT(difference(y, y0), tolerance);
  layer.pushforward(space, state, p, tp, y, x, ts, x, s);
  EXPECT_LT(difference(y, plus(with_ts, with_tw)), tolerance);
  layer.pushforward(space, state, p, not_wanted, y, not_wanted, ts, x, s);
  EXPECT_LT(difference(y, with_ts), tolerance);
  layer.pushforward(space, state, p, tp, y, not_wanted, not_wanted, x, s);
  EXPECT_LT(difference(y, with_tw), tolerance);
  layer.pushforward(space, state, p, not_wanted, y, not_wanted, not_wanted, x, s);
  EXPECT_EQ(difference(y, World<rank>(y0.n)), 0.0);
  layer.pullback(space, state, p, g, dx, ds, dy, x, s);
  EXPECT_EQ(difference(dx, World<rank>(extents_of(partitions))), 0.0);
  EXPECT_LT(nodes.adjoint_difference(ds, ds0), tolerance);
  EXPECT_LT(difference(summed(g.weight, x), dw0), tolerance);
  layer.pullback(space, state, p, not_wanted, not_wanted, ds, dy, x, s);
  EXPECT_LT(nodes.adjoint_difference(ds, ds0), tolerance);
  layer.pullback(space, state, p, g, not_wanted, not_wanted, dy, x, s);  // adds
  Values twice = dw0;
  for (double& v : twice) v *= 2.0;
  EXPECT_LT(difference(summed(g.weight, x), twice), tolerance);
}

/// Both layers on fields of type F, with nodes on the mesh as fields of type S, and beside it.
template <class F, class S, std::size_t Rank>
void check(const Grid& mesh, const std::array<Partition, Rank>& partitions, index_t count) {
  constexpr int rank = static_cast<int>(Rank);
  using Own          = impl::OwnedOnlyOf<F>;  // as in a model
  const F x("x", mesh, partitions);
  const auto of_x =
      SpatialPool<rank - 2>{count, space_of(partitions)}.output_partitions(partitions);
  check_pool(OnMesh<S, F>{mesh, x, of_x}, x, partitions, count);
  check_pool(Beside<Own, F>{.x = x, .partitions = of_x}, x, partitions, count);
  auto of_y = of_x;  // another number of channels, if they aren't sharded
  if (of_x[1].parts() == 1) of_y[1] = Partition::whole(of_x[1].size() + 2);
  const SpatialUnpool<rank - 2> back{count, space_of(partitions)};
  const F y("y", mesh, back.output_partitions(partitions, of_y));
  check_unpool(OnMesh<S, F>{mesh, y, of_y}, x, y, partitions, count);
  check_unpool(Beside<Own, F>{.x = y, .partitions = of_y}, x, y, partitions, count);
}

TEST(spatial_pool, beside_plain_loops) {
  static_assert(SpatialPool<2>::sharding == LayerSharding::collective);
  static_assert(SpatialUnpool<2>::sharding == LayerSharding::local);
  using None = ShardedView<double****, Kokkos::LayoutRight>;
  on_meshes(std::array<index_t, 4>{2, 3, 7, 19},
            [&](const Grid& mesh, const std::array<Partition, 4>& p) {
              check<OutputOf<double, 2>, None>(mesh, p, 5);
              check<Haloed, ShardedView<double****, Kokkos::LayoutLeft>>(mesh, p, 1);
            });
  on_meshes(std::array<index_t, 5>{1, 2, 3, 5, 6},
            [&](const Grid& mesh, const std::array<Partition, 5>& p) {
              check<OutputOf<double, 3>, ShardedView<double*****, Kokkos::LayoutRight>>(mesh, p, 4);
            });
  on_meshes(std::array<index_t, 3>{2, 2, 301},
            [&](const Grid& mesh, const std::array<Partition, 3>& p) {
              check<OutputOf<double, 1>, ShardedView<double***, Kokkos::LayoutRight>>(mesh, p, 18);
            });
}

TEST(spatial_pool, sharded_batch_and_channels) {
  using Batch    = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<3, Lon>>;
  using Channels = ShardedView<double****, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<3, Lon>>;
  using OfBatch  = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  using OfChannels = ShardedView<double****, Kokkos::LayoutRight, ShardDim<1, Lat>>;
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const auto part = [&](index_t n, int axis) {
      return some_partition(n, shape[static_cast<std::size_t>(axis)], which, random);
    };
    const Partition two = Partition::whole(2), three = Partition::whole(3);
    check<Batch, OfBatch>(mesh, std::array{part(4, 0), two, three, part(9, 1)}, 5);
    check<Channels, OfChannels>(mesh, std::array{two, part(6, 0), three, part(9, 1)}, 5);
  });
}

/// In float the sums of many points are as near as those of PyTorch.
TEST(spatial_pool, in_float) {
  using F = OutputOf<float, 2>;
  Random random(seed());
  const std::array<index_t, 4> n{1, 2, 60, 90};
  const SpatialPool<2> layer{6, {60, 90}};
  const World<4> x0 = random_world(n, random);
  const Weights w0  = random_weights(6, 5400, false, random);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const F x("x", mesh, partitions);
    const ShardedView<float****, Kokkos::LayoutRight> s("s", mesh, {1, 2, 6, 1});
    scatter(x, x0);
    const auto p = make_parameters<float>(layer, "p");
    set_values(p.weight, w0.v);
    auto state = layer.state(x);
    layer.apply(Space(), state, p, s, x);
    EXPECT_LT(difference(s, pooled(x0, w0)), 1e-5);
  });
}

/// What is sent, and that nothing is allocated; s is the same on every rank.
TEST(spatial_pool, messages_and_bits) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1}), own(MPI_COMM_SELF, {1, 1});
  using Field = OutputOf<double, 2>;
  const Field x("x", mesh, {2, 3, 9, 5}), dx = x.like("dx");
  const ShardedView<double****, Kokkos::LayoutRight> on_mesh("s", mesh, {2, 3, 4, 1});
  const Field beside("s", own, {2, 3, 4, 1});
  const SpatialPool<2> pool{4, {9, 5}};
  const SpatialUnpool<2> unpool{4, {9, 5}};
  const Space space;
  const auto p = make_parameters<double>(pool, "p"), q = make_parameters<double>(unpool, "q"),
             gp = make_parameters<double>(pool, "gp"), gq = make_parameters<double>(unpool, "gq");
  initialise(space, pool, p, 1, 0);
  initialise(space, unpool, q, 1, 1);
  Random random(seed());
  scatter(x, random_world(std::array<index_t, 4>{2, 3, 9, 5}, random));
  auto state = pool.state(x), back = unpool.state(x, beside);
  const int one      = world_size() > 1 ? 1 : 0;
  const auto counted = [&](const auto& what) {
    what();
    const Counts counts = count(what);
    EXPECT_EQ(counts.allocations, 0) << counts;
    return counts.collectives + counts.messages;
  };
  EXPECT_EQ(counted([&] { pool.apply(space, state, p, on_mesh, x); }), one);
  EXPECT_EQ(counted([&] { pool.apply(space, state, p, beside, x); }), one);
  EXPECT_EQ(counted([&] { pool.pullback(space, state, p, gp, dx, on_mesh, x); }), 0);
  EXPECT_EQ(counted([&] { pool.pullback(space, state, p, gp, dx, beside, x); }), one);
  EXPECT_EQ(counted([&] { unpool.apply(space, back, q, dx, x, beside); }), 0);
  EXPECT_EQ(counted([&] { unpool.pullback(space, back, q, gq, dx, beside, x, x, beside); }), 0);
  EXPECT_EQ(counted([&] { unpool.pullback(space, back, q, gq, dx, on_mesh, x, x, on_mesh); }), one);

  pool.apply(space, state, p, beside, x);
  space.fence();
  const auto mine = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), beside.view());
  Values first(mine.data(), mine.data() + mine.size());
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  EXPECT_EQ(different_bits(Values(mine.data(), mine.data() + mine.size()), first), 0);
}

TEST(spatial_pool, what_does_not_fit_throws_on_every_rank) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  using Field = OutputOf<double, 2>;
  using None  = ShardedView<double****, Kokkos::LayoutRight>;
  const Field x("x", mesh, {2, 3, 9, 5});
  const SpatialPool<2> pool{4, {9, 5}}, other{4, {9, 6}};
  const auto p = make_parameters<double>(pool, "p"), q = make_parameters<double>(other, "q");
  auto state = pool.state(x);
  const Space space;
  for (const std::array<index_t, 4>& wrong :
       {std::array<index_t, 4>{2, 3, 5, 1}, {2, 3, 4, 2}, {2, 2, 4, 1}, {1, 3, 4, 1}})
    EXPECT_THROW(pool.apply(space, state, p, None("s", mesh, wrong), x), ArgumentError);
  const None s("s", mesh, {2, 3, 4, 1});
  EXPECT_THROW(pool.apply(space, state, q, s, x), ArgumentError);
  EXPECT_THROW(other.apply(space, state, q, s, x), ArgumentError);
  if (world_size() > 1) {
    EXPECT_THROW(pool.apply(space, state, p, Field("s", mesh, {2, 3, 4, 1}), x), ArgumentError);
  }
  EXPECT_NO_THROW(pool.apply(space, state, p, s, x));
  const SpatialUnpool<2> unpool{4, {9, 5}};
  const auto back = make_parameters<double>(unpool, "back");
  EXPECT_THROW(unpool.apply(space, state, back, Field("y", mesh, {2, 3, 9, 6}), x, s),
               ArgumentError);
  EXPECT_THROW(unpool.apply(space, state, back, Field("y", mesh, {2, 4, 9, 5}), x, s),
               ArgumentError);
  EXPECT_NO_THROW(unpool.apply(space, state, back, Field("y", mesh, {2, 3, 9, 5}), x, s));
}

}  // namespace
}  // namespace shard::testing
