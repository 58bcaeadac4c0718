// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_JOIN_KERNEL_HPP
#define SHARD_SRC_REDISTRIBUTE_JOIN_KERNEL_HPP

#include "block_kernels.hpp"

namespace shard::impl {

/// A box of cells, each of which becomes the reduction of its contributions, in their order, after
/// its own value if it `adds`; zero if there are none. Contributions stand in a buffer, all in the
/// same way, but for one that may be this rank's own. Dimension 0 is the innermost; extents in
/// values.
struct Join {
  std::byte* to            = nullptr;
  const std::byte* own     = nullptr;
  const std::byte* sent    = nullptr;  ///< the buffer's start
  const index_t* offsets   = nullptr;  ///< of the contributions in it, in bytes; -1: the own one
  int count                = 0;        ///< of contributions
  int dims                 = 0;
  index_t extent[max_rank] = {}, to_stride[max_rank] = {}, own_stride[max_rank] = {},
          sent_stride[max_rank] = {};  // bytes
  ValueKind kind                = ValueKind::opaque;
  ReductionKind op              = ReductionKind::sum;
  bool adds                     = false;

  /// Adds the next dimension outwards, as part of the last one where memory allows.
  void add(index_t n, index_t to_bytes, index_t own_bytes, index_t sent_bytes) {
    if (n == 1) return;
    if (dims > 0) {
      const int d = dims - 1;
      if (to_bytes == to_stride[d] * extent[d] && own_bytes == own_stride[d] * extent[d] &&
          sent_bytes == sent_stride[d] * extent[d]) {
        extent[d] *= n;
        return;
      }
    }
    extent[dims]        = n;
    to_stride[dims]     = to_bytes;
    own_stride[dims]    = own_bytes;
    sent_stride[dims++] = sent_bytes;
  }
  index_t lines() const {
    index_t n = 1;
    for (int d = 1; d < dims; ++d) n *= extent[d];
    return n;
  }
};

/// Some cells of a line of a Join.
struct JoinLine {
  const Join& j;
  std::byte* to;
  index_t own_from, sent_from;  // bytes from the first cell of the box to that of the line
  index_t begin, end;

  template <class T>
  KOKKOS_INLINE_FUNCTION T value(int part, index_t i) const {
    const index_t offset = j.offsets[part];
    return *reinterpret_cast<const T*>(offset < 0
                                           ? j.own + own_from + i * j.own_stride[0]
                                           : j.sent + offset + sent_from + i * j.sent_stride[0]);
  }

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    using Wide = typename Accumulated<T>::type;
    for (index_t i = begin; i < end; ++i) {
      T& cell  = *reinterpret_cast<T*>(to + i * j.to_stride[0]);
      Wide sum = j.adds        ? static_cast<Wide>(cell)
                 : j.count > 0 ? static_cast<Wide>(value<T>(0, i))
                               : Wide(0);
      for (int part = j.adds ? 0 : 1; part < j.count; ++part)
        CombineRange::join(j.op, sum, static_cast<Wide>(value<T>(part, i)));
      cell = static_cast<T>(sum);
    }
  }
};

/// Runs a Join. A work item is a piece of a line on a host, a value on a device.
template <bool ByLines>
struct JoinKernel {
  Join join;
  index_t pieces = 1;  ///< of a line

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n  = join.extent[0];
    const index_t in = ByLines ? pieces : n;
    index_t line     = item / in;
    const index_t at = item % in;
    std::byte* to    = join.to;
    index_t own = 0, sent = 0;
    for (int d = 1; d < join.dims; ++d) {
      const index_t i = line % join.extent[d];
      line /= join.extent[d];
      to += i * join.to_stride[d];
      own += i * join.own_stride[d];
      sent += i * join.sent_stride[d];
    }
    const index_t begin = ByLines ? at * n / pieces : at;
    const index_t end   = ByLines ? (at + 1) * n / pieces : at + 1;
    visit_arithmetic(join.kind, JoinLine{join, to, own, sent, begin, end});
  }
};

}  // namespace shard::impl

#endif
