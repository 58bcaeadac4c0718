// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instead of cublaslt.cpp, in builds without cuBLASLt.
#include "vendor.hpp"

namespace shard::impl {

bool has_vendor_products() { return false; }

bool run_vendor_product(const Kokkos::DefaultExecutionSpace&, const VendorProduct&,
                        ProductPrecision) {
  return false;
}

}  // namespace shard::impl
