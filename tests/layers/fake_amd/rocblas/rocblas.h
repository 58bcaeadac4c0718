// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of rocBLAS' interface that src/layers/rocblas.cpp calls. Where rocBLAS' own header is
// found, fake_amd/rocblas.cpp is compiled with that one.
#ifndef SHARD_TESTS_LAYERS_FAKE_AMD_ROCBLAS_H
#define SHARD_TESTS_LAYERS_FAKE_AMD_ROCBLAS_H

#include <cstddef>
#include <cstdint>

extern "C" {

struct ihipStream_t;
using hipStream_t    = ihipStream_t*;
using rocblas_handle = struct _rocblas_handle*;
using rocblas_int    = std::int32_t;
using rocblas_stride = std::int64_t;

enum rocblas_status {
  rocblas_status_success        = 0,
  rocblas_status_internal_error = 6,
  rocblas_status_perf_degraded  = 7,
  rocblas_status_invalid_value  = 11
};
enum rocblas_operation { rocblas_operation_none = 111, rocblas_operation_transpose = 112 };
enum rocblas_atomics_mode { rocblas_atomics_not_allowed = 0, rocblas_atomics_allowed = 1 };
enum rocblas_math_mode { rocblas_default_math = 0, rocblas_xf32_xdl_math_op = 1 };

const char* rocblas_status_to_string(rocblas_status);
rocblas_status rocblas_create_handle(rocblas_handle*);
rocblas_status rocblas_destroy_handle(rocblas_handle);
rocblas_status rocblas_set_stream(rocblas_handle, hipStream_t);
rocblas_status rocblas_set_atomics_mode(rocblas_handle, rocblas_atomics_mode);
rocblas_status rocblas_set_math_mode(rocblas_handle, rocblas_math_mode);
rocblas_status rocblas_set_workspace(rocblas_handle, void*, std::size_t);
rocblas_status rocblas_sgemm_strided_batched(rocblas_handle, rocblas_operation, rocblas_operation,
                                             rocblas_int, rocblas_int, rocblas_int, const float*,
                                             const float*, rocblas_int, rocblas_stride,
                                             const float*, rocblas_int, rocblas_stride,
                                             const float*, float*, rocblas_int, rocblas_stride,
                                             rocblas_int);

}  // extern "C"

#endif
