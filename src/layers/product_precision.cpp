// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/product_precision.hpp"

#include <atomic>

#include "shard/base/error.hpp"
#include "vendor.hpp"

namespace shard {

namespace {
std::atomic<ProductPrecision> precision_of_products{ProductPrecision::float32};
std::atomic<ProductLibrary> library_of_products{ProductLibrary::shard};
}  // namespace

void set_product_precision(ProductPrecision precision) { precision_of_products = precision; }

ProductPrecision product_precision() { return precision_of_products; }

void set_product_library(ProductLibrary library) {
  if (library == ProductLibrary::vendor && !impl::has_vendor_convolutions() &&
      !impl::has_vendor_products())
    impl::throw_argument("set_product_library",
                         {"this build has no such library; configure shard with "
                          "-DSHARD_ENABLE_CUDNN=ON and -DSHARD_ENABLE_CUBLASLT=ON for CUDA, or "
                          "-DSHARD_ENABLE_MIOPEN=ON and -DSHARD_ENABLE_ROCBLAS=ON for HIP"});
  library_of_products = library;
}

ProductLibrary product_library() { return library_of_products; }

}  // namespace shard
