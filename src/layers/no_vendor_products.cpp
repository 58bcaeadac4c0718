// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instead of cublaslt.cpp or rocblas.cpp, in builds with neither library.
#include "vendor.hpp"

namespace shard::impl {

bool has_vendor_products() { return false; }

bool run_vendor_product(const Kokkos::DefaultExecutionSpace&, const VendorProduct&,
                        ProductPrecision) {
  return false;
}

}  // namespace shard::impl
