// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_IMPL_FUSED_HPP
#define SHARD_BASE_IMPL_FUSED_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace shard::impl {

/// sum + c x, with an explicit fused multiply-add where the machine has it. Compilers decide per
/// loop, and a point must have bitwise the same value in each.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T multiplied_and_added(T sum, T c, T x) {
#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__ARM_FEATURE_FMA) || \
    defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  if constexpr (std::is_floating_point_v<T>) return Kokkos::fma(c, x, sum);
#endif
  return static_cast<T>(sum + c * x);
}

}  // namespace shard::impl

#endif
