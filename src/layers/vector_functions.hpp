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
  static constexpr double beyond    = 746.0;  ///< exp of it overflows; exp(-beyond) is 0
  static constexpr double normal    = 708.0;  ///< exp(-normal) isn't denormal
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

/// exp(x) by x = n ln 2 + r and Taylor's series in r (|r| <= ln 2 / 2). 2^n is two factors, because
/// it may overflow or be denormal when exp(x) is not.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exp_series(T x) {
  using B   = FloatBits<T>;
  const T y = held(x, B::beyond);
  const T n = multiplied_and_added(B::round, y, B::log2_e) - B::round;
  const T r = multiplied_and_added(multiplied_and_added(y, -n, B::ln_2_high), -n, B::ln_2_low);
  const T shifted = multiplied_and_added(B::round, n, T(0.5));
  T p;
  if constexpr (sizeof(T) == 8)
    p = horner(r, T(1.0 / 6227020800.0), 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
               1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
               1.0 / 6.0, 0.5, 1.0, 1.0);
  else
    p = horner(r, T(1.0 / 5040.0), 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0);
  p = p * power_of_two(shifted) * power_of_two((n - (shifted - B::round)) + B::round);
  return x == x ? p : x;
}

/// exp(x). A device has instructions for it.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exponential(T x) {
  KOKKOS_IF_ON_DEVICE((return Kokkos::exp(x);))
  KOKKOS_IF_ON_HOST((return exp_series(x);))
}

/// exp(x) of x <= 0 for a sum with a term of 1: 0 in place of values below 1e-37 (double: 1e-307).
/// Processors take a hundred cycles for a denormal result.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exponential_of_part(T x) {
  const T p = exponential(held(x, FloatBits<T>::normal));
  return value_if(!(x < -FloatBits<T>::normal), x == x ? p : x);
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION T sigmoid(T x) {
  const T e = exponential(-magnitude(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

/// erfc(x), which has all its digits where it is small. For z = |x|: exp(-z^2) / (1 + 2 z) times a
/// polynomial in a - b / (z + 3.75), the form of Schonfelder (1978). The coefficients are a
/// Chebyshev fit in 50 digits, to z = 27 (double) and 10 (float). Near 0 it is 1 - erf(x), an odd
/// polynomial from such a fit. Also sets `bell` to exp(-x^2).
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T erfc_fit(T x, T& bell) {
  constexpr bool is_double = sizeof(T) == 8;
  const T z                = held(x, T(is_double ? 27.5 : 10.5));
  const T size             = magnitude(z);
  // the rounding error of z^2, by Dekker's product
  const T high =
      Kokkos::bit_cast<T>(bits_of(size) >> (is_double ? 27 : 12) << (is_double ? 27 : 12));
  const T low = size - high, square = size * size;
  const T lacks = ((high * high - square) + T(2) * high * low) + low * low;
  T p;
  if constexpr (is_double)
    p = horner(T(23.0 / 18.0) - T(205.0 / 24.0) / (size + T(3.75)), T(-1.3054612474745166737e-10),
               3.6607664122614668488e-10, 1.9498771872109278443e-9, -5.0913194861553904265e-9,
               -1.9022579519058616065e-8, 5.2593998755448821867e-8, 1.5966843522929756084e-7,
               -5.8497397500655394903e-7, -1.0753749026556024626e-6, 7.1270372364205967699e-6,
               4.5679864931471175223e-7, -0.000079575204435250641198, 0.0001960156341429894519,
               0.00035477456757676676342, -0.004022485074237920175, 0.015581965112181758152,
               -0.039966600143602960752, 0.075752230020159236432, -0.1070726792221131627,
               0.10251930357124593096, -0.029382038105664482554, -0.11989106826216988643,
               1.254492482759117972);
  else
    p = horner(T(1.75) - T(10.3125) / (size + T(3.75)), T(0.000046146242037093802015),
               -0.000038463376881141154847, -0.0009350159896839966304, 0.0057261856807007353652,
               -0.020063854964201747075, 0.049795097929493187398, -0.09074483806626002802,
               0.11533066490619099556, -0.072410871532617873673, -0.081333055536163652621,
               1.2735888588829613295);
  bell         = exponential(-square) * (T(1) - lacks);
  const T tail = bell * p / (T(1) + T(2) * size);
  T q;
  if constexpr (is_double)
    q = horner(square, T(1.1473938021612258515e-8), -1.5940471584583340119e-7,
               1.6430732584664375903e-6, -0.000014924199510852599903, 0.00012055289695813212068,
               -0.0008548326191937064021, 0.0052239776154684562422, -0.026866170644432635362,
               0.11283791670952614327, -0.37612638903183717234, 1.1283791670955125731);
  else
    q = horner(square, T(-0.00067587879915492206019), 0.0051156572361152851632,
               -0.026835274908785990357, 0.11283389768100115118, -0.37612619697373667742,
               1.1283791656045392807);
  const T near = T(1) - z * q, far = z < T(0) ? T(2) - tail : tail;
  const T all = size < T(0.75) ? near : far;
  return x == x ? all : x;
}

/// tanh(x) = 1 - 2 / (exp(2 |x|) + 1) with the sign of x. Near 0, where this cancels, it is an odd
/// polynomial (a Chebyshev fit in 50 digits).
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T tanh_fit(T x) {
  const T size = magnitude(x), far = T(1) - T(2) / (exponential(T(2) * size) + T(1));
  const T square = x * x;
  T p;
  if constexpr (sizeof(T) == 8)
    p = horner(square, T(-0.000020619991569368582264), 0.000085139229126171602047,
               -0.00023465154066026223894, 0.00058894204157954450086, -0.0014556631208771447821,
               0.0035921105508989833129, -0.0088632344118062875081, 0.021869488494320198351,
               -0.053968253967449511708, 0.13333333333332729097, -0.33333333333333332582);
  else
    p = horner(square, T(-0.006615754700143144961), 0.021312744500985254276,
               -0.053910066514344587502, 0.133331176166898393, -0.33333332045208290726);
  const T near = x + x * square * p, away = x < T(0) ? -far : far;
  return size < T(0.55) ? near : away;
}

/// erfc(x), and exp(-x^2).
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T erfc_of(T x, T& bell) {
  KOKKOS_IF_ON_DEVICE((bell = Kokkos::exp(-x * x); return Kokkos::erfc(x);))
  KOKKOS_IF_ON_HOST((return erfc_fit(x, bell);))
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T erfc_of(T x) {
  T bell;
  KOKKOS_IF_ON_DEVICE((static_cast<void>(bell); return Kokkos::erfc(x);))
  KOKKOS_IF_ON_HOST((return erfc_fit(x, bell);))
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T tanh_of(T x) {
  KOKKOS_IF_ON_DEVICE((return Kokkos::tanh(x);))
  KOKKOS_IF_ON_HOST((return tanh_fit(x);))
}

}  // namespace shard::impl

#endif
