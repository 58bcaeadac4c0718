// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_MODEL_MODEL_CHECKS_HPP
#define SHARD_TESTS_MODEL_MODEL_CHECKS_HPP

#include "model_support.hpp"
#include "shard/autodiff/checks.hpp"
#include "support/counting.hpp"

namespace shard::testing {

/// That a model's pushforward and pullback are a pair, and derivatives of a smooth model.
template <class Sharded>
void expect_pair(const Sharded& model, const Extents<Sharded::rank>& extents, bool smooth = true) {
  const Space space;
  const auto x = model.input("x", extents), tx = x.like("tx");
  const auto dy = model.output(x);
  fill(x, 0.1);
  fill(tx, 0.2);
  fill(dy, 0.3);
  EXPECT_LT(dot_product_error(space, model, x, tx, dy), 1e-13);
  if (smooth) {
    EXPECT_LT(tangent_error(space, model, x, tx, dy), 1e-8);
  }
}

/// That a model's third step allocates nothing. Returns what it took.
template <class Sharded>
Counts expect_steady(const Sharded& model, const Extents<Sharded::rank>& extents) {
  const Space space;
  const auto x = model.input("x", extents), dx = x.like("dx");
  fill(x, 0.1);
  const auto dy = model.output(x);
  fill(dy, 0.4);
  const auto step = [&] {
    model(space, x);
    model.pullback(space, dx, dy, x);
  };
  step();
  step();
  const Counts steady = count(step);
  EXPECT_EQ(steady.allocations, 0) << steady;
  EXPECT_EQ(steady.deallocations, 0) << steady;
  EXPECT_EQ(steady.requests, 0) << steady;
  return steady;
}

}  // namespace shard::testing

#endif
