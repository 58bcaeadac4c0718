// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of MIOpen's interface that src/layers/miopen.cpp calls. Where MIOpen's own header is
// found, fake_amd/miopen.cpp is compiled with that one.
#ifndef SHARD_TESTS_LAYERS_FAKE_AMD_MIOPEN_H
#define SHARD_TESTS_LAYERS_FAKE_AMD_MIOPEN_H

#include <cstddef>
#include <cstdint>

extern "C" {

struct ihipStream_t;
using miopenAcceleratorQueue_t      = ihipStream_t*;
using miopenHandle_t                = struct miopenHandle*;
using miopenTensorDescriptor_t      = struct miopenTensorDescriptor*;
using miopenConvolutionDescriptor_t = struct miopenConvolutionDescriptor*;

enum miopenStatus_t {
  miopenStatusSuccess        = 0,
  miopenStatusBadParm        = 3,
  miopenStatusInternalError  = 5,
  miopenStatusNotImplemented = 6,
  miopenStatusUnsupportedOp  = 8
};
enum miopenDataType_t { miopenHalf = 0, miopenFloat = 1 };
enum miopenConvolutionMode_t { miopenConvolution = 0, miopenTranspose = 1 };
enum miopenConvolutionAttrib_t { MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC = 1 };
enum miopenConvAlgorithm_t {
  miopenConvolutionAlgoGEMM         = 0,
  miopenConvolutionAlgoDirect       = 1,
  miopenConvolutionAlgoImplicitGEMM = 5
};
struct miopenConvSolution_t {
  float time;
  std::size_t workspace_size;
  std::uint64_t solution_id;
  miopenConvAlgorithm_t algorithm;
};

const char* miopenGetErrorString(miopenStatus_t);
miopenStatus_t miopenCreateWithStream(miopenHandle_t*, miopenAcceleratorQueue_t);
miopenStatus_t miopenDestroy(miopenHandle_t);
miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t*);
miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t);
miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t, miopenDataType_t, int,
                                         const int*, const int*);
miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t*);
miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t);
miopenStatus_t miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor_t, int, const int*,
                                                 const int*, const int*, miopenConvolutionMode_t);
miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t, int);
miopenStatus_t miopenSetConvolutionAttribute(miopenConvolutionDescriptor_t,
                                             miopenConvolutionAttrib_t, int);

using miopenGetSolution = miopenStatus_t(miopenHandle_t, miopenTensorDescriptor_t,
                                         miopenTensorDescriptor_t, miopenConvolutionDescriptor_t,
                                         miopenTensorDescriptor_t, std::size_t, std::size_t*,
                                         miopenConvSolution_t*);
miopenGetSolution miopenConvolutionForwardGetSolution, miopenConvolutionBackwardDataGetSolution,
    miopenConvolutionBackwardWeightsGetSolution;
using miopenCompileSolution = miopenStatus_t(miopenHandle_t, miopenTensorDescriptor_t,
                                             miopenTensorDescriptor_t,
                                             miopenConvolutionDescriptor_t,
                                             miopenTensorDescriptor_t, std::uint64_t);
miopenCompileSolution miopenConvolutionForwardCompileSolution,
    miopenConvolutionBackwardDataCompileSolution, miopenConvolutionBackwardWeightsCompileSolution;
using miopenImmediate = miopenStatus_t(miopenHandle_t, miopenTensorDescriptor_t, const void*,
                                       miopenTensorDescriptor_t, const void*,
                                       miopenConvolutionDescriptor_t, miopenTensorDescriptor_t,
                                       void*, void*, std::size_t, std::uint64_t);
miopenImmediate miopenConvolutionForwardImmediate, miopenConvolutionBackwardDataImmediate,
    miopenConvolutionBackwardWeightsImmediate;

}  // extern "C"

#endif
