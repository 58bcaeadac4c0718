// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models in training and in evaluation: Dropout's numbers, running averages.
#include <cmath>
#include <string>
#include <vector>

#include "model_support.hpp"
#include "shard/autodiff/operation_graph.hpp"
#include "shard/model/replace.hpp"

namespace shard::testing {

namespace {

/// Mean and sum of squares about it, of each channel of values [batch, channel, cells].
std::vector<double> moments(const std::vector<double>& x, int batch, int channels) {
  const std::size_t cells = x.size() / static_cast<std::size_t>(batch * channels);
  std::vector<double> found;
  for (int c = 0; c < channels; ++c) {
    double mean = 0, square = 0;
    const auto each = [&](const auto& visit) {
      for (int n = 0; n < batch; ++n)
        for (std::size_t i = 0; i < cells; ++i)
          visit(x[static_cast<std::size_t>(n * channels + c) * cells + i]);
    };
    each([&](double v) { mean += v / static_cast<double>(cells) / batch; });
    each([&](double v) { square += (v - mean) * (v - mean); });
    found.push_back(mean);
    found.push_back(square);
  }
  return found;
}

std::vector<double> on_host(const Kokkos::View<double*, Kokkos::LayoutRight>& v) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), v);
  return {host.data(), host.data() + host.extent(0)};
}

TEST(Model, RunningAveragesAreItsBuffers) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model   = sequential<double>(named<"norm">(BatchNorm{3}), ReLU{});
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  ASSERT_EQ(model.buffers().entries().size(), 2U);
  EXPECT_EQ(model.buffers().entries()[0].name, "norm.running_mean");
  EXPECT_EQ(model.buffers().entries()[1].name, "norm.running_var");
  EXPECT_EQ(on_host(model.buffers().values()), (std::vector<double>{0, 0, 0, 1, 1, 1}));
  const Space space;
  std::vector<double> mean(3, 0.0), variance(3, 1.0);
  // other extents, other partitions: the averages go on
  for (const index_t rows : {7, 7, 9}) {
    const auto x = sharded.input("x", {2, 3, rows, 6});
    fill(x, 0.1 * static_cast<double>(rows));
    sharded(space, x);
    space.fence();
    const auto found = moments(world(x), 2, 3);
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c] = 0.9 * mean[c] + 0.1 * found[2 * c];
      variance[c] =
          0.9 * variance[c] + 0.1 * found[2 * c + 1] / (2 * 6 * static_cast<double>(rows) - 1);
    }
  }
  const auto averages = on_host(sharded.buffers().values());
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(averages[c], mean[c], 1e-13);
    EXPECT_NEAR(averages[3 + c], variance[c], 1e-13);
  }

  model.set_training(false);
  EXPECT_FALSE(sharded.is_training());
  const auto x = sharded.input("x", {2, 3, 7, 6});
  fill(x, 0.9);
  const auto before = world(x), y = world(sharded(space, x));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i / 42 % 3;
    EXPECT_NEAR(y[i], std::fmax(0.0, (before[i] - mean[c]) / std::sqrt(variance[c] + 1e-5)), 1e-12);
  }
  EXPECT_EQ(on_host(model.buffers().values()), averages);
  const auto other = replace<"1">(model, SiLU{});
  EXPECT_EQ(on_host(other.buffers().values()), averages);
  EXPECT_FALSE(other.is_training());
}

TEST(Model, EvaluationDropsNothing) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model   = sequential<double>(Dropout{0.5, 3}, Dropout{0.25, 4});
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const auto x       = sharded.input("x", {2, 2, 9, 8});
  fill(x, 0.2);
  const Space space;
  const auto first = world(sharded(space, x)), second = world(sharded(space, x));
  EXPECT_NE(first, second);
  EXPECT_EQ(sharded.mark().step, 2U);
  sharded.set_training(false);
  EXPECT_EQ(world(sharded(space, x)), world(x));
  EXPECT_EQ(sharded.mark().step, 2U);
  sharded.set_training(true);
  sharded.set_mark({.step = 1});  // a run that is taken up after one step
  EXPECT_EQ(world(sharded(space, x)), second);
}

/// What a loop over y = dropped(x) makes of ones is the product of all masks, and so is its
/// gradient, however few states are kept.
TEST(Model, StepsMadeAgainDropTheSame) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model   = sequential<double>(Dropout{0.2, 11});
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const auto x       = sharded.input("x", {1, 2, 9, 8});
  const Space space;
  const auto dy = x.like("dy");
  Kokkos::deep_copy(space, x.view(), 1.0);
  Kokkos::deep_copy(space, dy.view(), 1.0);
  for (const index_t slots : {1, 2, 5}) {
    Tape tape(space);
    const auto y = tape.loop(sharded, x, 5, {slots, 0});
    const auto g = world(tape.pullback(y, dy));
    EXPECT_EQ(g, world(y)) << slots << " slots";
    EXPECT_GT(tape.recomputed(), 0);
    Tape chains(space);
    const auto twice = chain(x, sharded, sharded);
    const auto z     = chains.loop(twice, x, 3, {slots, 0});
    EXPECT_EQ(world(chains.pullback(z, dy)), world(z)) << slots << " slots of chains";
    Tape graphs(space);
    const auto graph = operation_graph<Space>(
        x, [&](auto& ops, const auto& v) { return ops.run(sharded, ops.run(sharded, v)); });
    const auto w = graphs.loop(graph, x, 3, {slots, 0});
    EXPECT_EQ(world(graphs.pullback(w, dy)), world(w)) << slots << " slots of graphs";
    Tape apart(space);
    const auto a = apart.run(sharded, x);
    const auto b = apart.run(sharded, a);
    EXPECT_EQ(world(apart.pullback(b, dy)), world(b));
  }
}

/// What a tape gives the parameters doesn't depend on whether the input is a constant.
TEST(Model, ParametersBehindAConstantHaveGradients) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  auto model = sequential<double>(Conv<Kernel<1, 1>>{2, 2});
  model.initialise(Space(), 3);
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const auto x       = sharded.input("x", {1, 2, 9, 8});
  fill(x, 0.4);
  const Space space;
  std::vector<std::vector<double>> found;
  for (const bool constant : {false, true}) {
    Kokkos::deep_copy(space, sharded.gradients().values(), 0.0);
    Tape tape(space);
    if (constant) tape.constant(x);
    const auto graph =
        operation_graph<Space>(x, [&](auto& ops, const auto& v) { return ops.run(sharded, v); });
    const auto y = tape.run(sharded, tape.loop(graph, tape.run(sharded, x), 2, {1, 0}));
    tape.pullback(y, y, y);
    space.fence();
    found.push_back(on_host(sharded.gradients().values()));
  }
  EXPECT_NE(found[0], std::vector<double>(found[0].size(), 0.0));
  EXPECT_EQ(found[0], found[1]);
}

TEST(Model, StepsMadeAgainLeaveTheAverages) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model   = sequential<double>(BatchNorm{2});
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const auto x       = sharded.input("x", {1, 2, 9, 8});
  fill(x, 0.4);
  const Space space;
  Tape tape(space);
  const auto y  = tape.loop(sharded, x, 4, {2, 0});
  const auto dy = y.like("dy");
  fill(dy, 0.7);
  const auto averages = on_host(model.buffers().values());
  tape.pullback(y, dy);
  space.fence();
  EXPECT_GT(tape.recomputed(), 0);
  EXPECT_EQ(on_host(model.buffers().values()), averages);
}

}  // namespace

}  // namespace shard::testing
