// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products by cuBLASLt. The heuristics choose an algorithm once for each shape; the same
// algorithm adds in the same order. Algorithms that divide a sum add its parts in a separate step.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>

#include "vendor_library.hpp"

namespace shard::impl {

namespace {

/// NVIDIA's recommendation for Hopper. The algorithm depends on it, so it is always the same.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;

void check(cublasStatus_t status, const char* function) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw_vendor("cuBLASLt", function, cublasLtGetStatusString(status));
}

/// The alignment in bytes, at most 256, of an address and of those `step` floats further on.
std::uint32_t alignment(const float* address, index_t step) {
  const auto bits = static_cast<std::uint32_t>(
      (reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uintptr_t>(4 * step)) % 256);
  return bits == 0 ? 256 : bits & -bits;
}

cublasComputeType_t compute_type(ProductPrecision precision) {
  switch (precision) {
    case ProductPrecision::tf32: return CUBLAS_COMPUTE_32F_FAST_TF32;
    case ProductPrecision::bfloat16: return CUBLAS_COMPUTE_32F_FAST_16BF;
    case ProductPrecision::float32: break;
  }
  return CUBLAS_COMPUTE_32F;
}

/// A matrix in memory, `count` of them.
class Layout {
 public:
  Layout(index_t rows, index_t columns, index_t leading, index_t count, index_t step) {
    check(cublasLtMatrixLayoutCreate(&handle_, CUDA_R_32F, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), leading),
          "cublasLtMatrixLayoutCreate");
    if (count == 1) return;
    const auto batch = static_cast<std::int32_t>(count);
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(step));
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(handle_); }
  Layout(const Layout&)            = delete;
  Layout& operator=(const Layout&) = delete;
  operator cublasLtMatrixLayout_t() const { return handle_; }  // NOLINT: stands for its handle

 private:
  template <class Value>
  void set(cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
    check(cublasLtMatrixLayoutSetAttribute(handle_, attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute");
  }
  cublasLtMatrixLayout_t handle_ = nullptr;
};

}  // namespace

/// The description of a product, with the algorithm that the heuristics chose.
struct VendorProductPlan {
  cublasLtMatmulDesc_t product = nullptr;
  Layout a, b, d;
  cublasLtMatmulHeuristicResult_t chosen{};
  bool supported = false;

  VendorProductPlan(cublasLtHandle_t handle, const VendorProduct& v, ProductPrecision precision)
      : a(v.a.transposed ? v.k : v.m, v.a.transposed ? v.m : v.k, v.a.leading, batch(v), v.a.batch),
        b(v.b.transposed ? v.n : v.k, v.b.transposed ? v.k : v.n, v.b.leading, batch(v), v.b.batch),
        d(v.m, v.n, v.leading_d, batch(v), v.batch_d) {
    check(cublasLtMatmulDescCreate(&product, compute_type(precision), CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const auto transposed = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed(v.a.transposed));
    set(CUBLASLT_MATMUL_DESC_TRANSB, transposed(v.b.transposed));
    if (v.bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, v.bias);
    }
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(v.a.origin, v.a.batch));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(v.b.origin, v.b.batch));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(v.d, v.batch_d));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(v.d, v.batch_d));
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, d, d, preference, 1, &chosen, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    supported = found == 1 && chosen.state == CUBLAS_STATUS_SUCCESS &&
                chosen.workspaceSize <= workspace_bytes;
  }
  ~VendorProductPlan() { cublasLtMatmulDescDestroy(product); }
  VendorProductPlan(const VendorProductPlan&)            = delete;
  VendorProductPlan& operator=(const VendorProductPlan&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

 private:
  static index_t batch(const VendorProduct& v) { return v.sums ? 1 : v.count; }
};

namespace {

/// All that a plan depends on.
using Key = std::array<index_t, 18>;

Key key_of(const VendorProduct& v, ProductPrecision precision) {
  return {v.m,
          v.n,
          v.k,
          v.sums ? 1 : v.count,
          v.a.leading,
          v.b.leading,
          v.leading_d,
          v.a.batch,
          v.b.batch,
          v.batch_d,
          v.a.transposed,
          v.b.transposed,
          v.bias != nullptr,
          alignment(v.a.origin, v.a.batch),
          alignment(v.b.origin, v.b.batch),
          alignment(v.d, v.batch_d),
          v.bias != nullptr ? alignment(v.bias, 0) : 0,
          static_cast<index_t>(precision)};
}

struct CublasLt {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, VendorProductPlan> plans;

  /// The mutex must be locked.
  void make_handle() {
    if (handle == nullptr) check(cublasLtCreate(&handle), "cublasLtCreate");
  }
  void clear() {
    plans.clear();
    if (handle != nullptr) cublasLtDestroy(handle);
    handle = nullptr;
  }
};

}  // namespace

bool has_vendor_products() { return true; }

VendorProductPlan* vendor_product_plan(const VendorProduct& v, ProductPrecision precision) {
  CublasLt& cublas = vendor_state<CublasLt>();
  const std::lock_guard lock(cublas.mutex);
  cublas.make_handle();
  VendorProductPlan& plan =
      cublas.plans.try_emplace(key_of(v, precision), cublas.handle, v, precision).first->second;
  return plan.supported ? &plan : nullptr;
}

void run_vendor_product(const Kokkos::DefaultExecutionSpace& space, VendorProductPlan& plan,
                        const VendorProduct& v) {
  CublasLt& cublas = vendor_state<CublasLt>();
  const std::lock_guard lock(cublas.mutex);
  if (v.bias != nullptr) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, v.bias);
  void* const workspace = vendor_workspace(space, workspace_bytes);
  const index_t calls   = v.sums ? v.count : 1;
  for (index_t i = 0; i < calls; ++i) {
    const float one = 1.0F, beta = v.add || i > 0 ? 1.0F : 0.0F;
    check(cublasLtMatmul(cublas.handle, plan.product, &one, v.a.origin + i * v.a.batch, plan.a,
                         v.b.origin + i * v.b.batch, plan.b, &beta, v.d, plan.d, v.d, plan.d,
                         &plan.chosen.algo, workspace, workspace_bytes, space.cuda_stream()),
          "cublasLtMatmul");
  }
}

}  // namespace shard::impl
