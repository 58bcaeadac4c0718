// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products by rocBLAS, which can be told not to add by atomics; hipBLASLt can't.
#define ROCBLAS_NO_DEPRECATED_WARNINGS  // rocblas_set_atomics_mode has one: its default will change
#include <rocblas/rocblas.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "library_product.hpp"
#include "vendor_library.hpp"

namespace shard::impl {

/// rocBLAS chooses an algorithm in each call.
struct VendorProductPlan {
  rocblas_math_mode math;
};

namespace {

/// rocBLAS' default. The algorithm may depend on it, so it is always the same.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;

void check(rocblas_status status, const char* function) {
  if (status != rocblas_status_success && status != rocblas_status_perf_degraded)
    throw_vendor("rocBLAS", function, rocblas_status_to_string(status));
}

rocblas_handle make_handle(hipStream_t stream) {
  rocblas_handle made = nullptr;
  check(rocblas_create_handle(&made), "rocblas_create_handle");
  rocblas_status status = rocblas_set_stream(made, stream);
  if (status == rocblas_status_success)
    status = rocblas_set_atomics_mode(made, rocblas_atomics_not_allowed);
  if (status != rocblas_status_success) rocblas_destroy_handle(made);
  check(status, "rocblas_set_stream or rocblas_set_atomics_mode");
  return made;
}

struct Rocblas {
  std::mutex mutex;
  VendorHandles<hipStream_t, rocblas_handle, make_handle, rocblas_destroy_handle> handles;

  void clear() { handles.clear(); }
};

/// True if rocBLAS' integers and those of start_product are long enough.
bool fits(const VendorProduct& v) {
  constexpr index_t most = std::numeric_limits<rocblas_int>::max();
  return std::max({v.m, v.n, v.k, v.a.leading, v.b.leading, v.leading_d, v.count}) <= most &&
         (v.bias == nullptr || v.m * v.n <= most);
}

/// Sets each d of a product that fits to its bias.
void start_from_bias(const Kokkos::DefaultExecutionSpace& space, const VendorProduct& v) {
  Product<float> p;
  p.rows      = v.m;
  p.columns   = v.n;
  p.c_row     = 1;
  p.start     = v.bias;
  p.start_row = 1;
  for (index_t i = 0; i < v.count; ++i) {
    p.c = v.d + i * v.batch_d;
    start_product(space, p, v.leading_d);
  }
}

}  // namespace

bool has_vendor_products() { return true; }

VendorProductPlan* vendor_product_plan(const VendorProduct& v, ProductPrecision precision) {
  // rounds to TF32 where the GPU has such instructions
  static VendorProductPlan plain{rocblas_default_math}, rounded{rocblas_xf32_xdl_math_op};
  if (!fits(v)) return nullptr;
  return precision == ProductPrecision::float32 ? &plain : &rounded;
}

void run_vendor_product(const Kokkos::DefaultExecutionSpace& space, VendorProductPlan& plan,
                        const VendorProduct& v) {
  Rocblas& rocblas = vendor_state<Rocblas>();
  const std::lock_guard lock(rocblas.mutex);
  const rocblas_handle handle =
      rocblas.handles.of(static_cast<hipStream_t>(stream_of(space).handle));
  if (v.bias != nullptr) start_from_bias(space, v);
  check(rocblas_set_workspace(handle, vendor_workspace(space, workspace_bytes), workspace_bytes),
        "rocblas_set_workspace");
  check(rocblas_set_math_mode(handle, plan.math), "rocblas_set_math_mode");
  const auto transposed = [](bool yes) {
    return yes ? rocblas_operation_transpose : rocblas_operation_none;
  };
  const auto narrow   = [](index_t extent) { return static_cast<rocblas_int>(extent); };
  const index_t calls = v.sums ? v.count : 1;
  for (index_t i = 0; i < calls; ++i) {
    const float one = 1.0F, beta = v.add || v.bias != nullptr || i > 0 ? 1.0F : 0.0F;
    check(rocblas_sgemm_strided_batched(
              handle, transposed(v.a.transposed), transposed(v.b.transposed), narrow(v.m),
              narrow(v.n), narrow(v.k), &one, v.a.origin + i * v.a.batch, narrow(v.a.leading),
              v.a.batch, v.b.origin + i * v.b.batch, narrow(v.b.leading), v.b.batch, &beta, v.d,
              narrow(v.leading_d), v.batch_d, narrow(v.sums ? 1 : v.count)),
          "rocblas_sgemm_strided_batched");
  }
}

}  // namespace shard::impl
