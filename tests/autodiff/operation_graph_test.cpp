// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operation that is written as a function of others: tangents, adjoints, memory, a tape's loop.
#include <gtest/gtest.h>

#include <tuple>

#include "operations.hpp"
#include "shard/autodiff/checks.hpp"
#include "shard/autodiff/operation_graph.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Pair = std::tuple<Field, Field>;

struct MixedKernel {
  Field y, a, b, c;
  KOKKOS_FUNCTION void operator()(int i, int j) const { y(i, j) = a(i, j) * b(i, j) + 3 * c(i, j); }
};
/// y = a b + 3 c.
struct Mixed {
  void apply(const Space& space, const Field& y, const Field& a, const Field& b,
             const Field& c) const {
    set(space, y, a, b, c);
  }
  void pushforward(const Space& space, const Field& ty, const Field& ta, const Field& tb,
                   const Field& tc, const Field& a, const Field& b, const Field&) const {
    const Field part = ty.like("part"), zero = ty.like("zero");
    set(space, ty, ta, b, tc);
    set(space, part, a, tb, zero);
    impl::add_value(space, ty, part);
  }
  void pullback(const Space& space, const Field& da, const Field& db, const Field& dc,
                const Field& dy, const Field& a, const Field& b, const Field&) const {
    const Field zero = dy.like("zero");
    set(space, da, dy, b, zero);
    set(space, db, a, dy, zero);
    set(space, dc, zero, zero, dy);
  }

 private:
  static void set(const Space& space, const Field& y, const Field& a, const Field& b,
                  const Field& c) {
    shard::parallel_for("mixed", space, owned_region(y), MixedKernel{y, a, b, c});
  }
};

/// Written once, run by a graph or by a tape. Values are used several times, by one operation too,
/// and one isn't used.
template <class Run, class V>
auto written(Run& run, const V& a, const V& b) {
  const auto c      = run.run(Step{0.05}, a);
  const auto unused = run.run(Step{0.1}, c);
  const auto d      = run.run(Mixed{}, c, c, c);
  const auto e      = run.run(Mixed{}, c, b, c);
  return std::tuple(run.run(Mixed{}, d, e, a), e);
}
const auto traced = [](auto& graph, const auto& a, const auto& b) { return written(graph, a, b); };

double difference(const Space& space, const Field& a, const Field& b) {
  const Field d = a.like("difference");
  impl::add_value(space, d, a);
  impl::add_value(space, d, b, -1.0);
  return impl::dot_value(space, d, d);
}

TEST(OperationGraph, HasTheTangentAndTheAdjointOfItsOperations) {
  for (const bool square : {false, true}) {
    const Grid mesh = grid(square);
    const Space space;
    const Pair x{field(mesh, 0.1, "a"), field(mesh, 0.2, "b")},
        tx{field(mesh, 0.3, "ta"), field(mesh, 0.4, "tb")},
        dy{field(mesh, 0.5, "dy"), field(mesh, 0.6, "de")};
    const auto graph = operation_graph<Space>(x, traced);
    EXPECT_EQ(graph.size(), 5);
    EXPECT_LT(dot_product_error(space, graph, x, tx, dy), 1e-15);
    EXPECT_NEAR(taylor_test(space, graph, x, tx, dy, 0.01, 3).worst_slope(), 2.0, 0.1);
    EXPECT_LT(gradient_error(space, graph, x, tx, dy), 1e-7);

    const auto y  = graph.output(x);
    const Pair dx = impl::like_value(x, "dx");
    graph.apply(space, y, x);
    graph.pullback(space, dx, Pair{std::get<0>(dy), std::get<1>(x).like("zero")});
    Tape tape{space};
    const auto [z, e] = written(tape, std::get<0>(x), std::get<1>(x));
    tape.pullback(z, std::get<0>(dy), std::get<0>(x));
    EXPECT_EQ(difference(space, std::get<0>(y), z), 0.0);
    EXPECT_EQ(difference(space, std::get<1>(y), e), 0.0);
    EXPECT_LT(difference(space, std::get<0>(dx), tape.gradient(std::get<0>(x))), 1e-28);
    EXPECT_LT(difference(space, std::get<1>(dx), tape.gradient(std::get<1>(x))), 1e-28);
  }
}

TEST(OperationGraph, AnInputMayBeAnOutputAndAnotherUnused) {
  const Grid mesh = grid(true);
  const Space space;
  const Pair x{field(mesh, 0.1, "a"), field(mesh, 0.2, "b")},
      dy{field(mesh, 0.5, "dy"), field(mesh, 0.6, "de")};
  const Pair dx = impl::like_value(x, "dx");
  const auto graph =
      operation_graph<Space>(x, [](auto&, const auto& a, const auto&) { return std::tuple(a, a); });
  graph.pullback(space, dx, dy);
  impl::add_value(space, std::get<0>(dy), std::get<1>(dy));
  EXPECT_EQ(difference(space, std::get<0>(dx), std::get<0>(dy)), 0.0);
  EXPECT_EQ(impl::dot_value(space, std::get<1>(dx), std::get<1>(dx)), 0.0);
}

TEST(OperationGraph, IsTheStepOfATapesLoop) {
  const Grid mesh = grid(true);
  const Space space;
  const Field x = field(mesh, 0.1, "x"), dy = field(mesh, 0.5, "dy");
  const auto step = operation_graph<Space>(
      x, [](auto& graph, const auto& v) { return graph.run(Step{0.1}, graph.run(Step{0.05}, v)); });
  std::vector<Field> gradients;
  for (const index_t slots : {0, 3, 1}) {
    Tape tape{space};
    const Field y = tape.loop(step, x, 10, {.slots = slots});
    gradients.push_back(tape.pullback(y, dy).like("gradient"));
    impl::copy_value(space, gradients.back(), tape.gradient(x));
  }
  EXPECT_GT(impl::dot_value(space, gradients[0], gradients[0]), 0.0);
  EXPECT_EQ(difference(space, gradients[1], gradients[0]), 0.0);
  EXPECT_EQ(difference(space, gradients[2], gradients[0]), 0.0);
}

TEST(OperationGraph, AnOperationWithMemoryMayOccurTwice) {
  const Grid mesh = grid(true);
  const Space space;
  const Field x = field(mesh, 0.1, "x"), tx = field(mesh, 0.2, "tx"), dy = field(mesh, 0.5, "dy");
  const auto two   = chain(x, Step{0.05}, Step{0.1});
  const auto graph = operation_graph<Space>(
      x, [&](auto& ops, const auto& v) { return ops.run(two, ops.run(two, v)); });
  EXPECT_LT(dot_product_error(space, graph, x, tx, dy), 1e-15);
  EXPECT_LT(gradient_error(space, graph, x, tx, dy), 1e-8);
}

}  // namespace
