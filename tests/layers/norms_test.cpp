// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All norms against a plain reference that takes means and variances apart: values, tangents,
// gradients, messages, bits.

#include "layers/bits.hpp"
#include "layers/reference.hpp"
#include "shard/layers/norm/batch_norm.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/norm/instance_norm.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using Field = OutputOf<double, 2>;

/// Which values share statistics: by batch entry, group of channels and cell, or by fewer of them.
struct Sharing {
  index_t groups = 1;
  bool batch     = false;  ///< over the batch
  bool cells     = true;   ///< over the cells
};

/// Everything of a norm on a world, with the derivatives of mean and variance written out.
struct PlainNorm {
  Sharing sharing;
  double eps = 1e-5;
  std::vector<double> rows;  ///< weights; none: 1

  World<4> x, dy, tx, y, dx, ty;
  std::vector<double> w, b, tw, tb, dw, db, mean, variance;

  PlainNorm(const Sharing& s, const std::array<index_t, 4>& n, Random& random)
      : sharing(s),
        x(random_world(n, random)),
        dy(random_world(n, random)),
        tx(random_world(n, random)) {
    for (double& v : x.v) v += 3.0;  // a mean that a wrong merge would show
    for (auto* v : {&w, &b, &tw, &tb}) *v = random_values(static_cast<std::size_t>(n[1]), random);
  }

  std::size_t slot(std::size_t i) const {
    const auto n       = [&](int d) { return static_cast<std::size_t>(x.n[d]); };
    const auto cells   = n(2) * n(3);
    const auto per     = n(1) / static_cast<std::size_t>(sharing.groups);
    const auto entry   = sharing.batch ? 0 : i / (n(1) * cells);
    const auto group   = channel(i) / per;
    const auto at_cell = sharing.cells ? 0 : i % cells;
    return (entry * static_cast<std::size_t>(sharing.groups) + group) *
               (sharing.cells ? 1 : cells) +
           at_cell;
  }
  std::size_t channel(std::size_t i) const {
    return i / static_cast<std::size_t>(x.n[2] * x.n[3]) % static_cast<std::size_t>(x.n[1]);
  }
  double weight(std::size_t i) const {
    return rows.empty()
               ? 1.0
               : rows[i / static_cast<std::size_t>(x.n[3]) % static_cast<std::size_t>(x.n[2])];
  }

  void run() {
    const std::size_t slots = slot(x.v.size() - 1) + 1;
    std::vector<double> total(slots), t_mean(slots), t_var(slots), d_mean(slots), d_var(slots);
    const auto for_all = [&](const auto& use) {
      for (std::size_t i = 0; i < x.v.size(); ++i) use(i, slot(i), channel(i));
    };
    mean.assign(slots, 0.0);
    variance.assign(slots, 0.0);
    dw.assign(w.size(), 0.0);
    db.assign(b.size(), 0.0);
    y = dx = ty = World<4>(x.n);
    for_all([&](auto i, auto s, auto) { total[s] += weight(i); });
    for_all([&](auto i, auto s, auto) { mean[s] += weight(i) * x.v[i] / total[s]; });
    for_all([&](auto i, auto s, auto) {
      variance[s] += weight(i) * std::pow(x.v[i] - mean[s], 2) / total[s];
      t_mean[s] += weight(i) * tx.v[i] / total[s];
    });
    const auto rstd = [&](auto s) { return 1.0 / std::sqrt(variance[s] + eps); };
    for_all([&](auto i, auto s, auto c) {
      const double d = x.v[i] - mean[s], hat = d * rstd(s);
      y.v[i] = hat * w[c] + b[c];
      dw[c] += hat * dy.v[i];
      db[c] += dy.v[i];
      t_var[s] += weight(i) * 2.0 * d * (tx.v[i] - t_mean[s]) / total[s];
      d_mean[s] -= dy.v[i] * w[c] * rstd(s);
      d_var[s] -= 0.5 * dy.v[i] * w[c] * d * std::pow(rstd(s), 3);
    });
    for_all([&](auto i, auto s, auto c) {
      const double d = x.v[i] - mean[s];
      ty.v[i] =
          w[c] * ((tx.v[i] - t_mean[s]) * rstd(s) - 0.5 * d * std::pow(rstd(s), 3) * t_var[s]) +
          tw[c] * d * rstd(s) + tb[c];
      dx.v[i] = dy.v[i] * w[c] * rstd(s) + weight(i) / total[s] * (d_mean[s] + 2.0 * d * d_var[s]);
    });
  }
};

double dot(const World<4>& a, const World<4>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.v.size(); ++i) sum += a.v[i] * b.v[i];
  return sum;
}

template <class Parameters>
void set_parameters(const Parameters& p, const std::vector<double>& w,
                    const std::vector<double>& b) {
  set_values(p.weight, w);
  set_values(p.bias, b);
}

/// Values, tangents and gradients of a norm on fields X, and everything that may not be wanted.
template <class X, class Layer, int Rank>
void check(const Layer& layer, const PlainNorm& plain, const std::array<index_t, Rank>& n) {
  const Space space;
  const auto world = [&](const World<4>& of) {
    World<Rank> w(n);
    w.v = of.v;
    return w;
  };
  const auto parameters = make_parameters<double>(layer, "p"),
             tangents   = make_parameters<double>(layer, "t");
  set_parameters(parameters, plain.w, plain.b);
  set_parameters(tangents, plain.tw, plain.tb);
  std::vector<double> dw = plain.dw, db = plain.db;
  World<4> of_input = plain.ty, of_parameters = plain.ty;  // the two parts of the tangent
  for (std::size_t i = 0; i < of_input.v.size(); ++i) {
    const std::size_t c = plain.channel(i);
    const double hat    = (plain.y.v[i] - plain.b[c]) / plain.w[c];
    of_parameters.v[i]  = plain.tw[c] * hat + plain.tb[c];
    of_input.v[i] -= of_parameters.v[i];
  }
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, Rank>& partitions) {
    const X x("x", mesh, partitions);
    const OutputOf<double, Rank - 2> y("y", mesh, partitions), dy = y.like("dy"), t = y.like("t");
    const X dx = x.like("dx");
    auto state = layer.state(x);
    scatter(x, world(plain.x));
    scatter(dy, world(plain.dy));
    scatter(t, world(plain.tx));
    layer.apply(space, state, parameters, y, x);
    EXPECT_LT(difference(y, world(plain.y)), 1e-12);
    const auto gradients = make_parameters<double>(layer, "g");
    layer.pullback(space, state, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, world(plain.dx)), 1e-12);
    EXPECT_LT(difference(summed(gradients.weight, x), dw), 1e-12);
    EXPECT_LT(difference(summed(gradients.bias, x), db), 1e-12);
    layer.pushforward(space, state, parameters, tangents, y, t, x);
    EXPECT_LT(difference(y, world(plain.ty)), 1e-12);
    layer.pushforward(space, state, parameters, not_wanted, y, t, x);
    EXPECT_LT(difference(y, world(of_input)), 1e-11);
    layer.pushforward(space, state, parameters, tangents, y, not_wanted, x);
    EXPECT_LT(difference(y, world(of_parameters)), 1e-11);
    layer.pullback_parameters(space, state, gradients, dy, x);  // adds
    std::vector<double> twice = dw;
    for (double& v : twice) v *= 2.0;
    EXPECT_LT(difference(summed(gradients.weight, x), twice), 1e-12);
    layer.pullback_input(space, state, parameters, dy, dy, x);  // in place
    EXPECT_LT(difference(dy, world(plain.dx)), 1e-12);
  });
}

/// A random norm of some kind, and the layer of it.
template <class X, int Rank, class Layer>
void check_norm(const Layer& layer, const Sharing& sharing, double eps,
                const std::vector<double>& rows, const std::array<index_t, 4>& n,
                const std::array<index_t, Rank>& extents) {
  Random random(seed() + 5);
  PlainNorm plain(sharing, n, random);
  plain.eps  = eps;
  plain.rows = rows;
  plain.run();
  double parameters = 0.0;  // <ty, dy> = <tx, dx> + <tw, dw> + <tb, db>
  for (std::size_t c = 0; c < plain.w.size(); ++c)
    parameters += plain.tw[c] * plain.dw[c] + plain.tb[c] * plain.db[c];
  EXPECT_NEAR(dot(plain.ty, plain.dy), dot(plain.tx, plain.dx) + parameters, 1e-11);
  check<X, Layer, Rank>(layer, plain, extents);
}

const std::vector<double> areas{0.5, 2.0, 0.0, 1.0, 3.0, 0.25, 1.5};

TEST(norms, any_shards) {
  const std::array<index_t, 4> n{2, 6, 7, 19};
  static_assert(GroupNorm::sharding == LayerSharding::collective);
  static_assert(LayerNorm::sharding == LayerSharding::local);
  check_norm<Haloed, 4>(GroupNorm{3, 6, 1e-3}, {3}, 1e-3, {}, n, n);
  check_norm<Haloed, 4>(LayerNorm{6, 1e-2}, {1, false, false}, 1e-2, {}, n, n);
  check_norm<Haloed, 4>(BatchNorm{6}, {6, true}, 1e-5, {}, n, n);
}

TEST(norms, groups_of_one_and_of_all_channels) {
  const std::array<index_t, 4> n{2, 3, 7, 5};
  check_norm<Field, 4>(InstanceNorm{3, 1e-4, true}, {3}, 1e-4, {}, n, n);
  check_norm<Field, 4>(SpatialLayerNorm{3}, {1}, 1e-5, {}, n, n);
}

TEST(norms, weighted_by_area) {
  check_norm<Field, 4>(AreaWeighted<GroupNorm>{{2, 4}, areas}, {2}, 1e-5, areas, {2, 4, 7, 17},
                       {2, 4, 7, 17});
  using Line  = ShardedView<double***, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>>;
  using Solid = ShardedView<double*****, Kokkos::LayoutRight, ShardDim<3, Lat>, ShardDim<4, Lon>>;
  check_norm<Line, 3>(AreaWeighted<GroupNorm>{{2, 4}, areas}, {2}, 1e-5, areas, {2, 4, 7, 1},
                      {2, 4, 7});
  check_norm<Solid, 5>(AreaWeighted<BatchNorm>{{4}, areas}, {4, true}, 1e-5, areas, {2, 4, 7, 15},
                       {2, 4, 7, 3, 5});
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field x("x", mesh, {1, 4, 7, 3});
  for (const std::vector<double>& wrong :
       {std::vector<double>(6, 1.0),
        {},
        std::vector<double>(7, 0.0),
        std::vector<double>{1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0},
        std::vector<double>{1.0, 1.0, std::nan(""), 1.0, 1.0, 1.0, 1.0}})
    EXPECT_THROW((AreaWeighted<GroupNorm>{{2, 4}, wrong}.state(x)), ArgumentError);
}

/// The original's group norm sends values only: its input gradient ignores what other ranks' cells
/// say of mean and variance.
TEST(norms, B1_input_gradient_with_the_terms_of_all_ranks) {
  const std::array<index_t, 4> n{1, 4, 16, 6};
  Random random(seed());
  PlainNorm plain({2}, n, random);
  plain.run();
  const GroupNorm layer{2, 4};
  const auto parameters = make_parameters<double>(layer, "p");
  set_parameters(parameters, plain.w, plain.b);
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field x("x", mesh, {1, 4, 16, 6}), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
  scatter(x, plain.x);
  scatter(dy, plain.dy);
  auto state = layer.state(x);
  layer.apply(Space(), state, parameters, y, x);
  layer.pullback(Space(), state, parameters, not_wanted, dx, dy, x);
  EXPECT_LT(difference(dx, plain.dx), 1e-13);
  auto alone  = layer.state(x);  // what it would be with this rank's terms only
  alone.group = nullptr;
  Kokkos::deep_copy(alone.statistics, state.statistics);
  alone.total = state.total;
  layer.pullback(Space(), alone, parameters, not_wanted, dx, dy, x);
  if (world_size() > 1) {
    EXPECT_GT(difference(dx, plain.dx), 1e-3);
  }
}

TEST(norms, batch_cut_too) {
  using X = ShardedView<double****, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<3, Lon>>;
  const std::array<index_t, 4> n{3, 4, 3, 8};
  const Space space;
  const auto one = [&](const auto& layer, const Sharing& sharing) {
    Random random(seed());
    PlainNorm plain(sharing, n, random);
    plain.run();
    const auto parameters = make_parameters<double>(layer, "p");
    set_parameters(parameters, plain.w, plain.b);
    for (const auto& shape : shapes(world_size())) {
      const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
      const X x("x", mesh, {3, 4, 3, 8}), y = x.like("y"), dy = x.like("dy");
      auto state = layer.state(x);
      scatter(x, plain.x);
      scatter(dy, plain.dy);
      layer.apply(space, state, parameters, y, x);
      EXPECT_LT(difference(y, plain.y), 1e-12);
      layer.pullback(space, state, parameters, not_wanted, dy, dy, x);
      EXPECT_LT(difference(dy, plain.dx), 1e-12);
    }
  };
  one(GroupNorm{2, 4}, {2});
  one(BatchNorm{4}, {4, true});
  one(LayerNorm{4}, {1, false, false});
}

TEST(norms, running_averages_and_evaluation) {
  const std::array<index_t, 4> n{2, 3, 7, 5};
  Random random(seed());
  PlainNorm one({3, true}, n, random), two({3, true}, n, random);
  one.run();
  two.run();
  BatchNorm layer{3, 1e-5, 0.3};
  const auto parameters = make_parameters<double>(layer, "p"),
             tangents   = make_parameters<double>(layer, "t");
  set_parameters(parameters, one.w, one.b);
  set_parameters(tangents, one.tw, one.tb);
  std::vector<double> mean(3, 0.0), variance(3, 1.0);
  for (const PlainNorm* p : {&one, &two})
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c]     = 0.7 * mean[c] + 0.3 * p->mean[c];
      variance[c] = 0.7 * variance[c] + 0.3 * p->variance[c] * 70.0 / 69.0;
    }
  World<4> y0(n), dx0(n), ty0(n);
  std::vector<double> dw0(3, 0.0);
  for (std::size_t i = 0; i < y0.v.size(); ++i) {
    const std::size_t c = one.channel(i);
    const double rstd = 1.0 / std::sqrt(variance[c] + 1e-5), hat = (one.x.v[i] - mean[c]) * rstd;
    y0.v[i]  = hat * one.w[c] + one.b[c];
    dx0.v[i] = one.dy.v[i] * one.w[c] * rstd;
    ty0.v[i] = one.tx.v[i] * one.w[c] * rstd + hat * one.tw[c] + one.tb[c];
    dw0[c] += hat * one.dy.v[i];
  }
  const Space space;
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field x("x", mesh, partitions), y = x.like("y"), dy = x.like("dy"), t = x.like("t");
    layer.training = true;
    auto state     = layer.state(x);
    for (const PlainNorm* p : {&one, &two}) {
      scatter(x, p->x);
      layer.apply(space, state, parameters, y, x);
      EXPECT_LT(difference(y, World<4>(p == &one ? one.y : y0)), p == &one ? 1e-12 : 1e300);
    }
    space.fence();
    const auto m = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state.running_mean);
    const auto v = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state.running_variance);
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(m(c), mean[c], 1e-13);
      EXPECT_NEAR(v(c), variance[c], 1e-13);
      double least[2] = {m(c), v(c)}, most[2] = {m(c), v(c)};  // the same bits on every rank
      MPI_Allreduce(MPI_IN_PLACE, least, 2, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
      MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      EXPECT_EQ(least[0], most[0]);
      EXPECT_EQ(least[1], most[1]);
    }
    layer.training = false;
    scatter(x, one.x);
    scatter(dy, one.dy);
    scatter(t, one.tx);
    const auto gradients = make_parameters<double>(layer, "g");
    const Counts counted = count([&] {
      layer.apply(space, state, parameters, y, x);
      layer.pushforward(space, state, parameters, tangents, t, t, x);
      layer.pullback(space, state, parameters, gradients, dy, dy, x);
    });
    EXPECT_EQ(counted.collectives, 0) << counted;
    EXPECT_LT(difference(y, y0), 1e-12);
    EXPECT_LT(difference(t, ty0), 1e-12);
    EXPECT_LT(difference(dy, dx0), 1e-12);
    EXPECT_LT(difference(summed(gradients.weight, x), dw0), 1e-12);
  });
}

TEST(norms, statistics_of_the_shard) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1}), self(MPI_COMM_SELF, {1, 1});
  Random random(seed());
  const World<4> x0 = random_world(std::array<index_t, 4>{2, 3, 9, 5}, random);
  const Field x("x", mesh, {2, 3, 9, 5}), y = x.like("y"), dx = x.like("dx");
  const Field mine("mine", self, {2, 3, x.extent(2), 5}), f_mine = mine.like("f(mine)");
  scatter(x, x0);
  Kokkos::deep_copy(mine.owned(), x.owned());
  BatchNorm layer{3}, shared{3};
  layer.statistics      = BatchStatistics::shard;
  const auto parameters = make_parameters<double>(layer, "p");
  initialise(Space(), layer, parameters, 1, 0);
  auto state = layer.state(x), alone = layer.state(mine);
  const Counts counted = count([&] {
    layer.apply(Space(), state, parameters, y, x);
    layer.pullback(Space(), state, parameters, not_wanted, dx, x, x);
  });
  EXPECT_EQ(counted.collectives, 0) << counted;
  if (x.extent(2) == 0) return;
  shared.apply(Space(), alone, parameters, f_mine, mine);
  Space().fence();
  const auto a = create_mirror_view(y), b = create_mirror_view(f_mine);
  deep_copy(Space(), a, y);
  deep_copy(Space(), b, f_mine);
  Space().fence();
  const auto at = [](const auto& f, index_t i) { return f.owned()(1, 2, i % f.extent(2), i % 5); };
  for (index_t i = 0; i < 10; ++i) EXPECT_EQ(at(a, i), at(b, i));
}

TEST(norms, one_value_per_channel_has_no_variance) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field x("x", mesh, {1, 3, 1, 1});
  BatchNorm layer{3};
  auto state            = layer.state(x);
  const auto parameters = make_parameters<double>(layer, "p");
  EXPECT_THROW(layer.apply(Space(), state, parameters, x, x), ArgumentError);
  layer.training = false;
  layer.apply(Space(), state, parameters, x, x);
  const Field other("other", mesh, {1, 4, 1, 1});
  EXPECT_THROW(layer.apply(Space(), state, parameters, other, x), ArgumentError);
}

/// One collective forward, one backward, one for a tangent; none for what isn't wanted. Nothing is
/// allocated.
TEST(norms, collectives_and_allocations) {
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field x("x", mesh, {2, 4, 9, 5}), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
  const std::int64_t one = world_size() > 1 ? 1 : 0;
  const auto of          = [&](const auto& layer, std::int64_t each) {
    const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
    auto state        = layer.state(x);
    const auto expect = [&](std::int64_t collectives, const auto& what) {
      space.fence();
      const Counts counted = count(what);
      EXPECT_EQ(counted.collectives, collectives) << counted;
      EXPECT_EQ(counted.messages, 0) << counted;
      EXPECT_EQ(counted.allocations, 0) << counted;
      return counted.kernels;
    };
    expect(each, [&] { layer.apply(space, state, p, y, x); });
    expect(each, [&] { layer.pushforward(space, state, p, p, y, dy, x); });
    expect(0, [&] { layer.pushforward(space, state, p, p, y, not_wanted, x); });
    const auto all   = expect(each, [&] { layer.pullback(space, state, p, g, dx, dy, x); });
    const auto input = expect(each, [&] { layer.pullback_input(space, state, p, dx, dy, x); });
    const auto own   = expect(0, [&] { layer.pullback_parameters(space, state, g, dy, x); });
    EXPECT_EQ(expect(0, [&] { layer.pullback(space, state, p, not_wanted, not_wanted, dy, x); }),
                       0);
    EXPECT_LT(input, all);
    EXPECT_LT(own, all);
  };
  of(GroupNorm{2, 4}, one);
  of(BatchNorm{4}, one);
  of(AreaWeighted<SpatialLayerNorm>{{4}, std::vector<double>(9, 1.0)}, one);
  of(LayerNorm{4}, 0);
}

/// Values far from zero: Chan's merge against two passes over all of them, in any parts.
TEST(norms, merge_of_badly_conditioned_values) {
  Random random(seed());
  std::vector<double> x(3000);
  for (double& v : x) v = 1e8 + random.real();
  long double mean = 0.0L, squares = 0.0L;
  for (double v : x) mean += static_cast<long double>(v) / 3000.0L;
  for (double v : x) squares += (v - mean) * (v - mean);
  for (const std::vector<std::size_t>& parts :
       {std::vector<std::size_t>{0, 3000}, {0, 1, 1, 17, 2500, 3000}, {0, 1500, 3000, 3000}}) {
    std::vector<double> moments;
    for (std::size_t p = 0; p + 1 < parts.size(); ++p) {
      double m = 0.0, s = 0.0;
      for (std::size_t i = parts[p]; i < parts[p + 1]; ++i) m += x[i];
      const auto count = static_cast<double>(parts[p + 1] - parts[p]);
      if (count > 0.0) m /= count;
      for (std::size_t i = parts[p]; i < parts[p + 1]; ++i) s += (x[i] - m) * (x[i] - m);
      for (double v : {count, m, s}) moments.push_back(v);
    }
    double statistics[impl::statistics_per_slot];
    EXPECT_EQ(impl::merge_moments(moments.data(), 1, static_cast<int>(parts.size()) - 1, 0.0, 2.0,
                                  statistics),
              3000.0);
    EXPECT_NEAR(statistics[0], static_cast<double>(mean), 1e-7);
    const double variance = static_cast<double>(squares / 3000.0L);
    EXPECT_NEAR(statistics[2], 2.0 * variance, 1e-7 * variance);
    EXPECT_NEAR(statistics[1], 1.0 / std::sqrt(variance), 1e-7);
  }
  const std::array<index_t, 4> n{1, 2, 12, 125};
  World<4> x0(n), y0(n);
  x0.v = x;
  for (std::size_t i = 0; i < x.size(); ++i)
    y0.v[i] = static_cast<double>((x[i] - mean) / std::sqrt(squares / 3000.0L));
  GroupNorm layer{1, 2, 0.0};
  layer.affine       = false;
  const auto nothing = make_parameters<double>(layer, "p");
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field f("x", mesh, partitions), y = f.like("y");
    auto state = layer.state(f);
    scatter(f, x0);
    layer.apply(Space(), state, nothing, y, f);
    EXPECT_LT(difference(y, y0), 1e-7);
  });
}

/// The running sums of some rows of a channel, as documented: the rows of four quarters in turn,
/// sum_lanes columns at a time, then the rows that are left.
template <class Term>
double in_lanes(const World<4>& x, index_t n, index_t c, index_t rows, const Term& term) {
  double lanes[impl::sum_lanes] = {}, sum = 0.0;
  const index_t width = impl::sum_lanes, columns = x.n[3], quarter = rows / 4;
  const auto add = [&](index_t i, index_t from, index_t to) {
    for (index_t j = from; j < to; ++j)
      lanes[j % width] = term(lanes[j % width], x.v[x.at({n, c, i, j})]);
  };
  for (index_t i = 0; i < quarter; ++i)
    for (index_t j = 0; j < columns; j += width)
      for (index_t part = 0; part < 4; ++part)
        add(part * quarter + i, j, std::min(j + width, columns));
  for (index_t i = 4 * quarter; i < rows; ++i) add(i, 0, columns);
  for (double l : lanes) sum += l;
  return sum;
}

/// One rank has the bits of a plain loop in the documented order.
TEST(norms, bits_of_the_plain_loop) {
  if (!computes_on_host) GTEST_SKIP() << "a device adds in another order";
  const std::array<index_t, 4> n{2, 6, 11, 37};
  Random random(seed());
  PlainNorm plain({3}, n, random);
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Field x("x", alone, {2, 6, 11, 37}), y = x.like("y");
  scatter(x, plain.x);
  const auto cells_of = [&](index_t e, index_t c, const auto& use) {
    for (index_t i = 0; i < n[2] * n[3]; ++i) use(plain.x.at({e, c, i / n[3], i % n[3]}));
  };
  const auto check_slots = [&](const auto& layer, const impl::NormGroups& groups) {
    const auto parameters = make_parameters<double>(layer, "p");
    set_parameters(parameters, plain.w, plain.b);
    auto state = layer.state(x);
    layer.apply(Space(), state, parameters, y, x);
    std::vector<impl::Moments> slots(static_cast<std::size_t>(groups.slots(n[0])));
    const double cells = static_cast<double>(n[2] * n[3]);
    for (index_t e = 0; e < n[0]; ++e)
      for (index_t c = 0; c < n[1]; ++c) {
        const double pivot =
            in_lanes(plain.x, e, c, 1, [](double sum, double v) { return sum + v; }) /
            static_cast<double>(n[3]);
        const double off =
            in_lanes(plain.x, e, c, n[2], [&](double sum, double v) { return sum + (v - pivot); }) /
            cells;
        const double squares = in_lanes(plain.x, e, c, n[2], [&](double sum, double v) {
          return multiply_add(sum, v - pivot, v - pivot);
        });
        impl::merge(slots[static_cast<std::size_t>(groups.slot(e, c))],
                    {cells, pivot + off, multiply_add(squares, -(off * off), cells)});
      }
    World<4> y0(n);
    for (index_t e = 0; e < n[0]; ++e)
      for (index_t c = 0; c < n[1]; ++c) {
        const impl::Moments& s = slots[static_cast<std::size_t>(groups.slot(e, c))];
        const double rstd      = 1.0 / std::sqrt(s.squares / s.weight + 1e-5),
                     scale     = rstd * plain.w[static_cast<std::size_t>(c)];
        cells_of(e, c, [&](std::size_t i) {
          y0.v[i] =
              multiply_add(plain.b[static_cast<std::size_t>(c)], plain.x.v[i] - s.mean, scale);
        });
      }
    EXPECT_EQ(different_bits(gathered(y, MPI_COMM_SELF).v, y0.v), 0);
  };
  check_slots(GroupNorm{3, 6}, {3, 6, false});
  check_slots(BatchNorm{6}, {6, 6, true});

  const LayerNorm layer{6};
  const auto parameters = make_parameters<double>(layer, "p");
  set_parameters(parameters, plain.w, plain.b);
  World<4> y0(n);
  for (index_t e = 0; e < n[0]; ++e)
    for (index_t i = 0; i < n[2] * n[3]; ++i) {
      const auto at = [&](index_t c) { return plain.x.at({e, c, i / n[3], i % n[3]}); };
      double mean = 0.0, squares = 0.0;
      for (index_t c = 0; c < 6; ++c) mean += plain.x.v[at(c)];
      mean /= 6.0;
      for (index_t c = 0; c < 6; ++c)
        squares = multiply_add(squares, plain.x.v[at(c)] - mean, plain.x.v[at(c)] - mean);
      const double rstd = 1.0 / std::sqrt(squares / 6.0 + 1e-5);
      for (index_t c = 0; c < 6; ++c)
        y0.v[at(c)] =
            multiply_add(plain.b[static_cast<std::size_t>(c)], (plain.x.v[at(c)] - mean) * rstd,
                         plain.w[static_cast<std::size_t>(c)]);
    }
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {  // of any ranks
    const Field f("x", mesh, partitions), g = f.like("y");
    auto state = layer.state(f);
    scatter(f, plain.x);
    layer.apply(Space(), state, parameters, g, f);
    EXPECT_EQ(different_bits(gathered(g, MPI_COMM_WORLD).v, y0.v), 0);
  });
}

}  // namespace
}  // namespace shard::testing
