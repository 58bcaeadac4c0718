// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cuDNN that computes nothing. It refuses what cuDNN would: tensors that don't match, memory that
// isn't the device's. The tests ask what it was called with, and tell it what to answer.
#include <cudnn.h>

#include "calls.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  int dims = 0, extent[8] = {}, stride[8] = {};
};
struct cudnnFilterStruct {
  int dims = 0, extent[8] = {};
};
struct cudnnConvolutionStruct {
  int dims = 0, padding[8] = {}, stride[8] = {}, dilation[8] = {}, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

std::size_t workspace_bytes      = 4096;
cudnnStatus_t workspace_answer   = CUDNN_STATUS_SUCCESS;
cudnnStatus_t convolution_answer = CUDNN_STATUS_SUCCESS;

std::string text(const char* name, const cudnnTensorStruct& t) {
  return std::string(" ") + name + "[" + fake::list(t.extent, t.dims) + ";" +
         fake::list(t.stride, t.dims) + "]";
}
long long last(const cudnnTensorStruct& t) {
  long long sum = 0;
  for (int d = 0; d < t.dims; ++d) sum += (t.extent[d] - 1LL) * t.stride[d];
  return sum;
}
long long last(const cudnnFilterStruct& t) {
  long long product = 1;
  for (int d = 0; d < t.dims; ++d) product *= t.extent[d];
  return product - 1;
}

/// Whether the shapes are those of a convolution.
bool match(const cudnnTensorStruct& x, const cudnnFilterStruct& w, const cudnnConvolutionStruct& c,
           const cudnnTensorStruct& y) {
  if (x.dims != c.dims + 2 || y.dims != x.dims || w.dims != x.dims || x.extent[0] != y.extent[0] ||
      x.extent[1] != w.extent[1] * c.groups || y.extent[1] != w.extent[0] ||
      w.extent[0] % c.groups != 0)
    return false;
  for (int d = 0; d < c.dims; ++d) {
    const int read = (w.extent[d + 2] - 1) * c.dilation[d] + 1,
              left = x.extent[d + 2] + 2 * c.padding[d] - read;
    if (left < 0 || y.extent[d + 2] != left / c.stride[d] + 1) return false;
  }
  return true;
}

std::string shapes(const cudnnTensorStruct& x, const cudnnFilterStruct& w,
                   const cudnnConvolutionStruct& c, const cudnnTensorStruct& y) {
  return text("fine", x) + " weight[" + fake::list(w.extent, w.dims) + "]" + text("coarse", y) +
         " padding " + fake::list(c.padding, c.dims) + " stride " + fake::list(c.stride, c.dims) +
         " dilation " + fake::list(c.dilation, c.dims) + " groups " + std::to_string(c.groups) +
         " math " + std::to_string(static_cast<int>(c.math));
}

cudnnStatus_t plan(const char* pass, const cudnnTensorStruct& x, const cudnnFilterStruct& w,
                   const cudnnConvolutionStruct& c, const cudnnTensorStruct& y, int algorithm,
                   std::size_t* bytes) {
  if (!match(x, w, c, y)) return CUDNN_STATUS_BAD_PARAM;
  fake::calls() += std::string("plan ") + pass + " algorithm " + std::to_string(algorithm) + "\n";
  *bytes = workspace_bytes;
  return workspace_answer;
}

cudnnStatus_t run(const char* pass, cudnnHandle_t handle, const cudnnTensorStruct& x,
                  const void* at_x, const cudnnFilterStruct& w, const void* at_w,
                  const cudnnConvolutionStruct& c, const cudnnTensorStruct& y, const void* at_y,
                  int algorithm, const void* alpha, const void* beta, void* workspace,
                  std::size_t bytes) {
  if (!match(x, w, c, y) || *static_cast<const float*>(alpha) != 1.0F ||
      !fake::is_device_memory(at_x, last(x)) || !fake::is_device_memory(at_w, last(w)) ||
      !fake::is_device_memory(at_y, last(y)) ||
      (bytes > 0 &&
       !fake::is_device_memory(workspace, static_cast<long long>(bytes / sizeof(float)) - 1)))
    return CUDNN_STATUS_BAD_PARAM;
  fake::calls() += std::string(pass) + shapes(x, w, c, y) + " algorithm " +
                   std::to_string(algorithm) + " workspace " + std::to_string(bytes) + " beta " +
                   std::to_string(static_cast<int>(*static_cast<const float*>(beta))) + " stream " +
                   fake::address(handle->stream) + " at " + fake::address(at_x) + " " +
                   fake::address(at_w) + " " + fake::address(at_y) + "\n";
  return convolution_answer;
}

template <class Handle>
cudnnStatus_t make(Handle** to) {
  *to = new Handle;
  return CUDNN_STATUS_SUCCESS;
}
template <class Handle>
cudnnStatus_t end(Handle* handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

// For the tests
const char* fake_cudnn_calls() { return fake::calls_since(); }
/// What all later calls answer: the bytes and status of workspaces, the status of convolutions.
void fake_cudnn_answers(std::size_t bytes, int of_workspace, int of_convolution) {
  workspace_bytes    = bytes;
  workspace_answer   = static_cast<cudnnStatus_t>(of_workspace);
  convolution_answer = static_cast<cudnnStatus_t>(of_convolution);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  fake::calls() += "create\n";
  return make(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return end(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                 : "another status of cuDNN";
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* t) { return make(t); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { return end(t); }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int dims,
                                         const int extent[], const int stride[]) {
  if (type != CUDNN_DATA_FLOAT || dims < 4 || dims > 5) return CUDNN_STATUS_BAD_PARAM;
  t->dims = dims;
  for (int d = 0; d < dims; ++d) {
    if (extent[d] < 1 || stride[d] < 1) return CUDNN_STATUS_BAD_PARAM;
    t->extent[d] = extent[d];
    t->stride[d] = stride[d];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* w) { return make(w); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t w) { return end(w); }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t w, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int dims, const int extent[]) {
  if (type != CUDNN_DATA_FLOAT || format != CUDNN_TENSOR_NCHW) return CUDNN_STATUS_BAD_PARAM;
  w->dims = dims;
  for (int d = 0; d < dims; ++d) w->extent[d] = extent[d];
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* c) { return make(c); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) { return end(c); }
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int dims,
                                              const int padding[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  if (mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_BAD_PARAM;
  c->dims = dims;
  for (int d = 0; d < dims; ++d) {
    c->padding[d]  = padding[d];
    c->stride[d]   = stride[d];
    c->dilation[d] = dilation[d];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return plan("forward", *x, *w, *c, *y, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t x,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  return plan("data", *x, *w, *c, *y, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t w,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return plan("weights", *x, *w, *c, *y, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x, const void* at_x,
                                      const cudnnFilterDescriptor_t w, const void* at_w,
                                      const cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      std::size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y, void* at_y) {
  return run("forward", handle, *x, at_x, *w, at_w, *c, *y, at_y, algorithm, alpha, beta, workspace,
             bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w, const void* at_w,
                                           const cudnnTensorDescriptor_t y, const void* at_y,
                                           const cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t x, void* at_x) {
  return run("data", handle, *x, at_x, *w, at_w, *c, *y, at_y, algorithm, alpha, beta, workspace,
             bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x, const void* at_x,
                                             const cudnnTensorDescriptor_t y, const void* at_y,
                                             const cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, std::size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t w, void* at_w) {
  return run("weights", handle, *x, at_x, *w, at_w, *c, *y, at_y, algorithm, alpha, beta, workspace,
             bytes);
}

}  // extern "C"
