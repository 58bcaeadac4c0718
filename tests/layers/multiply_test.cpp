// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a field with broadcast values, on every mesh.

#include "shard/layers/pointwise/multiply.hpp"

#include "layers/bits.hpp"
#include "layers/broadcast_cases.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using broadcast::for_values;
using broadcast::N4;

TEST(multiply, values_tangents_and_gradients) {
  const N4 n{2, 3, 7, 19};
  Random random(seed());
  const World<4> x0 = random_world(n, random), tx0 = random_world(n, random),
                 dy0 = random_world(n, random);
  const Space space;
  const Multiply layer;
  static_assert(Multiply::sharding == LayerSharding::local && Multiply::takes_not_wanted);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions), dx              = x.like("dx");
    const OutputOf<double, 2> y("y", mesh, partitions), tx = y.like("tx"), dy = y.like("dy");
    for_values(mesh, x, [&](const auto& z, const N4& nz) {
      Random own(seed() + 1);
      const World<4> z0 = random_world(nz, own), tz0 = random_world(nz, own);
      const auto tz = broadcast::like(z), dz = broadcast::like(z);
      broadcast::set(z, z0);
      broadcast::set(tz, tz0);
      scatter(x, x0);
      scatter(tx, tx0);
      scatter(dy, dy0);
      World<4> y0(n), ty0(n), dx0(n), dz0(nz), with_tx(n), with_tz(n);
      broadcast::for_points(n, nz, [&](std::size_t i, std::size_t k) {
        y0.v[i]      = x0.v[i] * z0.v[k];
        with_tx.v[i] = tx0.v[i] * z0.v[k];
        with_tz.v[i] = x0.v[i] * tz0.v[k];
        ty0.v[i]     = with_tx.v[i] + with_tz.v[i];
        dx0.v[i]     = dy0.v[i] * z0.v[k];
        dz0.v[k] += dy0.v[i] * x0.v[i];
      });
      layer.apply(space, y, x, z);
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, y0.v), 0);
      layer.pushforward(space, y, tx, tz, x, z);
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, ty0.v), 0);
      layer.pushforward(space, y, tx, not_wanted, x, z);
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, with_tx.v), 0);
      layer.pushforward(space, y, not_wanted, tz, x, z);
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, with_tz.v), 0);
      layer.pushforward(space, y, not_wanted, not_wanted, x, z);
      EXPECT_EQ(difference(y, World<4>(n)), 0.0);
      layer.pullback(space, dx, dz, dy, x, z);
      EXPECT_EQ(different_bits(gathered(dx, MPI_COMM_WORLD).v, dx0.v), 0);
      EXPECT_LT(broadcast::difference(dz, dz0), 1e-13);
      broadcast::set(dz, World<4>(nz));
      layer.pullback(space, not_wanted, dz, dy, x, z);
      EXPECT_LT(broadcast::difference(dz, dz0), 1e-13);
      layer.pullback(space, dy, not_wanted, dy, x, z);  // in place
      EXPECT_EQ(different_bits(gathered(dy, MPI_COMM_WORLD).v, dx0.v), 0);
      layer.apply(space, x, x, z);
      EXPECT_EQ(different_bits(gathered(x, MPI_COMM_WORLD).v, y0.v), 0);
    });
  });
}

/// What is sent, and that nothing is allocated after the first call.
TEST(multiply, messages) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> x("x", mesh, {2, 3, 9, 5}), y = x.like("y"), dx = x.like("dx");
  const ShardedView<double****, Kokkos::LayoutRight> gate("gate", mesh, {2, 3, 1, 1});
  const OutputOf<double, 2> mask("mask", mesh, {2, 1, 9, 5});
  const Space space;
  const Multiply layer;
  const auto counted = [&](const auto& what) {
    what();
    const Counts counts = count(what);
    EXPECT_EQ(counts.allocations, 0) << counts;
    return counts.collectives + counts.messages;
  };
  EXPECT_EQ(counted([&] { layer.apply(space, y, x, gate); }), 0);
  EXPECT_EQ(counted([&] { layer.pullback(space, dx, gate, y, x, gate); }),
            world_size() > 1 ? 1 : 0);
  EXPECT_EQ(counted([&] { layer.pullback(space, dx, not_wanted, y, x, gate); }), 0);
  EXPECT_EQ(counted([&] { layer.pullback(space, dx, mask, y, x, mask); }), 0);
}

/// Channels and batch that are sharded, three dimensions in space, float, LayoutLeft, const values.
TEST(multiply, any_field) {
  using X = ShardedView<float*****, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  using G = ShardedView<float*****, Kokkos::LayoutLeft, ShardDim<0, Lat>>;
  using C = ShardedView<const float*****, Kokkos::LayoutLeft, ShardDim<0, Lat>>;
  Random random(seed());
  const std::array<index_t, 5> n{3, 5, 2, 3, 4}, nz{3, 1, 2, 1, 4};
  const auto x0 = random_world(n, random);
  const auto z0 = random_world(nz, random);
  World<5> y0(n), dz0(nz);
  for (std::size_t i = 0; i < x0.v.size(); ++i) {
    const auto k        = static_cast<index_t>(i);
    const std::size_t j = z0.at({k / 120, 0, k / 12 % 2, 0, k % 4});
    y0.v[i]             = x0.v[i] * z0.v[j];
    dz0.v[j] += x0.v[i] * x0.v[i];
  }
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const X x("x", mesh, n), y   = x.like("y");
    const G z("z", mesh, nz), dz = z.like("dz");
    scatter(x, x0);
    scatter(z, z0);
    Multiply{}.apply(Space(), y, x, C(z));
    EXPECT_LT(difference(y, y0), 1e-6);
    Multiply{}.pullback(Space(), y, dz, x, x, z);
    EXPECT_LT(difference(y, y0), 1e-6);
    EXPECT_LT(difference(dz, dz0), 1e-6);
  }
}

TEST(multiply, an_operation_of_a_tape) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  using Field = OutputOf<double, 2>;
  const Field x("x", mesh, {1, 2, 9, 5}), seed_of_y = x.like("dy");
  Random random(seed());
  const World<4> x0 = random_world(N4{1, 2, 9, 5}, random);
  scatter(x, x0);
  Kokkos::deep_copy(seed_of_y.view(), 1.0);
  const Kokkos::View<double**, Kokkos::LayoutRight> gate("gate", 1, 2);
  set_values(gate, {3.0, -0.5});
  Tape tape(Space{});
  const auto square = tape.run(Multiply{}, x, x);  // one value twice
  const auto gated  = tape.run(Multiply{}, square, gate);
  const auto dx     = tape.pullback(gated, seed_of_y, x);
  World<4> dx0      = x0;
  double sums[2]    = {};
  for (std::size_t i = 0; i < 90; ++i) {
    dx0.v[i] *= i < 45 ? 6.0 : -1.0;
    sums[i / 45] += x0.v[i] * x0.v[i];
  }
  EXPECT_LT(difference(dx, dx0), 1e-15);
  const auto dgate = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), tape.gradient(gate));
  for (int c = 0; c < 2; ++c) EXPECT_NEAR(dgate(0, c), sums[c], 1e-12);
}

TEST(multiply, what_can_not_be_broadcast) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> x("x", mesh, {2, 3, 9, 5}), y = x.like("y");
  const Space space;
  const ShardedView<double****, Kokkos::LayoutRight> rows("rows", mesh, {2, 3, 9, 1}),
      two("two", mesh, {2, 2, 1, 1}), gate("gate", mesh, {2, 3, 1, 1}),
      one("one", mesh, {1, 1, 1, 1});
  const Kokkos::View<double**, Kokkos::LayoutRight> vectors("vectors", 2, 4);
  const Multiply layer;
  if (world_size() > 1) {
    EXPECT_THROW(layer.apply(space, y, x, rows), ArgumentError);
  }
  EXPECT_THROW(layer.apply(space, y, x, two), ArgumentError);
  EXPECT_THROW(layer.apply(space, y, x, vectors), ArgumentError);
  EXPECT_THROW(layer.pullback(space, y, one, y, x, gate), ArgumentError);
  const Grid other(MPI_COMM_WORLD, {world_size(), 1});
  const ShardedView<double****, Kokkos::LayoutRight> elsewhere("elsewhere", other, {2, 3, 1, 1});
  EXPECT_THROW(layer.apply(space, y, x, elsewhere), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
