// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/autodiff/tape.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "operations.hpp"
#include "shard/autodiff/checkpointing.hpp"
#include "shard/autodiff/checks.hpp"
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
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 tape.loop(Step{}, x, 3, {0, 1});
               }),
               {"don't hold one state"});
}

/// A step that remembers what it was applied to: its pullback is wrong for any other x.
struct RememberingStep : Step {
  static constexpr bool remembers = true;
  Field* last                     = nullptr;

  void apply(const Space& space, const Field& y, const Field& x) const {
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
