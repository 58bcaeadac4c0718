// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses and metrics over the whole world against plain sums.

#include <functional>

#include "layers/bits.hpp"
#include "layers/reference.hpp"
#include "shard/layers/loss/mean_error.hpp"

namespace shard::testing {
namespace {

using Field    = OutputOf<double, 2>;
using Function = std::function<double(double)>;

const std::array<index_t, 4> extents{2, 3, 7, 19};
const std::vector<double> areas{0.5, 2.0, 0.0, 1.0, 3.0, 0.25, 1.5};

double area(std::size_t i) { return areas[i / 19 % 7]; }
std::size_t channel(std::size_t i) { return i / (7 * 19) % 3; }

/// sum of w term(i) over sum of w; of one channel where one is given.
double mean(const std::function<double(std::size_t)>& term, int of_channel = -1) {
  double sum = 0.0, total = 0.0;
  for (std::size_t i = 0; i < 2 * 3 * 7 * 19; ++i) {
    if (of_channel >= 0 && channel(i) != static_cast<std::size_t>(of_channel)) continue;
    sum += area(i) * term(i);
    total += area(i);
  }
  return sum / total;
}

/// The same bits on every rank.
void expect_one_value(double v) {
  double least = v, most = v;
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(least, most);
}

/// Value, tangent and gradient; `y` and `target` may own other cells than the field that the loss
/// was made for.
template <class Loss, class Y>
void check(Loss& loss, const Y& y, const Y& target, const Y& ty, const World<4>& e0,
           const World<4>& ty0, const Function& f, const Function& derivative) {
  const Space space;
  const double value = loss(space, y, target);
  EXPECT_NEAR(value, mean([&](std::size_t i) { return f(e0.v[i]); }), 1e-13);
  expect_one_value(value);
  const auto channels = loss.by_channel(space, y, target);
  ASSERT_EQ(channels.size(), 3u);
  for (int c = 0; c < 3; ++c)
    EXPECT_NEAR(channels[static_cast<std::size_t>(c)],
                mean([&](std::size_t i) { return f(e0.v[i]); }, c), 1e-13);
  const double tangent = loss.pushforward(space, ty, y, target);
  EXPECT_NEAR(tangent, mean([&](std::size_t i) { return derivative(e0.v[i]) * ty0.v[i]; }), 1e-13);
  expect_one_value(tangent);
  double total = 0.0;
  World<4> dy0(extents);
  for (std::size_t i = 0; i < dy0.v.size(); ++i) total += area(i);
  for (std::size_t i = 0; i < dy0.v.size(); ++i)
    dy0.v[i] = 3.0 * area(i) * derivative(e0.v[i]) / total;
  const Y dy = y.like("dy");
  loss.pullback(space, dy, y, target, 3.0);
  EXPECT_LT(difference(dy, dy0), 1e-13);
}

TEST(losses, values_tangents_and_gradients) {
  Random random(seed());
  World<4> y0 = random_world(extents, random), t0 = random_world(extents, random), e0(extents);
  const World<4> ty0 = random_world(extents, random);
  t0.v[5]            = y0.v[5];  // an error of 0
  for (std::size_t i = 0; i < y0.v.size(); ++i) e0.v[i] = y0.v[i] - t0.v[i];
  on_meshes(extents, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field like("like", mesh, partitions);
    MeanSquare square(like, areas);
    MeanAbsolute absolute(like, areas);
    Huber huber(like, areas, 0.4);
    const auto check_all = [&](const auto& y) {
      const auto target = y.like("target"), ty = y.like("ty");
      scatter(y, y0);
      scatter(target, t0);
      scatter(ty, ty0);
      check(
          square, y, target, ty, e0, ty0, [](double e) { return e * e; },
          [](double e) { return 2.0 * e; });
      check(
          absolute, y, target, ty, e0, ty0, [](double e) { return std::abs(e); },
          [](double e) { return e > 0.0   ? 1.0
                                : e < 0.0 ? -1.0
                                          : 0.0; });
      check(
          huber, y, target, ty, e0, ty0,
          [](double e) { return std::abs(e) <= 0.4 ? 0.5 * e * e : 0.4 * (std::abs(e) - 0.2); },
          [](double e) { return std::abs(e) <= 0.4 ? e
                                : e > 0.0          ? 0.4
                                                   : -0.4; });
    };
    check_all(Haloed("y", mesh, partitions));
    if (world_size() == 1) return;
    std::array<Partition, 4> elsewhere = partitions;  // the last rank owns all
    for (int d : {2, 3}) {
      std::vector<index_t> begins(
          static_cast<std::size_t>(partitions[static_cast<std::size_t>(d)].parts()) + 1, 0);
      begins.back()                          = extents[static_cast<std::size_t>(d)];
      elsewhere[static_cast<std::size_t>(d)] = Partition::explicit_begins(begins);
    }
    check_all(Field("y", mesh, elsewhere));
  });
}

/// The original takes each shard's metric and averages the results.
TEST(losses, B11_metrics_of_the_world_not_averages_of_shards) {
  Random random(seed());
  World<4> y0 = random_world(extents, random), t0 = random_world(extents, random),
           c0 = random_world(extents, random);
  for (std::size_t i = 0; i < y0.v.size(); ++i) {
    y0.v[i] *= static_cast<double>(i / 19 % 7);  // shards with other errors
    t0.v[i] += 0.5 * y0.v[i];
  }
  const auto squares = [&](int of) {
    return std::sqrt(mean([&](std::size_t i) { return std::pow(y0.v[i] - t0.v[i], 2); }, of));
  };
  const auto correlation = [&](int of) {
    const auto product = [&](const World<4>& a, const World<4>& b) {
      return mean([&](std::size_t i) { return (a.v[i] - c0.v[i]) * (b.v[i] - c0.v[i]); }, of);
    };
    return product(y0, t0) / std::sqrt(product(y0, y0) * product(t0, t0));
  };
  const Space space;
  on_meshes(extents, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Field y("y", mesh, partitions), t = y.like("t"), c = y.like("c");
    scatter(y, y0);
    scatter(t, t0);
    scatter(c, c0);
    RootMeanSquare rmse(y, areas);
    AnomalyCorrelation acc(y, areas);
    EXPECT_NEAR(rmse(space, y, t), squares(-1), 1e-13);
    EXPECT_NEAR(acc(space, y, t, c), correlation(-1), 1e-13);
    expect_one_value(rmse(space, y, t));
    expect_one_value(acc(space, y, t, c));
    const auto of_rmse = rmse.by_channel(space, y, t), of_acc = acc.by_channel(space, y, t, c);
    for (int k = 0; k < 3; ++k) {
      EXPECT_NEAR(of_rmse[static_cast<std::size_t>(k)], squares(k), 1e-13);
      EXPECT_NEAR(of_acc[static_cast<std::size_t>(k)], correlation(k), 1e-13);
    }
    EXPECT_NEAR(acc(space, y, y, c), 1.0, 1e-14);
    EXPECT_THROW(RootMeanSquare(y, std::vector<double>(6, 1.0)), ArgumentError);
    EXPECT_THROW(Huber(y, areas, 0.0), ArgumentError);
    const Field other("other", mesh, {2, 4, 7, 19});
    EXPECT_THROW(acc(space, y, t, other), ArgumentError);
  });
  // what the average of shards would be
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field y("y", mesh, {2, 3, 7, 19});
  double mine = 0.0, cells = 0.0, average = 0.0;
  for (std::size_t i = 0; i < y0.v.size(); ++i) {
    const auto row = static_cast<index_t>(i / 19 % 7);
    if (row < y.begin(2) || row >= y.begin(2) + y.extent(2)) continue;
    mine += area(i) * std::pow(y0.v[i] - t0.v[i], 2);
    cells += area(i);
  }
  mine = cells > 0.0 ? std::sqrt(mine / cells) : 0.0;
  MPI_Allreduce(&mine, &average, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (world_size() > 1) {
    EXPECT_GT(std::abs(average / world_size() - squares(-1)), 1e-3);
  }
}

/// Channels cut, and rows that are the last dimension or the first of three.
TEST(losses, other_fields) {
  const Space space;
  Random random(seed());
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  using Channels = ShardedView<float***, Kokkos::LayoutLeft, ShardDim<1, Lat>>;
  const auto x0  = random_world(std::array<index_t, 3>{2, 5, 7}, random);
  const Channels y("y", mesh, {2, 5, 7}), zero = y.like("zero");
  scatter(y, x0);
  scatter(zero, World<3>(x0.n));
  const auto expected = [&](index_t of) {
    double sum = 0.0, total = 0.0;
    for (std::size_t i = 0; i < x0.v.size(); ++i) {
      if (of >= 0 && static_cast<index_t>(i / 7 % 5) != of) continue;
      sum += areas[i % 7] * std::abs(static_cast<double>(static_cast<float>(x0.v[i])));
      total += areas[i % 7];
    }
    return sum / total;
  };
  MeanAbsolute loss(y, areas);
  EXPECT_NEAR(loss(space, y, zero), expected(-1), 1e-13);
  const auto channels = loss.by_channel(space, y, zero);
  for (index_t c = 0; c < 5; ++c)
    EXPECT_NEAR(channels[static_cast<std::size_t>(c)], expected(c), 1e-13);

  using Solid   = ShardedView<double*****, Kokkos::LayoutRight, ShardDim<2, Lat>, ShardDim<0, Lon>>;
  const auto z0 = random_world(std::array<index_t, 5>{2, 1, 7, 2, 3}, random);
  const Solid z("z", mesh, {2, 1, 7, 2, 3}), none = z.like("none"), dz = z.like("dz");
  scatter(z, z0);
  scatter(none, World<5>(z0.n));
  double sum = 0.0, total = 0.0;
  for (std::size_t i = 0; i < z0.v.size(); ++i) {
    sum += areas[i / 6 % 7] * z0.v[i] * z0.v[i];
    total += areas[i / 6 % 7];
  }
  World<5> dz0(z0.n);
  for (std::size_t i = 0; i < z0.v.size(); ++i) dz0.v[i] = 2.0 * areas[i / 6 % 7] * z0.v[i] / total;
  MeanSquare square(z, areas);
  EXPECT_NEAR(square(space, z, none), sum / total, 1e-13);
  square.pullback(space, dz, z, none);
  EXPECT_LT(difference(dz, dz0), 1e-13);
}

}  // namespace
}  // namespace shard::testing
