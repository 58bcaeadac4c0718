// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by cuDNN. Its convolution functions take an algorithm by name, which fixes the order
// in which it adds; its graphs choose an algorithm by heuristics.
#include <cudnn.h>

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "shard/base/error.hpp"
#include "vendor.hpp"

namespace shard::impl {

namespace {

void check(cudnnStatus_t status, const char* function) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(std::string("shard: ") + function + " failed: " + cudnnGetErrorString(status) +
                "; set_product_library(ProductLibrary::shard) computes without cuDNN");
}

/// True if cuDNN has no algorithm for what it was asked.
bool is_unsupported(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

/// A descriptor of cuDNN.
template <class Handle, auto Create, auto Destroy>
class Descriptor {
 public:
  Descriptor() { check(Create(&handle_), "cudnnCreate*Descriptor"); }
  ~Descriptor() { Destroy(handle_); }
  Descriptor(const Descriptor&)            = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator Handle() const { return handle_; }  // NOLINT: stands for its handle

 private:
  Handle handle_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

// Those that are deterministic: each sum is added by one thread in a fixed order.
constexpr auto forward_algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto data_algorithm    = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto weights_algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

/// All that a plan depends on.
using Key = std::array<int, 36>;

Key key_of(VendorPass pass, const VendorConvolution& v, ProductPrecision precision) {
  Key key{static_cast<int>(pass), static_cast<int>(precision), v.groups};
  std::size_t at    = 3;
  const auto append = [&](const auto& values) {
    for (const int value : values) key.at(at++) = value;
  };
  append(v.fine.extent);
  append(v.fine.stride);
  append(v.coarse.extent);
  append(v.coarse.stride);
  append(v.padding);
  append(v.kernel);
  append(v.stride);
  append(v.dilation);
  return key;
}

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
    int weights[5] = {v.coarse.extent[1], v.fine.extent[1] / v.groups};
    for (int d = 0; d < dims; ++d) weights[d + 2] = v.kernel[first + static_cast<std::size_t>(d)];
    check(
        cudnnSetFilterNdDescriptor(weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, dims + 2, weights),
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
    int extent[5] = {t.extent[0], t.extent[1]}, stride[5] = {t.stride[0], t.stride[1]};
    for (int d = 2; d < dims + 2; ++d) {
      const auto from = static_cast<std::size_t>(3 - dims + d);
      extent[d]       = t.extent[from];
      stride[d]       = t.stride[from];
    }
    check(cudnnSetTensorNdDescriptor(to, CUDNN_DATA_FLOAT, dims + 2, extent, stride),
          "cudnnSetTensorNdDescriptor");
  }
};

namespace {

/// Handles and plans. They live until Kokkos is finalised.
struct Cudnn {
  std::mutex mutex;
  std::map<cudaStream_t, cudnnHandle_t> handles;
  std::map<Key, VendorConvolutionPlan> plans;

  static Cudnn& get() {
    static Cudnn cudnn;
    return cudnn;
  }
  /// The handle of a stream. The mutex must be locked.
  cudnnHandle_t handle(cudaStream_t stream) {
    if (handles.empty())
      Kokkos::push_finalize_hook([] {
        Cudnn& all = get();
        all.plans.clear();
        for (const auto& [of, handle] : all.handles) cudnnDestroy(handle);
        all.handles.clear();
      });
    const auto found = handles.find(stream);
    if (found != handles.end()) return found->second;
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "cudnnCreate");
    const cudnnStatus_t status = cudnnSetStream(made, stream);
    if (status != CUDNN_STATUS_SUCCESS) cudnnDestroy(made);
    check(status, "cudnnSetStream");
    handles[stream] = made;
    return made;
  }
};

}  // namespace

bool has_vendor_convolutions() { return true; }

const VendorConvolutionPlan* vendor_convolution_plan(const Kokkos::DefaultExecutionSpace& space,
                                                     VendorPass pass, const VendorConvolution& v,
                                                     ProductPrecision precision) {
  // cuDNN takes bfloat16 from tensors of that type, and rounds its results to it
  if (precision == ProductPrecision::bfloat16) return nullptr;
  Cudnn& cudnn = Cudnn::get();
  const std::lock_guard lock(cudnn.mutex);
  const Key key = key_of(pass, v, precision);
  auto found    = cudnn.plans.find(key);
  if (found == cudnn.plans.end())
    found =
        cudnn.plans.try_emplace(key, cudnn.handle(space.cuda_stream()), pass, v, precision).first;
  return found->second.supported ? &found->second : nullptr;
}

bool run_vendor_convolution(const Kokkos::DefaultExecutionSpace& space,
                            const VendorConvolutionPlan& plan, const float* first,
                            const float* second, float* to, bool add) {
  Cudnn& cudnn          = Cudnn::get();
  void* const workspace = vendor_workspace(space, plan.workspace);
  const float one = 1.0F, beta = add ? 1.0F : 0.0F;
  const std::lock_guard lock(cudnn.mutex);
  const cudnnHandle_t handle = cudnn.handle(space.cuda_stream());
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
