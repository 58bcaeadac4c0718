// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by cuDNN. Its convolution functions take an algorithm by name, which fixes the order
// in which it adds; its graphs choose an algorithm by heuristics.
#include <cudnn.h>

#include <map>
#include <mutex>

#include "vendor_library.hpp"

namespace shard::impl {

namespace {

void check(cudnnStatus_t status, const char* function) {
  if (status != CUDNN_STATUS_SUCCESS) throw_vendor("cuDNN", function, cudnnGetErrorString(status));
}

/// True if cuDNN has no algorithm for what it was asked.
bool is_unsupported(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

using TensorDescriptor = VendorDescriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                                          cudnnDestroyTensorDescriptor, check>;
using FilterDescriptor = VendorDescriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor,
                                          cudnnDestroyFilterDescriptor, check>;
using ConvolutionDescriptor =
    VendorDescriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                     cudnnDestroyConvolutionDescriptor, check>;

// Those that are deterministic: each sum is added by one thread in a fixed order.
constexpr auto forward_algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto data_algorithm    = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto weights_algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

}  // namespace

struct VendorConvolutionPlan {
  VendorPass pass;
  TensorDescriptor fine, coarse;
  FilterDescriptor weight;
  ConvolutionDescriptor convolution;
  std::size_t workspace  = 0;
  mutable bool supported = false;  ///< changes only while the mutex is locked

  VendorConvolutionPlan(cudnnHandle_t handle, VendorPass of, const VendorConvolution& v,
                        ProductPrecision precision)
      : pass(of) {
    const int dims   = v.dims();
    const auto first = static_cast<std::size_t>(3 - dims);
    describe(fine, v.fine, dims);
    describe(coarse, v.coarse, dims);
    const auto weights = VendorConvolution::with_dims(v.weight_extent(), dims);
    check(cudnnSetFilterNdDescriptor(weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, dims + 2,
                                     weights.data()),
          "cudnnSetFilterNdDescriptor");
    check(cudnnSetConvolutionNdDescriptor(convolution, dims, &v.padding[first], &v.stride[first],
                                          &v.dilation[first], CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT),
          "cudnnSetConvolutionNdDescriptor");
    check(cudnnSetConvolutionGroupCount(convolution, v.groups), "cudnnSetConvolutionGroupCount");
    // the default would round to TF32
    check(cudnnSetConvolutionMathType(convolution, precision == ProductPrecision::tf32
                                                       ? CUDNN_TENSOR_OP_MATH
                                                       : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    switch (pass) {
      case VendorPass::forward:
        status = cudnnGetConvolutionForwardWorkspaceSize(handle, fine, weight, convolution, coarse,
                                                         forward_algorithm, &workspace);
        break;
      case VendorPass::data:
        status = cudnnGetConvolutionBackwardDataWorkspaceSize(handle, weight, coarse, convolution,
                                                              fine, data_algorithm, &workspace);
        break;
      case VendorPass::weights:
        status = cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle, fine, coarse, convolution, weight, weights_algorithm, &workspace);
        break;
    }
    if (is_unsupported(status)) return;
    check(status, "cudnnGetConvolution*WorkspaceSize");
    supported = workspace <= most_vendor_workspace;
  }

 private:
  static void describe(cudnnTensorDescriptor_t to, const VendorTensor& t, int dims) {
    const auto extent = VendorConvolution::with_dims(t.extent, dims),
               stride = VendorConvolution::with_dims(t.stride, dims);
    check(cudnnSetTensorNdDescriptor(to, CUDNN_DATA_FLOAT, dims + 2, extent.data(), stride.data()),
          "cudnnSetTensorNdDescriptor");
  }
};

namespace {

cudnnHandle_t make_handle(cudaStream_t stream) {
  cudnnHandle_t made = nullptr;
  check(cudnnCreate(&made), "cudnnCreate");
  const cudnnStatus_t status = cudnnSetStream(made, stream);
  if (status != CUDNN_STATUS_SUCCESS) cudnnDestroy(made);
  check(status, "cudnnSetStream");
  return made;
}

struct Cudnn {
  std::mutex mutex;
  VendorHandles<cudaStream_t, cudnnHandle_t, make_handle, cudnnDestroy> handles;
  std::map<VendorConvolutionKey, VendorConvolutionPlan> plans;

  void clear() {
    plans.clear();
    handles.clear();
  }
};

}  // namespace

bool has_vendor_convolutions() { return true; }

const VendorConvolutionPlan* vendor_convolution_plan(const Kokkos::DefaultExecutionSpace& space,
                                                     VendorPass pass, const VendorConvolution& v,
                                                     ProductPrecision precision) {
  // cuDNN takes bfloat16 from tensors of that type, and rounds its results to it
  if (precision == ProductPrecision::bfloat16) return nullptr;
  Cudnn& cudnn = vendor_state<Cudnn>();
  const std::lock_guard lock(cudnn.mutex);
  const VendorConvolutionKey key = key_of(pass, v, precision);
  auto found                     = cudnn.plans.find(key);
  if (found == cudnn.plans.end())
    found = cudnn.plans.try_emplace(key, cudnn.handles.of(space.cuda_stream()), pass, v, precision)
                .first;
  return found->second.supported ? &found->second : nullptr;
}

bool run_vendor_convolution(const Kokkos::DefaultExecutionSpace& space,
                            const VendorConvolutionPlan& plan, const float* first,
                            const float* second, float* to, bool add) {
  Cudnn& cudnn          = vendor_state<Cudnn>();
  void* const workspace = vendor_workspace(space, plan.workspace);
  const float one = 1.0F, beta = add ? 1.0F : 0.0F;
  const std::lock_guard lock(cudnn.mutex);
  const cudnnHandle_t handle = cudnn.handles.of(space.cuda_stream());
  cudnnStatus_t status       = CUDNN_STATUS_SUCCESS;
  const char* function       = "cudnnConvolutionForward";
  switch (plan.pass) {
    case VendorPass::forward:
      status = cudnnConvolutionForward(handle, &one, plan.fine, first, plan.weight, second,
                                       plan.convolution, forward_algorithm, workspace,
                                       plan.workspace, &beta, plan.coarse, to);
      break;
    case VendorPass::data:
      function = "cudnnConvolutionBackwardData";
      status   = cudnnConvolutionBackwardData(handle, &one, plan.weight, second, plan.coarse, first,
                                              plan.convolution, data_algorithm, workspace,
                                              plan.workspace, &beta, plan.fine, to);
      break;
    case VendorPass::weights:
      function = "cudnnConvolutionBackwardFilter";
      status   = cudnnConvolutionBackwardFilter(handle, &one, plan.fine, first, plan.coarse, second,
                                                plan.convolution, weights_algorithm, workspace,
                                                plan.workspace, &beta, plan.weight, to);
      break;
  }
  if (is_unsupported(status)) return plan.supported = false;
  check(status, function);
  return true;
}

}  // namespace shard::impl
