// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/autodiff/tape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "operations.hpp"
#include "shard/autodiff/checkpointing.hpp"
#include "shard/autodiff/checks.hpp"
#include "shard/autodiff/halo_exchange.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

double difference(const Field& a, const Field& b) {
  const Field c = a.like("c");
  const Space space;
  impl::copy_value(space, c, a);
  impl::add_value(space, c, b, -1.0);
  return std::sqrt(impl::dot_value(space, c, c));
}

/// y = a b, cell by cell.
struct Product {
  static constexpr bool takes_not_wanted = true;
  int* second                            = nullptr;  ///< how often the second adjoint was computed

  template <class Space, class To>
  static void multiply(const Space& space, const To& to, const Field& a, const Field& b) {
    deep_copy(space, to, 0.0);
    Kokkos::parallel_for("product", Kokkos::RangePolicy<Space>(space, 0, 1),
                         ProductKernel{to, a, b});
  }
  struct ProductKernel {
    Field to, a, b;
    KOKKOS_FUNCTION void operator()(int) const {
      for (int i = 0; i < static_cast<int>(to.extent(0)); ++i)
        for (int j = 0; j < static_cast<int>(to.extent(1)); ++j) to(i, j) = a(i, j) * b(i, j);
    }
  };
  void apply(const Space& space, const Field& y, const Field& a, const Field& b) const {
    multiply(space, y, a, b);
  }
  template <class DA, class DB>
  void pullback(const Space& space, const DA& da, const DB& db, const Field& dy, const Field& a,
                const Field& b) const {
    if constexpr (is_wanted_v<DA>) multiply(space, da, dy, b);
    if constexpr (is_wanted_v<DB>) {
      multiply(space, db, dy, a);
      if (second != nullptr) ++*second;
    }
  }
};

TEST(Tape, AnExchangeOfASetIsThatOfItsFields) {
  struct Rows;
  using Plain = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Rows>>;
  const Mesh<Rows> mesh(MPI_COMM_WORLD, {0});
  const HaloExchange<ShardDim<0, Rows, Halo<2>, Periodic>> halo;
  std::vector<Plain> x;
  for (const index_t levels : {3, 1, 5}) {
    x.emplace_back("x", mesh, Extents<2>{24, levels});
    Kokkos::deep_copy(x.back().view(), 1.0 + static_cast<double>(mesh.rank() + levels));
  }
  Tape<> tape;
  const auto y  = tape.run(halo, x);
  const auto dy = impl::like_value(y, "dy");
  for (std::size_t f = 0; f < x.size(); ++f)
    Kokkos::deep_copy(dy[f].view(), 2.0 + static_cast<double>(f) + mesh.rank());
  const auto dx = tape.pullback(y, dy, x);
  ASSERT_EQ(dx.size(), x.size());
  for (std::size_t f = 0; f < x.size(); ++f) {
    Tape<> alone;
    const auto one  = alone.run(halo, x[f]);
    const auto done = one.like("dy");
    Kokkos::deep_copy(done.view(), 2.0 + static_cast<double>(f) + mesh.rank());
    const auto wanted = alone.pullback(one, done, x[f]);
    const auto differ = [](const auto& a, const auto& b) {
      const auto here  = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.view());
      const auto there = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b.view());
      return !std::equal(here.data(), here.data() + here.size(), there.data());
    };
    EXPECT_FALSE(differ(y[f], one));
    EXPECT_FALSE(differ(dx[f], wanted));
    EXPECT_TRUE(differ(dx[f], x[f]));
  }
}

TEST(Tape, GraphsAreDifferentiated) {
  const Grid mesh = grid(true);
  const Space space;
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  // z = step(x) x, used twice; J = <w, step(z) z>
  Tape tape(space);
  const Field y = tape.run(Step{}, x), z = tape.run(Product{}, y, x), s = tape.run(Step{}, z),
              out      = tape.run(Product{}, s, z);
  const Field gradient = tape.pullback(out, w);
  EXPECT_EQ(tape.recomputed(), 0);
  EXPECT_EQ(tape.size(), 4);

  const Field dz = x.like("dz"), ds = x.like("ds"), dz2 = x.like("dz2"), dy = x.like("dy"),
              dx = x.like("dx"), dx2 = x.like("dx2");
  Product{}.pullback(space, ds, dz, w, s, z);
  Step{}.pullback(space, dz2, ds, z);
  impl::add_value(space, dz, dz2);
  Product{}.pullback(space, dy, dx, dz, y, x);
  Step{}.pullback(space, dx2, dy, x);
  impl::add_value(space, dx, dx2);
  EXPECT_LT(difference(gradient, dx), 1e-14 * std::sqrt(impl::dot_value(space, dx, dx)));
  EXPECT_EQ(difference(tape.gradient(y), dy), 0.0);

  // again, with another adjoint, in the same memory
  const Field v      = field(mesh, 0.5, "v");
  const Field second = tape.pullback(out, v, x);
  EXPECT_EQ(second.origin(), gradient.origin());
  Product{}.pullback(space, ds, dz, v, s, z);
  Step{}.pullback(space, dz2, ds, z);
  impl::add_value(space, dz, dz2);
  Product{}.pullback(space, dy, dx, dz, y, x);
  Step{}.pullback(space, dx2, dy, x);
  impl::add_value(space, dx, dx2);
  EXPECT_LT(difference(second, dx), 1e-14 * std::sqrt(impl::dot_value(space, dx, dx)));
}

TEST(Tape, ConstantsHaveNoAdjoint) {
  const Grid mesh = grid(false);
  const Field x = field(mesh, 0.1, "x"), k = field(mesh, 0.2, "k"), w = field(mesh, 0.3, "w");
  int second = 0;
  Counts counts;
  Tape tape;
  tape.constant(k);
  const Field moved = tape.run(Step{0.05, &counts}, k);  // of constants: constant
  const Field y     = tape.run(Product{&second}, x, moved);
  const Field dx    = tape.pullback(y, w, x);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(counts.pulled, 0);
  const Field expected = x.like("expected");
  Product::multiply(Space(), expected, w, moved);
  EXPECT_EQ(difference(dx, expected), 0.0);
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.gradient(k); }),
               {"depends on this value"});
}

TEST(Tape, LoopsGiveTheSameWithFewStatesAndCountWhatTheyRepeat) {
  const Grid mesh = grid(true);
  const Space space;
  const index_t steps = 23;
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  // the oracle keeps all states
  std::vector<Field> states{x.like("copy")};
  impl::copy_value(space, states[0], x);
  for (index_t k = 0; k < steps; ++k) {
    states.push_back(x.like("state"));
    Step{}.apply(space, states[static_cast<std::size_t>(k) + 1],
                 states[static_cast<std::size_t>(k)]);
  }
  Field d = w.like("d");
  impl::copy_value(space, d, w);
  for (index_t k = steps; k-- > 0;) {
    const Field before = w.like("before");
    Step{}.pullback(space, before, d, states[static_cast<std::size_t>(k)]);
    d = before;
  }
  for (const index_t slots :
       {index_t{1}, index_t{2}, index_t{3}, index_t{5}, index_t{22}, index_t{0}}) {
    Counts counts;
    Tape tape(space);
    const Field y = tape.loop(Step{0.05, &counts}, x, steps, {slots, 0});
    EXPECT_EQ(counts.applied, steps);
    EXPECT_EQ(difference(y, states.back()), 0.0) << slots;
    const Field dx = tape.pullback(y, w);
    EXPECT_EQ(difference(dx, d), 0.0) << slots << " slots";
    EXPECT_EQ(counts.pulled, steps);
    EXPECT_EQ(counts.applied, steps + tape.recomputed());
    // a stored state that a step was applied to needs no second one
    EXPECT_LE(tape.recomputed(), impl::least_advances(steps, slots == 0 ? steps : slots)) << slots;
    if (slots == 0) {
      EXPECT_EQ(tape.recomputed(), 0);
    }
    const Field again = tape.pullback(y, w);
    EXPECT_EQ(difference(again, d), 0.0) << slots << " slots, again";
  }
  Tape tape(space);
  const Field y = tape.loop(Step{}, x, 0);
  EXPECT_EQ(difference(tape.pullback(y, w), w), 0.0);
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.loop(Step{}, x, -1); }), {"-1 steps"});
  if (mesh.size() > 1)
    for (const index_t others : {index_t{3}, index_t{-1}})
      expect_parts(message_thrown_by<AgreementError>([&] {
                     tape.loop(Step{}, x, mesh.rank() == 0 ? 4 : others, {2, 0});
                   }),
                   {"Tape::loop", "4 steps", others == 3 ? "3 steps" : "-1 steps"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 tape.loop(Step{}, x, 3, {0, 1});
               }),
               {"don't hold one state"});
}

/// A loop whose input goes elsewhere too, before it and after it.
TEST(Tape, ALoopIsOneOfSeveralUses) {
  const Grid mesh = grid(true);
  const Space space;
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  const auto steps_of = [&](const Field& from, int n) {
    std::vector<Field> states{from};
    for (int k = 0; k < n; ++k) {
      states.push_back(x.like("state"));
      Step{}.apply(space, states[static_cast<std::size_t>(k) + 1],
                   states[static_cast<std::size_t>(k)]);
    }
    return states;
  };
  const auto back = [&](const std::vector<Field>& states, Field d) {
    for (std::size_t k = states.size() - 1; k-- > 0;) {
      const Field before = x.like("before");
      Step{}.pullback(space, before, d, states[k]);
      d = before;
    }
    return d;
  };
  // y = x five(x), z = y three(y), J = <w, z>
  const Field start = x.like("start"), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx"),
              d5 = x.like("d5"), d3 = x.like("d3");
  impl::copy_value(space, start, x);
  const auto five = steps_of(start, 5);
  Product{}.apply(space, y, start, five.back());
  const auto three = steps_of(y, 3);
  Product{}.pullback(space, dy, d3, w, y, three.back());
  impl::add_value(space, dy, back(three, d3));
  Product{}.pullback(space, dx, d5, dy, start, five.back());
  impl::add_value(space, dx, back(five, d5));

  for (const index_t slots : {index_t{2}, index_t{0}}) {
    Tape tape(space);
    const Field a = tape.run(Product{}, x, tape.loop(Step{}, x, 5, {slots, 0}));
    const Field z = tape.run(Product{}, a, tape.loop(Step{}, a, 3, {slots, 0}));
    for (int again = 0; again < 2; ++again) {
      EXPECT_LT(difference(tape.pullback(z, w, x), dx),
                1e-14 * std::sqrt(impl::dot_value(space, dx, dx)));
      EXPECT_LT(difference(tape.gradient(a), dy),
                1e-14 * std::sqrt(impl::dot_value(space, dy, dy)));
    }
  }
}

TEST(Tape, ALoopOverConstantsIsNotTakenBack) {
  const Grid mesh = grid(false);
  const Field x = field(mesh, 0.1, "x"), k = field(mesh, 0.2, "k"), w = field(mesh, 0.3, "w");
  Counts counts;
  Tape tape;
  tape.constant(k);
  const Field moved = tape.loop(Step{0.05, &counts}, k, 4, {1, 0});
  int second        = 0;
  const Field dx    = tape.pullback(tape.run(Product{&second}, x, moved), w, x);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(counts.pulled, 0);
  EXPECT_EQ(counts.applied, 4);
  EXPECT_EQ(tape.recomputed(), 0);
  const Field expected = x.like("expected");
  Product::multiply(Space(), expected, w, moved);
  EXPECT_EQ(difference(dx, expected), 0.0);
}

/// The same where the loop is all that there is.
TEST(Tape, NothingComesBackFromALoopOverConstants) {
  const Grid mesh = grid(false);
  const Field k = field(mesh, 0.2, "k"), w = field(mesh, 0.3, "w");
  Counts counts;
  Tape tape;
  tape.constant(k);
  const Field y = tape.loop(Step{0.05, &counts}, k, 4, {1, 0});
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.pullback(y, w); }), {"depend on it"});
  EXPECT_EQ(counts.pulled, 0);
}

/// The least of what the ranks' bytes hold, where shards differ in size.
TEST(Tape, ABoundInBytesIsThatOfTheLargestShard) {
  const Grid mesh = grid(true);
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  index_t largest = impl::value_bytes(x);
  MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  const index_t steps = 17;
  Tape by_slots, by_bytes, by_both;
  const Field a = by_slots.pullback(by_slots.loop(Step{}, x, steps, {3, 0}), w);
  const Field b = by_bytes.pullback(by_bytes.loop(Step{}, x, steps, {0, 4 * largest - 1}), w);
  const Field c = by_both.pullback(by_both.loop(Step{}, x, steps, {3, 100 * largest}), w);
  EXPECT_EQ(difference(a, b), 0.0);
  EXPECT_EQ(difference(a, c), 0.0);
  EXPECT_GT(by_slots.recomputed(), 0);
  EXPECT_EQ(by_bytes.recomputed(), by_slots.recomputed());
  EXPECT_EQ(by_both.recomputed(), by_slots.recomputed());
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 by_bytes.loop(Step{}, x, steps, {0, largest - 1});
               }),
               {"don't hold one state"});
}

/// A step that remembers what it was applied to: its pullback is wrong for any other x.
struct RememberingStep : Step {
  static constexpr bool remembers = true;
  Field* last                     = nullptr;
  ApplyCount applies;

  std::uint64_t applied() const { return applies.value(); }
  void apply(const Space& space, const Field& y, const Field& x) const {
    applies.add();
    Step::apply(space, y, x);
    impl::copy_value(space, *last, x);
  }
  void pullback(const Space& space, const Field& dx, const Field& dy, const Field& x) const {
    EXPECT_EQ(difference(*last, x), 0.0);
    Step::pullback(space, dx, dy, *last);
  }
};

TEST(Tape, WhatAnOperationRemembersIsMadeAgain) {
  const Grid mesh = grid(true);
  const Space space;
  const index_t steps = 9;
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  Field memory = x.like("memory");
  RememberingStep step;
  step.last = &memory;
  Tape plain(space);
  const Field wanted = plain.pullback(plain.loop(Step{}, x, steps + 2), w);
  for (const index_t slots : {index_t{1}, index_t{2}, index_t{4}, index_t{9}}) {
    Tape tape(space);
    const Field y = tape.run(step, tape.loop(step, tape.run(step, x), steps, {slots, 0}));
    EXPECT_EQ(difference(tape.pullback(y, w), wanted), 0.0) << slots;
    EXPECT_EQ(difference(tape.pullback(y, w), wanted), 0.0) << slots << ", again";
    // where nothing comes after the loop its repetitions are the fewest there can be
    Tape alone(space);
    const Field z = alone.loop(step, x, steps, {slots, 0});
    alone.pullback(z, w);
    EXPECT_EQ(alone.recomputed(), impl::least_advances(steps, slots)) << slots;
  }
}

/// (a, b) -> (step(b), a): a state of two fields.
struct Swap {
  using State = std::tuple<Field, Field>;
  void apply(const Space& space, const State& y, const State& x) const {
    Step{}.apply(space, std::get<0>(y), std::get<1>(x));
    deep_copy(space, std::get<1>(y), std::get<0>(x));
  }
  void pullback(const Space& space, const State& dx, const State& dy, const State& x) const {
    Step{}.pullback(space, std::get<1>(dx), std::get<0>(dy), std::get<1>(x));
    deep_copy(space, std::get<0>(dx), std::get<1>(dy));
  }
};

TEST(Tape, StatesOfSeveralFields) {
  const Grid mesh = grid(false);
  const Space space;
  const Swap::State x{field(mesh, 0.1, "a"), field(mesh, 0.2, "b")},
      w{field(mesh, 0.3, "wa"), field(mesh, 0.4, "wb")},
      t{field(mesh, 0.5, "ta"), field(mesh, 0.6, "tb")};
  EXPECT_LT(gradient_error(space, Swap{}, x, t, w), 1e-8);
  Tape tape(space);
  const Swap::State y  = tape.loop(Swap{}, x, 4, {2, 0});
  const Swap::State dx = tape.pullback(y, w);
  // four swaps are two steps of each
  Tape parts(space);
  const Field a = parts.pullback(parts.loop(Step{}, std::get<0>(x), 2), std::get<0>(w));
  EXPECT_EQ(difference(std::get<0>(dx), a), 0.0);
  parts.clear();
  const Field b = parts.pullback(parts.loop(Step{}, std::get<1>(x), 2), std::get<1>(w));
  EXPECT_EQ(difference(std::get<1>(dx), b), 0.0);
}

TEST(Tape, BadUseIsNamed) {
  const Grid mesh = grid(false);
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  Tape tape;
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.pullback(x, w); }),
               {"doesn't come from an operation"});
  const Field y = tape.run(Step{}, x);
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.gradient(x); }),
               {"depends on this value"});
  const Bare narrow = x;
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.run(Halos{}, narrow); }),
               {"under two types"});
}

}  // namespace
