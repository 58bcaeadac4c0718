// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/product_precision.hpp"

#include <atomic>

namespace shard {

namespace {
std::atomic<ProductPrecision> precision_of_products{ProductPrecision::float32};
}

void set_product_precision(ProductPrecision precision) { precision_of_products = precision; }

ProductPrecision product_precision() { return precision_of_products; }

}  // namespace shard
