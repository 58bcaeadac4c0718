// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_REDUCTION_ACCUMULATOR_HPP
#define SHARD_REDUCE_IMPL_REDUCTION_ACCUMULATOR_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "shard/base/types.hpp"

namespace shard::impl {

/// An exact sum of doubles, and of products of two: a fixed-point number wide enough for all of
/// them. Its 32-bit digits are stored in 64 bits, so that carries can be delayed. (U. Kulisch,
/// "Computer Arithmetic and Validity", 2nd ed. 2013: the long accumulator; S. Collange, D. Defour,
/// S. Graillat, R. Iakymchuk, "Numerical reproducibility for the parallel reduction on multi- and
/// many-core architectures", Parallel Computing 49, 2015.) Integer addition is associative, so the
/// sum doesn't depend on the order.
struct ExactSum {
  static constexpr int lowest = -2148;       ///< the last digit counts 2^lowest, the least product
  static constexpr int digits = 136;         ///< up to 2^2204: 2^150 of the greatest products
  static constexpr int width  = digits + 3;  ///< and the counts of NaN, +inf and -inf
  /// The largest number of terms between carries: a term adds less than 2^35 to a digit, a product
  /// of two 64-bit integers four times that.
  static constexpr index_t most_terms = index_t{1} << 24;

  KOKKOS_FUNCTION static void clear(index_t* sum) {
    for (int i = 0; i < width; ++i) sum[i] = 0;
  }

  KOKKOS_FUNCTION static void add(index_t* sum, double x) {
    const Parts p = parts(x);
    if (p.special)
      add_special(sum, x);
    else
      add_bits(sum, p.mantissa, p.exponent + 1073, p.negative);
  }

  KOKKOS_FUNCTION static void add_product(index_t* sum, double x, double y) {
    const Parts p = parts(x), q = parts(y);
    if (p.special || q.special) {
      add_special(sum, x * y);
      return;
    }
    // 53 x 53 bits, in halves
    constexpr std::uint64_t low = 0xffffffff;
    const std::uint64_t p0 = p.mantissa & low, p1 = p.mantissa >> 32, q0 = q.mantissa & low,
                        q1 = q.mantissa >> 32;
    const int position     = p.exponent + q.exponent - 2;
    const bool negative    = p.negative != q.negative;
    add_bits(sum, p0 * q0, position, negative);
    add_bits(sum, p0 * q1 + p1 * q0, position + 32, negative);
    add_bits(sum, p1 * q1, position + 64, negative);
  }

  /// Normalises all digits but the first, which has the sign, to [0, 2^32).
  KOKKOS_FUNCTION static void carry(index_t* sum) {
    for (int i = 0; i + 1 < digits; ++i) {
      sum[i + 1] += sum[i] >> 32;
      sum[i] &= 0xffffffff;
    }
  }

  /// The sum, rounded once (to nearest, ties to even); +0 for zero; infinities and NaNs as plain
  /// addition gives them. `sum` is carried.
  static double value(const index_t* sum);
  /// Its square root; no overflow or underflow before it.
  static double root(const index_t* sum);

 private:
  struct Parts {
    std::uint64_t mantissa;
    int exponent;  ///< the value is mantissa * 2^(exponent - 1075)
    bool negative, special;
  };

  KOKKOS_FUNCTION static Parts parts(double x) {
    const auto bits         = Kokkos::bit_cast<std::uint64_t>(x);
    const auto exponent     = static_cast<int>(bits >> 52 & 0x7ff);
    const std::uint64_t one = std::uint64_t{1} << 52, fraction = bits & (one - 1);
    return {exponent == 0 ? fraction : fraction | one, exponent == 0 ? 1 : exponent,
            (bits >> 63) != 0, exponent == 0x7ff};
  }

  KOKKOS_FUNCTION static void add_special(index_t* sum, double x) {
    ++sum[digits + (x != x ? 0 : x > 0.0 ? 1 : 2)];
  }

  /// Adds +-bits * 2^(lowest + position).
  KOKKOS_FUNCTION static void add_bits(index_t* sum, std::uint64_t bits, int position,
                                       bool negative) {
    constexpr std::uint64_t low = 0xffffffff;
    const int at = position / 32, shift = position % 32;
    const auto d0 = static_cast<index_t>(bits << shift & low),
               d1 = static_cast<index_t>(bits >> (32 - shift) & low),
               d2 = static_cast<index_t>(shift == 0 ? 0 : bits >> (64 - shift));
    sum[at] += negative ? -d0 : d0;
    sum[at + 1] += negative ? -d1 : d1;
    sum[at + 2] += negative ? -d2 : d2;
  }
};

}  // namespace shard::impl

#endif
