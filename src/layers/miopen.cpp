// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by MIOpen's immediate mode, which lists solutions and runs the one that it is told.
// It has no factor for the output's values: what is added goes through a copy.
#include <miopen/miopen.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "vendor_boxes.hpp"
#include "vendor_library.hpp"

namespace shard::impl {

namespace {

void check(miopenStatus_t status, const char* function) {
  if (status != miopenStatusSuccess) throw_vendor("MIOpen", function, miopenGetErrorString(status));
}

/// True if MIOpen has no solution for what it was asked.
bool is_unsupported(miopenStatus_t status) {
  return status == miopenStatusNotImplemented || status == miopenStatusUnsupportedOp;
}

using TensorDescriptor = VendorDescriptor<miopenTensorDescriptor_t, miopenCreateTensorDescriptor,
                                          miopenDestroyTensorDescriptor, check>;
using ConvolutionDescriptor =
    VendorDescriptor<miopenConvolutionDescriptor_t, miopenCreateConvolutionDescriptor,
                     miopenDestroyConvolutionDescriptor, check>;

/// MIOpen's functions of a pass. The tensors are weight, fine, coarse; coarse, weight, fine; or
/// coarse, fine, weight: two inputs and the output.
struct Functions {
  decltype(&miopenConvolutionForwardGetSolution) list;
  decltype(&miopenConvolutionForwardCompileSolution) compile;
  decltype(&miopenConvolutionForwardImmediate) run;
  const char* name_of_run;

  static const Functions& of(VendorPass pass) {
    static constexpr Functions all[] = {
        {miopenConvolutionForwardGetSolution, miopenConvolutionForwardCompileSolution,
         miopenConvolutionForwardImmediate, "miopenConvolutionForwardImmediate"},
        {miopenConvolutionBackwardDataGetSolution, miopenConvolutionBackwardDataCompileSolution,
         miopenConvolutionBackwardDataImmediate, "miopenConvolutionBackwardDataImmediate"},
        {miopenConvolutionBackwardWeightsGetSolution,
         miopenConvolutionBackwardWeightsCompileSolution, miopenConvolutionBackwardWeightsImmediate,
         "miopenConvolutionBackwardWeightsImmediate"}};
    return all[static_cast<std::size_t>(pass)];
  }
};

/// MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC isn't enough: before February 2025 MIOpen ignored it in
/// some implicit GEMMs for gradients of weights, which add by atomics.
bool is_deterministic(VendorPass pass, const miopenConvSolution_t& solution) {
  return pass != VendorPass::weights || solution.algorithm != miopenConvolutionAlgoImplicitGEMM;
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// A tensor where it is, and as MIOpen gets it: without gaps, as most solutions need it.
struct Operand {
  VendorTensor given;
  TensorDescriptor packed;
  bool has_gaps     = false;
  std::size_t bytes = 0;  ///< of a copy

  void describe(const VendorTensor& tensor, int dims) {
    const VendorTensor whole = VendorTensor::of(tensor.extent);
    given                    = tensor;
    has_gaps                 = tensor.stride != whole.stride;
    bytes                    = aligned(sizeof(float) * tensor.count());
    const auto extent        = VendorConvolution::with_dims(whole.extent, dims),
               stride        = VendorConvolution::with_dims(whole.stride, dims);
    check(miopenSetTensorDescriptor(packed, miopenFloat, dims + 2, extent.data(), stride.data()),
          "miopenSetTensorDescriptor");
  }
  /// The elements, or a copy without gaps in `memory`, which then points past the copy.
  const float* elements(const Kokkos::DefaultExecutionSpace& space, const float* first,
                        std::byte*& memory) const {
    if (!has_gaps) return first;
    auto* const copy = reinterpret_cast<float*>(memory);
    pack_box(space, copy, given, first);
    memory += bytes;
    return copy;
  }
  std::size_t copied_bytes() const { return has_gaps ? bytes : 0; }
};

}  // namespace

struct VendorConvolutionPlan {
  VendorPass pass;
  Operand first, second, output;  ///< in the order of MIOpen's functions
  ConvolutionDescriptor convolution;
  std::uint64_t solution = 0;
  std::size_t workspace  = 0;      ///< of the solution; copies follow it
  mutable bool supported = false;  ///< changes only while the mutex is locked

  VendorConvolutionPlan(miopenHandle_t handle, VendorPass of, const VendorConvolution& v)
      : pass(of) {
    bool dilated = false;
    for (const int d : v.dilation) dilated = dilated || d > 1;
    if (v.groups > 1 && dilated) return;  // MIOpen's header excludes that
    std::size_t weights = 1;
    for (const int e : v.weight_extent()) weights *= static_cast<std::size_t>(e);
    if (weights > std::numeric_limits<int>::max()) return;
    const VendorTensor weight = VendorTensor::of(v.weight_extent());
    const int dims            = v.dims();
    first.describe(pass == VendorPass::forward ? weight : v.coarse, dims);
    second.describe(pass == VendorPass::data ? weight : v.fine, dims);
    output.describe(pass == VendorPass::forward ? v.coarse
                    : pass == VendorPass::data  ? v.fine
                                                : weight,
                    dims);
    const auto from = static_cast<std::size_t>(3 - dims);
    check(miopenInitConvolutionNdDescriptor(convolution, dims, &v.padding[from], &v.stride[from],
                                            &v.dilation[from], miopenConvolution),
          "miopenInitConvolutionNdDescriptor");
    check(miopenSetConvolutionGroupCount(convolution, v.groups), "miopenSetConvolutionGroupCount");
    check(miopenSetConvolutionAttribute(convolution, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1),
          "miopenSetConvolutionAttribute");
    choose(handle);
  }

  /// Where the copies begin in the memory of a call.
  std::size_t copies_at() const { return aligned(workspace); }

 private:
  /// Compiles the fastest solution that is deterministic and not too large.
  void choose(miopenHandle_t handle) {
    const Functions& functions = Functions::of(pass);
    const std::size_t copies   = first.copied_bytes() + second.copied_bytes() + output.bytes;
    std::array<miopenConvSolution_t, 64> solutions{};  // fastest first
    std::size_t count = 0;
    miopenStatus_t status =
        functions.list(handle, first.packed, second.packed, convolution, output.packed,
                       solutions.size(), &count, solutions.data());
    if (is_unsupported(status)) return;
    check(status, "miopenConvolution*GetSolution");
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = solutions[i].workspace_size;
      if (!is_deterministic(pass, solutions[i]) || bytes > most_vendor_workspace ||
          aligned(bytes) + copies > most_vendor_workspace)
        continue;
      solution  = solutions[i].solution_id;
      workspace = bytes;
      status    = functions.compile(handle, first.packed, second.packed, convolution, output.packed,
                                    solution);
      if (is_unsupported(status)) continue;
      check(status, "miopenConvolution*CompileSolution");
      supported = true;
      return;
    }
  }
};

namespace {

using HipStream = miopenAcceleratorQueue_t;

HipStream stream_handle(const Kokkos::DefaultExecutionSpace& space) {
  return static_cast<HipStream>(stream_of(space).handle);
}

miopenHandle_t make_handle(HipStream stream) {
  miopenHandle_t made = nullptr;
  check(miopenCreateWithStream(&made, stream), "miopenCreateWithStream");
  return made;
}

struct Miopen {
  std::mutex mutex;
  VendorHandles<HipStream, miopenHandle_t, make_handle, miopenDestroy> handles;
  // of each stream, because a solution is compiled for a handle
  std::map<std::pair<HipStream, VendorConvolutionKey>, VendorConvolutionPlan> plans;

  void clear() {
    plans.clear();
    handles.clear();
  }
};

}  // namespace

bool has_vendor_convolutions() { return true; }

const VendorConvolutionPlan* vendor_convolution_plan(const Kokkos::DefaultExecutionSpace& space,
                                                     VendorPass pass, const VendorConvolution& v,
                                                     ProductPrecision) {
  Miopen& miopen = vendor_state<Miopen>();
  const std::lock_guard lock(miopen.mutex);
  const HipStream stream = stream_handle(space);
  const std::pair key(stream, key_of(pass, v, ProductPrecision::float32));
  auto found = miopen.plans.find(key);
  if (found == miopen.plans.end())
    found = miopen.plans.try_emplace(key, miopen.handles.of(stream), pass, v).first;
  return found->second.supported ? &found->second : nullptr;
}

bool run_vendor_convolution(const Kokkos::DefaultExecutionSpace& space,
                            const VendorConvolutionPlan& plan, const float* first,
                            const float* second, float* to, bool add) {
  Miopen& miopen = vendor_state<Miopen>();
  const std::lock_guard lock(miopen.mutex);
  if (plan.pass != VendorPass::data) std::swap(first, second);  // MIOpen's order
  const bool copies     = add || plan.output.has_gaps;
  auto* const workspace = static_cast<std::byte*>(
      vendor_workspace(space, plan.copies_at() + plan.first.copied_bytes() +
                                  plan.second.copied_bytes() + (copies ? plan.output.bytes : 0)));
  std::byte* memory      = workspace + plan.copies_at();
  const float* const a   = plan.first.elements(space, first, memory);
  const float* const b   = plan.second.elements(space, second, memory);
  float* const result    = copies ? reinterpret_cast<float*>(memory) : to;
  const Functions& calls = Functions::of(plan.pass);
  const miopenStatus_t status =
      calls.run(miopen.handles.of(stream_handle(space)), plan.first.packed, a, plan.second.packed,
                b, plan.convolution, plan.output.packed, result,
                plan.workspace > 0 ? workspace : nullptr, plan.workspace, plan.solution);
  if (is_unsupported(status)) return plan.supported = false;
  check(status, calls.name_of_run);
  if (copies) unpack_box(space, plan.output.given, to, result, add);
  return true;
}

}  // namespace shard::impl
