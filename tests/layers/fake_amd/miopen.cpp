// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A MIOpen that computes in plain loops on a host. It refuses descriptors that don't match, tensors
// with gaps, convolutions that aren't deterministic, and solutions that weren't compiled. It
// overwrites its workspace.
#include <miopen/miopen.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "answers.hpp"

namespace {

struct Handle {
  std::set<std::uint64_t> compiled;
};
struct Tensor {
  std::vector<int> extent, stride;

  std::size_t count() const {
    std::size_t product = 1;
    for (const int e : extent) product *= static_cast<std::size_t>(e);
    return product;
  }
  bool has_gaps() const {
    int step = 1;
    for (std::size_t d = extent.size(); d-- > 0; step *= extent[d])
      if (stride[d] != step) return true;
    return false;
  }
};
struct Convolution {
  std::vector<int> padding, stride, dilation;
  int groups         = 1;
  bool deterministic = false;
};

template <class To, class From>
To& as(From* handle) {
  return *reinterpret_cast<To*>(handle);
}
template <class To, class Handle>
miopenStatus_t make(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new To);
  return miopenStatusSuccess;
}
template <class To, class Handle>
miopenStatus_t end(Handle handle) {
  delete &as<To>(handle);
  return miopenStatusSuccess;
}

std::string list(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

/// The tensors of a convolution y = w x; `name` is the pass.
struct Problem {
  const char* name;
  const Tensor &x, &w, &y;
  const Convolution& c;

  bool matches() const {
    const std::size_t dims = c.padding.size();
    for (const Tensor* t : {&x, &w, &y})
      if (t->extent.size() != dims + 2 || t->has_gaps()) return false;
    if (!c.deterministic || x.extent[0] != y.extent[0] || x.extent[1] != w.extent[1] * c.groups ||
        y.extent[1] != w.extent[0] || w.extent[0] % c.groups != 0)
      return false;
    for (std::size_t d = 0; d < dims; ++d) {
      const int read = (w.extent[d + 2] - 1) * c.dilation[d] + 1,
                left = x.extent[d + 2] + 2 * c.padding[d] - read;
      if (left < 0 || y.extent[d + 2] != left / c.stride[d] + 1) return false;
    }
    return true;
  }
  std::string text() const {
    return std::string(name) + " fine[" + list(x.extent) + "] weight[" + list(w.extent) +
           "] coarse[" + list(y.extent) + "] padding " + list(c.padding) + " stride " +
           list(c.stride) + " dilation " + list(c.dilation) + " groups " + std::to_string(c.groups);
  }
  /// Visits the (fine, weight, coarse) offsets of all products.
  template <class Visit>
  void visit(const Visit& visit) const {
    const std::size_t taps = w.count() / static_cast<std::size_t>(w.extent[0] * w.extent[1]);
    for (std::size_t to = 0; to < y.count(); ++to)
      for (int b = 0; b < w.extent[1]; ++b)
        for (std::size_t t = 0; t < taps; ++t) {
          std::size_t cell = to, tap = t;
          int from = 0, step = 1;
          bool inside = true;
          for (std::size_t d = c.padding.size(); d-- > 0;) {
            const auto all    = static_cast<std::size_t>(y.extent[d + 2]),
                       kernel = static_cast<std::size_t>(w.extent[d + 2]);
            const int i       = static_cast<int>(cell % all) * c.stride[d] +
                          static_cast<int>(tap % kernel) * c.dilation[d] - c.padding[d];
            inside = inside && i >= 0 && i < x.extent[d + 2];
            from += i * step;
            step *= x.extent[d + 2];
            cell /= all;
            tap /= kernel;
          }
          if (!inside) continue;
          const int a       = static_cast<int>(cell) % y.extent[1],
                    n       = static_cast<int>(cell) / y.extent[1],
                    channel = a / (y.extent[1] / c.groups) * w.extent[1] + b;
          visit((n * x.extent[1] + channel) * step + from,
                (a * w.extent[1] + b) * static_cast<int>(taps) + static_cast<int>(t),
                static_cast<int>(to));
        }
  }
};

miopenStatus_t list_solutions(const Problem& p, std::size_t most, std::size_t* count,
                              miopenConvSolution_t* solutions) {
  if (!p.matches()) return miopenStatusBadParm;
  const fake::Answers& answers      = fake::state().answers;
  const miopenConvSolution_t some[] = {
      {1, answers.workspace, fake::implicit_gemm, miopenConvolutionAlgoImplicitGEMM},
      {2, answers.direct_workspace, fake::direct, miopenConvolutionAlgoDirect},
      {3, answers.workspace, fake::gemm, miopenConvolutionAlgoGEMM}};
  *count = std::min<std::size_t>(most, 3);
  std::copy(some, some + *count, solutions);
  return static_cast<miopenStatus_t>(answers.list);
}

miopenStatus_t compile(const Problem& p, miopenHandle_t handle, std::uint64_t solution) {
  if (!p.matches()) return miopenStatusBadParm;
  fake::state().calls += std::string("compile ") + p.name + " " + std::to_string(solution) + "\n";
  as<Handle>(handle).compiled.insert(solution);
  return static_cast<miopenStatus_t>(fake::state().answers.compile);
}

/// Sets `to` to zero and adds all products as `order` says.
template <class Order>
miopenStatus_t run(const Problem& p, miopenHandle_t handle, std::size_t to_count, void* to,
                   void* workspace, std::size_t bytes, std::uint64_t solution, const Order& order) {
  const fake::Answers& answers = fake::state().answers;
  if (!p.matches() || as<Handle>(handle).compiled.count(solution) == 0 ||
      bytes != (solution == fake::direct ? answers.direct_workspace : answers.workspace) ||
      (bytes > 0) != (workspace != nullptr))
    return miopenStatusBadParm;
  fake::state().calls += p.text() + " solution " + std::to_string(solution) + "\n";
  if (answers.run != 0) return static_cast<miopenStatus_t>(answers.run);
  std::fill_n(static_cast<float*>(workspace), bytes / sizeof(float),
              std::numeric_limits<float>::quiet_NaN());
  std::fill_n(static_cast<float*>(to), to_count, 0.0F);
  p.visit(order);
  return miopenStatusSuccess;
}

const float* in(const void* address) { return static_cast<const float*>(address); }
float* out(void* address) { return static_cast<float*>(address); }

Problem forward(miopenTensorDescriptor_t w, miopenTensorDescriptor_t x,
                miopenConvolutionDescriptor_t c, miopenTensorDescriptor_t y) {
  return {"forward", as<Tensor>(x), as<Tensor>(w), as<Tensor>(y), as<Convolution>(c)};
}
Problem data(miopenTensorDescriptor_t dy, miopenTensorDescriptor_t w,
             miopenConvolutionDescriptor_t c, miopenTensorDescriptor_t dx) {
  return {"data", as<Tensor>(dx), as<Tensor>(w), as<Tensor>(dy), as<Convolution>(c)};
}
Problem weights(miopenTensorDescriptor_t dy, miopenTensorDescriptor_t x,
                miopenConvolutionDescriptor_t c, miopenTensorDescriptor_t dw) {
  return {"weights", as<Tensor>(x), as<Tensor>(dw), as<Tensor>(dy), as<Convolution>(c)};
}

}  // namespace

fake::State& fake::state() {
  static State all;
  return all;
}

extern "C" {

const char* miopenGetErrorString(miopenStatus_t status) {
  return status == miopenStatusInternalError ? "miopenStatusInternalError" : "another status";
}
miopenStatus_t miopenCreateWithStream(miopenHandle_t* handle, miopenAcceleratorQueue_t) {
  fake::state().calls += "create\n";
  return make<Handle>(handle);
}
miopenStatus_t miopenDestroy(miopenHandle_t handle) { return end<Handle>(handle); }
miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t* t) { return make<Tensor>(t); }
miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t t) { return end<Tensor>(t); }
miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t t, miopenDataType_t type,
                                         int dims, const int* extent, const int* stride) {
  as<Tensor>(t).extent.assign(extent, extent + dims);
  as<Tensor>(t).stride.assign(stride, stride + dims);
  return type == miopenFloat ? miopenStatusSuccess : miopenStatusBadParm;
}
miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t* c) {
  return make<Convolution>(c);
}
miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t c) {
  return end<Convolution>(c);
}
miopenStatus_t miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor_t convolution,
                                                 int dims, const int* padding, const int* stride,
                                                 const int* dilation,
                                                 miopenConvolutionMode_t mode) {
  auto& c = as<Convolution>(convolution);
  c.padding.assign(padding, padding + dims);
  c.stride.assign(stride, stride + dims);
  c.dilation.assign(dilation, dilation + dims);
  return mode == miopenConvolution ? miopenStatusSuccess : miopenStatusBadParm;
}
miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t c, int groups) {
  as<Convolution>(c).groups = groups;
  return miopenStatusSuccess;
}
miopenStatus_t miopenSetConvolutionAttribute(miopenConvolutionDescriptor_t c,
                                             const miopenConvolutionAttrib_t attribute, int value) {
  as<Convolution>(c).deterministic =
      attribute == MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC && value == 1;
  return miopenStatusSuccess;
}

miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t, const miopenTensorDescriptor_t w,
                                                   const miopenTensorDescriptor_t x,
                                                   const miopenConvolutionDescriptor_t c,
                                                   const miopenTensorDescriptor_t y,
                                                   const std::size_t most, std::size_t* count,
                                                   miopenConvSolution_t* solutions) {
  return list_solutions(forward(w, x, c, y), most, count, solutions);
}
miopenStatus_t miopenConvolutionBackwardDataGetSolution(
    miopenHandle_t, const miopenTensorDescriptor_t dy, const miopenTensorDescriptor_t w,
    const miopenConvolutionDescriptor_t c, const miopenTensorDescriptor_t dx,
    const std::size_t most, std::size_t* count, miopenConvSolution_t* solutions) {
  return list_solutions(data(dy, w, c, dx), most, count, solutions);
}
miopenStatus_t miopenConvolutionBackwardWeightsGetSolution(
    miopenHandle_t, const miopenTensorDescriptor_t dy, const miopenTensorDescriptor_t x,
    const miopenConvolutionDescriptor_t c, const miopenTensorDescriptor_t dw,
    const std::size_t most, std::size_t* count, miopenConvSolution_t* solutions) {
  return list_solutions(weights(dy, x, c, dw), most, count, solutions);
}
miopenStatus_t miopenConvolutionForwardCompileSolution(miopenHandle_t handle,
                                                       const miopenTensorDescriptor_t w,
                                                       const miopenTensorDescriptor_t x,
                                                       const miopenConvolutionDescriptor_t c,
                                                       const miopenTensorDescriptor_t y,
                                                       const std::uint64_t solution) {
  return compile(forward(w, x, c, y), handle, solution);
}
miopenStatus_t miopenConvolutionBackwardDataCompileSolution(miopenHandle_t handle,
                                                            const miopenTensorDescriptor_t dy,
                                                            const miopenTensorDescriptor_t w,
                                                            const miopenConvolutionDescriptor_t c,
                                                            const miopenTensorDescriptor_t dx,
                                                            const std::uint64_t solution) {
  return compile(data(dy, w, c, dx), handle, solution);
}
miopenStatus_t miopenConvolutionBackwardWeightsCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dy, const miopenTensorDescriptor_t x,
    const miopenConvolutionDescriptor_t c, const miopenTensorDescriptor_t dw,
    const std::uint64_t solution) {
  return compile(weights(dy, x, c, dw), handle, solution);
}
miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle,
                                                 const miopenTensorDescriptor_t w, const void* at_w,
                                                 const miopenTensorDescriptor_t x, const void* at_x,
                                                 const miopenConvolutionDescriptor_t c,
                                                 const miopenTensorDescriptor_t y, void* at_y,
                                                 void* workspace, std::size_t bytes,
                                                 const std::uint64_t solution) {
  return run(forward(w, x, c, y), handle, as<Tensor>(y).count(), at_y, workspace, bytes, solution,
             [=](int fine, int weight, int coarse) {
               out(at_y)[coarse] += in(at_x)[fine] * in(at_w)[weight];
             });
}
miopenStatus_t miopenConvolutionBackwardDataImmediate(
    miopenHandle_t handle, const miopenTensorDescriptor_t dy, const void* at_dy,
    const miopenTensorDescriptor_t w, const void* at_w, const miopenConvolutionDescriptor_t c,
    const miopenTensorDescriptor_t dx, void* at_dx, void* workspace, std::size_t bytes,
    const std::uint64_t solution) {
  return run(data(dy, w, c, dx), handle, as<Tensor>(dx).count(), at_dx, workspace, bytes, solution,
             [=](int fine, int weight, int coarse) {
               out(at_dx)[fine] += in(at_dy)[coarse] * in(at_w)[weight];
             });
}
miopenStatus_t miopenConvolutionBackwardWeightsImmediate(
    miopenHandle_t handle, const miopenTensorDescriptor_t dy, const void* at_dy,
    const miopenTensorDescriptor_t x, const void* at_x, const miopenConvolutionDescriptor_t c,
    const miopenTensorDescriptor_t dw, void* at_dw, void* workspace, std::size_t bytes,
    const std::uint64_t solution) {
  return run(weights(dy, x, c, dw), handle, as<Tensor>(dw).count(), at_dw, workspace, bytes,
             solution, [=](int fine, int weight, int coarse) {
               out(at_dw)[weight] += in(at_dy)[coarse] * in(at_x)[fine];
             });
}

}  // extern "C"
