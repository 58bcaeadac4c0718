// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_BLOCK_KERNELS_HPP
#define SHARD_SRC_REDISTRIBUTE_BLOCK_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../exchange/rows.hpp"
#include "shard/base/types.hpp"
#include "shard/exchange/value_kind.hpp"
#include "shard/redistribute/collectives_call.hpp"

namespace shard::impl {

/// A copy between strided blocks, in units of 1, 2, 4 or 8 bytes. Dimension 0 is the innermost.
/// Strides may be negative, or 0 where one unit goes to many places.
struct BlockCopy {
  static constexpr int max_dims = max_rank + 2;  // a View's, ranks, units of a value

  std::byte *from = nullptr, *to = nullptr;  ///< nothing to copy from: zeros
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
  /// After the last dimension: one unit is a line of one; where units that follow each other on one
  /// side do so along another dimension on the other side, that dimension comes next.
  void close() {
    if (dims == 0) add_line();
    if (from == nullptr || (from_stride[0] == unit) == (to_stride[0] == unit)) return;
    const index_t* other = from_stride[0] == unit ? to_stride : from_stride;
    for (int d = 1; d < dims; ++d)
      if (other[d] == unit) {
        for (; d > 1; --d) {
          swap(extent[d], extent[d - 1]);
          swap(from_stride[d], from_stride[d - 1]);
          swap(to_stride[d], to_stride[d - 1]);
        }
        return;
      }
  }
  /// Whether both sides are one run of bytes.
  bool is_contiguous() const { return dims == 1 && from_stride[0] == unit && to_stride[0] == unit; }
  /// Whether lines along dimension 0 are contiguous on one side and those along 1 on the other.
  bool is_transposed() const {
    return dims > 1 && ((from_stride[0] == unit && to_stride[1] == unit && to_stride[0] != unit) ||
                        (to_stride[0] == unit && from_stride[1] == unit && from_stride[0] != unit));
  }
  index_t lines() const {
    index_t n = 1;
    for (int d = 1; d < dims; ++d) n *= extent[d];
    return n;
  }

 private:
  static void swap(index_t& a, index_t& b) {
    const index_t c = a;
    a               = b;
    b               = c;
  }
  void add_line() {
    dims           = 1;
    extent[0]      = 1;
    from_stride[0] = to_stride[0] = unit;
  }
};

/// Copies a block of T, of which rows are contiguous in memory on one side and columns on the
/// other: by tiles, so that whole cache lines are read and written.
template <class T>
KOKKOS_INLINE_FUNCTION void transpose_rows_of(const Rows& r) {
  constexpr auto size    = static_cast<index_t>(sizeof(T));
  constexpr index_t edge = 16;
  const bool along       = r.from_stride == size;  // otherwise `to` is contiguous along a row
  const index_t ni = along ? r.rows : r.count, nj = along ? r.count : r.rows;
  const index_t from_step = along ? r.from_distance : r.from_stride;
  const index_t to_step   = along ? r.to_stride : r.to_distance;
  T tile[edge * edge];
  for (index_t i0 = 0; i0 < ni; i0 += edge)
    for (index_t j0 = 0; j0 < nj; j0 += edge) {
      const index_t n = ni - i0 < edge ? ni - i0 : edge, m = nj - j0 < edge ? nj - j0 : edge;
      for (index_t i = 0; i < n; ++i) {
        const T* source = reinterpret_cast<const T*>(r.from + (i0 + i) * from_step) + j0;
        for (index_t j = 0; j < m; ++j) tile[i * edge + j] = source[j];
      }
      for (index_t j = 0; j < m; ++j) {
        T* target = reinterpret_cast<T*>(r.to + (j0 + j) * to_step) + i0;
        for (index_t i = 0; i < n; ++i) target[i] = tile[i * edge + j];
      }
    }
}

/// Runs a block copy. A work item is some lines or a piece of one on a host, a unit on a device.
template <bool ByLines>
struct BlockCopyKernel {
  BlockCopy copy;
  index_t pieces = 1;  ///< of a line, each a work item
  index_t lines  = 1;  ///< of a work item, where a line has one piece
  index_t all    = 1;  ///< lines

  KOKKOS_FUNCTION void operator()(index_t item) const {
    if constexpr (ByLines) {
      if (pieces > 1) {
        const index_t n = copy.extent[0], at = item % pieces;
        run(item / pieces, 1, at * n / pieces, (at + 1) * n / pieces);
        return;
      }
      const index_t first = item * lines, end = first + lines < all ? first + lines : all;
      const index_t rows = copy.dims > 1 ? copy.extent[1] : 1;
      for (index_t line = first; line < end;) {
        const index_t left = rows - line % rows, n = end - line < left ? end - line : left;
        run(line, n, 0, copy.extent[0]);
        line += n;
      }
    } else {
      const index_t at = item % copy.extent[0];
      run(item / copy.extent[0], 1, at, at + 1);
    }
  }

 private:
  /// Units [begin, end) of lines that differ in dimension 1 alone.
  KOKKOS_FUNCTION void run(index_t line, index_t rows, index_t begin, index_t end) const {
    index_t from = begin * copy.from_stride[0], to = begin * copy.to_stride[0];
    for (int d = 1; d < copy.dims; ++d) {
      const index_t i = line % copy.extent[d];
      line /= copy.extent[d];
      from += i * copy.from_stride[d];
      to += i * copy.to_stride[d];
    }
    const bool many = copy.dims > 1;
    const Rows r{copy.from == nullptr ? nullptr : copy.from + from,
                 copy.to + to,
                 copy.from_stride[0],
                 copy.to_stride[0],
                 many ? copy.from_stride[1] : 0,
                 many ? copy.to_stride[1] : 0,
                 end - begin,
                 rows};
    switch (copy.unit) {
      case 1: run_of<std::uint8_t>(r); break;
      case 2: run_of<std::uint16_t>(r); break;
      case 4: run_of<std::uint32_t>(r); break;
      default: run_of<std::uint64_t>(r);
    }
  }
  template <class Unit>
  KOKKOS_FUNCTION void run_of(const Rows& r) const {
    constexpr auto size = static_cast<index_t>(sizeof(Unit));
    if (r.from == nullptr)
      clear_rows_of<Unit>({r.to, nullptr, r.to_stride, 0, r.to_distance, 0, r.count, r.rows});
    else if (ByLines && r.rows > 1 && r.count > 1 &&
             ((r.from_stride == size && r.to_distance == size && r.to_stride != size) ||
              (r.to_stride == size && r.from_distance == size && r.from_stride != size)))
      transpose_rows_of<Unit>(r);
    else
      copy_rows_of<Unit>(r);
  }
};

/// Whether an execution space's kernels run on the host.
template <class Space>
inline constexpr bool on_host_v =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible;

/// Runs a block copy, which has something to copy.
template <class Space>
void run_block_copy(const char* label, const Space& space, const BlockCopy& copy) {
  BlockCopyKernel<on_host_v<Space>> kernel{copy};
  index_t items = copy.lines() * copy.extent[0];
  if constexpr (on_host_v<Space>) {
    constexpr index_t piece = 262144, block = 32768, tile = 16;  // bytes, bytes, lines
    const index_t line = copy.extent[0] * copy.unit;
    kernel.all         = copy.lines();
    if (line > piece && !copy.is_transposed() && space.concurrency() > 1) {
      kernel.pieces = (line + piece - 1) / piece;
      items         = kernel.all * kernel.pieces;
    } else {
      kernel.lines = block / line > 1 ? block / line : 1;
      if (copy.is_transposed()) kernel.lines = (kernel.lines + tile - 1) / tile * tile;
      items = (kernel.all + kernel.lines - 1) / kernel.lines;
    }
  }
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, items), kernel);
}

/// Adds blocks of values to others. A work item is a line on a host, a value on a device.
template <bool ByLines>
struct BlockAddKernel {
  BlockCopy copy;  ///< in units of a value
  ValueKind kind;

  struct Add {
    const std::byte* from;
    std::byte* to;
    index_t from_stride, to_stride, count;

    template <class T>
    KOKKOS_INLINE_FUNCTION void operator()() const {
      for (index_t i = 0; i < count; ++i) {
        T& sum = *reinterpret_cast<T*>(to + i * to_stride);
        sum    = static_cast<T>(sum + *reinterpret_cast<const T*>(from + i * from_stride));
      }
    }
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t n = ByLines ? 1 : copy.extent[0], at = ByLines ? 0 : item % n;
    index_t line = item / n, from = at * copy.from_stride[0], to = at * copy.to_stride[0];
    for (int d = 1; d < copy.dims; ++d) {
      const index_t i = line % copy.extent[d];
      line /= copy.extent[d];
      from += i * copy.from_stride[d];
      to += i * copy.to_stride[d];
    }
    visit_arithmetic(kind, Add{copy.from + from, copy.to + to, copy.from_stride[0],
                               copy.to_stride[0], ByLines ? copy.extent[0] : 1});
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
