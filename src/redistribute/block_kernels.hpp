// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_BLOCK_KERNELS_HPP
#define SHARD_SRC_REDISTRIBUTE_BLOCK_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "block_rows.hpp"
#include "shard/base/impl/host_space.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/types.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/redistribute/impl/plain_view.hpp"

namespace shard::impl {

/// A copy between strided blocks, in units of 1, 2, 4 or 8 bytes. Dimension 0 is the innermost.
/// Strides may be negative, or 0 where one unit goes to many places.
struct BlockCopy {
  static constexpr int max_dims = max_rank + 2;  // a View's, ranks, units of a value

  std::byte *from = nullptr, *to = nullptr;  ///< nothing to copy from: zeros
  int dims = 0, unit = 1;
  bool packs               = true;  ///< a View is where it comes from, otherwise where it goes
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
  /// After the last dimension: at least a line, of one unit.
  void close() {
    if (dims > 0) return;
    dims           = 1;
    extent[0]      = 1;
    from_stride[0] = to_stride[0] = unit;
  }
  /// Puts the dimensions outside of a line in the order in which it is best to go through memory:
  /// as they lie on the side of the View, but short lines that a short dimension interleaves are
  /// many to a row, with that dimension next; and where units that follow each other on one side do
  /// so along another dimension on the other side, that one comes next to the line. Says whether
  /// dimension 2 interleaves those of 1.
  bool arrange() {
    constexpr index_t short_line = 512, few = 16;  // bytes, lines
    const index_t* view = packs ? from_stride : to_stride;
    for (int d = 2; d < dims; ++d)
      for (int e = d; e > 1 && size_of(view[e]) < size_of(view[e - 1]); --e) swap_dims(e, e - 1);
    if (from != nullptr && (from_stride[0] == unit) != (to_stride[0] == unit)) {
      const index_t* other = from_stride[0] == unit ? to_stride : from_stride;
      for (int d = 1; d < dims; ++d)
        if (other[d] == unit && extent[d] >= few) {
          for (; d > 1; --d) swap_dims(d, d - 1);
          return false;
        }
    }
    if (dims < 3 || extent[0] * unit >= short_line || extent[1] >= few || extent[2] < few)
      return false;
    swap_dims(1, 2);
    return true;
  }
  /// Whether both sides are one run of bytes.
  bool is_contiguous() const { return dims == 1 && from_stride[0] == unit && to_stride[0] == unit; }
  /// Whether lines along dimension 0 are contiguous on one side and those along 1 on the other.
  bool is_transposed() const {
    return dims > 1 && from != nullptr &&
           ((from_stride[0] == unit && to_stride[1] == unit && to_stride[0] != unit) ||
            (to_stride[0] == unit && from_stride[1] == unit && from_stride[0] != unit));
  }
  index_t lines() const {
    index_t n = 1;
    for (int d = 1; d < dims; ++d) n *= extent[d];
    return n;
  }

 private:
  static index_t size_of(index_t stride) { return stride < 0 ? -stride : stride; }
  static void swap(index_t& a, index_t& b) {
    const index_t c = a;
    a               = b;
    b               = c;
  }
  void swap_dims(int d, int e) {
    swap(extent[d], extent[e]);
    swap(from_stride[d], from_stride[e]);
    swap(to_stride[d], to_stride[e]);
  }
};

/// Runs a block copy. A work item is a unit on a device. On a host it is a piece of a line, or some
/// rows (lines along dimension 1), in all of dimension 2 if that interleaves them; where they are
/// all of dimension 1, in several indices of the dimensions beyond.
template <bool ByLines>
struct BlockCopyKernel {
  BlockCopy copy;
  index_t pieces   = 1;      ///< of a line
  index_t rows     = 1;      ///< of a work item
  index_t chunks   = 1;      ///< of rows along dimension 1
  index_t beyond   = 1;      ///< indices of the dimensions beyond, all together
  index_t taken    = 1;      ///< of them, by a work item
  bool interleaved = false;  ///< by dimension 2
  bool stream      = false;  ///< by non-temporal stores

  KOKKOS_FUNCTION void operator()(index_t item) const {
    if constexpr (!ByLines) {
      const index_t at = item % copy.extent[0];
      piece(item / copy.extent[0], at, at + 1);
    } else if (pieces > 1) {
      const index_t n = copy.extent[0], at = item % pieces;
      piece(item / pieces, at * n / pieces, (at + 1) * n / pieces);
    } else {
      groups(item);
    }
  }

 private:
  /// Units [begin, end) of a line.
  KOKKOS_FUNCTION void piece(index_t line, index_t begin, index_t end) const {
    index_t from = begin * copy.from_stride[0], to = begin * copy.to_stride[0];
    for (int d = 1; d < copy.dims; ++d) {
      const index_t i = line % copy.extent[d];
      line /= copy.extent[d];
      from += i * copy.from_stride[d];
      to += i * copy.to_stride[d];
    }
    run(from, to, end - begin, 1);
  }
  KOKKOS_FUNCTION void groups(index_t item) const {
    const int base    = interleaved ? 3 : 2;
    const index_t all = copy.dims > 1 ? copy.extent[1] : 1, row = item % chunks * rows;
    const index_t n = all - row < rows ? all - row : rows, first = item / chunks * taken;
    const index_t last                 = first + taken < beyond ? first + taken : beyond;
    index_t index[BlockCopy::max_dims] = {};
    index_t from = row * copy.from_stride[1], to = row * copy.to_stride[1];
    index_t rest = first;
    for (int d = base; d < copy.dims; ++d) {
      index[d] = rest % copy.extent[d];
      rest /= copy.extent[d];
      from += index[d] * copy.from_stride[d];
      to += index[d] * copy.to_stride[d];
    }
    for (index_t group = first; group < last; ++group) {
      for (index_t i = 0; i < (interleaved ? copy.extent[2] : 1); ++i)
        run(from + i * copy.from_stride[2], to + i * copy.to_stride[2], copy.extent[0], n);
      for (int d = base; d < copy.dims; ++d) {
        from += copy.from_stride[d];
        to += copy.to_stride[d];
        if (++index[d] < copy.extent[d]) break;
        from -= copy.extent[d] * copy.from_stride[d];
        to -= copy.extent[d] * copy.to_stride[d];
        index[d] = 0;
      }
    }
    if (stream) {
      KOKKOS_IF_ON_HOST((end_stream();))
    }
  }
  KOKKOS_FUNCTION void run(index_t from, index_t to, index_t count, index_t n) const {
    const Lines r{copy.from == nullptr ? nullptr : copy.from + from,
                  copy.to + to,
                  copy.from_stride[0],
                  copy.to_stride[0],
                  copy.from_stride[1],
                  copy.to_stride[1],
                  count,
                  n};
    if constexpr (ByLines) {
      if (stream && copy.from_stride[0] == copy.unit && copy.to_stride[0] == copy.unit) {
        KOKKOS_IF_ON_HOST((for (index_t i = 0; i < n; ++i)
                               stream_bytes(r.to + i * r.to_distance, r.from + i * r.from_distance,
                                            static_cast<std::size_t>(count * copy.unit));
                           return;))
      }
    }
    switch (copy.unit) {
      case 1: run_of<std::uint8_t>(r); break;
      case 2: run_of<std::uint16_t>(r); break;
      case 4: run_of<std::uint32_t>(r); break;
      default: run_of<std::uint64_t>(r);
    }
  }
  template <class Unit>
  KOKKOS_FUNCTION void run_of(const Lines& r) const {
    constexpr auto size    = static_cast<index_t>(sizeof(Unit));
    constexpr index_t tall = 8;  // rows from which tiles are worth it
    if (r.from == nullptr)
      zero_rows_of<Unit>(r);
    else if (ByLines && r.rows >= tall && r.count > 1 &&
             ((r.from_stride == size && r.to_distance == size && r.to_stride != size) ||
              (r.to_stride == size && r.from_distance == size && r.from_stride != size)))
      transpose_rows_of<Unit>(r, stream);
    else
      copy_lines<Unit>(r);
  }
};

/// Runs a block copy, which has something to copy.
template <class Space>
void run_block_copy(const char* label, const Space& space, const BlockCopy& copy) {
  BlockCopyKernel<is_host_space_v<Space>> kernel{copy};
  index_t items = copy.lines() * copy.extent[0];
  if constexpr (is_host_space_v<Space>) {
    constexpr index_t piece = 262144, block = 32768, tile = 4 * tile_edge;  // bytes, bytes, lines
    BlockCopy& c                            = kernel.copy;
    kernel.interleaved                      = c.arrange();
    constexpr index_t more_than_caches_hold = index_t{1} << 25U, long_line = 128;
    const bool tiles   = c.is_transposed(),
               plain   = c.from_stride[0] == c.unit && c.to_stride[0] == c.unit;
    const index_t line = c.extent[0] * c.unit, all = c.lines(), rows = c.dims > 1 ? c.extent[1] : 1;
    kernel.stream = all * line >= more_than_caches_hold &&
                    (tiles || (plain && c.from != nullptr && line >= long_line && line < piece));
    if (line > piece && !tiles && space.concurrency() > 1) {
      kernel.pieces = (line + piece - 1) / piece;
      items         = all * kernel.pieces;
    } else {
      const index_t group = kernel.interleaved ? c.extent[2] : 1;
      kernel.rows         = block / line / group > 1 ? block / line / group : 1;
      if (tiles) kernel.rows = (kernel.rows + tile - 1) / tile * tile;
      if (kernel.rows > rows) kernel.rows = rows;
      kernel.chunks = (rows + kernel.rows - 1) / kernel.rows;
      kernel.beyond = all / rows / group;
      if (kernel.chunks == 1 && block / (line * rows * group) > 1)
        kernel.taken = block / (line * rows * group);
      items = kernel.chunks * ((kernel.beyond + kernel.taken - 1) / kernel.taken);
    }
  }
  launch(label, space, items, kernel);
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

/// Floats of fewer than 32 bits (half_t and bhalf_t, where a backend has them) are added in 32 bits
/// and rounded once.
template <class T>
struct Accumulated {
  static constexpr bool is_short = sizeof(T) < sizeof(float) && !std::is_integral_v<T>;
  using type                     = std::conditional_t<is_short, float, T>;
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
