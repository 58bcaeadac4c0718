// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients that ranks share: batch over one axis of the mesh and space over others, and sums in
// buckets.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "shard/layers/window/conv.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/train/gradient_buckets.hpp"
#include "shard/model/parameter_arena.hpp"
#include "shard/train/gradient_sum.hpp"
#include "shard/view/copy.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Batch;
struct Lat;

using Space = Kokkos::DefaultExecutionSpace;
using Stem  = Conv<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>;
using Input = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Batch>,
                          ShardDim<2, Lat, Halo<1>>, ShardDim<3, Unsharded, Halo<1>>>;
using Field = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Batch>, ShardDim<2, Lat>>;
using Arena = ParameterArena<double>;

template <class F>
void fill(const F& field, double scale) {
  const auto host = create_mirror_view(field);
  for (index_t b = 0; b < host.extent(0); ++b)
    for (index_t c = 0; c < host.extent(1); ++c)
      for (index_t i = 0; i < host.extent(2); ++i)
        for (index_t j = 0; j < host.extent(3); ++j)
          host(b, c, i, j) =
              scale * std::sin(1.7 * static_cast<double>(host.to_global(0, b)) +
                               0.9 * static_cast<double>(c) +
                               0.31 * static_cast<double>(host.to_global(2, i) * (1 + j % 3)));
  deep_copy(Space(), field, host);
  Kokkos::fence();
}

struct Model {
  Stem stem{2, 4};
  GroupNorm norm{2, 4};
  Stem head{4, 1};

  template <class Visit>
  void for_each_layer(const Visit& visit) const {
    visit("stem", stem);
    visit("norm", norm);
    visit("head", head);
  }
};

std::vector<double> values_of(const Arena& arena) {
  Kokkos::fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), arena.values());
  return {host.data(), host.data() + host.extent(0)};
}

/// Loss and gradients of a small model with any partition of 5 batch entries and 11 rows; summed
/// at once, or in buckets of so many bytes as the pullback goes.
std::vector<double> gradients_on(MPI_Comm comm, const Extents<2>& shape, index_t bucket_bytes) {
  const Mesh<Batch, Lat> mesh(comm, shape);
  const Space space;
  const Model model;
  Arena parameters("parameters", 200), gradients("gradients", 200);
  const auto stem_p = parameters.take("stem", model.stem),
             stem_g = gradients.take("stem", model.stem);
  const auto norm_p = parameters.take("norm", model.norm),
             norm_g = gradients.take("norm", model.norm);
  const auto head_p = parameters.take("head", model.head),
             head_g = gradients.take("head", model.head);
  initialise(space, model.stem, stem_p, 5, 0);
  initialise(space, model.norm, norm_p, 5, 1);
  initialise(space, model.head, head_p, 5, 2);
  const Input x("x", mesh, {5, 2, 11, 6}), dx = x.like("dx");
  const Field a("a", mesh, {5, 4, 11, 6}), da = a.like("da"), y("y", mesh, {5, 1, 11, 6}),
                                           dy = y.like("dy"), target = y.like("target");
  const Input b("b", mesh, {5, 4, 11, 6}), db                        = b.like("db");
  fill(x, 1.0);
  fill(target, 0.5);
  MeanSquare loss(target, {});
  auto state = model.norm.state(a);
  GradientBuckets<double> buckets(y, gradients, std::max<index_t>(bucket_bytes, 1));
  if (bucket_bytes == 1) {
    EXPECT_EQ(buckets.count(), 6);
  }
  if (bucket_bytes == 1 << 20) {
    EXPECT_EQ(buckets.count(), 1);
  }
  std::vector<double> first;
  for (int step = 0; step < 2; ++step) {  // the buckets' second use is as good as the first
    Kokkos::deep_copy(space, gradients.values(), 0.0);
    model.stem.apply(space, stem_p, a, x);
    model.norm.apply(space, state, norm_p, b, a);
    model.head.apply(space, head_p, y, b);
    const double j = loss(space, y, target);
    loss.pullback(space, dy, y, target);
    model.head.pullback(space, head_p, head_g, db, dy, b);
    if (bucket_bytes > 0) buckets.ready(space, "head");
    model.norm.pullback(space, state, norm_p, norm_g, da, db, a);
    if (bucket_bytes > 0) buckets.ready(space, "norm.bias");
    if (bucket_bytes > 0) buckets.ready(space, "norm.weight");
    model.stem.pullback(space, stem_p, stem_g, dx, da, x);
    if (bucket_bytes > 0)
      buckets.finish(space);  // "stem" is complete without being called so
    else
      GradientSum<double>(y, 200)(space, gradients.values());
    auto all = values_of(gradients);
    all.push_back(j);
    if (step > 0) {
      EXPECT_EQ(all, first);
    }
    first = all;
  }
  return first;
}

std::vector<Extents<2>> shapes() {
  std::vector<Extents<2>> all;
  for (int a = 1; a <= ranks(); ++a)
    if (ranks() % a == 0) all.push_back({a, ranks() / a});
  return all;
}

TEST(Gradients, B12_batch_over_one_axis_and_space_over_another_are_the_serial_ones) {
  const auto serial = gradients_on(MPI_COMM_SELF, {1, 1}, 0);
  double largest    = 0.0;
  for (const double v : serial) largest = std::max(largest, std::abs(v));
  ASSERT_GT(largest, 1e-3);
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(std::to_string(shape[0]) + " x " + std::to_string(shape[1]));
    const auto all = gradients_on(MPI_COMM_WORLD, shape, 0);
    for (std::size_t i = 0; i < serial.size(); ++i)
      EXPECT_NEAR(all[i], serial[i], 1e-12 * largest) << i;
  }
}

TEST(Gradients, sums_in_buckets_have_the_bits_of_one_sum) {
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(std::to_string(shape[0]) + " x " + std::to_string(shape[1]));
    const auto at_once = gradients_on(MPI_COMM_WORLD, shape, 0);
    for (const index_t bytes : {1, 100, 400, 1 << 20})
      EXPECT_EQ(gradients_on(MPI_COMM_WORLD, shape, bytes), at_once) << bytes;
  }
}

TEST(Gradients, layers_may_be_ready_in_any_order) {
  const Mesh<Batch, Lat> mesh(MPI_COMM_WORLD, {ranks(), 1});
  const Field field("field", mesh, {ranks(), 1, 1, 1});
  const Space space;
  Arena gradients("gradients", 0), expected("expected", 0);
  const auto fill_again = [&](Arena& arena) {
    arena = Arena("gradients", 7 * (2 * 2 * 3 + 3));
    std::vector<std::string> names;
    for (const char* name : {"a", "b", "b.c", "c", "bb", "c.d", "e"}) {
      arena.take(name, Conv<Kernel<2>>{2, 3});
      names.emplace_back(name);
    }
    std::mt19937_64 engine(seed() + static_cast<std::uint64_t>(rank()));
    std::normal_distribution<double> normal;
    const auto host = Kokkos::create_mirror(arena.values());
    for (std::size_t i = 0; i < host.extent(0); ++i) host(i) = normal(engine);
    Kokkos::deep_copy(arena.values(), host);
  };
  fill_again(expected);
  GradientSum<double>(field, 105)(space, expected.values());
  std::mt19937_64 same(seed());
  for (int trial = 0; trial < 6; ++trial) {
    fill_again(gradients);
    GradientBuckets<double> buckets(field, gradients, 8 * 20);
    std::vector<std::string> order{"a",        "b.c.weight", "b.weight", "b.bias", "c.bias",
                                   "c.weight", "bb",         "c.d",      "e",      "b.c.bias"};
    std::shuffle(order.begin(), order.end(), same);
    for (const std::string& name : order) buckets.ready(space, name);
    buckets.finish(space);
    EXPECT_EQ(values_of(gradients), values_of(expected));
  }
  GradientBuckets<double> buckets(field, gradients, 8 * 20);
  buckets.ready(space, "c");  // and with it "c.d"
  expect_parts(message_thrown_by<ArgumentError>([&] { buckets.ready(space, "c.d"); }),
               {"\"c.d.", "complete before"});
  expect_parts(message_thrown_by<ArgumentError>([&] { buckets.ready(space, "d"); }),
               {"no gradients called \"d\""});
}

}  // namespace
}  // namespace shard::testing
