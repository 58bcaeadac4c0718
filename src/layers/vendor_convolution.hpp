// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_VENDOR_CONVOLUTION_HPP
#define SHARD_SRC_LAYERS_VENDOR_CONVOLUTION_HPP

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// A strided box of a block: what a vendor's library calls a tensor.
struct VendorTensor {
  index_t origin            = 0;   ///< of the first element, from the block's origin
  std::array<int, 5> extent = {};  ///< batch, channels, cells
  std::array<int, 5> stride = {};

  /// True if a batch entry has no gaps between its elements.
  bool is_packed() const {
    int packed = 1;
    for (std::size_t d = 4; d > 0; --d) {
      if (stride[d] != packed) return false;
      packed *= extent[d];
    }
    return true;
  }
  /// The description of a copy without gaps; this one if it has none.
  VendorTensor packed() const { return is_packed() ? *this : of(extent); }

  std::size_t count() const {
    std::size_t product = 1;
    for (const int e : extent) product *= static_cast<std::size_t>(e);
    return product;
  }
  /// A tensor without gaps, also between batch entries.
  static VendorTensor of(const std::array<int, 5>& extent) {
    VendorTensor t;
    t.extent = extent;
    int step = 1;
    for (std::size_t d = 5; d-- > 0; step *= extent[d]) t.stride[d] = step;
    return t;
  }
};

/// A convolution as vendors' libraries describe it: two boxes, and zeros around the fine one, as
/// many on both sides. Coarse cell o reads the fine cells o * stride + k * dilation - padding, both
/// counted from the boxes' first cells.
struct VendorConvolution {
  VendorTensor fine, coarse;
  std::array<int, 3> padding = {}, kernel = {}, stride = {}, dilation = {};
  int groups      = 1;
  bool whole_fine = true;  ///< the box has all cells of the fine block

  /// The spatial dimensions to describe.
  int dims() const {
    return kernel[0] == 1 && fine.extent[2] == 1 && coarse.extent[2] == 1 ? 2 : 3;
  }
  /// Extents or strides of a tensor with `dims` spatial dimensions.
  static std::array<int, 5> with_dims(std::array<int, 5> values, int dims) {
    if (dims == 2) std::copy(values.begin() + 3, values.end(), values.begin() + 2);
    return values;
  }
  std::array<int, 5> weight_extent() const {
    return {coarse.extent[1], fine.extent[1] / groups, kernel[0], kernel[1], kernel[2]};
  }

  /// The convolution between two blocks, or nothing if a library can't compute it. The boxes have
  /// the fine cells that coarse ones read. \param trims leaves out coarse cells that read no fine
  /// cell; else the coarse box has them all.
  template <class A, class B>
  static std::optional<VendorConvolution> of(const Block<A>& coarse, const Block<B>& fine,
                                             const LocalWindow& w, bool trims) {
    VendorConvolution v;
    index_t fine_begin[3], fine_end[3], coarse_begin[3], coarse_end[3];
    for (int d = 0; d < 3; ++d) {
      const index_t s = w.stride[d], reach = index_t(w.kernel[d] - 1) * w.dilation[d];
      index_t c0 = coarse.begin[d], c1 = coarse.end[d];
      const index_t f0 = fine.begin[d], f1 = fine.end[d];
      while (trims && c0 < c1 && c0 * s + w.offset[d] + reach < f0) ++c0;
      while (trims && c0 < c1 && (c1 - 1) * s + w.offset[d] >= f1) --c1;
      if (c0 >= c1) return std::nullopt;
      const index_t first = c0 * s + w.offset[d], end = (c1 - 1) * s + w.offset[d] + reach + 1,
                    low = std::max<index_t>(0, f0 - first), high = std::max<index_t>(0, end - f1);
      fine_begin[d]   = std::max(first, f0);
      fine_end[d]     = std::min(end, f1);
      coarse_begin[d] = c0;
      coarse_end[d]   = c1;
      const auto at   = static_cast<std::size_t>(d);
      v.padding[at]   = static_cast<int>(low);
      v.kernel[at]    = w.kernel[d];
      v.stride[at]    = w.stride[d];
      v.dilation[at]  = w.dilation[d];
      v.whole_fine    = v.whole_fine && fine_begin[d] == f0 && fine_end[d] == f1;
      // with more zeros than are read at the end, the library must not count another coarse cell
      if (fine_begin[d] >= fine_end[d] || high > low || low - high >= s) return std::nullopt;
    }
    v.groups = static_cast<int>(w.groups);
    if (!describe(v.fine, fine, fine_begin, fine_end) ||
        !describe(v.coarse, coarse, coarse_begin, coarse_end))
      return std::nullopt;
    return v;
  }

 private:
  /// Fills in a tensor; false if it is empty or a library's 32-bit offsets are too short.
  template <class T>
  static bool describe(VendorTensor& t, const Block<T>& b, const index_t (&begin)[3],
                       const index_t (&end)[3]) {
    constexpr index_t most = std::numeric_limits<int>::max();
    index_t extent[5] = {b.batch, b.channels}, span = 1, packed = 1;
    for (int d = 0; d < 3; ++d) {
      extent[d + 2] = end[d] - begin[d];
      t.origin += begin[d] * b.stride[d + 2];
    }
    for (int d = 4; d >= 0; --d) {
      // the stride of one element means nothing; as of a packed tensor it is the fastest
      const index_t stride = extent[d] == 1 ? packed : b.stride[d];
      if (extent[d] < 1 || stride < 1 || extent[d] > most || stride > most) return false;
      span += (extent[d] - 1) * stride;
      if (span > most) return false;
      packed                                = stride * extent[d];
      t.extent[static_cast<std::size_t>(d)] = static_cast<int>(extent[d]);
      t.stride[static_cast<std::size_t>(d)] = static_cast<int>(stride);
    }
    return true;
  }
};

}  // namespace shard::impl

#endif
