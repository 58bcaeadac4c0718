// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instead of cublaslt.cpp or rocblas.cpp, in builds with neither library.
#include "vendor.hpp"

namespace shard::impl {

struct VendorProductPlan {};

bool has_vendor_products() { return false; }

VendorProductPlan* vendor_product_plan(const VendorProduct&, ProductPrecision) { return nullptr; }

void run_vendor_product(const Kokkos::DefaultExecutionSpace&, VendorProductPlan&,
                        const VendorProduct&) {}

}  // namespace shard::impl
