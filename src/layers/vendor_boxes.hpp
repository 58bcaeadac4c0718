// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_VENDOR_BOXES_HPP
#define SHARD_SRC_LAYERS_VENDOR_BOXES_HPP

#include "launch.hpp"
#include "vendor_convolution.hpp"

/// \file
/// Copies for libraries that need tensors without gaps.

namespace shard::impl {

/// to = from, for all cells of a block; `to` has no gaps.
template <class T>
struct PackBoxKernel {
  T* to;
  Block<const T> from;
  RowSplit split;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const RowSplit::Row r = split.row(item);
    const index_t row = ((r.n * from.channels + r.c) * from.extent(0) + r.z) * from.extent(1) + r.y;
    for (index_t x = r.x; x < r.x + r.count; ++x)
      to[row * from.extent(2) + x] = from.at(r.n, r.c, r.z, r.y, x);
  }
};

/// to = from, or to += from, for all cells of a block; `from` has no gaps.
template <class T>
struct UnpackBoxKernel {
  Block<T> to;
  const T* from;
  bool add;
  RowSplit split;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const RowSplit::Row r = split.row(item);
    const index_t row     = ((r.n * to.channels + r.c) * to.extent(0) + r.z) * to.extent(1) + r.y;
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      T& cell       = to.at(r.n, r.c, r.z, r.y, x);
      const T value = from[row * to.extent(2) + x];
      cell          = add ? cell + value : value;
    }
  }
};

/// A tensor as a block; `first` is its first element.
template <class T>
Block<T> block_of(const VendorTensor& tensor, T* first) {
  Block<T> b;
  b.origin   = first;
  b.batch    = tensor.extent[0];
  b.channels = tensor.extent[1];
  for (std::size_t d = 0; d < 3; ++d) b.end[d] = tensor.extent[d + 2];
  for (std::size_t d = 0; d < 5; ++d) b.stride[d] = tensor.stride[d];
  return b;
}

/// Copies a tensor to memory without gaps.
template <class Space>
void pack_box(const Space& space, float* to, const VendorTensor& tensor, const float* first) {
  const Block<const float> from = block_of(tensor, first);
  const PackBoxKernel<float> pack{to, from, RowSplit::of(space, from)};
  launch("shard::pack_box", space, pack.split.items(), pack);
}

/// Copies memory without gaps to a tensor, or adds it to the tensor's values.
template <class Space>
void unpack_box(const Space& space, const VendorTensor& tensor, float* first, const float* from,
                bool add) {
  const Block<float> to = block_of(tensor, first);
  const UnpackBoxKernel<float> unpack{to, from, add, RowSplit::of(space, to)};
  launch("shard::unpack_box", space, unpack.split.items(), unpack);
}

}  // namespace shard::impl

#endif
