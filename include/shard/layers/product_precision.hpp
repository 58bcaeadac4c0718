// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_PRODUCT_PRECISION_HPP
#define SHARD_LAYERS_PRODUCT_PRECISION_HPP

#include <cstdint>

namespace shard {

/// What the factors of float products may be rounded to.
enum class ProductPrecision : std::uint8_t {
  float32,  ///< not at all
  tf32,     ///< 10 bits of mantissa; products are then exact, and sums are float
  bfloat16  ///< 7 bits of mantissa; products are then exact, and sums are float
};

/// Sets the precision of the process' products from here on, in float:
/// - on NVIDIA GPUs if Kokkos was built for sm_80 or later: products of Linear and its gradients,
///   and of convolutions with more than 32 output channels per group and their gradients;
/// - on hosts, `bfloat16` only, in builds without CUDA and HIP: the same of Linear, and of
///   convolutions with at least 16 input and 16 output channels per group, on x86-64 processors
///   with AMX-BF16 under Linux (Intel Xeon from Sapphire Rapids on). Values below the smallest
///   normal float count as zero. The order of additions differs from that of float32; it is the
///   same on any mesh.
///
/// SpatialPool, SpatialUnpool and the networks of attention biases are made of the products of
/// Linear, so they are rounded too.
/// All other products, other hosts and shard's kernels on AMD GPUs keep `float32`, the default.
/// Results stay bitwise reproducible, on every number of ranks where they were so before. Fields
/// and parameters stay float. Local; ranks should agree, as their results differ otherwise. Call it
/// while no layer is running.
void set_product_precision(ProductPrecision precision);

/// The precision that set_product_precision set last.
ProductPrecision product_precision();

/// Who computes float products on a device.
enum class ProductLibrary : std::uint8_t {
  shard,  ///< this library, or Kokkos Kernels where it was built with SHARD_ENABLE_KERNELS
  vendor  ///< cuDNN and cuBLASLt, or MIOpen and rocBLAS
};

/// Sets who computes the process' float products on a device from here on. With `vendor`, cuDNN
/// computes convolutions and their gradients, and cuBLASLt computes `Linear` and its gradients.
/// What they don't support, depthwise convolutions, double and hosts stay with `shard`, the
/// default. The precision is that of set_product_precision, but in bfloat16 cuBLASLt may take
/// TF32, and convolutions stay with `shard` unless they are 1x1, because cuDNN would round results
/// too.
///
/// On AMD GPUs MIOpen and rocBLAS take their places. MIOpen computes in float32; in tf32 and
/// bfloat16 rocBLAS takes TF32 where the GPU has it. Neither has been run on an AMD GPU yet.
///
/// Only deterministic algorithms are used: the same call on the same GPU gives the same bits (for
/// AMD GPUs docs/gpu.md has the conditions). The order of additions depends on the extents, so
/// results of other meshes differ by rounding.
///
/// A product may use up to 512 MiB of workspace, which is kept for each stream, and a copy of an
/// output's gradient that has gaps. The first one with new extents may allocate. Local; ranks
/// should agree. Call it while no layer is running.
/// \throws ArgumentError for `vendor` in a build with none of SHARD_ENABLE_CUDNN,
/// SHARD_ENABLE_CUBLASLT, SHARD_ENABLE_MIOPEN and SHARD_ENABLE_ROCBLAS
void set_product_library(ProductLibrary library);

/// The library that set_product_library set last.
ProductLibrary product_library();

}  // namespace shard

#endif
