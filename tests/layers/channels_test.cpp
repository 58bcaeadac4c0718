// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Channels cut over one mesh axis, space over another: every layer that serves them against itself
// on one rank, where other tests hold it against plain loops. Values, tangents, gradients; shards
// uneven and empty.

#include <tuple>

#include "layers/bits.hpp"
#include "layers/cut_anywhere.hpp"
#include "layers/reference.hpp"
#include "shard/layers/norm/batch_norm.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/pointwise/dropout.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/norm/instance_norm.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/window/pad.hpp"
#include "shard/layers/resampling/pixel_shuffle.hpp"
#include "shard/layers/pointwise/spatial_softmax.hpp"
#include "shard/train/gradient_sum.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using X =
    ShardedView<double****, Kokkos::LayoutRight, ShardDim<1, Lat>,
                ShardDim<2, Lon, Halo<2>, Reflect>, ShardDim<3, Unsharded, Halo<2>, Periodic>>;
using Y  = ShardedView<double****, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<2, Lon>>;
using N4 = std::array<index_t, 4>;

template <class Layer>
constexpr bool has_state = requires(const Layer& l, const X& x) {
  l.state(x);
};
template <class Layer>
constexpr bool has_parameters = requires {
  typename Layer::template Parameters<double, Kokkos::HostSpace>;
};

/// Values of the world, the same on every rank.
struct Data {
  World<4> x, tx, dy;
  std::vector<double> w, b, tw, tb;  ///< parameters and their tangents
};

/// What comes out, on every rank all of it.
struct Results {
  World<4> y, ty, dx;
  std::vector<double> dw, db;
};

/// A rank's piece of the world's parameters.
template <class View>
void set_piece(const View& view, const ParameterShape& shape, const std::vector<double>& world) {
  ASSERT_LE(shape.first + shape.count(), static_cast<index_t>(world.size()));
  set_values(view, {world.begin() + shape.first, world.begin() + shape.first + shape.count()});
}

/// All ranks' pieces, summed over the ranks that have the same one.
template <class View>
std::vector<double> joined(const View& view, const ParameterShape& shape, std::size_t count,
                           MPI_Comm comm) {
  Space().fence();
  std::vector<double> all(count, 0.0);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  for (index_t i = 0; i < shape.count(); ++i)
    all[static_cast<std::size_t>(shape.first + i)] = host.data()[i];
  MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM, comm);
  return all;
}

template <class Layer>
auto output_partitions(const Layer& layer, const std::array<Partition, 4>& input) {
  if constexpr (requires { layer.output_partitions(input); })
    return layer.output_partitions(input);
  else
    return input;
}

/// Everything that a layer computes.
template <class Layer>
Results run(const Layer& layer, const Grid& mesh, const std::array<Partition, 4>& partitions,
            MPI_Comm comm, const Data& data) {
  const Space space;
  const X x("x", mesh, partitions), tx = x.like("tx"), dx = x.like("dx");
  const Y y("y", mesh, output_partitions(layer, x.partitions())), ty = y.like("ty"),
                                                                  dy = y.like("dy");
  scatter(x, data.x);
  scatter(tx, data.tx);
  scatter(dy, data.dy);
  const auto state = [&] {
    if constexpr (has_state<Layer>)
      return std::tuple(layer.state(x));
    else
      return std::tuple<>();
  };
  auto own = state();
  Results r;
  const auto with_state = [&](const auto& call) { std::apply(call, own); };
  if constexpr (has_parameters<Layer>) {
    const auto p      = make_parameters<double>(layer, x, "p"),
               t      = make_parameters<double>(layer, x, "t"),
               g      = make_parameters<double>(layer, x, "g");
    const auto shapes = layer.parameter_shapes(OwnedChannels::of(x));
    set_piece(p.weight, shapes[0], data.w);
    const bool bias = shapes.size() > 1;
    if (bias) set_piece(p.bias, shapes[1], data.b);
    set_piece(t.weight, shapes[0], data.tw);
    if (bias) set_piece(t.bias, shapes[1], data.tb);
    with_state([&](auto&... s) { layer.apply(space, s..., p, y, x); });
    with_state([&](auto&... s) { layer.pushforward(space, s..., p, t, ty, tx, x); });
    with_state([&](auto&... s) { layer.pullback(space, s..., p, g, dx, dy, x); });
    r.dw = joined(g.weight, shapes[0], data.w.size(), comm);
    if (bias) r.db = joined(g.bias, shapes[1], data.b.size(), comm);
  } else {
    with_state([&](auto&... s) { layer.apply(space, s..., y, x); });
    with_state([&](auto&... s) { layer.pushforward(space, s..., ty, tx, x); });
    with_state([&](auto&... s) { layer.pullback(space, s..., dx, dy, x); });
  }
  space.fence();
  r.y  = gathered(y, comm);
  r.ty = gathered(ty, comm);
  r.dx = gathered(dx, comm);
  return r;
}

/// A layer on every mesh, its shards multiples of `step`, against itself on one rank; `exact`: y
/// has the same bits.
template <class Layer>
void check(const Layer& layer, const N4& n, const N4& step, bool exact = false) {
  Random random(seed() + 3);
  const Grid alone(MPI_COMM_SELF, {1, 1});
  std::array<Partition, 4> whole;
  for (std::size_t d = 0; d < 4; ++d) whole[d] = Partition::balanced(n[d], 1);
  const auto out = output_partitions(layer, whole);
  Data data{random_world(n, random),
            random_world(n, random),
            random_world(N4{out[0].size(), out[1].size(), out[2].size(), out[3].size()}, random),
            {},
            {},
            {},
            {}};
  for (double& v : data.x.v) v += 2.0;
  if constexpr (has_parameters<Layer>) {
    const auto shapes = layer.parameter_shapes();
    const auto values = [&](std::size_t i) {
      if (i >= shapes.size()) return std::vector<double>{};
      return random_values(static_cast<std::size_t>(shapes[i].count()), random);
    };
    data.w  = values(0);
    data.b  = values(1);
    data.tw = values(0);
    data.tb = values(1);
  }
  const Results one = run(layer, alone, whole, MPI_COMM_SELF, data);
  EXPECT_GT(one.y.largest(), 0.0);
  EXPECT_GT(one.ty.largest(), 0.0);
  EXPECT_GT(one.dx.largest(), 0.0);
  on_all_cuts<X>(n, step, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Results all = run(layer, mesh, partitions, MPI_COMM_WORLD, data);
    EXPECT_LT(difference(all.y.v, one.y.v), 1e-12);
    EXPECT_LT(difference(all.ty.v, one.ty.v), 1e-12);
    EXPECT_LT(difference(all.dx.v, one.dx.v), 1e-12);
    if (exact) {
      EXPECT_EQ(different_bits(all.y.v, one.y.v), 0);
    }
    if constexpr (has_parameters<Layer>) {
      EXPECT_LT(difference(all.dw, one.dw), 1e-12);
      EXPECT_LT(difference(all.db, one.db), 1e-12);
    }
  });
}

TEST(channels, norms_of_each_channel) {
  check(InstanceNorm{5, 1e-4, true}, {2, 5, 7, 5}, {1, 1, 1, 1});
  check(BatchNorm{5}, {2, 5, 7, 5}, {1, 1, 1, 1});
}

TEST(channels, norms_of_groups_whole_and_split) {
  check(GroupNorm{4, 8}, {2, 8, 7, 5}, {1, 2, 1, 1});
  check(GroupNorm{3, 9}, {2, 9, 7, 5}, {1, 1, 1, 1});
  check(AreaWeighted<GroupNorm>{{2, 6}, {0.5, 2.0, 0.0, 1.0, 3.0, 0.25, 1.5}}, {2, 6, 7, 5},
        {1, 1, 1, 1});
}

TEST(channels, norms_over_channels) {
  check(SpatialLayerNorm{5}, {2, 5, 7, 5}, {1, 1, 1, 1});
  check(LayerNorm{5}, {2, 5, 7, 5}, {1, 1, 1, 1});
  check(LayerNorm{13, 1e-3}, {1, 13, 3, 19}, {1, 1, 1, 1});
  check(RMSNorm{5}, {2, 5, 7, 5}, {1, 1, 1, 1});
  check(RMSNorm{13, 1e-3}, {1, 13, 3, 19}, {1, 1, 1, 1});
}

TEST(channels, factors) { check(LayerScale{5}, {2, 5, 7, 5}, {1, 1, 1, 1}, true); }

TEST(channels, convolutions_of_groups) {
  check(Conv<Kernel<3, 3>, Padding<1, 1>>{6, 12, 6}, {2, 6, 7, 5}, {1, 1, 1, 1}, true);
  check(Conv<Kernel<3, 4>, Stride<2, 1>, Padding<1, 2>>{8, 12, 4}, {2, 8, 9, 6}, {1, 2, 1, 1},
        true);
  check(ConvTranspose<Kernel<3, 3>, Stride<2, 1>, Padding<1, 1>>{12, 6, 6}, {1, 12, 5, 6},
        {1, 2, 1, 1}, true);
}

TEST(channels, layers_of_each_channel) {
  Interpolate<2> finer;
  finer.size = {13, 9};
  check(finer, {1, 5, 7, 5}, {1, 1, 1, 1}, true);
  check(Pad<Reflect, Periodic>{.low = {2, 1}, .high = {3, 2}}, {1, 5, 7, 5}, {1, 1, 1, 1}, true);
  check(EarthPad{.low = {2, 1}, .high = {1, 3}}, {1, 5, 7, 6}, {1, 1, 1, 1}, true);
  check(Unpad<2>{.low = {1, 1}, .high = {2, 0}}, {1, 5, 9, 5}, {1, 1, 1, 1}, true);
  check(Dropout{0.4, 11}, {2, 5, 7, 5}, {1, 1, 1, 1}, true);
  check(SpatialSoftmax<0>{}, {1, 5, 7, 5}, {1, 1, 1, 1});
}

TEST(channels, pixels_of_whole_blocks) {
  check(PixelShuffle<2>{}, {1, 20, 3, 4}, {1, 4, 1, 1}, true);
  check(PixelUnshuffle<2>{}, {1, 5, 6, 4}, {1, 1, 2, 2}, true);
}

/// Which ranks share statistics: those with the same channels, unless a group is split.
TEST(channels, who_hears_of_whom) {
  const int n = world_size();
  for (const auto& shape : shapes(n)) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const X x("x", mesh, {1, 4 * shape[0], 7, 5});
    EXPECT_EQ((GroupNorm{2 * shape[0], 4 * shape[0]}.state(x).group->size()), shape[1]);
    EXPECT_EQ((GroupNorm{1, 4 * shape[0]}.state(x).group->size()), n);
    EXPECT_EQ(InstanceNorm{4 * shape[0]}.state(x).group->size(), shape[1]);
    EXPECT_EQ(BatchNorm{4 * shape[0]}.state(x).running_mean.extent(0), 4U);
    const auto others = LayerNorm{4 * shape[0]}.state(x).others;
    EXPECT_EQ(others ? others->ranks() : 1, shape[0]);
  }
}

/// Nothing is sent for channels, nothing is allocated.
TEST(channels, messages) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), messages_only("SHARD_TRANSPORT", "mpi");
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const index_t c = 2 * world_size();
  const X x("x", mesh, {1, c, 7, 5}), dx   = x.like("dx");
  const Y y("y", mesh, x.partitions()), dy = y.like("dy");
  const Conv<Kernel<3, 3>, Padding<1, 1>> layer{c, c, c};
  const auto p = make_parameters<double>(layer, x, "p"), g = make_parameters<double>(layer, x, "g");
  const InstanceNorm norm{c, 1e-5, true};
  const LayerNorm over{c};
  const auto q = make_parameters<double>(norm, x, "q");
  auto state   = norm.state(x);
  auto cells   = over.state(x);
  layer.apply(space, p, y, x);
  layer.pullback(space, p, g, dx, dy, x);
  space.fence();
  const Counts none = count([&] {
    layer.apply(space, p, y, x);
    layer.pullback(space, p, g, dx, dy, x);
    norm.apply(space, state, q, y, x);
    norm.pullback(space, state, q, q, dx, dy, x);
    space.fence();
  });
  EXPECT_EQ(none.messages + none.receives + none.collectives, 0) << none;
  EXPECT_EQ(none.allocations, 0) << none;
  const Counts each = count([&] {
    over.apply(space, cells, q, y, x);
    over.pushforward(space, cells, q, q, dy, y, x);
    over.pullback(space, cells, q, q, dx, dy, x);
    over.pullback_parameters(space, cells, q, dy, x);
    over.pushforward(space, cells, q, q, dy, not_wanted, x);
    space.fence();
  });
  EXPECT_EQ(each.collectives, world_size() > 1 ? 3 : 0) << each;
  EXPECT_EQ(each.messages + each.allocations, 0) << each;
}

/// A rank's piece is initialised as in the whole, and its gradients are summed over the ranks that
/// have the same.
TEST(channels, pieces_of_parameters) {
  const Space space;
  const Conv<Kernel<3, 3>, Padding<1, 1>> layer{8, 12, 4};
  const auto whole = make_parameters<double>(layer, "p");
  initialise(space, layer, whole, 3, 5);
  space.fence();
  const auto shapes_of_all = layer.parameter_shapes();
  const auto w = joined(whole.weight, shapes_of_all[0], whole.weight.size(), MPI_COMM_SELF),
             b = joined(whole.bias, shapes_of_all[1], whole.bias.size(), MPI_COMM_SELF);
  on_all_cuts<X>({1, 8, 7, 5}, {1, 2, 1, 1}, [&](const Grid& mesh, const auto& partitions) {
    const X x("x", mesh, partitions);
    const auto p      = make_parameters<double>(layer, x, "p");
    const auto shapes = layer.parameter_shapes(OwnedChannels::of(x));
    EXPECT_EQ(static_cast<index_t>(p.weight.extent(0)), x.extent(1) / 2 * 3);
    initialise(space, layer, x, p, 3, 5);
    space.fence();
    const auto host   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), p.weight);
    const auto biases = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), p.bias);
    for (std::size_t i = 0; i < host.size(); ++i)
      EXPECT_EQ(host.data()[i], w[static_cast<std::size_t>(shapes[0].first) + i]);
    for (std::size_t i = 0; i < biases.size(); ++i)
      EXPECT_EQ(biases(i), b[static_cast<std::size_t>(shapes[1].first) + i]);

    const GradientSum<double> sum(x, static_cast<index_t>(p.bias.size()),
                                  GradientsOf::owned_channels);
    sum(space, p.bias);
    space.fence();
    const auto added   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), p.bias);
    const double ranks = impl::RankGroup::of(x.geometry(), ~2U)->size();
    for (std::size_t i = 0; i < added.size(); ++i)
      EXPECT_NEAR(added(i), ranks * b[static_cast<std::size_t>(shapes[1].first) + i], 1e-14);
  });
}

/// The words of an error on this rank; every rank throws.
template <class Call>
std::string refused(const Call& call) {
  try {
    call();
  } catch (const ArgumentError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(channels, split_groups_of_a_convolution_throw_on_every_rank) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has all channels";
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const index_t c = 4 * world_size();
  const X x("x", mesh, {1, c, 7, 5});
  const Y y("y", mesh, {1, c, 7, 5});
  const Conv<Kernel<3, 3>, Padding<1, 1>> full{c, c}, depthwise{c, c, c}, wider{c, 2 * c, c};
  const auto p = make_parameters<double>(full, x, "p");
  for (const std::string& words : {refused([&] { full.apply(Space(), p, y, x); }),
                                   refused([&] { full.output_partitions(x.partitions()); }),
                                   refused([&] { full.pullback(Space(), p, p, x, y, x); })}) {
    EXPECT_NE(words.find("channels 0 to " + std::to_string(c - 1)), std::string::npos) << words;
    EXPECT_NE(words.find("redistribute"), std::string::npos) << words;
  }
  auto other = x.partitions();
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 1);
  begins[0] = 0, begins.back() = c;
  other[1] = Partition::explicit_begins(begins);
  const Y elsewhere("y", mesh, other);
  EXPECT_THROW(depthwise.apply(Space(), p, elsewhere, x), ArgumentError);
  EXPECT_THROW(wider.apply(Space(), p, y, x), ArgumentError);
  const InstanceNorm norm{c};
  auto state = norm.state(x);
  EXPECT_THROW(norm.apply(Space(), state, not_wanted, elsewhere, x), ArgumentError);
  EXPECT_NE(refused([&] { PixelShuffle<2>{}.output_partitions(other); }).find("channels 0 to 3"),
            std::string::npos);
}

}  // namespace
}  // namespace shard::testing
