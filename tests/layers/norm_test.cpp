// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Group norm, pointwise layers, joins, the loss, parameters and Adam on every mesh, partitions with
// empty shards.

#include "layers/reference.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/train/adam.hpp"
#include "shard/model/parameter_arena.hpp"
#include "shard/train/gradient_sum.hpp"

namespace shard::testing {
namespace {

using Field = OutputOf<double, 2>;

/// y and dx of a group norm, written out: means over all cells.
struct SerialNorm {
  index_t groups;
  double eps;
  World<4> y, dx;
  std::vector<double> dw, db;

  void run(const World<4>& x, const World<4>& dy, const std::vector<double>& w,
           const std::vector<double>& b) {
    y = dx = World<4>(x.n);
    dw.assign(w.size(), 0.0);
    db.assign(w.size(), 0.0);
    const index_t per = x.n[1] / groups, cells = x.n[2] * x.n[3], count = per * cells;
    for (index_t k = 0; k < x.n[0] * groups; ++k) {
      const auto first = static_cast<std::size_t>(k * count);
      double mean = 0.0, var = 0.0, s1 = 0.0, s2 = 0.0;
      const auto at      = [&](index_t i) { return first + static_cast<std::size_t>(i); };
      const auto channel = [&](index_t i) {
        return static_cast<std::size_t>(k % groups * per + i / cells);
      };
      for (index_t i = 0; i < count; ++i) mean += x.v[at(i)] / static_cast<double>(count);
      for (index_t i = 0; i < count; ++i)
        var += std::pow(x.v[at(i)] - mean, 2) / static_cast<double>(count);
      const double rstd = 1.0 / std::sqrt(var + eps);
      for (index_t i = 0; i < count; ++i) {
        const double hat = (x.v[at(i)] - mean) * rstd;
        y.v[at(i)]       = hat * w[channel(i)] + b[channel(i)];
        dw[channel(i)] += hat * dy.v[at(i)];
        db[channel(i)] += dy.v[at(i)];
        s1 += w[channel(i)] * dy.v[at(i)];
        s2 += w[channel(i)] * dy.v[at(i)] * hat;
      }
      for (index_t i = 0; i < count; ++i) {
        const double hat = (x.v[at(i)] - mean) * rstd;
        dx.v[at(i)]      = rstd * (w[channel(i)] * dy.v[at(i)] - s1 / static_cast<double>(count) -
                              hat * s2 / static_cast<double>(count));
      }
    }
  }
};

TEST(norm, any_shards) {
  const std::array<index_t, 4> n{2, 6, 7, 5};
  Random random(seed());
  World<4> x0 = random_world(n, random), dy0 = random_world(n, random);
  for (double& v : x0.v) v += 3.0;  // a mean that a wrong merge would show
  const auto w0 = random_values(6, random), b0 = random_values(6, random);
  SerialNorm serial{3, 1e-3, {}, {}, {}, {}};
  serial.run(x0, dy0, w0, b0);
  const GroupNorm layer{3, 6, 1e-3};
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p");
  set_values(parameters.weight, w0);
  set_values(parameters.bias, b0);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field x("x", mesh, partitions), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
    auto state = layer.state(x);
    scatter(x, x0);
    scatter(dy, dy0);
    layer.apply(space, state, parameters, y, x);
    EXPECT_LT(difference(y, serial.y), 1e-12);
    const auto gradients = make_parameters<double>(layer, "g");
    layer.pullback(space, state, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, serial.dx), 1e-12);
    EXPECT_LT(difference(summed(gradients.weight, x), serial.dw), 1e-12);
    EXPECT_LT(difference(summed(gradients.bias, x), serial.db), 1e-12);
    layer.pullback(space, state, parameters, gradients, dy, dy, x);  // in place
    EXPECT_LT(difference(dy, serial.dx), 1e-12);
  });
}

/// The batch cut over one axis and space over the other: each batch entry has its own statistics.
TEST(norm, batch_cut_too) {
  using X = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<3, Lon>>;
  const std::array<index_t, 4> n{3, 4, 3, 8};
  Random random(seed());
  const World<4> x0 = random_world(n, random), dy0 = random_world(n, random);
  const std::vector<double> ones(4, 1.0), zeros(4, 0.0);
  SerialNorm serial{2, 1e-5, {}, {}, {}, {}};
  serial.run(x0, dy0, ones, zeros);
  GroupNorm layer{2, 4};
  layer.affine       = false;
  const auto nothing = make_parameters<double>(layer, "p");
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const X x("x", mesh, {3, 4, 3, 8}), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
    auto state = layer.state(x);
    scatter(x, x0);
    scatter(dy, dy0);
    layer.apply(Space(), state, nothing, y, x);
    EXPECT_LT(difference(y, serial.y), 1e-12);
    layer.pullback(Space(), state, nothing, nothing, dx, dy, x);
    EXPECT_LT(difference(dx, serial.dx), 1e-12);
  }
}

TEST(pointwise, silu_over_the_whole_range) {
  const std::array<index_t, 4> n{1, 1, 1, 4001};
  World<4> x0(n), y0(n), dx0(n), one(n);
  for (std::size_t i = 0; i < x0.v.size(); ++i) {
    const double x = (static_cast<double>(i) - 2000.0) * 0.36, s = 1.0 / (1.0 + std::exp(-x));
    x0.v[i]  = x;
    y0.v[i]  = x * s;
    dx0.v[i] = s * (1.0 + x * (1.0 - s));
    one.v[i] = 1.0;
  }
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {1, world_size()});
  const Field x("x", mesh, {1, 1, 1, 4001}), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
  scatter(x, x0);
  scatter(dy, one);
  SiLU().apply(space, y, x);
  SiLU().pullback(space, dx, dy, x);
  space.fence();
  for_owned(on_host(y), [&](const auto& i, double v) {
    EXPECT_NEAR(v, y0.v[y0.at(i)], 1e-14 * (1.0 + std::abs(v)));
  });
  for_owned(on_host(dx), [&](const auto& i, double v) { EXPECT_NEAR(v, dx0.v[y0.at(i)], 1e-13); });
  const OutputOf<float, 2> xf("x", mesh, {1, 1, 1, 4001}), yf = xf.like("y");
  scatter(xf, x0);
  SiLU().apply(space, yf, xf);
  space.fence();
  for_owned(on_host(yf), [&](const auto& i, float v) {
    EXPECT_NEAR(static_cast<double>(v), y0.v[y0.at(i)], 4e-7 * (1.0 + std::abs(y0.v[y0.at(i)])));
  });
}

/// That a and b joined are `both`, which is split into them again.
void expect_joined(const Haloed& joined, const World<4>& both, const Haloed& a, const World<4>& a0,
                   const Field& b, const World<4>& b0) {
  const Space space;
  concat_channels(space, joined, a, b);
  EXPECT_EQ(difference(joined, both), 0.0);
  const Haloed back_a = a.like("a");
  const Field back_b  = b.like("b");
  split_channels(space, joined, back_a, back_b);
  EXPECT_EQ(difference(back_a, a0), 0.0);
  EXPECT_EQ(difference(back_b, b0), 0.0);
}

TEST(pointwise, sums_and_joins) {
  const std::array<index_t, 4> n{2, 3, 5, 6};
  Random random(seed());
  const World<4> a0 = random_world(n, random), b0 = random_world(n, random);
  World<4> sum(n), both({2, 6, 5, 6});
  for (std::size_t i = 0; i < sum.v.size(); ++i) sum.v[i] = a0.v[i] + b0.v[i];
  for (std::size_t e = 0; e < 2; ++e)
    for (std::size_t i = 0; i < 90; ++i) {
      both.v[e * 180 + i]      = a0.v[e * 90 + i];
      both.v[e * 180 + 90 + i] = b0.v[e * 90 + i];
    }
  const Space space;
  on_meshes(n, [&](const Grid& mesh, std::array<Partition, 4> partitions) {
    const Haloed a("a", mesh, partitions);
    const Field b("b", mesh, partitions), y = b.like("y");
    partitions[1] = Partition::balanced(6, 1);
    const Haloed joined("joined", mesh, partitions);
    scatter(a, a0);
    scatter(b, b0);
    add(space, y, a, b);
    EXPECT_EQ(difference(y, sum), 0.0);
    expect_joined(joined, both, a, a0, b, b0);
    const Field other("other", mesh, {2, 3, 6, 5});
    EXPECT_THROW(add(space, y, a, other), ArgumentError);
  });
}

TEST(mean_square, weighted_by_rows) {
  const std::array<index_t, 4> n{2, 3, 7, 8};
  Random random(seed());
  const World<4> y0 = random_world(n, random), t0 = random_world(n, random);
  std::vector<double> rows(7);
  double total = 0.0, loss = 0.0;
  for (std::size_t r = 0; r < 7; ++r) total += 48.0 * (rows[r] = 0.1 + static_cast<double>(r));
  World<4> dy0(n);
  for (std::size_t i = 0; i < y0.v.size(); ++i) {
    const double w = rows[i / 8 % 7], e = y0.v[i] - t0.v[i];
    loss += w * e * e / total;
    dy0.v[i] = 2.0 * w * e / total;
  }
  const Space space;
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field y("y", mesh, partitions), t = y.like("t"), dy = y.like("dy");
    scatter(y, y0);
    scatter(t, t0);
    MeanSquare mean_square(y, rows);
    EXPECT_NEAR(mean_square(space, y, t), loss, 1e-13 * loss);
    mean_square.pullback(space, dy, y, t);
    EXPECT_LT(difference(dy, dy0), 1e-13);
    EXPECT_THROW(MeanSquare(y, std::vector<double>(6, 1.0)), ArgumentError);
  });
}

/// Fields that meet and whose ranks own other cells: random begins for each of them.
TEST(pointwise, branches_with_other_begins) {
  const std::array<index_t, 4> n{2, 3, 7, 8}, twice{2, 6, 7, 8};
  Random random(seed());
  const World<4> a0 = random_world(n, random), b0 = random_world(n, random);
  World<4> sum(n), both(twice), dy0(n);
  double loss = 0.0;
  for (std::size_t i = 0; i < sum.v.size(); ++i) {
    sum.v[i]       = a0.v[i] + b0.v[i];
    const double e = a0.v[i] - b0.v[i];
    loss += e * e / static_cast<double>(sum.v.size());
    dy0.v[i] = 2.0 * e / static_cast<double>(sum.v.size());
  }
  for (std::size_t e = 0; e < 2; ++e)
    for (std::size_t i = 0; i < 168; ++i) {
      both.v[e * 336 + i]       = a0.v[e * 168 + i];
      both.v[e * 336 + 168 + i] = b0.v[e * 168 + i];
    }
  const Space space;
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const auto elsewhere = [&](index_t channels) {
      return std::array<Partition, 4>{partitions[0], Partition::balanced(channels, 1),
                                      random_partition(n[2], mesh.template size<Lat>(), random),
                                      random_partition(n[3], mesh.template size<Lon>(), random)};
    };
    const Haloed a("a", mesh, elsewhere(3)), joined("joined", mesh, elsewhere(6));
    const Field b("b", mesh, elsewhere(3)), y("y", mesh, partitions), dy("dy", mesh, elsewhere(3));
    scatter(a, a0);
    scatter(b, b0);
    add(space, y, a, b);
    EXPECT_EQ(difference(y, sum), 0.0);
    const Field left("left", mesh, a.partitions()), right = left.like("right");
    scatter(left, a0);
    scatter(right, b0);
    add(space, y, left, right);  // both moved from the same begins
    EXPECT_EQ(difference(y, sum), 0.0);
    expect_joined(joined, both, a, a0, b, b0);
    MeanSquare mean_square(y, {});
    EXPECT_NEAR(mean_square(space, a, b), loss, 1e-13 * loss);
    mean_square.pullback(space, dy, a, b);
    EXPECT_LT(difference(dy, dy0), 1e-13);
  });
}

TEST(parameters, one_arena_and_adam) {
  using Layer = Conv<Kernel<3, 5>>;
  const Layer layer{2, 3};
  const GroupNorm norm{1, 3};
  ParameterArena<double> values("values", parameter_count(layer) + parameter_count(norm));
  const auto p = values.take("0", layer);
  const auto q = values.take("1", norm);
  EXPECT_THROW(values.take("2", norm), ArgumentError);
  ASSERT_EQ(values.entries().size(), 4u);
  EXPECT_EQ(values.entries()[1].name, "0.bias");
  EXPECT_EQ(values.entries()[0].extents, (std::vector<index_t>{3, 2, 3, 5}));
  EXPECT_EQ(p.weight.data() + 90, p.bias.data());
  EXPECT_EQ(q.bias.data(), values.values().data() + values.entries()[3].offset);
  const Space space;
  initialise(space, layer, p, 42, 0);
  initialise(space, norm, q, 42, 1);
  space.fence();
  const auto host    = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), values.values());
  const double bound = 1.0 / std::sqrt(30.0);
  double largest = 0.0, mean = 0.0;
  for (std::size_t i = 0; i < 93; ++i) {
    largest = std::max(largest, std::abs(host(i)));
    mean += host(i) / 93.0;
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.9 * bound);
  EXPECT_LT(std::abs(mean), 0.3 * bound);
  EXPECT_EQ(host(93), 1.0);
  EXPECT_EQ(host(98), 0.0);

  // Adam, two steps by hand
  ParameterArena<double> gradients("gradients", 99);
  Kokkos::deep_copy(gradients.values(), 0.25);
  Adam<double> adam(99, {0.1, 0.9, 0.99, 1e-3});
  adam(space, values.values(), gradients.values());
  Kokkos::deep_copy(gradients.values(), -1.0);
  adam(space, values.values(), gradients.values());
  space.fence();
  const auto after = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), values.values());
  double m = 0.1 * 0.25, v = 0.01 * 0.0625;
  double expected = 1.0 - 0.1 * (m / 0.1) / (std::sqrt(v / 0.01) + 1e-3);
  m               = 0.9 * m - 0.1;
  v               = 0.99 * v + 0.01;
  expected -= 0.1 * (m / (1.0 - 0.81)) / (std::sqrt(v / (1.0 - 0.9801)) + 1e-3);
  EXPECT_NEAR(after(93), expected, 1e-14);
}

// By NCCL a group is gathered from these ranks; by MPI along the mesh's axes.
TEST(norm, ranks_of_a_group_are_in_its_order) {
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const Field field("f", mesh, {1, 1, 9, 9});
    for (const unsigned dims : {0U, 4U, 8U, 12U}) {
      const auto group = impl::RankGroup::of(field.geometry(), dims);
      std::vector<double> gathered(static_cast<std::size_t>(group->size()));
      const double mine = mesh.rank();
      group->gather(&mine, 1, gathered.data());
      const auto ranks = group->mesh_ranks(*mesh.state());
      EXPECT_EQ(std::vector<double>(ranks.begin(), ranks.end()), gathered);
    }
  }
}

TEST(parameters, sum_over_ranks) {
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const Field both("both axes", mesh, {1, 1, 9, 9});
    const OutputOf<double, 1> one("one axis", mesh, {1, 1, 9});
    for (index_t count : {1, 7, 100}) {
      Kokkos::View<float*, Kokkos::LayoutRight, Space::memory_space> g(
          "g", static_cast<std::size_t>(count)),
          h("h", static_cast<std::size_t>(count));
      Kokkos::deep_copy(g, static_cast<float>(mesh.rank() + 1));
      Kokkos::deep_copy(h, static_cast<float>(mesh.coordinate<Lat>() + 1));
      GradientSum<float>(both, count)(Space(), g);
      GradientSum<float>(one, count)(Space(), h);
      Space().fence();
      const auto gh   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), g),
                 hh   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), h);
      const int ranks = mesh.size(), lat = shape[0];
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        EXPECT_EQ(gh(i), static_cast<float>(ranks * (ranks + 1) / 2));
        EXPECT_EQ(hh(i), static_cast<float>(lat * (lat + 1) / 2));
      }
    }
  }
}

}  // namespace
}  // namespace shard::testing
