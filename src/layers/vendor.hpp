// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_VENDOR_HPP
#define SHARD_SRC_LAYERS_VENDOR_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device_pieces.hpp"
#include "shard/base/impl/host_space.hpp"
#include "shard/layers/product_precision.hpp"
#include "vendor_convolution.hpp"
#include "vendor_product.hpp"

/// \file
/// What a vendor's library computes (ProductLibrary::vendor). cudnn.cpp or miopen.cpp, and
/// cublaslt.cpp or rocblas.cpp have the functions. All are asynchronous on `space`. One host thread
/// at a time starts products on a `space`: a stream has one memory (partial_sums) for packed
/// operands, which another thread's packing would overwrite before the library reads them.

namespace shard::impl {

/// True if the build has a library of convolutions; of matrix products.
bool has_vendor_convolutions();
bool has_vendor_products();

/// A convolution is one of three passes. Each has two inputs and one output.
enum class VendorPass : std::uint8_t {
  forward,  ///< fine, weight -> coarse
  data,     ///< coarse, weight -> fine
  weights   ///< fine, coarse -> weight
};

/// A convolution that the library has accepted.
struct VendorConvolutionPlan;

/// The plan of a pass, made once for each stream and description; null if the library doesn't
/// support it or wants too much workspace.
const VendorConvolutionPlan* vendor_convolution_plan(const Kokkos::DefaultExecutionSpace& space,
                                                     VendorPass pass,
                                                     const VendorConvolution& convolution,
                                                     ProductPrecision precision);

/// Computes the pass, or returns false if the library refuses it only now. With `add` it adds to
/// the output's values.
bool run_vendor_convolution(const Kokkos::DefaultExecutionSpace& space,
                            const VendorConvolutionPlan& plan, const float* first,
                            const float* second, float* to, bool add);

/// A matrix product that the library has accepted.
struct VendorProductPlan;

/// The plan of a product, made once for each description; null if the library doesn't support it.
/// Plans don't depend on `add`.
VendorProductPlan* vendor_product_plan(const VendorProduct& product, ProductPrecision precision);

/// Computes the product of the plan.
void run_vendor_product(const Kokkos::DefaultExecutionSpace& space, VendorProductPlan& plan,
                        const VendorProduct& product);

/// The most workspace of one call, in bytes.
inline constexpr std::size_t most_vendor_workspace = std::size_t{512} << 20U;

/// Workspace for calls on `space`, which run in order and share it.
template <class Space>
void* vendor_workspace(const Space& space, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // powers of two: memory that has become too small is kept, and is then less than what replaced it
  std::size_t size = std::size_t{1} << 20U;
  while (size < bytes) size *= 2;
  return partial_sums<Space, std::byte>(space, static_cast<index_t>(size));
}

template <class Space, class T>
inline constexpr bool has_vendor_v = std::is_same_v<T, float> && !is_host_space_v<Space> &&
                                     std::is_same_v<Space, Kokkos::DefaultExecutionSpace>;

/// True if products of T in Space are the vendor's.
template <class Space, class T>
bool uses_vendor() {
  if constexpr (has_vendor_v<Space, T>) return product_library() == ProductLibrary::vendor;
  return false;
}

}  // namespace shard::impl

#endif
