// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layers' functions of vectors against the C library's in long double.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../src/layers/normal_numbers.hpp"
#include "../../src/layers/vector_functions.hpp"

namespace {

using namespace shard::impl;
using shard::index_t;

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
  const auto negative  = [](const auto& f) { return [&f](auto x) { return f(-std::abs(x)); }; };
  EXPECT_LE(worst<T>(negative([](T x) { return exponential(x); }),
                     negative([](long double x) { return std::exp(x); })),
            most);
  EXPECT_LE(worst<T>([](T x) { return sigmoid(x); },
                     [](long double x) { return 1.0L / (1.0L + std::exp(-x)); }),
            most + 0.5);
  EXPECT_LE(worst<T>([](T x) { return tanh_of(x); }, [](long double x) { return std::tanh(x); }),
            most + 1.0);
  const auto below = [](long double x) { return 0.5L * std::erfc(-x / std::sqrt(2.0L)); };
  EXPECT_LE(
      worst<T>([](T x) { return NormalPart<T>(x).product(); },
               [&](long double x) { return std::isinf(x * x) ? std::max(x, 0.0L) : x * below(x); }),
      3.5 * most);
  // the derivative has a zero at -0.75
  EXPECT_LE(worst<T>([](T x) { return x > T(-0.6) ? NormalPart<T>(x).slope() : T(1); },
                     [&](long double x) {
                       const long double root = std::sqrt(2.0L * std::acos(-1.0L));
                       return x > T(-0.6) ? below(x) + x * std::exp(-0.5L * x * x) / root : 1.0L;
                     }),
            3.5 * most);
  EXPECT_EQ(exponential(-infinity), T(0));
  EXPECT_EQ(sigmoid(infinity), T(1));
  EXPECT_EQ(sigmoid(-infinity), T(0));
  EXPECT_EQ(tanh_of(infinity), T(1));
  EXPECT_EQ(tanh_of(-infinity), T(-1));
  EXPECT_EQ(NormalPart<T>(infinity).product(), infinity);
  EXPECT_EQ(NormalPart<T>(-infinity).product(), T(0));
  for (const T y : {exponential(nan), exponential_of_part(nan), sigmoid(nan), tanh_of(nan),
                    NormalPart<T>(nan).product(), NormalPart<T>(nan).slope()})
    EXPECT_NE(y, y);
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

/// sqrt(-2 log u) cos(2 pi t) in long double; t is first reduced to an eighth of a turn.
long double normal_number(std::uint64_t key, std::uint64_t index) {
  const long double u   = ((counter_hash(key, 2 * index) >> 11) + 1) * 0x1p-53L,
                    t   = (counter_hash(key, 2 * index + 1) >> 11) * 0x1p-53L;
  const long double far = std::round(4 * t), angle = std::acos(-1.0L) / 2 * (4 * t - far);
  const long double turned[] = {std::cos(angle), -std::sin(angle), -std::cos(angle),
                                std::sin(angle)};
  return std::sqrt(-2 * std::log(u)) * turned[static_cast<int>(far) % 4];
}

/// Blocks of any length at any place give the same numbers.
template <class T>
void check_normal(double most) {
  constexpr std::uint64_t key = 77, begin = 12345678901;
  constexpr index_t count = 40000;
  NormalNumbers<T> numbers;
  T drawn[NormalNumbers<T>::width];
  std::vector<T> all;
  for (index_t i = 0, n = 64; i < count; i += n, n = 1 + (i + n) % 64) {
    numbers.draw(key, begin + static_cast<std::uint64_t>(i), n, drawn);
    all.insert(all.end(), drawn, drawn + n);
  }
  double worst = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const long double exact = normal_number(key, begin + i);
    const T size            = static_cast<T>(std::abs(exact));
    const double unit       = static_cast<double>(std::nextafter(size, T(1e9)) - size);
    worst                   = std::max(worst, static_cast<double>(std::abs(all[i] - exact)) / unit);
    numbers.draw(key, begin + i, 1, drawn);
    EXPECT_EQ(drawn[0], all[i]);
  }
  EXPECT_LE(worst, most);
}

TEST(VectorFunctions, NormalNumbersAreThoseOfTheCLibrary) {
  check_normal<double>(5.0);
  check_normal<float>(5.0);
}

TEST(VectorFunctions, FastGeluHasAnAbsoluteError) {
  for (int i = -80000; i <= 80000; ++i) {
    const float x         = static_cast<float>(i) * 1e-4F;
    const long double phi = 0.5L * std::erfc(-x / std::sqrt(2.0L));
    EXPECT_NEAR(gelu_fit(x), static_cast<double>(x * phi), 1e-6) << x;
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(gelu_fit(infinity), infinity);
  EXPECT_NEAR(gelu_fit(-infinity), 0.0F, 1e-6);
  EXPECT_NE(gelu_fit(std::nanf("")), gelu_fit(std::nanf("")));
}

TEST(VectorFunctions, AreTheCLibrarys) {
  check_parts<double>(2.0);
  check_parts<float>(2.0);
  check<double>(2.0);
  check<float>(2.0);
}

}  // namespace
