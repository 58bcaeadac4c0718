// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_BLOCK_KERNELS_HPP
#define SHARD_SRC_REDISTRIBUTE_BLOCK_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shard/base/types.hpp"
#include "shard/exchange/value_kind.hpp"
#include "shard/redistribute/collectives_call.hpp"

namespace shard::impl {

/// A copy between strided blocks, in units of 1, 2, 4 or 8 bytes. Dimension 0 is the innermost.
struct BlockCopy {
  static constexpr int max_dims = max_rank + 2;  // a View's, ranks, units of a value

  std::byte *from = nullptr, *to = nullptr;
  int dims = 0, unit = 1;
  index_t extent[max_dims] = {}, from_stride[max_dims] = {}, to_stride[max_dims] = {};  // bytes

  /// Adds the next dimension outwards, as part of the last one where memory allows.
  void add(index_t n, index_t from_bytes, index_t to_bytes) {
    if (n == 1) return;
    if (dims > 0 && from_bytes == from_stride[dims - 1] * extent[dims - 1] &&
        to_bytes == to_stride[dims - 1] * extent[dims - 1]) {
      extent[dims - 1] *= n;
      return;
    }
    extent[dims]      = n;
    from_stride[dims] = from_bytes;
    to_stride[dims++] = to_bytes;
  }
  index_t lines() const {
    index_t n = 1;
    for (int d = 1; d < dims; ++d) n *= extent[d];
    return n;
  }
};

/// Runs a block copy. A work item is a piece of a line on a host, a unit on a device.
template <bool ByLines>
struct BlockCopyKernel {
  BlockCopy copy;
  index_t pieces = 1;  ///< of a line

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n  = copy.extent[0];
    const index_t in = ByLines ? pieces : n;
    index_t line     = item / in;
    const index_t at = item % in;
    std::byte *from = copy.from, *to = copy.to;
    for (int d = 1; d < copy.dims; ++d) {
      const index_t i = line % copy.extent[d];
      line /= copy.extent[d];
      from += i * copy.from_stride[d];
      to += i * copy.to_stride[d];
    }
    const index_t begin = ByLines ? at * n / pieces : at;
    const index_t end   = ByLines ? (at + 1) * n / pieces : at + 1;
    switch (copy.unit) {
      case 1: run<std::uint8_t>(from, to, begin, end); break;
      case 2: run<std::uint16_t>(from, to, begin, end); break;
      case 4: run<std::uint32_t>(from, to, begin, end); break;
      default: run<std::uint64_t>(from, to, begin, end);
    }
  }

 private:
  template <class Unit>
  KOKKOS_FUNCTION void run(std::byte* from, std::byte* to, index_t begin, index_t end) const {
    constexpr auto size = static_cast<index_t>(sizeof(Unit));
    if (copy.from_stride[0] == size && copy.to_stride[0] == size)
      for (index_t i = begin; i < end; ++i)
        reinterpret_cast<Unit*>(to)[i] = reinterpret_cast<const Unit*>(from)[i];
    else
      for (index_t i = begin; i < end; ++i)
        *reinterpret_cast<Unit*>(to + i * copy.to_stride[0]) =
            *reinterpret_cast<const Unit*>(from + i * copy.from_stride[0]);
  }
};

/// 16-bit floats are added in 32 bits and rounded once.
template <class T>
inline constexpr bool is_short_float_v = std::is_same_v<T, Kokkos::Experimental::half_t> ||
                                         std::is_same_v<T, Kokkos::Experimental::bhalf_t>;
template <class T>
struct Accumulated {
  using type = std::conditional_t<is_short_float_v<T>, float, T>;
};

/// out = scale * reduction of `parts` pieces of `count` values that stand one after the other, in
/// their order. `out` may be where the first piece is.
struct Combine {
  const std::byte* parts_at = nullptr;
  std::byte* out            = nullptr;
  index_t count             = 0;
  int parts                 = 1;
  ValueKind kind            = ValueKind::opaque;
  ReductionKind op          = ReductionKind::sum;
  double scale              = 1;

  static constexpr index_t chunk = 4096;  // values of a work item on a host
};

/// Some of the values of a Combine.
struct CombineRange {
  const Combine& c;
  index_t begin, end;

  template <class T>
  KOKKOS_INLINE_FUNCTION static void join(ReductionKind op, T& sum, const T& value) {
    if (op == ReductionKind::sum) {
      sum = static_cast<T>(sum + value);
    } else if constexpr (value_kind<T>() != ValueKind::c32 && value_kind<T>() != ValueKind::c64) {
      // A NaN, which is not equal to itself, is taken and kept.
      if ((op == ReductionKind::max ? sum < value : value < sum) || value != value) sum = value;
    }
  }

  template <class T>
  KOKKOS_INLINE_FUNCTION static T scaled(const T& value, double scale) {
    if constexpr (std::is_same_v<T, Kokkos::complex<float>>)
      return value * static_cast<float>(scale);
    else if constexpr (std::is_same_v<T, Kokkos::complex<double>>)
      return value * scale;
    else if constexpr (std::is_floating_point_v<T>)
      return value * static_cast<T>(scale);
    else
      return value;  // a scale of integers is 1
  }

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    using Wide    = typename Accumulated<T>::type;
    const T* from = reinterpret_cast<const T*>(c.parts_at);
    T* out        = reinterpret_cast<T*>(c.out);
    for (index_t i = begin; i < end; ++i) {
      Wide sum = static_cast<Wide>(from[i]);
      for (int p = 1; p < c.parts; ++p) join(c.op, sum, static_cast<Wide>(from[p * c.count + i]));
      out[i] = static_cast<T>(scaled(sum, c.scale));
    }
  }
};

/// Runs a Combine. A work item is a chunk of values on a host, a value on a device.
template <bool ByChunks>
struct CombineKernel {
  Combine c;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t begin  = ByChunks ? item * Combine::chunk : item;
    const index_t beyond = ByChunks ? begin + Combine::chunk : begin + 1;
    visit_arithmetic(c.kind, CombineRange{c, begin, beyond < c.count ? beyond : c.count});
  }
};

}  // namespace shard::impl

#endif
