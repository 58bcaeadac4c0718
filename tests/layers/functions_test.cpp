// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layers' functions of vectors against the C library's in long double.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../src/layers/vector_functions.hpp"

namespace {

using namespace shard::impl;

/// The largest error over numbers of all exponents and both signs, in units in the last place of
/// the result; where that is denormal, of the least normal number's.
template <class T, class Mine, class Exact>
double worst(const Mine& mine, const Exact& exact) {
  using Limits = std::numeric_limits<T>;
  double most  = 0.0;
  for (int e = Limits::min_exponent; e <= Limits::max_exponent; ++e) {
    const int count = e > -12 && e < 12 ? 4000 : 8;
    for (int i = 0; i < count; ++i)
      for (const T sign : {T(1), T(-1)}) {
        const T x           = sign * std::ldexp(T(0.5) + T(0.5) * static_cast<T>(i) / T(count), e);
        const long double y = exact(static_cast<long double>(x));
        const T rounded     = static_cast<T>(y);
        if (std::isinf(rounded)) {
          EXPECT_EQ(mine(x), rounded) << x;
          continue;
        }
        const T size      = std::max(std::abs(rounded), Limits::min());
        const double unit = static_cast<double>(std::nextafter(size, Limits::infinity()) - size);
        const double off =
            static_cast<double>(std::abs(static_cast<long double>(mine(x)) - y)) / unit;
        if (!(off <= most)) most = off;
      }
  }
  return most;
}

template <class T>
void check(double most) {
  constexpr T infinity = std::numeric_limits<T>::infinity(),
              nan      = std::numeric_limits<T>::quiet_NaN();
  EXPECT_LE(worst<T>([](T x) { return exponential(x); }, [](long double x) { return std::exp(x); }),
            most);
  EXPECT_LE(worst<T>([](T x) { return sigmoid(x); },
                     [](long double x) { return 1.0L / (1.0L + std::exp(-x)); }),
            most + 0.5);
  EXPECT_LE(worst<T>([](T x) { return tanh_of(x); }, [](long double x) { return std::tanh(x); }),
            most);
  EXPECT_LE(worst<T>([](T x) { return erfc_of(x); }, [](long double x) { return std::erfc(x); }),
            2 * most);
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(-infinity), T(0));
  EXPECT_EQ(sigmoid(infinity), T(1));
  EXPECT_EQ(sigmoid(-infinity), T(0));
  EXPECT_EQ(tanh_of(infinity), T(1));
  EXPECT_EQ(tanh_of(-infinity), T(-1));
  EXPECT_EQ(erfc_of(infinity), T(0));
  EXPECT_EQ(erfc_of(-infinity), T(2));
  for (const T y : {exponential(nan), sigmoid(nan), tanh_of(nan), erfc_of(nan)}) EXPECT_NE(y, y);
}

/// Of parts of a sum: the same, but never denormal.
template <class T>
void check_parts(double most) {
  using Limits   = std::numeric_limits<T>;
  const auto get = [](T x) { return exponential_of_part(-std::abs(x)); };
  EXPECT_LE(worst<T>(get,
                     [](long double x) {
                       return std::abs(x) > FloatBits<T>::normal ? 0.0L : std::exp(-std::abs(x));
                     }),
            most);
  for (T x = 0; x < T(1000); x += T(0.25))
    EXPECT_TRUE(get(x) == T(0) || get(x) >= Limits::min()) << x;
  EXPECT_EQ(get(Limits::infinity()), T(0));
  EXPECT_NE(get(Limits::quiet_NaN()), get(Limits::quiet_NaN()));
}

TEST(VectorFunctions, AreTheCLibrarys) {
  check_parts<double>(2.0);
  check_parts<float>(2.0);
  check<double>(2.0);
  check<float>(2.0);
}

}  // namespace
