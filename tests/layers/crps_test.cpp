// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CRPS and the energy score of an ensemble against plain loops and central differences.

#include "shard/layers/loss/crps.hpp"
#include "shard/layers/loss/energy_score.hpp"

#include "layers/bits.hpp"
#include "layers/derivatives.hpp"
#include "layers/layer_support.hpp"

namespace shard::testing {
namespace {

using N4     = std::array<index_t, 4>;
using Field  = OutputOf<double, 2>;
using Values = std::vector<double>;

const Values areas{0.5, 2.0, 0.0, 1.0, 3.0, 0.25, 1.5};

World<4> world_of(const N4& n, Values v) {
  World<4> w(n);
  w.v = std::move(v);
  return w;
}

/// The mean score of x [samples members, C, 7, W] and t, of one channel where one is given: with
/// the double sum over all pairs, as it is defined.
double plain_crps(const N4& n, index_t samples, double alpha, const Values& x, const Values& t,
                  index_t of_channel = -1) {
  const World<4> at(n), of_target({samples, n[1], n[2], n[3]});
  const index_t members = n[0] / samples;
  const auto m          = static_cast<double>(members);
  double sum = 0.0, total = 0.0;
  for (index_t b = 0; b < samples; ++b)
    for (index_t c = 0; c < n[1]; ++c)
      for (index_t i = 0; i < n[2]; ++i)
        for (index_t j = 0; j < n[3]; ++j) {
          if (of_channel >= 0 && c != of_channel) continue;
          double near = 0.0, spread = 0.0;
          for (index_t p = 0; p < members; ++p) {
            const double one = x[at.at({b * members + p, c, i, j})];
            near += std::abs(one - t[of_target.at({b, c, i, j})]);
            for (index_t q = 0; q < members; ++q)
              spread += std::abs(one - x[at.at({b * members + q, c, i, j})]);
          }
          const double fair = alpha > 0.0 ? alpha / (2.0 * m * (m - 1.0)) : 0.0;
          const double w    = areas[static_cast<std::size_t>(i)];
          sum += w * (near / m - (fair + (1.0 - alpha) / (2.0 * m * m)) * spread);
          total += w;
        }
  return sum / total;
}

/// The mean energy score, of one sample where one is given: with the double sum over all pairs.
double plain_energy(const N4& n, index_t samples, double alpha, const Values& x, const Values& t,
                    index_t of_sample = -1) {
  const World<4> at(n), of_target({samples, n[1], n[2], n[3]});
  const index_t members = n[0] / samples;
  const auto m          = static_cast<double>(members);
  // of members b and e, the target where e is negative
  const auto distance = [&](index_t s, index_t b, index_t e) {
    double sum = 0.0, total = 0.0;
    for (index_t c = 0; c < n[1]; ++c)
      for (index_t i = 0; i < n[2]; ++i)
        for (index_t j = 0; j < n[3]; ++j) {
          const double w = areas[static_cast<std::size_t>(i)];
          const double other =
              e < 0 ? t[of_target.at({s, c, i, j})] : x[at.at({s * members + e, c, i, j})];
          const double off = x[at.at({s * members + b, c, i, j})] - other;
          sum += w * off * off;
          total += w;
        }
    return std::sqrt(sum / total);
  };
  double score = 0.0;
  for (index_t s = 0; s < samples; ++s) {
    if (of_sample >= 0 && s != of_sample) continue;
    double near = 0.0, spread = 0.0;
    for (index_t p = 0; p < members; ++p) {
      near += distance(s, p, -1);
      for (index_t q = 0; q < members; ++q) spread += p == q ? 0.0 : distance(s, p, q);
    }
    const double fair = alpha > 0.0 ? alpha / (2.0 * m * (m - 1.0)) : 0.0;
    score += near / m - (fair + (1.0 - alpha) / (2.0 * m * m)) * spread;
  }
  return of_sample >= 0 ? score : score / static_cast<double>(samples);
}

struct Case {
  N4 n;
  index_t samples;
  double alpha;
  World<4> x, tx, t;
  Values dx;
  double value, tangent;

  /// Of the CRPS, or of the energy score.
  Case(const N4& extents, index_t count, double a, bool energy = false)
      : n(extents), samples(count), alpha(a) {
    Random random(seed());
    x            = random_world(n, random);
    tx           = random_world(n, random);
    t            = random_world(N4{samples, n[1], n[2], n[3]}, random);
    const auto j = [&](const Values& v) {
      return (energy ? plain_energy : plain_crps)(n, samples, alpha, v, t.v, -1);
    };
    value   = j(x.v);
    dx      = gradient_by_differences(j, x.v);
    tangent = dot(dx, tx.v);
  }
};

/// Value, tangent and gradient of fields with these partitions.
template <class Loss, class Y, class Target>
void check_loss(const Case& c, const Y& y, const Target& target) {
  const Space space;
  const Y ty = y.like("ty"), dy = y.like("dy");
  scatter(y, c.x);
  scatter(ty, c.tx);
  scatter(target, c.t);
  Loss loss(y, target, areas, c.alpha);
  const double value = loss(space, y, target);
  EXPECT_NEAR(value, c.value, 1e-13);
  double least = value, most = value;  // the same bits on every rank
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(least, most);
  if constexpr (requires { loss.by_channel(space, y, target); }) {
    const auto channels = loss.by_channel(space, y, target);
    ASSERT_EQ(channels.size(), static_cast<std::size_t>(c.n[1]));
    for (index_t k = 0; k < c.n[1]; ++k)
      EXPECT_NEAR(channels[static_cast<std::size_t>(k)],
                  plain_crps(c.n, c.samples, c.alpha, c.x.v, c.t.v, k), 1e-13);
  } else {
    const auto samples = loss.by_sample(space, y, target);
    ASSERT_EQ(samples.size(), static_cast<std::size_t>(c.samples));
    for (index_t k = 0; k < c.samples; ++k)
      EXPECT_NEAR(samples[static_cast<std::size_t>(k)],
                  plain_energy(c.n, c.samples, c.alpha, c.x.v, c.t.v, k), 1e-13);
  }
  EXPECT_NEAR(loss.pushforward(space, ty, y, target), c.tangent, 1e-9);
  loss.pullback(space, dy, y, target, 3.0);
  Values dx = c.dx;
  for (double& v : dx) v *= 3.0;
  EXPECT_LT(difference(dy, world_of(c.n, dx)), 1e-7);
  EXPECT_NEAR(loss.pushforward(space, ty, y, target),
              dot(gathered(dy, MPI_COMM_WORLD).v, c.tx.v) / 3.0, 1e-13);
}
template <class Y, class Target>
void check(const Case& c, const Case& energy, const Y& y, const Target& target) {
  check_loss<CRPS<Y, Target>>(c, y, target);
  check_loss<EnergyScore<Y, Target>>(energy, y, target);
}

/// Members in the batch of each rank.
TEST(crps, members_on_one_rank) {
  struct Kind {
    N4 n;
    index_t samples;
    double alpha;
  };
  for (const Kind& kind :
       {Kind{{6, 2, 7, 5}, 2, 1.0}, Kind{{4, 2, 7, 3}, 1, 0.95}, Kind{{3, 1, 7, 4}, 1, 0.0},
        Kind{{2, 2, 7, 3}, 2, 0.0}, Kind{{2, 1, 7, 70}, 1, 1.0}}) {
    const Case c(kind.n, kind.samples, kind.alpha), energy(kind.n, kind.samples, kind.alpha, true);
    on_meshes(c.n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
      auto of_target = partitions;
      of_target[0]   = Partition::whole(c.samples);
      check(c, energy, Haloed("y", mesh, partitions), Field("target", mesh, of_target));
    });
  }
}

/// Samples and channels that are sharded.
TEST(crps, samples_over_an_axis) {
  using Batch = ShardedView<double****, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  const Case c({9, 2, 7, 3}, 3, 0.95), energy({9, 2, 7, 3}, 3, 0.95, true);
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const Partition samples  = some_partition(3, shape[0], which, random),
                    channels = some_partition(2, shape[1], which, random);
    std::array<Partition, 4> p{impl::regrouped(samples, 1, 3), channels, Partition::whole(7),
                               Partition::whole(3)};
    const Batch y("y", mesh, p);
    p[0] = samples;
    check(c, energy, y, Batch("target", mesh, p));
  });
}

/// Members over a mesh axis, rows over another one.
TEST(crps, members_over_an_axis) {
  using Members = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat>,
                              ShardDim<3, Lon, Halo<1>, Periodic>>;
  using Target  = ShardedView<double****, Kokkos::LayoutRight, ShardDim<3, Lon>>;
  Random random(seed());
  for (const index_t samples : {1, 2}) {
    const N4 n = samples == 1 ? N4{5, 3, 7, 6} : N4{6, 2, 7, 5};
    const Case c(n, samples, samples == 1 ? 1.0 : 0.95), energy(n, samples, c.alpha, true);
    on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
      std::array<Partition, 4> p{some_partition(c.n[0], shape[0], which, random),
                                 Partition::whole(c.n[1]), Partition::whole(7),
                                 some_partition(c.n[3], shape[1], which, random)};
      const Members y("y", mesh, p);
      p[0] = Partition::whole(c.samples);
      check(c, energy, y, Target("target", mesh, p));
    });
  }
}

/// The derivative of |e| at 0 is 0: equal members that hit the target.
TEST(crps, ties) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field y("y", mesh, {3, 1, 7, 2}), dy = y.like("dy"), target("target", mesh, {1, 1, 7, 2});
  CRPS<Field, Field> loss(y, target, {});
  EXPECT_EQ(loss(Space(), y, target), 0.0);
  loss.pullback(Space(), dy, y, target);
  EXPECT_EQ(difference(dy, World<4>({3, 1, 7, 2})), 0.0);
  EnergyScore<Field, Field> energy(y, target, {});
  EXPECT_EQ(energy(Space(), y, target), 0.0);
  energy.pullback(Space(), dy, y, target);
  EXPECT_EQ(difference(dy, World<4>({3, 1, 7, 2})), 0.0);
}

TEST(crps, what_does_not_fit) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field y("y", mesh, {6, 2, 7, 3}), two("two", mesh, {2, 2, 7, 3}),
      four("four", mesh, {4, 2, 7, 3});
  using Loss = CRPS<Field, Field>;
  EXPECT_NO_THROW(Loss(y, two, areas));
  EXPECT_THROW(Loss(y, four, areas), ArgumentError);
  EXPECT_THROW(Loss(two, two, areas), ArgumentError);  // fair, of one member
  EXPECT_NO_THROW(Loss(two, two, areas, 0.0));
  for (double alpha : {-0.1, 1.1, std::nan("")})
    EXPECT_THROW(Loss(y, two, areas, alpha), ArgumentError);
  EXPECT_THROW(Loss(y, two, {1.0}), ArgumentError);
  Loss loss(y, two, areas);
  EXPECT_THROW(loss(Space(), four, two), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
