// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_REDISTRIBUTE_ZIGZAG_SUPPORT_HPP
#define SHARD_TESTS_REDISTRIBUTE_ZIGZAG_SUPPORT_HPP

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "plain_views.hpp"
#include "shard/collectives/zigzag.hpp"
#include "shard/collectives/zigzag_contexts.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace zigzag_test {

using namespace plain_views;
using namespace shard::testing;
/// A value without arithmetic, of a size that is no power of two.
struct Odd {
  std::int16_t a, b, c;
  friend bool operator==(const Odd&, const Odd&) = default;
};

/// The value at a place of the whole array, each place's own.
template <class T>
T value(const Index& i, int which) {
  const auto number =
      static_cast<int>(((((i[0] * 11 + i[1]) * 97 + i[2]) * 5 + i[3]) * 3 + i[4]) * 2 + which);
  if constexpr (std::is_same_v<T, Odd>)
    return {static_cast<std::int16_t>(number % 30000), static_cast<std::int16_t>(which),
            static_cast<std::int16_t>(number / 30000)};
  else if constexpr (std::is_same_v<T, Kokkos::complex<double>>)
    return {static_cast<double>(number), static_cast<double>(which + 1)};
  else
    return static_cast<T>(number);
}

template <class View, class Oracle>
void fill(const View& view, const Oracle& oracle) {
  using T = typename View::value_type;
  on_values(view, [&](T& v, const Index& i) { v = oracle(i); });
}
/// Small whole numbers, other ones on each rank: sums of products are exact.
template <class View>
void fill_random(const View& view, int rank, int which) {
  std::mt19937_64 random(shard::testing::seed() + static_cast<std::uint64_t>(rank * 16 + which));
  fill(view, [&](const Index&) { return static_cast<double>(random() % 15) - 7.0; });
}

/// <Ax, y> = <x, A'y>, in whole numbers; the tangent is the operation.
template <class Operation, class View>
void expect_transpose(const Operation& operation, const View& y, const View& x, const Grid& mesh) {
  const Space space;
  const View ay("A'y", x.layout()), ax("Ax", y.layout()), tangent("tangent", y.layout());
  fill_random(x, mesh.rank(), 0);
  fill_random(y, mesh.rank(), 1);
  fill_random(ay, mesh.rank(), 2);  // what was there is overwritten
  operation.apply(space, ax, x, mesh);
  operation.pushforward(space, tangent, x, mesh);
  operation.pullback(space, ay, y, mesh);
  EXPECT_EQ(over_ranks(own_dot(ax, y)), over_ranks(own_dot(x, ay)));
  EXPECT_EQ(own_dot(ax, y), own_dot(tangent, y));
}

}  // namespace zigzag_test

#endif
