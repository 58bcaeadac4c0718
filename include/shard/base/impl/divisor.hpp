// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_DIVISOR_HPP
#define SHARD_BASE_IMPL_DIVISOR_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "shard/base/types.hpp"

namespace shard::impl {

/// Division of numbers below 2^31 by an invariant divisor, as a multiplication and a shift
/// (Granlund and Montgomery 1994), because devices have no division instruction.
struct Divisor {
  std::uint32_t divisor = 1, factor = 0;
  int shift = 0;

  static Divisor of(index_t n) {
    Divisor d;
    d.divisor = static_cast<std::uint32_t>(n > 0 ? n : 1);
    int bits  = 0;
    while ((std::uint64_t{1} << bits) < d.divisor) ++bits;
    const std::uint64_t power = std::uint64_t{1} << (31 + bits);
    d.factor                  = static_cast<std::uint32_t>((power + d.divisor - 1) / d.divisor);
    d.shift                   = bits - 1;
    return d;
  }
  KOKKOS_FORCEINLINE_FUNCTION std::uint32_t quotient(std::uint32_t n) const {
    if (divisor == 1) return n;
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    return __umulhi(n, factor) >> shift;  // else their compilers multiply 64 bits by 64
#else
    return static_cast<std::uint32_t>(std::uint64_t{n} * factor >> 32U) >> shift;
#endif
  }
};

}  // namespace shard::impl

#endif
