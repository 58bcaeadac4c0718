// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instead of cudnn.cpp or miopen.cpp, in builds with neither library.
#include "vendor.hpp"

namespace shard::impl {

struct VendorConvolutionPlan {};

bool has_vendor_convolutions() { return false; }

const VendorConvolutionPlan* vendor_convolution_plan(const Kokkos::DefaultExecutionSpace&,
                                                     VendorPass, const VendorConvolution&,
                                                     ProductPrecision) {
  return nullptr;
}

bool run_vendor_convolution(const Kokkos::DefaultExecutionSpace&, const VendorConvolutionPlan&,
                            const float*, const float*, float*, bool) {
  return false;
}

}  // namespace shard::impl
