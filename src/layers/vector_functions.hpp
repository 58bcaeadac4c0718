// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_VECTOR_FUNCTIONS_HPP
#define SHARD_SRC_LAYERS_VECTOR_FUNCTIONS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "shard/base/impl/fused.hpp"

/// \file
/// Functions without branches, so that compilers vectorise loops over them. They are accurate to a
/// few units in the last place for all arguments. At infinity they have their limits; NaN gives
/// NaN.

namespace shard::impl {

/// Horner's scheme: ((c0 r + c1) r + c2) r + ...
template <class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION T horner(T r, T sum, Rest... rest) {
  ((sum = multiplied_and_added(static_cast<T>(rest), sum, r)), ...);
  return sum;
}

/// The format of a floating-point type.
template <class T>
struct FloatBits;
template <>
struct FloatBits<double> {
  using type                    = std::uint64_t;
  static constexpr int fraction = 52;
  static constexpr type bias = 1023, sign = type{1} << 63;
  static constexpr double round =
      0x1.8p52;  ///< x + round has x, rounded to an integer, in its low bits
  static constexpr double beyond    = 746.0;     ///< exp of it overflows; exp(-beyond) is 0
  static constexpr double normal    = 708.0;     ///< exp(-normal) isn't denormal
  static constexpr type up          = 128;       ///< exp(-beyond) 2^up is normal
  static constexpr double down      = 0x1p-128;  ///< 2^-up
  static constexpr double log2_e    = 1.4426950408889634;
  static constexpr double ln_2_high = 0x1.62e42fefap-1, ln_2_low = 0x1.cf79abc9e3b3ap-40;
};
template <>
struct FloatBits<float> {
  using type                    = std::uint32_t;
  static constexpr int fraction = 23;
  static constexpr type bias = 127, sign = type{1} << 31;
  static constexpr float round     = 0x1.8p23f;
  static constexpr float beyond    = 105.0f;
  static constexpr float normal    = 87.0f;
  static constexpr type up         = 64;
  static constexpr float down      = 0x1p-64f;
  static constexpr float log2_e    = 1.44269504f;
  static constexpr float ln_2_high = 0x1.62e4p-1f, ln_2_low = 0x1.7f7d1cp-20f;
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION typename FloatBits<T>::type bits_of(T x) {
  return Kokkos::bit_cast<typename FloatBits<T>::type>(x);
}

/// Clamps x to [-limit, limit]; NaN becomes the limit. Compares the bits, whose order is that of
/// the magnitudes, because compilers make branches of floating-point comparisons.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T held(T x, T limit) {
  using B         = FloatBits<T>;
  const auto bits = bits_of(x), most = bits_of(limit), size = bits & ~B::sign;
  return Kokkos::bit_cast<T>((bits & B::sign) | (size < most ? size : most));
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T magnitude(T x) {
  return Kokkos::bit_cast<T>(bits_of(x) & ~FloatBits<T>::sign);
}
/// `value` if the condition holds, else 0. Masks the bits, because compilers make a branch of a
/// value that only one case needs, and then don't vectorise.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T value_if(bool condition, T value) {
  using Bits = typename FloatBits<T>::type;
  return Kokkos::bit_cast<T>(bits_of(value) & (Bits(0) - static_cast<Bits>(condition)));
}
/// 2^n for shifted = n + FloatBits::round.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T power_of_two(T shifted) {
  using B = FloatBits<T>;
  return Kokkos::bit_cast<T>((bits_of(shifted) + B::bias) << B::fraction);
}

/// Whether multiplied_and_added rounds once.
#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__ARM_FEATURE_FMA)
inline constexpr bool adds_exact_products = true;
#else
inline constexpr bool adds_exact_products = false;
#endif

/// (exp(r) - 1) / r of |r| <= ln 2 / 2: 1 + r times a Chebyshev fit of the rest in 50 digits.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exp_factor(T r) {
  if constexpr (sizeof(T) == 8)
    return horner(r, T(2.0914717341716375952e-9), 2.5105259538448493419e-8,
                  2.7557273570102139673e-7, 2.7557255297969644392e-6, 2.4801587325605322782e-5,
                  1.9841269874901259234e-4, 1.3888888888883731828e-3, 8.3333333333261120526e-3,
                  4.1666666666666669767e-2, 1.6666666666666671008e-1, 0.5, 1.0);
  else
    return horner(r, T(1.3926213466332443e-3), 8.3632029715758549e-3, 4.1666554437685939e-2,
                  1.6666576845993976e-1, 0.5, 1.0);
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exp_polynomial(T r) {
  return multiplied_and_added(T(1), r, exp_factor(r));
}

/// exp(x) = p 2^n, where shifted = n + FloatBits::round.
template <class T>
struct ScaledPower {
  T p, shifted;

  /// For |x| <= `beyond`.
  KOKKOS_FORCEINLINE_FUNCTION static ScaledPower of(T x) {
    using B         = FloatBits<T>;
    const T shifted = multiplied_and_added(B::round, x, B::log2_e), n = shifted - B::round;
    const T r = multiplied_and_added(multiplied_and_added(x, -n, B::ln_2_high), -n, B::ln_2_low);
    return {exp_polynomial(r), shifted};
  }
  /// exp(-x^2 / 2). The rounding error of x^2 would be multiplied by x^2.
  KOKKOS_FORCEINLINE_FUNCTION static ScaledPower of_square(T x) {
    using B      = FloatBits<T>;
    const T half = T(-0.5) * x, square = half * x;
    const T shifted = multiplied_and_added(B::round, square, B::log2_e), n = shifted - B::round;
    T rest;
    if constexpr (adds_exact_products) {
      rest = multiplied_and_added(-n * B::ln_2_high, half, x);  // n ln_2_high is exact
    } else {                                                    // Dekker's product
      constexpr int low_bits = sizeof(T) == 8 ? 27 : 12;
      const T high = Kokkos::bit_cast<T>(bits_of(half) >> low_bits << low_bits), low = half - high;
      const T lacks = ((T(-2) * high * high - square) - T(4) * high * low) - T(2) * low * low;
      rest          = (square - n * B::ln_2_high) + lacks;
    }
    return {exp_polynomial(multiplied_and_added(rest, -n, B::ln_2_low)), shifted};
  }
  /// times 2^`up`, which keeps the product normal
  KOKKOS_FORCEINLINE_FUNCTION T raised() const {
    using B = FloatBits<T>;
    return p * Kokkos::bit_cast<T>((bits_of(shifted) + (B::bias + B::up)) << B::fraction);
  }
  KOKKOS_FORCEINLINE_FUNCTION T normal() const { return p * power_of_two(shifted); }
};

/// x, but at least -`limit`. NaN stays.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T not_below(T x, T limit) {
  return x < -limit ? -limit : x;
}

/// exp(x) of x <= 0. A device has instructions for it.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exponential(T x) {
  KOKKOS_IF_ON_DEVICE((return Kokkos::exp(x);))
  KOKKOS_IF_ON_HOST((using B = FloatBits<T>;
                     return ScaledPower<T>::of(not_below(x, B::beyond)).raised() * B::down;))
}

/// exp(x) of x <= 0 for a sum with a term of 1: 0 in place of values below 1e-37 (double: 1e-307).
/// Processors take a hundred cycles for a denormal result.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exponential_of_part(T x) {
  T p = 0;
  KOKKOS_IF_ON_DEVICE((p = Kokkos::exp(x);))
  KOKKOS_IF_ON_HOST((p = ScaledPower<T>::of(not_below(x, FloatBits<T>::normal)).normal();))
  return value_if(!(x < -FloatBits<T>::normal), p);
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION T sigmoid(T x) {
  const T e = exponential(-magnitude(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

/// Phi(x), the probability that a standard normal number is below x, and exp(-x^2 / 2). Phi has
/// all its digits where it is small.
template <class T>
struct NormalPart {
  static constexpr bool is_double = sizeof(T) == 8;
  static constexpr T end          = is_double ? T(39) : T(15);  ///< Phi(-end) is 0

  T x, size, tail, bell;  ///< size = |x|; Phi(-size) and exp(-x^2 / 2), both times 2^up

  /// Phi(-size) is exp(-x^2 / 2) s times a polynomial in a - b s, s = 1 / (size + c). The
  /// coefficients are a Chebyshev fit in 50 digits.
  KOKKOS_FORCEINLINE_FUNCTION explicit NormalPart(T of)
      : x(of), size(-not_below(-magnitude(of), end)) {
    const T s = T(1) / (size + T(is_double ? 5.5 : 4.0));
    if constexpr (is_double)
      tail = horner(multiplied_and_added(T(1.25), T(-12.5), s), T(-1.3165873437498420131e-11),
                    -1.8078457822397041687e-10, 5.2013691804583834048e-11, 2.56284936220922284e-9,
                    -2.2649009236681054248e-10, -2.5529778117224021211e-8, 1.1409439746672272704e-8,
                    2.4099746163872049396e-7, -3.2877388346244172188e-7, -2.1032336798985821023e-6,
                    6.8516682131171076685e-6, 0.000010398197867886859343,
                    -0.00010829331187061513436, 0.00019904802243136217748, 0.0007349076175967189313,
                    -0.0064324271813590182409, 0.025773636806992037704, -0.073786493096272295401,
                    0.16791028019970941603, -0.3176479826596041533, 0.51106622717884631376,
                    -0.70773413644408624085, 0.8480339210780034784);
    else
      tail = horner(multiplied_and_added(T(1.5), T(-10), s), T(-0.000016852161246882724997),
                    0.000069625717101105765746, 0.0002272648351325845947, -0.0014204419047435085974,
                    -0.00068617418274459775731, 0.02679050546782716325, -0.12145222498797574716,
                    0.32899555045651337779, -0.6296958602842157317, 0.89394092437745498079);
    bell = ScaledPower<T>::of_square(size).raised();
    tail = bell * (s * tail);
  }
  /// Phi(x) where |x| < 1: 1/2 + an odd polynomial, from such a fit
  KOKKOS_FORCEINLINE_FUNCTION T near() const {
    const T w = x * x;
    T q;
    if constexpr (is_double)
      q = horner(w, T(-9.0261099045655837152e-11), 2.2270765391721187317e-9,
                 -4.1173089319651835544e-8, 6.6593169039810418694e-7, -9.4446398086767737887e-6,
                 0.00011543468323083615417, -0.0011873282148079404685, 0.0099735570099833825727,
                 -0.066490380066903859096, 0.39894228040143267001);
    else
      q = horner(w, T(0.000094317371744626867751), -0.0011695192741286921535,
                 0.0099673015175148008704, -0.066489603999776875546, 0.39894226490241640562);
    return multiplied_and_added(T(0.5), x, q);
  }
  /// x Phi(x) = max(x, 0) - |x| Phi(-|x|)
  KOKKOS_FORCEINLINE_FUNCTION T product() const {
    const T far = (x < T(0) ? T(0) : x) - size * tail * FloatBits<T>::down;
    return size < T(1) ? x * near() : far;
  }
  /// Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi), the derivative of the product
  KOKKOS_FORCEINLINE_FUNCTION T slope() const {
    constexpr T inverse_root_two_pi = static_cast<T>(0.39894228040143267794) * FloatBits<T>::down;
    const T small = tail * FloatBits<T>::down, far = x < T(0) ? small : T(1) - small;
    return multiplied_and_added(size < T(1) ? near() : far, x, inverse_root_two_pi * bell);
  }
};

/// x Phi(x) = max(x, 0) - |x| (1/2 - |x| r(x^2)) to an absolute error of 1e-6. r is a quotient of
/// polynomials by weighted least squares, nearly minimax, up to |x| = 5.4, beyond which the second
/// term is less than 1e-6.
KOKKOS_FORCEINLINE_FUNCTION float gelu_fit(float x) {
  const float size = -not_below(-magnitude(x), 5.4F), w = size * size;
  const float p = horner(w, 2.278002636617994e-08F, 6.487589813586586e-06, 1.7609306891053252e-04,
                         4.721387493895551e-03, 3.4476722653320586e-02, 3.989420616717019e-01);
  const float q = horner(w, 1.2085375020485236e-06F, 7.64453105006218e-05, 1.924552296194391e-03,
                         2.9018896238317823e-02, 2.5308466610401703e-01, 1.0);
  return (x < 0.0F ? 0.0F : x) - size * (0.5F - size * p / q);
}

/// tanh(x) = -e / (2 + e), e = exp(-2 |x|) - 1 without cancellation, with the sign of x.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T tanh_fit(T x) {
  using B         = FloatBits<T>;
  const T y       = not_below(T(-2) * magnitude(x), T(64));  // beyond, it is 1
  const T shifted = multiplied_and_added(B::round, y, B::log2_e), n = shifted - B::round;
  const T r     = multiplied_and_added(multiplied_and_added(y, -n, B::ln_2_high), -n, B::ln_2_low);
  const T power = power_of_two(shifted);
  const T e     = multiplied_and_added(power - T(1), power, r * exp_factor(r));
  const T size  = -e / (T(2) + e);
  return Kokkos::bit_cast<T>(bits_of(size) | (bits_of(x) & B::sign));
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION T tanh_of(T x) {
  KOKKOS_IF_ON_DEVICE((return Kokkos::tanh(x);))
  KOKKOS_IF_ON_HOST((return tanh_fit(x);))
}

}  // namespace shard::impl

#endif
