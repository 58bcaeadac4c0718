// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_OPTIMISER_KERNELS_HPP
#define SHARD_MODEL_OPTIMISER_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"

namespace shard {

/// 16-bit floating-point formats.
enum class LowPrecision {
  half,     ///< IEEE: 10 bits of fraction, up to 65504
  bfloat16  ///< 7 bits of fraction, float's range
};

namespace impl {

struct AdamStep {
  double beta1, beta2, rate, root_correction, eps;
  double l2   = 0.0;  ///< times the parameter is added to its gradient
  double keep = 1.0;  ///< of the parameter, before the step
};

struct SgdStep {
  double rate, momentum, damped, l2;
  bool nesterov, first;
};

/// Number of blocks of a sum; depends only on the number of values.
constexpr index_t sum_blocks(index_t count) {
  return count < 1024 * 1024 ? (count + 1023) / 1024 : 1024;
}

/// Kernels over all parameters, compiled in src/model for float and double and Kokkos' default
/// spaces.
template <class Space, class T>
struct OptimiserKernels {
  static void adam(const Space& space, T* values, const T* gradients, T* mean, T* square,
                   index_t count, const AdamStep& step);
  /// `velocity` is null without momentum.
  static void sgd(const Space& space, T* values, const T* gradients, T* velocity, index_t count,
                  const SgdStep& step);
  static void scale(const Space& space, T* values, index_t count, double factor);
  /// average += rate (values - average)
  static void average(const Space& space, T* average, const T* values, index_t count, double rate);
  static void swap(const Space& space, T* some, T* others, index_t count);
  /// sums[b] = the sum of the squares of block b of sum_blocks(count).
  static void squares(const Space& space, double* sums, const T* values, index_t count);
  static void round(const Space& space, T* to, const T* from, index_t count, LowPrecision format);
};

/// Conversion to two-byte values, rounded, and back.
template <class Space, class T>
struct NarrowKernels {
  static void narrow(const Space& space, std::uint16_t* to, const T* from, index_t count,
                     LowPrecision format);
  static void widen(const Space& space, T* to, const std::uint16_t* from, index_t count,
                    LowPrecision format);
};

/// Throws ArgumentError unless both have the optimiser's number of values.
template <class View>
void require_counts(const char* name, std::size_t count, const View& values,
                    const View& gradients) {
  if (values.extent(0) != count || gradients.extent(0) != count)
    throw_argument(name, {"made for ", text(static_cast<index_t>(count)), " parameters, given ",
                          text(static_cast<index_t>(values.extent(0))), " and ",
                          text(static_cast<index_t>(gradients.extent(0))), " gradients"});
}

}  // namespace impl
}  // namespace shard

#endif
