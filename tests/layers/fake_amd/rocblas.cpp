// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rocBLAS that computes in plain loops on a host. It refuses matrices that don't match, and
// products with atomics or without a workspace.
#include <rocblas/rocblas.h>

#include <cstdint>
#include <string>

#include "answers.hpp"

namespace {

struct Handle {
  rocblas_atomics_mode atomics = rocblas_atomics_allowed;
  rocblas_math_mode math       = rocblas_default_math;
  std::size_t workspace        = 0;
};

Handle& as_handle(rocblas_handle handle) { return *reinterpret_cast<Handle*>(handle); }

}  // namespace

extern "C" {

const char* rocblas_status_to_string(rocblas_status status) {
  return status == rocblas_status_internal_error ? "rocblas_status_internal_error"
                                                 : "another status";
}
rocblas_status rocblas_create_handle(rocblas_handle* handle) {
  *handle = reinterpret_cast<rocblas_handle>(new Handle);
  return rocblas_status_success;
}
rocblas_status rocblas_destroy_handle(rocblas_handle handle) {
  delete &as_handle(handle);
  return rocblas_status_success;
}
rocblas_status rocblas_set_stream(rocblas_handle, hipStream_t) { return rocblas_status_success; }
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode) {
  as_handle(handle).atomics = mode;
  return rocblas_status_success;
}
rocblas_status rocblas_set_math_mode(rocblas_handle handle, rocblas_math_mode mode) {
  as_handle(handle).math = mode;
  return rocblas_status_success;
}
rocblas_status rocblas_set_workspace(rocblas_handle handle, void* workspace, std::size_t bytes) {
  as_handle(handle).workspace = workspace == nullptr ? 0 : bytes;
  return rocblas_status_success;
}
rocblas_status rocblas_sgemm_strided_batched(
    rocblas_handle handle, rocblas_operation of_a, rocblas_operation of_b, rocblas_int m,
    rocblas_int n, rocblas_int k, const float* alpha, const float* a, rocblas_int leading_a,
    rocblas_stride step_a, const float* b, rocblas_int leading_b, rocblas_stride step_b,
    const float* beta, float* c, rocblas_int leading_c, rocblas_stride step_c, rocblas_int count) {
  const bool ta = of_a == rocblas_operation_transpose, tb = of_b == rocblas_operation_transpose;
  if (as_handle(handle).atomics != rocblas_atomics_not_allowed ||
      as_handle(handle).workspace == 0 || leading_a < (ta ? k : m) || leading_b < (tb ? n : k) ||
      leading_c < m || *alpha != 1.0F)
    return rocblas_status_invalid_value;
  fake::state().calls += std::string("product ") + (ta ? "T" : "N") + (tb ? "T" : "N") + " " +
                         std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                         " batch " + std::to_string(count) + " beta " +
                         std::to_string(static_cast<int>(*beta)) + " math " +
                         std::to_string(as_handle(handle).math) + " workspace " +
                         std::to_string(as_handle(handle).workspace) + "\n";
  for (rocblas_int batch = 0; batch < count; ++batch)
    for (rocblas_int i = 0; i < m; ++i)
      for (rocblas_int j = 0; j < n; ++j) {
        float& to = c[batch * step_c + i + std::int64_t{j} * leading_c];
        float sum = *beta == 0.0F ? 0.0F : *beta * to;
        for (rocblas_int r = 0; r < k; ++r)
          sum += a[batch * step_a +
                   (ta ? r + std::int64_t{i} * leading_a : i + std::int64_t{r} * leading_a)] *
                 b[batch * step_b +
                   (tb ? j + std::int64_t{r} * leading_b : r + std::int64_t{j} * leading_b)];
        to = sum;
      }
  return static_cast<rocblas_status>(fake::state().answers.product);
}

}  // extern "C"
