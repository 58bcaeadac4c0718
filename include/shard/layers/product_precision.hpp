// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_PRODUCT_PRECISION_HPP
#define SHARD_LAYERS_PRODUCT_PRECISION_HPP

#include <cstdint>

namespace shard {

/// What the factors of float products may be rounded to on a device.
enum class ProductPrecision : std::uint8_t {
  float32,  ///< not at all
  tf32      ///< 10 bits of mantissa; products are then exact, and sums are float
};

/// Sets the precision of the process' products from here on: those of Linear and its gradients, and
/// of convolutions with more than 32 output channels per group and their gradients, in float on
/// NVIDIA GPUs with tensor cores (sm_80 and later). All other products, hosts and AMD GPUs keep
/// `float32`, the default. Results stay bitwise reproducible, on every number of ranks where they
/// were so before. Local; ranks should agree, as their results differ otherwise. Call it while no
/// layer is running.
void set_product_precision(ProductPrecision precision);

/// The precision that set_product_precision set last.
ProductPrecision product_precision();

}  // namespace shard

#endif
