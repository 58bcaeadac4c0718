// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_VENDOR_HPP
#define SHARD_SRC_LAYERS_DEVICE_VENDOR_HPP

#include <optional>

#include "correlation.hpp"
#include "launch.hpp"
#include "vendor.hpp"
#include "vendor_boxes.hpp"

namespace shard::impl {

/// Sets a block's cells to their channel's bias, or to zero.
template <class T>
struct StartChannelsKernel {
  Block<T> out;
  const T* bias;
  RowSplit split;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const RowSplit::Row r = split.row(item);
    const T value         = bias != nullptr ? bias[r.c] : T(0);
    for (index_t x = r.x; x < r.x + r.count; ++x) out.at(r.n, r.c, r.z, r.y, x) = value;
  }
};

/// The elements of a box without gaps: where they are, or a copy.
template <class Space>
const float* packed_elements(const Space& space, const VendorTensor& box,
                             const Block<const float>& block) {
  if (box.is_packed()) return block.origin + box.origin;
  float* const to = partial_sums<Space, float>(space, static_cast<index_t>(box.count()));
  pack_box(space, to, box, block.origin + box.origin);
  return to;
}

/// Correlation or its transpose by the vendor's library, or false if it doesn't support it.
template <class Space, bool Transposed>
bool correlate_by_vendor(const Space& space, const Correlation<float, Transposed, LocalWindow>& o) {
  if (!has_vendor_convolutions()) return false;
  std::optional<VendorConvolution> v;
  if constexpr (Transposed)
    v = VendorConvolution::of(o.in, o.out, o.window, true);
  else
    v = VendorConvolution::of(o.out, o.in, o.window, false);
  if (!v) return false;
  const VendorTensor coarse = v->coarse;
  if (Transposed) v->coarse = coarse.packed();
  const VendorPass pass  = Transposed ? VendorPass::data : VendorPass::forward;
  const auto* const plan = vendor_convolution_plan(space, pass, *v, product_precision());
  if (plan == nullptr) return false;
  const bool starts = !o.onto && (o.bias != nullptr || (Transposed && !v->whole_fine));
  if (starts) {
    const StartChannelsKernel<float> start{o.out, o.bias, RowSplit::of(space, o.out)};
    launch("shard::start_channels", space, start.split.items(), start);
  }
  const bool adds = starts || o.onto;
  if constexpr (Transposed)
    return run_vendor_convolution(space, *plan, packed_elements(space, coarse, o.in), o.weight,
                                  o.out.origin + v->fine.origin, adds);
  else
    return run_vendor_convolution(space, *plan, o.in.origin + v->fine.origin, o.weight,
                                  o.out.origin + coarse.origin, adds);
}

/// Adds the weight gradient by the vendor's library, or returns false if it doesn't support it.
template <class Space>
bool correlate_weights_by_vendor(const Space& space, float* gradient,
                                 const Block<const float>& coarse, const Block<const float>& fine,
                                 const LocalWindow& window) {
  if (!has_vendor_convolutions()) return false;
  auto v = VendorConvolution::of(coarse, fine, window, true);
  if (!v) return false;
  const VendorTensor given = v->coarse;
  v->coarse                = given.packed();
  const auto* const plan =
      vendor_convolution_plan(space, VendorPass::weights, *v, product_precision());
  if (plan == nullptr) return false;
  return run_vendor_convolution(space, *plan, fine.origin + v->fine.origin,
                                packed_elements(space, given, coarse), gradient, true);
}

}  // namespace shard::impl

#endif
