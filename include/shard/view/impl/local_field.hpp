// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_LOCAL_FIELD_HPP
#define SHARD_VIEW_IMPL_LOCAL_FIELD_HPP

#include "shard/base/types.hpp"

namespace shard::impl {

/// A rank's part of a field for the library's kernels: plain data with few template parameters, so
/// a kernel is instantiated once for all fields of a value type and rank. Index (0, ..., 0) is the
/// first owned point.
template <class T, int Rank>
struct LocalField {
  T* origin            = nullptr;  ///< address of the first owned point
  index_t extent[Rank] = {};       ///< owned points
  index_t stride[Rank] = {};       ///< in elements
  index_t begin[Rank]  = {};       ///< global index of the first owned point
  index_t global[Rank] = {};       ///< global extents
  int lo[Rank]         = {};       ///< halo before the first owned point
  int hi[Rank]         = {};       ///< halo after the last
};

/// The LocalField of a ShardedView.
template <class Field>
auto local(const Field& field) {
  LocalField<typename Field::value_type, Field::rank> f;
  f.origin = field.origin();
  for (int d = 0; d < Field::rank; ++d) {
    f.extent[d] = field.extent(d);
    f.stride[d] = field.stride(d);
    f.begin[d]  = field.begin(d);
    f.global[d] = field.global_extent(d);
    f.lo[d]     = Field::halo_lo(d);
    f.hi[d]     = Field::halo_hi(d);
  }
  return f;
}

}  // namespace shard::impl

#endif
