// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_NORMAL_NUMBERS_HPP
#define SHARD_SRC_LAYERS_NORMAL_NUMBERS_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "shard/layers/parameters.hpp"
#include "vector_functions.hpp"

namespace shard::impl {

/// Standard normal numbers on a host: sqrt(-2 log u) cos(2 pi t) of two uniform numbers of 53 bits,
/// u in (0, 1] and t in [0, 1) (Box and Muller 1958). All polynomials are Chebyshev fits in 50
/// digits. Loops over a few numbers without branches or calls, so that compilers vectorise them.
template <class T>
class NormalNumbers {
 public:
  static constexpr index_t width = 64;

  /// to[i] = number first + i of the stream `key`, for i < count <= width.
  void draw(std::uint64_t key, std::uint64_t first, index_t count, T* to) {
    const index_t whole = (count + 15) & ~index_t{15};  // the compiler knows that nothing is left
    take(key, first, whole);
    map(whole, to);
  }

 private:
  using Bits = typename FloatBits<T>::type;

  /// The double 2^52 + n for n < 2^52. Not every processor converts 64-bit integers.
  static double above_2_52(std::uint64_t n) {
    return Kokkos::bit_cast<double>(n | 0x4330000000000000ULL);
  }

  /// Takes the uniform numbers apart: u = (1 + fraction) 2^exponent, 1 + fraction in
  /// [sqrt(1/2), sqrt(2)); 4 t = quarter + turn, turn in [-1/2, 1/2].
  void take(std::uint64_t key, std::uint64_t first, index_t count) {
    constexpr std::uint64_t one = 0x3ff0000000000000ULL, root_half = 0x3fe6a09e667f3bcdULL,
                            exponents = 0xfff0000000000000ULL;
    for (index_t i = 0; i < count; ++i) {
      const std::uint64_t index = 2 * (first + static_cast<std::uint64_t>(i));
      const std::uint64_t n     = (counter_hash(key, index) >> 11) + 1;  // 2^53 u
      const double high =
          Kokkos::bit_cast<double>(n >> 32 | 0x4530000000000000ULL) - 0x1.00000001p84;
      const auto bits = Kokkos::bit_cast<std::uint64_t>(high + above_2_52(n & 0xffffffffULL));
      const std::uint64_t power = (bits - root_half + one) & exponents;
      fraction_[i]             = static_cast<T>(Kokkos::bit_cast<double>(bits - power + one) - 1.0);
      exponent_[i]             = static_cast<T>(above_2_52(power >> 52) - (0x1p52 + 1023 + 53));
      const std::uint64_t turn = (counter_hash(key, index + 1) >> 11) + (1ULL << 50);
      turn_[i] =
          static_cast<T>((above_2_52(turn & ((1ULL << 51) - 1)) - (0x1p52 + 0x1p50)) * 0x1p-51);
      quarter_[i] = static_cast<Bits>(turn >> 51);
    }
  }

  /// log(1 + f) = 2 s + 2 s^3 (1/3 + s^2 / 5 + ...), s = f / (2 + f)
  static T log_of(T f) {
    const T s = f / (T(2) + f), w = s * s, twice = s + s;
    T rest;
    if constexpr (sizeof(T) == 8)
      rest = horner(w, T(0.065433835049740868565), 0.066343798342803063431, 0.076931201029067389396,
                    0.090908978154423766, 0.11111111195900234665, 0.14285714285401615007,
                    0.20000000000000438803, 0.33333333333333333232);
    else
      rest = horner(w, T(0.14790026521594221072), 0.19994389141081403864, 0.33333342522578014533);
    return multiplied_and_added(twice, twice * w, rest);
  }
  /// cos(pi / 2 (turn + quarter))
  static T cosine(T turn, Bits quarter) {
    const T w = turn * turn;
    T even, odd;
    if constexpr (sizeof(T) == 8) {
      even = horner(w, T(-6.3293963449674235121e-9), 4.7106784055052271063e-7,
                    -0.000025202039028029176105, 0.00091926027454684461873,
                    -0.020863480763340772521, 0.25366950790104782321, -1.2337005501361698269, 1.0);
      odd  = horner(w, T(5.6339337815378539538e-8), -3.598643352982309702e-6,
                    0.00016044115074219091052, -0.0046817541323409759917, 0.079692626246043003134,
                    -0.64596409750624431573, 1.5707963267948966143);
    } else {
      even = horner(w, T(0.00090673989840326650869), -0.020861528342199968579,
                    0.25366941035710849881, -1.2337005493742193572, 1.0);
      odd = horner(w, T(-0.0046021492128141759311), 0.079680217647755413373, -0.6459634776648117955,
                   1.5707963219532366854);
    }
    const T value   = (quarter & 1) != 0 ? turn * odd : even;
    const Bits sign = (quarter + 1) << (sizeof(T) == 8 ? 62 : 30) & FloatBits<T>::sign;
    return Kokkos::bit_cast<T>(bits_of(value) ^ sign);
  }
  void map(index_t count, T* to) const {
    constexpr T ln_2 = static_cast<T>(0.69314718055994530942);
    for (index_t i = 0; i < count; ++i) {
      const T log = multiplied_and_added(log_of(fraction_[i]), exponent_[i], ln_2);
      to[i]       = std::sqrt(T(-2) * log) * cosine(turn_[i], quarter_[i]);
    }
  }

  T fraction_[width], exponent_[width], turn_[width];
  Bits quarter_[width];
};

}  // namespace shard::impl

#endif
