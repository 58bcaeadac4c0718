// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_BFLOAT16_HPP
#define SHARD_SRC_LAYERS_BFLOAT16_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace shard::impl {

/// Rounds to bfloat16: 7 bits of mantissa, ties to even. The upper half of the result.
KOKKOS_INLINE_FUNCTION std::uint32_t bfloat16_bits(float value) {
  const auto bits = Kokkos::bit_cast<std::uint32_t>(value);
  return value == value ? (bits + 0x7fffU + (bits >> 16U & 1U)) & 0xffff0000U
                        : (bits | 0x400000U) & 0xffff0000U;  // a NaN stays one
}

/// Two values in bfloat16, the first in the lower half.
KOKKOS_INLINE_FUNCTION std::uint32_t bfloat16_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return bfloat16_bits(first) >> 16U | bfloat16_bits(second);
#endif
}

}  // namespace shard::impl

#endif
