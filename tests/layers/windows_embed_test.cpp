// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions of a globe, cross-scale embeddings, patches; and what a pullback leaves undone.

#include <limits>

#include "layers/window_reference.hpp"
#include "shard/layers/window/cross_embed.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/window/periodic_conv.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

template <class B0, class B1>
using Wide = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<5>, B0>,
                         ShardDim<3, Lon, Halo<4>, B1>>;
using Flat = OutputOf<double, 2>;

TEST(windows, B7_periodic_convolution_reflects_at_the_poles) {
  using X  = Wide<Reflect, Periodic>;
  using L3 = PeriodicConv<Kernel<3, 3>>;
  using L5 = PeriodicConv<Kernel<5, 5>>;
  static_assert(L5::window(0).padding_lo == 2 && L5::window(1).padding_hi == 2);
  static_assert(std::is_same_v<L3::boundary<0>, Reflect> &&
                std::is_same_v<L3::boundary<1>, Periodic>);
  L3 small;
  small.in = 2, small.out = 3;
  L5 large;
  large.in = 2, large.out = 2;
  check_everywhere(any<X, Flat>("3 x 3", small, false), {1, 2, 11, 12});
  check_everywhere(any<X, Flat>("5 x 5", large, false), {2, 2, 9, 10});
}

TEST(windows, B7_periodic_convolution_across_folded_poles) {
  using Fold = PoleFold<3, Pole::on_row, Parity::odd>;
  PeriodicConv<Kernel<3, 5>, PaddingMode<Fold, Periodic>> layer;
  layer.in = 2, layer.out = 2;
  check_everywhere(any<Wide<Fold, Periodic>, Flat, true>("folded", layer, false), {1, 2, 7, 8});
}

/// k, s of latitude; 4, s of longitude: floor(n / s) rows for any k - s, even or odd.
template <int K, int S>
void check_branch() {
  CrossEmbedBranch<Kernel<K, 4>, Stride<S, S>> branch;
  branch.in = 2, branch.out = 3;
  ASSERT_EQ(branch.output_extent(0, 32), 32 / S);
  ASSERT_EQ(branch.output_extent(0, 33), 33 / S);
  check_everywhere(
      any<Wide<Zero, Zero>, Flat>(std::to_string(K) + ", " + std::to_string(S), branch, false),
      {1, 2, 32, 9});
}

TEST(windows, B8_cross_embed_branches) {
  check_branch<4, 2>();
  check_branch<8, 2>();
  check_branch<8, 4>();
  check_branch<3, 1>();
  check_branch<4, 4>();
  check_branch<4, 1>();
  check_branch<2, 1>();
  check_branch<3, 2>();
  check_branch<5, 2>();
}

/// All branches at once: their outputs one behind the other, the input's gradient their sum.
TEST(windows, B8_cross_embed_concatenates_its_branches) {
  using Layer = CrossEmbed<Stride<2, 2>, Kernel<2, 2>, Kernel<3, 5>, Kernel<6, 4>>;
  using X     = Wide<Zero, Zero>;
  static_assert(std::is_same_v<required_halo_t<Layer, 0>, Halo<2, 3>>);
  const Layer layer{2, {3, 1, 2}};
  ASSERT_EQ(layer.parameter_shapes()[3].name, "convs.1.bias");
  Random random(seed());
  const Space space;
  const std::array<index_t, 4> nx{2, 2, 13, 8}, ny{2, 6, 6, 4};
  const auto x0 = random_world(nx, random), tx0 = random_world(nx, random);
  const auto dy0        = random_world(ny, random);
  const auto parameters = make_parameters<double>(layer, "p"),
             tangents   = make_parameters<double>(layer, "t");
  initialise(space, layer, parameters, 3, 0);
  initialise(space, layer, tangents, 4, 0);
  space.fence();
  World<4> y0(ny), ty0(ny), dx0(nx);
  std::array<std::vector<double>, 3> dw0, db0;
  index_t first             = 0;
  const auto serial_channel = [](const World<4>& all, index_t c0, index_t count) {
    std::vector<double> some;
    for (index_t n = 0; n < all.n[0]; ++n)
      for (index_t c = c0; c < c0 + count; ++c)
        for (index_t i = 0; i < all.n[2] * all.n[3]; ++i)
          some.push_back(
              all.v[static_cast<std::size_t>((n * all.n[1] + c) * all.n[2] * all.n[3] + i)]);
    return some;
  };
  const auto put = [](World<4>& all, index_t c0, index_t count, const std::vector<double>& some) {
    std::size_t k = 0;
    for (index_t n = 0; n < all.n[0]; ++n)
      for (index_t c = c0; c < c0 + count; ++c)
        for (index_t i = 0; i < all.n[2] * all.n[3]; ++i)
          all.v[static_cast<std::size_t>((n * all.n[1] + c) * all.n[2] * all.n[3] + i)] = some[k++];
  };
  const auto values = [](const auto& view) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
    return std::vector<double>(host.data(), host.data() + host.size());
  };
  const auto add_branch = [&](const auto& branch, std::size_t i) {
    SerialWindow serial;
    for (int d = 0; d < 2; ++d) serial.window[static_cast<std::size_t>(d + 1)] = branch.window(d);
    const Extents from = five(nx), to = five(std::array<index_t, 4>{2, branch.out, 6, 4});
    const auto w = values(parameters.branches[i].weight), b = values(parameters.branches[i].bias),
               tw = values(tangents.branches[i].weight), tb = values(tangents.branches[i].bias);
    put(y0, first, branch.out, serial.apply(from, x0.v, to, w, b));
    auto t        = serial.apply(from, tx0.v, to, w, {});
    const auto tp = serial.apply(from, x0.v, to, tw, tb);
    for (std::size_t k = 0; k < t.size(); ++k) t[k] += tp[k];
    put(ty0, first, branch.out, t);
    std::vector<double> dx;
    const auto dy = serial_channel(dy0, first, branch.out);
    serial.pullback(from, x0.v, to, w, dy, dx, dw0[i]);
    for (std::size_t k = 0; k < dx.size(); ++k) dx0.v[k] += dx[k];
    db0[i].assign(b.size(), 0.0);
    for (std::size_t k = 0; k < dy.size(); ++k) db0[i][SerialWindow::channel(to, k)] += dy[k];
    first += branch.out;
  };
  add_branch(layer.branch<0>(), 0);
  add_branch(layer.branch<1>(), 1);
  add_branch(layer.branch<2>(), 2);

  on_shapes(2, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, some_partitions(nx, shape, which, random));
    const X dx = x.like("dx"), tx = x.like("tx");
    const Flat y("y", mesh, layer.output_partitions(x.partitions()));
    const Flat dy = y.like("dy"), ty = y.like("ty");
    scatter(x, x0);
    scatter(tx, tx0);
    scatter(dy, dy0);
    layer.apply(space, parameters, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    layer.pushforward(space, parameters, tangents, ty, tx, x);
    EXPECT_LT(difference(ty, ty0), 1e-12);
    const auto gradients = make_parameters<double>(layer, "g");
    layer.pullback(space, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), 1e-12);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LT(difference(summed(gradients.branches[i].weight, x), dw0[i]), 1e-12);
      EXPECT_LT(difference(summed(gradients.branches[i].bias, x), db0[i]), 1e-12);
    }
  });
}

struct Level;

/// Space cut over three mesh axes, and batch over one with space over two.
template <class X, class Y, class Axes>
void check_three_axes(const Axes& mesh) {
  using Layer = Conv<Kernel<3, 2, 4>, Stride<1, 2, 3>, Padding<1, 0, 2>>;
  Layer layer{2, 3};
  Random random(seed());
  const std::array<index_t, 5> n{3, 2, 4, 7, 11};
  const X x("x", mesh, n), dx                                       = x.like("dx");
  const Y y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
  SerialWindow serial;
  for (int d = 0; d < 3; ++d) serial.window[static_cast<std::size_t>(d)] = layer.window(d);
  serial.beyond         = Beyond::of<X>();
  const auto parameters = make_parameters<double>(layer, "p"),
             gradients  = make_parameters<double>(layer, "g");
  const auto w = some_values(parameters.weight.size(), random), b = some_values(3, random);
  set_values(parameters.weight, w);
  set_values(parameters.bias, b);
  const Extents ny{3, 3, y.global_extent(2), y.global_extent(3), y.global_extent(4)};
  const auto x0 = some_values(count_of(n), random), dy0 = some_values(count_of(ny), random);
  std::vector<double> dx0, dw0;
  serial.pullback(n, x0, ny, w, dy0, dx0, dw0);
  scatter(x, world_of<5>(n, x0));
  scatter(dy, world_of<5>(ny, dy0));
  layer.apply(Space(), parameters, y, x);
  EXPECT_LT(difference(y, world_of<5>(ny, serial.apply(n, x0, ny, w, b))), 1e-12);
  layer.pullback(Space(), parameters, gradients, dx, dy, x);
  EXPECT_LT(difference(dx, world_of<5>(n, dx0)), 1e-12);
  EXPECT_LT(difference(summed(gradients.weight, x), dw0), 1e-12);
}

TEST(windows, space_or_batch_cut_over_three_axes) {
  const Mesh<Level, Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0, 0});
  using Right = Kokkos::LayoutRight;
  check_three_axes<
      ShardedView<double*****, Right, ShardDim<2, Level, Halo<2>, Clamp>,
                  ShardDim<3, Lat, Halo<2>, Reflect>, ShardDim<4, Lon, Halo<2>, Periodic>>,
      ShardedView<double*****, Right, ShardDim<2, Level>, ShardDim<3, Lat>, ShardDim<4, Lon>>>(
      mesh);
  check_three_axes<
      ShardedView<double*****, Right, ShardDim<0, Level>, ShardDim<2, Unsharded, Halo<2>>,
                  ShardDim<3, Lat, Halo<2>>, ShardDim<4, Lon, Halo<2>>>,
      ShardedView<double*****, Right, ShardDim<0, Level>, ShardDim<3, Lat>, ShardDim<4, Lon>>>(
      mesh);
}

/// Messages of all ranks.
template <class Function>
std::int64_t messages(const Function& function) {
  std::int64_t n = count(function).messages;
  MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return n;
}

Partition of_multiples(index_t n, index_t stride, int parts) {
  std::vector<index_t> begins{0};
  for (int r = 1; r < parts; ++r)
    begins.push_back(std::min(n, stride * ((r * (n / stride)) / parts)));
  begins.push_back(n);
  return Partition::explicit_begins(begins);
}

TEST(windows, patches_of_aligned_shards_send_nothing) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), messages_only("SHARD_TRANSPORT", "mpi");
  using Layer = PatchEmbedding<3, 2>;
  using X     = OutputOf<double, 2>;  // no halo at all
  static_assert(!needs_halo_v<Layer, 0> && !needs_halo_v<Layer, 1>);
  const Layer layer{2, 3};
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const std::array<Partition, 4> p{Partition::balanced(1, 1), Partition::balanced(2, 1),
                                     of_multiples(25, 3, shape[0]), of_multiples(17, 2, shape[1])};
    const X x("x", mesh, p), dx                          = x.like("dx");
    const X y("y", mesh, layer.output_partitions(p)), dy = y.like("dy");
    const auto parameters = make_parameters<double>(layer, "p");
    EXPECT_EQ(messages([&] {
                layer.apply(Space(), parameters, y, x);
                layer.pullback(Space(), parameters, parameters, dx, dy, x);
                layer.pushforward(Space(), parameters, parameters, dy, dx, x);
              }),
              0);
    // the same window without the option, on a field with a halo: nothing is sent either
    const Conv<Kernel<3, 2>, Stride<3, 2>> plain{2, 3};
    const Wide<Zero, Zero> wide("x", mesh, p), wide_dx = wide.like("dx");
    EXPECT_EQ(messages([&] {
                plain.apply(Space(), parameters, y, wide);
                plain.pullback(Space(), parameters, parameters, wide_dx, dy, wide);
              }),
              0);
  }
}

TEST(windows, patches_are_the_serial_ones) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const PatchEmbedding<4, 2> layer{2, 3};
  const Conv<Kernel<4, 2>, Stride<4, 2>> plain{2, 3};
  using X = OutputOf<double, 2>;
  Random random(seed());
  const std::array<Partition, 4> p{Partition::balanced(2, 1), Partition::balanced(2, 1),
                                   of_multiples(35, 4, world_size()), Partition::balanced(9, 1)};
  const World<4> x0 = random_world<4>({2, 2, 35, 9}, random);
  const X x("x", mesh, p), dx = x.like("dx"), y("y", mesh, layer.output_partitions(p)),
                           plain_y = y.like("y");
  const Wide<Zero, Zero> wide("x", mesh, p), wide_dx = wide.like("dx");
  const auto parameters = make_parameters<double>(layer, "p"),
             g = make_parameters<double>(layer, "g"), plain_g = make_parameters<double>(layer, "g");
  initialise(Space(), layer, parameters, 1, 0);
  scatter(x, x0);
  scatter(wide, x0);
  layer.apply(Space(), parameters, y, x);
  plain.apply(Space(), parameters, plain_y, wide);
  const auto serial = [&] {
    SerialWindow s;
    for (int d = 0; d < 2; ++d) s.window[static_cast<std::size_t>(d + 1)] = layer.window(d);
    const auto w = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), parameters.weight);
    const auto b = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), parameters.bias);
    return world_of<4>(five(std::array<index_t, 4>{2, 3, 8, 4}),
                       s.apply(five(x0.n), x0.v, five(std::array<index_t, 4>{2, 3, 8, 4}),
                               {w.data(), w.data() + w.size()}, {b.data(), b.data() + b.size()}));
  }();
  EXPECT_LT(difference(y, serial), 1e-12);
  EXPECT_LT(difference(plain_y, serial), 1e-12);
  layer.pullback(Space(), parameters, g, dx, y, x);
  plain.pullback(Space(), parameters, plain_g, wide_dx, y, wide);
  const double left = dot(Space(), x, dx), right = dot(Space(), wide, wide_dx);
  EXPECT_NEAR(left, right, 1e-12 * std::abs(left));
  EXPECT_EQ(difference(summed(g.weight, x), summed(plain_g.weight, x)), 0.0);
}

TEST(windows, patches_of_other_shards_throw_on_every_rank) {
  if (world_size() == 1) GTEST_SKIP() << "one shard is aligned";
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const PatchEmbedding<4, 2> layer{2, 3};
  using X = OutputOf<double, 2>;
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 6);
  begins[0] = 0, begins.back() = 32;
  const std::array<Partition, 4> p{Partition::balanced(1, 1), Partition::balanced(2, 1),
                                   Partition::explicit_begins(begins), Partition::balanced(8, 1)};
  const X x("x", mesh, p), y("y", mesh, layer.output_partitions(p));
  const auto parameters = make_parameters<double>(layer, "p");
  EXPECT_THROW(layer.apply(Space(), parameters, y, x), ArgumentError);
  EXPECT_THROW(layer.pullback(Space(), parameters, parameters, x, y, x), ArgumentError);
}

/// A halo that nobody reads may hold anything: it isn't filled then.
TEST(windows, a_halo_that_nobody_reads) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), messages_only("SHARD_TRANSPORT", "mpi");
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const ConvTranspose<Kernel<2, 3>, Stride<2, 3>> layer{2, 3};
  using X = Wide<Clamp, Zero>;
  Random random(seed());
  const std::array<index_t, 4> n{1, 2, 7, 4};
  SerialWindow serial;
  serial.transposed = true;
  for (int d = 0; d < 2; ++d) serial.window[static_cast<std::size_t>(d + 1)] = layer.window(d);
  const X x("x", mesh, some_partitions<4>(n, {world_size(), 1}, 1, random)), dx = x.like("dx");
  const Flat y("y", mesh, layer.output_partitions(x.partitions())), dy          = y.like("dy");
  const auto x0 = random_world(n, random), dy0 = random_world<4>({1, 3, 14, 12}, random);
  scatter(x, x0);
  scatter(dx, x0);
  scatter(dy, dy0);
  const auto host = create_mirror_view(x);
  Kokkos::deep_copy(host.view(), std::numeric_limits<double>::quiet_NaN());
  for_owned(host, [&](const auto& i, double& value) { value = x0.v[x0.at(i)]; });
  deep_copy(Space(), x, host);
  const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
  const auto w = some_values(p.weight.size(), random), b = some_values(3, random);
  set_values(p.weight, w);
  set_values(p.bias, b);
  EXPECT_EQ(messages([&] {
              layer.apply(Space(), p, y, x);
              layer.pullback(Space(), p, g, dx, dy, x);
            }),
            0);
  const Extents nx = five(n), ny = five(dy0.n);
  std::vector<double> dx0, dw0;
  serial.pullback(nx, x0.v, ny, w, dy0.v, dx0, dw0);
  EXPECT_LT(difference(y, world_of<4>(ny, serial.apply(nx, x0.v, ny, w, b))), 1e-12);
  EXPECT_LT(difference(dx, world_of<4>(nx, dx0)), 1e-12);
  EXPECT_LT(difference(summed(g.weight, x), dw0), 1e-12);
}

/// What isn't wanted isn't computed and not sent.
TEST(windows, pullback_of_what_is_wanted_only) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), messages_only("SHARD_TRANSPORT", "mpi");
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const auto check = [&](const auto& layer) {
    using X = Wide<Zero, Zero>;
    const X x("x", mesh, {1, 2, 24, 8}), dx                              = x.like("dx");
    const Flat y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
    const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
    const auto run = [&](const auto& gradients, const auto& input) {
      return count([&] { layer.pullback(Space(), p, gradients, input, dy, x); });
    };
    run(g, dx);  // plans are made
    const Counts all = run(g, dx), input = run(not_wanted, dx), weights = run(g, not_wanted),
                 nothing = run(not_wanted, not_wanted);
    EXPECT_EQ(input.messages, all.messages);
    EXPECT_EQ(weights.messages, 0) << weights;
    EXPECT_EQ(weights.receives, 0) << weights;
    EXPECT_EQ(input.kernels + weights.kernels, all.kernels);
    EXPECT_EQ(nothing.kernels + nothing.messages + nothing.receives + nothing.collectives, 0)
        << nothing;
    const std::vector<std::string> names =
        layer.bias ? std::vector<std::string>{"shard::correlate_weights", "shard::sum_channels"}
                   : std::vector<std::string>{"shard::correlate_weights"};
    EXPECT_EQ(weights.kernel_names, names);
    if (world_size() > 1) {
      std::int64_t sent = all.messages;
      MPI_Allreduce(MPI_IN_PLACE, &sent, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
      EXPECT_GT(sent, 0);
    }
  };
  check(Conv<Kernel<3, 3>, Padding<1, 1>>{2, 3});
  check(Conv<Kernel<3, 3>, Padding<1, 1>>{2, 3, 1, false});
  check(ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>{2, 3, 1, false});
}

struct IdleKernel {
  KOKKOS_FUNCTION void operator()(int) const {}
};

/// After the first time nothing is allocated but what Kokkos itself needs for so many launches.
TEST(windows, T22_steps_allocate_nothing) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const auto check = [&](const auto& layer) {
    using X = Wide<Zero, Zero>;
    const X x("x", mesh, {1, 2, 24, 8}), dx = x.like("dx"), tx = x.like("tx");
    const Flat y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
    const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
    const auto step = [&] {
      layer.apply(Space(), p, y, x);
      layer.pushforward(Space(), p, g, dy, tx, x);
      layer.pullback(Space(), p, g, dx, dy, x);
    };
    step();
    step();
    const Counts counted = count(step);
    const Counts idle    = count([&] {
      for (std::int64_t i = 0; i < counted.kernels; ++i)
        Kokkos::parallel_for("a name as long as kernels have", Kokkos::RangePolicy<Space>(0, 1),
                                IdleKernel{});
    });
    EXPECT_EQ(counted.allocations, 0) << counted;
    EXPECT_LE(counted.news, idle.news) << counted;
  };
  check(Conv<Kernel<3, 3>, Stride<2, 1>, Padding<1, 1>>{2, 3});
  check(Conv<Kernel<2, 2>, Stride<2, 2>>{2, 3});
  check(ConvTranspose<Kernel<2, 2>, Stride<2, 2>>{2, 3});
}

/// A tangent that is wanted of one thing only leaves the other's exchange out.
TEST(windows, pushforward_of_parameters_sends_nothing) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), messages_only("SHARD_TRANSPORT", "mpi");
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Conv<Kernel<3, 3>, Padding<1, 1>> layer{2, 3};
  const Wide<Zero, Zero> x("x", mesh, {1, 2, 24, 8});
  const Flat ty("ty", mesh, layer.output_partitions(x.partitions()));
  const auto p = make_parameters<double>(layer, "p");
  EXPECT_EQ(messages([&] { layer.pushforward(Space(), p, p, ty, not_wanted, x); }), 0);
}

/// Beyond a Constant boundary a tangent is zero, whether its type says so or not.
TEST(windows, tangents_of_constants) {
  using X = Wide<Constant<3>, Zero>;
  const Conv<Kernel<3, 3>, Padding<2, 1>, PaddingMode<Constant<3>, Zero>> layer{2, 2};
  const Conv<Kernel<3, 3>, Padding<2, 1>> zeros{2, 2, 1, false};
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  Random random(seed());
  const X x("x", mesh, {1, 2, 9, 6}), tx = x.like("tx");
  const Wide<Zero, Zero> as_zero("tx", mesh, {1, 2, 9, 6});
  const Flat ty("ty", mesh, layer.output_partitions(x.partitions())), same = ty.like("ty"),
                                                                      y = ty.like("y");
  const auto p = make_parameters<double>(layer, "p");
  initialise(Space(), layer, p, 3, 0);
  const auto tx0 = random_world<4>({1, 2, 9, 6}, random);
  scatter(x, random_world<4>({1, 2, 9, 6}, random));
  scatter(tx, tx0);
  scatter(as_zero, tx0);
  layer.pushforward(Space(), p, not_wanted, ty, tx, x);
  layer.pushforward(Space(), p, not_wanted, same, as_zero, x);
  zeros.apply(Space(), p, y, as_zero);
  const double square = dot(Space(), y, y);
  EXPECT_NEAR(dot(Space(), ty, ty), square, 1e-12 * square);
  EXPECT_NEAR(dot(Space(), ty, y), square, 1e-12 * square);
  EXPECT_NEAR(dot(Space(), same, y), square, 1e-12 * square);
}

/// <J x, y> = <x, J' y>
TEST(windows, T10_dot_product_with_odd_folds_and_wide_halos) {
  using Fold = PoleFold<3, Pole::between_rows, Parity::odd>;
  using X    = Wide<Fold, Periodic>;
  Random random(seed());
  const Conv<Kernel<4, 5>, Stride<2, 1>, Padding<2, 2>> layer{3, 2};
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const X x("x", mesh, some_partitions<4>({1, 3, 11, 8}, shape, 1, random)), dx = x.like("dx");
    const Flat jx("J x", mesh, layer.output_partitions(x.partitions())), y        = jx.like("y");
    const auto p = make_parameters<double>(layer, "p");
    initialise(Space(), layer, p, 2, 0);
    scatter(x, random_world<4>({1, 3, 11, 8}, random));
    scatter(y, random_world<4>({1, 2, jx.global_extent(2), jx.global_extent(3)}, random));
    layer.pushforward(Space(), p, not_wanted, jx, x, x);
    layer.pullback(Space(), p, not_wanted, dx, y, x);
    const double left = dot(Space(), jx, y), right = dot(Space(), x, dx);
    EXPECT_NEAR(left, right, 1e-12 * (std::abs(left) + 1.0));
  }
}

}  // namespace
}  // namespace shard::testing
