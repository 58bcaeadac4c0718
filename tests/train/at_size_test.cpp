// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training of large models: accumulated gradients, averages of parameters, optimisers of which each
// rank has a part, roll-outs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Batch;
struct Lat;
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;
using Conv3 = Conv<Kernel<3, 3>, Padding<1, 1>>;
using Field = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Batch>, ShardDim<2, Lat>>;
template <class T>
using View = Kokkos::View<T*, Kokkos::LayoutRight, Space::memory_space>;

template <class V>
std::vector<double> values_of(const V& view) {
  Kokkos::fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {host.data(), host.data() + host.extent(0)};
}

/// sin(phase + 0.37 i (1 + i % 5))
template <class T>
void fill(const View<T>& view, double phase) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.extent(0); ++i)
    host(i) = static_cast<T>(std::sin(phase + 0.37 * static_cast<double>(i * (1 + i % 5))));
  Kokkos::deep_copy(view, host);
}

/// Values that depend on global indices only; the first batch entry is `sample`.
template <class F>
void fill_field(const F& field, double phase, index_t sample = 0) {
  const auto host = create_mirror_view(field);
  for (index_t b = 0; b < host.extent(0); ++b)
    for (index_t c = 0; c < host.extent(1); ++c)
      for (index_t i = 0; i < host.extent(2); ++i)
        for (index_t j = 0; j < host.extent(3); ++j)
          host(b, c, i, j) =
              std::sin(phase + 1.7 * static_cast<double>(sample + host.to_global(0, b)) +
                       0.9 * static_cast<double>(c) +
                       0.31 * static_cast<double>((1 + host.to_global(2, i)) *
                                                  (1 + host.to_global(3, j) % 3)));
  deep_copy(Space(), field, host);
  Kokkos::fence();
}

std::vector<Extents<2>> shapes() {
  std::vector<Extents<2>> all;
  for (int a = 1; a <= ranks(); ++a)
    if (ranks() % a == 0) all.push_back({a, ranks() / a});
  return all;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (const double v : b) largest = std::max(largest, std::abs(v));
  ASSERT_GT(largest, 1e-4);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * largest) << i;
}

auto make_model() {
  auto model = sequential<double>(Conv3{2, 4}, GroupNorm{2, 4}, GELU{}, Conv3{4, 2});
  model.initialise(Space(), 3);
  return model;
}

/// Gradients of the mean over 4 samples, in `batches` batches of equal size.
std::vector<double> accumulated(MPI_Comm comm, int batches) {
  const Mesh<Lat, Lon> mesh(comm, {0, 0});
  const auto model = domain_parallel<Lat, Lon>(make_model(), mesh);
  const auto x     = model.input("x", {4 / batches, 2, 9, 8});
  const auto y = model.output(x), dy = y.like("dy"), target = y.like("target");
  MeanSquare loss(y, {});
  const Space space;
  for (int k = 0; k < batches; ++k) {
    fill_field(x, 0.0, k * 4 / batches);
    fill_field(target, 0.5, k * 4 / batches);
    model.apply(space, y, x);
    loss.pullback(space, dy, y, target, 1.0 / batches);
    model.pullback(space, not_wanted, dy, x);
  }
  const auto& gradients = model.gradients().values();
  GradientSum<double>(y, static_cast<index_t>(gradients.extent(0)))(space, gradients);
  return values_of(gradients);
}

TEST(AtSize, gradients_of_small_batches_add_up_to_those_of_one_batch) {
  const auto whole = accumulated(MPI_COMM_SELF, 1);
  for (const int batches : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(batches) + " batches");
    expect_near(accumulated(MPI_COMM_WORLD, batches), whole, 1e-12);
  }
}

ParameterArena<double> some_arena() {
  ParameterArena<double> arena("parameters", 36);
  arena.take("stem", Conv<Kernel<3>>{2, 4});
  arena.take("norm", GroupNorm{2, 4});
  return arena;
}

TEST(EMA, follows_its_formula) {
  for (const bool warmup : {false, true})
    for (const double decay : {0.9, 0.3}) {
      const auto arena = some_arena();
      EMA<double> ema(arena, {decay, warmup});
      std::vector<double> expected;
      for (int t = 0; t < 30; ++t) {
        fill(arena.values(), 0.2 * t);
        ema(Space(), arena.values());
        const auto p   = values_of(arena.values());
        const double d = warmup ? std::min(decay, (1.0 + t) / (10.0 + t)) : decay;
        if (t == 0) expected = p;
        for (std::size_t i = 0; i < p.size(); ++i) expected[i] = d * expected[i] + (1.0 - d) * p[i];
        expect_near(values_of(ema.average().values()), expected, 1e-14);
      }
      const auto average = values_of(ema.average().values()), p = values_of(arena.values());
      ema.swap(Space(), arena.values());
      EXPECT_EQ(values_of(arena.values()), average);
      EXPECT_EQ(values_of(ema.average().values()), p);
      ema.swap(Space(), arena.values());
      EXPECT_EQ(values_of(arena.values()), p);
      EXPECT_EQ(ema.average().entries()[3].name, "norm.bias");
    }
}

// torch 2.14, float64: AveragedModel with get_ema_multi_avg_fn(0.9), parameters sin(i + t)
TEST(EMA, as_pytorch) {
  ParameterArena<double> arena("parameters", 3);
  EMA<double> ema(arena, {0.9});
  for (int t = 0; t < 5; ++t) {
    const auto host = Kokkos::create_mirror_view(arena.values());
    for (std::size_t i = 0; i < 3; ++i) host(i) = std::sin(static_cast<double>(i) + t);
    Kokkos::deep_copy(arena.values(), host);
    ema(Space(), arena.values());
  }
  const auto average      = values_of(ema.average().values());
  const double expected[] = {0.0720168775599711, 0.465802964156875, 0.431331953668377};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(average[i], expected[i], 1e-15);
}

TEST(EMA, refuses_other_arguments) {
  const auto arena = some_arena();
  expect_parts(message_thrown_by<ArgumentError>([&] { EMA<double>(arena, {1.5}); }),
               {"EMA", "1.5", "between 0 and 1"});
  EMA<double> ema(arena);
  const View<double> three("three", 3);
  expect_parts(message_thrown_by<ArgumentError>([&] { ema(Space(), three); }), {"EMA", "3"});
  expect_parts(message_thrown_by<ArgumentError>([&] { ema.swap(Space(), three); }), {"EMA", "3"});
}

TEST(EMA, is_restored_from_a_checkpoint) {
  const ScratchFile file("ema.ckpt");
  const auto arena = some_arena();
  std::vector<std::vector<double>> found;
  for (const bool restored : {false, true}) {
    EMA<double> ema(arena, {0.9, true});
    Checkpoint state(MPI_COMM_WORLD);
    state.add("ema", ema);
    for (int t = restored ? 2 : 0; t < 4; ++t) {
      if (restored && t == 2) state.load(file.path());
      fill(arena.values(), 0.2 * t);
      ema(Space(), arena.values());
      if (!restored && t == 1) state.save(file.path());
    }
    found.push_back(values_of(ema.average().values()));
  }
  EXPECT_EQ(found[0], found[1]);
  // the average alone, by PyTorch's names
  const auto average = some_arena();
  load_safetensors(file.path(), average, MPI_COMM_WORLD,
                   {.prefix = "ema.average.", .strict = false});
  EXPECT_NE(values_of(average.values()), std::vector<double>(36, 0.0));
}

/// Parameters after five steps, each rank having gradients of its own.
template <class T, class Optimiser, class Sharded>
std::vector<double> trained(const Sharded& like, index_t count, Optimiser optimiser,
                            bool in_parts) {
  const Space space;
  const GradientSum<T> sum(like, count);
  const View<T> values("values", static_cast<std::size_t>(count)),
      gradients("gradients", static_cast<std::size_t>(count));
  fill(values, 0.3);
  for (int t = 0; t < 5; ++t) {
    fill(gradients, 1.1 * rank() + 0.2 * t);
    if (in_parts) {
      sum.step(space, optimiser, values, gradients);
    } else {
      sum(space, gradients);
      optimiser(space, values, gradients);
    }
  }
  return values_of(values);
}

/// All optimisers on fields that are sharded over both axes, and over one of them.
template <class T>
void expect_the_same_bits(index_t count) {
  SCOPED_TRACE(std::to_string(count) + " values");
  using OneAxis = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(std::to_string(shape[0]) + " x " + std::to_string(shape[1]));
    const Mesh<Batch, Lat> mesh(MPI_COMM_WORLD, shape);
    const auto compare = [&](const auto& like) {
      const index_t mine = GradientSum<T>(like, count).part().count;
      const AdamOptions adam{0.01, 0.9, 0.99, 1e-8, 0.1};
      const SGDOptions sgd{0.1, 0.9, 0.0, 0.01, true};
      EXPECT_EQ(trained<T>(like, count, AdamW<T>(mine, adam), true),
                trained<T>(like, count, AdamW<T>(count, adam), false));
      EXPECT_EQ(trained<T>(like, count, SGD<T>(mine, sgd), true),
                trained<T>(like, count, SGD<T>(count, sgd), false));
    };
    compare(Field("both", mesh, {ranks(), 1, ranks(), 2}));
    compare(OneAxis("one", mesh, {1, 1, ranks(), 2}));
  }
}

TEST(Parts, parameters_have_the_bits_that_they_have_without) {
  for (const index_t count : {0, 1, 3, 107, 5003}) {
    expect_the_same_bits<double>(count);
    expect_the_same_bits<float>(count);
  }
  expect_the_same_bits<float>(100003);  // the sum without parts goes in two steps too
}

using ThreeAxes =
    ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Batch>, ShardDim<3, Lon>>;

/// A group of two axes of three: the parts of one axis are divided by the other.
TEST(Parts, of_two_axes_of_three) {
  if (ranks() != 8) return;
  const Mesh<Batch, Lat, Lon> mesh(MPI_COMM_WORLD, {2, 2, 2});
  const ThreeAxes like("like", mesh, {2, 1, 1, 2});
  constexpr index_t count = 1001;
  const index_t mine      = GradientSum<double>(like, count).part().count;
  EXPECT_EQ(trained<double>(like, count, Adam<double>(mine), true),
            trained<double>(like, count, Adam<double>(count), false));
}

TEST(Parts, are_disjoint_and_as_large_as_a_rank_s_share) {
  constexpr index_t count = 5003;
  for (const auto& shape : shapes()) {
    const Mesh<Batch, Lat> mesh(MPI_COMM_WORLD, shape);
    const Field like("like", mesh, {ranks(), 1, ranks(), 2});
    const ParameterPart part = GradientSum<double>(like, count).part();
    EXPECT_EQ(part.whole, count);
    EXPECT_EQ(part.copies, 1);
    std::vector<int> owners(static_cast<std::size_t>(count), 0);
    for (index_t i = 0; i < part.count; ++i) owners[static_cast<std::size_t>(part.begin + i)] = 1;
    MPI_Allreduce(MPI_IN_PLACE, owners.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
    // the memory of the optimiser's state
    AdamW<double> adam(part.count);
    std::size_t bytes = 0;
    adam.for_each_state([&](const char*, auto& state) {
      if constexpr (Kokkos::is_view<std::decay_t<decltype(state)>>::value)
        bytes += state.span() * sizeof(double);
    });
    const auto share = static_cast<std::size_t>((count + ranks() - 1) / ranks());
    EXPECT_LE(bytes, 2 * sizeof(double) * share);
    EXPECT_GE(bytes, 2 * sizeof(double) * (share - 1));
  }
}

TEST(Parts, the_norm_of_all_parts_clips) {
  constexpr index_t count = 5003;
  const Mesh<Batch, Lat> mesh(MPI_COMM_WORLD, {1, ranks()});
  const Field like("like", mesh, {1, 1, ranks(), 2});
  const GradientSum<double> sum(like, count);
  const ParameterPart part = sum.part();
  const View<double> a("a", count), b("b", count);
  fill(a, 0.4 + rank());
  fill(b, 0.4 + rank());
  const Space space;
  sum(space, a);
  const double norm = GradientNorm<double>(count).clip(space, a, 1.0);
  sum.sum_part(space, b);
  EXPECT_NEAR(GradientNorm<double>(0, part.count, mesh.communicator()).clip(space, part.of(b), 1.0),
              norm, 1e-13 * norm);
  sum.gather(space, b);
  expect_near(values_of(b), values_of(a), 1e-13);
}

TEST(Parts, are_refused_for_other_numbers_of_values) {
  const Mesh<Batch, Lat> mesh(MPI_COMM_WORLD, {1, ranks()});
  const Field like("like", mesh, {1, 1, ranks(), 2});
  const GradientSum<double> sum(like, 8);
  const View<double> seven("seven", 7), eight("eight", 8);
  SGD<double> sgd(sum.part().count);
  const auto step = [&](const View<double>& values, const View<double>& gradients) {
    return message_thrown_by<ArgumentError>([&] { sum.step(Space(), sgd, values, gradients); });
  };
  expect_parts(step(seven, eight), {"GradientSum", "all 8 values, given 7"});
  expect_parts(step(eight, seven), {"GradientSum", "all 8 values, given 7"});
  expect_parts(message_thrown_by<ArgumentError>([&] { sum.gather(Space(), seven); }), {"gather"});
  expect_parts(message_thrown_by<ArgumentError>([&] { sum.part().of(seven); }),
               {"ParameterPart::of", "8", "7"});
  AdamW<double> other(sum.part().count + 1);
  Checkpoint state(mesh.communicator());
  expect_parts(message_thrown_by<ArgumentError>([&] { state.add("adam", sum.part(), other); }),
               {"Checkpoint::add", "\"adam.mean\"", "the part has"});
}

/// A run that is saved with parts and goes on without, and the other way round.
TEST(Parts, checkpoints_have_the_state_of_all_parts) {
  constexpr index_t count = 107;
  const ScratchFile file("parts.ckpt");
  for (const auto& shape : shapes())
    for (const bool saves_parts : {false, true}) {
      const Mesh<Batch, Lat> mesh(MPI_COMM_WORLD, shape);
      using OneAxis = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
      const OneAxis like("like", mesh, {1, 1, ranks(), 2});
      const Space space;
      const GradientSum<double> sum(like, count);
      const ParameterPart part = sum.part();
      const auto run           = [&](bool in_parts, int first, int last, bool loads, bool saves) {
        View<double> values("values", count);
        const View<double> gradients("gradients", count);
        fill(values, 0.3);
        AdamW<double> adam(in_parts ? part.count : count);
        Checkpoint state(mesh.communicator());
        state.add("values", values);
        if (in_parts)
          state.add("adam", part, adam);
        else
          state.add("adam", adam);
        if (loads) state.load(file.path());
        for (int t = first; t < last; ++t) {
          fill(gradients, 1.1 * mesh.coordinate<Lat>() + 0.2 * t);
          if (in_parts) {
            sum.step(space, adam, values, gradients);
          } else {
            sum(space, gradients);
            adam(space, values, gradients);
          }
        }
        if (saves) state.save(file.path());
        return values_of(values);
      };
      const auto expected = run(false, 0, 4, false, false);
      run(saves_parts, 0, 2, false, true);
      EXPECT_EQ(run(!saves_parts, 2, 4, true, false), expected);
      EXPECT_EQ(run(saves_parts, 2, 4, true, false), expected);
    }
}

/// A roll-out of four steps with a loss after the first, the second and the fourth.
struct RollOut {
  double loss;
  std::vector<double> gradients, dx;
};
RollOut roll_out(MPI_Comm comm, index_t slots, bool constant = false, std::size_t changed = 0,
                 double by = 0.0) {
  const Mesh<Lat, Lon> mesh(comm, {0, 0});
  auto original = sequential<double>(residual(Conv3{2, 3}, GELU{}, Conv3{3, 2}));
  original.initialise(Space(), 5);
  const auto& p   = original.parameters().values();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), p);
  host(changed) += by;
  Kokkos::deep_copy(p, host);
  const auto model = domain_parallel<Lat, Lon>(original, mesh);
  const auto x     = model.input("x", {1, 2, 9, 8});
  fill_field(x, 0.2);
  const Space space;
  Tape tape(space);
  if (constant) tape.constant(x);
  const std::vector<std::pair<index_t, double>> parts{{1, 0.5}, {1, 0.3}, {2, 0.2}};
  std::vector<std::decay_t<decltype(x)>> y, dy;
  RollOut found{};
  MeanSquare loss(x, {});
  const auto target = x.like("target");
  for (const auto& [steps, weight] : parts) {
    y.push_back(tape.loop(model, y.empty() ? x : y.back(), steps, {slots, 0}));
    dy.push_back(x.like("dy"));
    fill_field(target, 0.7 + static_cast<double>(y.size()));
    found.loss += weight * loss(space, y.back(), target);
    loss.pullback(space, dy.back(), y.back(), target, weight);
  }
  const auto dx         = tape.pullback(y, dy, constant ? y.front() : x);
  const auto& gradients = model.gradients().values();
  GradientSum<double>(x, static_cast<index_t>(gradients.extent(0)))(space, gradients);
  found.gradients = values_of(gradients);
  // dx as one number that is the same on every mesh
  fill_field(target, 0.1);
  found.dx = {dot(space, dx, target)};
  return found;
}

TEST(AtSize, roll_outs_have_the_gradient_of_all_steps) {
  const RollOut serial = roll_out(MPI_COMM_SELF, 0);
  for (const index_t slots : {0, 1}) {
    SCOPED_TRACE(std::to_string(slots) + " slots");
    for (const bool constant : {false, true}) {
      const RollOut found = roll_out(MPI_COMM_WORLD, slots, constant);
      EXPECT_NEAR(found.loss, serial.loss, 1e-13);
      expect_near(found.gradients, serial.gradients, 1e-12);
      if (!constant) expect_near(found.dx, serial.dx, 1e-12);
    }
  }
  constexpr double h = 1e-5;
  for (std::size_t i = 0; i < serial.gradients.size(); i += 7) {
    const double slope = (roll_out(MPI_COMM_SELF, 0, true, i, h).loss -
                          roll_out(MPI_COMM_SELF, 0, true, i, -h).loss) /
                         (2 * h);
    EXPECT_NEAR(serial.gradients[i], slope, 1e-8) << i;
  }
}

}  // namespace
}  // namespace shard::testing
