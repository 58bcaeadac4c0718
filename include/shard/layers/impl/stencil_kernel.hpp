// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_STENCIL_KERNEL_HPP
#define SHARD_LAYERS_IMPL_STENCIL_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/base/impl/fused.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/types.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

/// to[i] = sum over m (ascending) of coefficient[m] from[i + offset[m]], skipping points outside
/// `from`. Dimensions are in memory order, the fastest last. A work item is a line of points on a
/// host, a point on a device.
/// \tparam Unit whether the fastest dimension is contiguous
template <class T, int Rank, int Count, bool Unit>
struct StencilKernel {
  static constexpr int inner = Rank - 1;

  T* to;          ///< first owned point
  const T* from;  ///< first owned point
  index_t to_stride[Rank], from_stride[Rank];
  index_t begin[Rank], extent[Rank];         ///< computed points
  index_t from_begin[Rank], from_end[Rank];  ///< points of `from`
  index_t core_begin[Rank], core_end[Rank];  ///< computed points whose inputs are all in `from`
  int offset[Count][Rank];
  index_t shift[Count];  ///< of the offsets, in memory
  T coefficient[Count];
  index_t chunk, chunks;  ///< points of an item, items in a line

  index_t items() const {
    index_t n = chunks;
    for (int d = 0; d < inner; ++d) n *= extent[d];
    return n;
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t first = begin[inner] + item % chunks * chunk, end = begin[inner] + extent[inner];
    const index_t last = first + chunk < end ? first + chunk : end;
    item /= chunks;
    index_t index[Rank] = {};
    bool whole          = true;
    T* out              = to;
    const T* in         = from;
    for (int d = inner - 1; d >= 0; --d) {
      index[d] = begin[d] + item % extent[d];
      item /= extent[d];
      whole = whole && index[d] >= core_begin[d] && index[d] < core_end[d];
      out += index[d] * to_stride[d];
      in += index[d] * from_stride[d];
    }
    if (!whole) {
      add_held(out, in, index, first, last);
      return;
    }
    constexpr auto all = std::make_integer_sequence<int, Count>{};
    const index_t a    = between(core_begin[inner], first, last),
                  b    = between(core_end[inner], a, last);
    add_end(out, in, first, a, all);
    add_all(out, in, a, b, all);
    add_end(out, in, b, last, all);
  }

  /// Points of a line whose inputs are all in `from`.
  template <int... M>
  KOKKOS_FORCEINLINE_FUNCTION void add_all(T* KOKKOS_RESTRICT out, const T* in, index_t first,
                                           index_t last, std::integer_sequence<int, M...>) const {
    const T c[]            = {coefficient[M]...};
    const T* const taps[]  = {in + shift[M]...};
    const index_t out_step = Unit ? 1 : to_stride[inner], in_step = Unit ? 1 : from_stride[inner];
    for (index_t i = first; i < last; ++i) {
      T sum = T(0);
      ((sum = multiplied_and_added(sum, c[M], taps[M][i * in_step])), ...);
      out[i * out_step] = sum;
    }
  }

  /// The points at the end of a line, whose inputs may be outside `from` only along the line.
  template <int... M>
  KOKKOS_FORCEINLINE_FUNCTION void add_end(T* KOKKOS_RESTRICT out, const T* in, index_t first,
                                           index_t last, std::integer_sequence<int, M...>) const {
    const index_t out_step = Unit ? 1 : to_stride[inner], in_step = Unit ? 1 : from_stride[inner];
    for (index_t i = first; i < last; ++i) {
      T sum = T(0);
      ((i + offset[M][inner] >= from_begin[inner] && i + offset[M][inner] < from_end[inner]
            ? void(sum = multiplied_and_added(sum, coefficient[M], in[shift[M] + i * in_step]))
            : void()),
       ...);
      out[i * out_step] = sum;
    }
  }

  /// Any points of a line, one offset after the other.
  KOKKOS_FUNCTION void add_held(T* KOKKOS_RESTRICT out, const T* in, const index_t* index,
                                index_t first, index_t last) const {
    const index_t out_step = Unit ? 1 : to_stride[inner], in_step = Unit ? 1 : from_stride[inner];
    for (index_t i = first; i < last; ++i) out[i * out_step] = T(0);
    for (int m = 0; m < Count; ++m) {
      bool held = true;
      for (int d = 0; d < inner; ++d)
        held = held && index[d] + offset[m][d] >= from_begin[d] &&
               index[d] + offset[m][d] < from_end[d];
      if (!held) continue;
      const T c       = coefficient[m];
      const T* tap    = in + shift[m];
      const index_t a = between(from_begin[inner] - offset[m][inner], first, last),
                    b = between(from_end[inner] - offset[m][inner], a, last);
      for (index_t i = a; i < b; ++i)
        out[i * out_step] = multiplied_and_added(out[i * out_step], c, tap[i * in_step]);
    }
  }

  KOKKOS_INLINE_FUNCTION static index_t between(index_t i, index_t lo, index_t hi) {
    return i < lo ? lo : i > hi ? hi : i;
  }
};

/// Computes the points `to_cells` of one field from the points `from_cells` of another, with the
/// given offsets or, for `sign` -1, their negatives.
template <class Space, class To, class From, int Count, int Rank>
void run_stencil(const Space& space, const To& to, const Box<Rank>& to_cells, const From& from,
                 const Box<Rank>& from_cells, const int (&offsets)[Count][Rank],
                 const double (&coefficients)[Count], int sign) {
  using T             = typename To::non_const_value_type;
  constexpr bool left = std::is_same_v<typename To::layout, Kokkos::LayoutLeft>;
  constexpr bool unit = !std::is_same_v<typename To::layout, Kokkos::LayoutStride>;
  StencilKernel<T, Rank, Count, unit> kernel{};
  kernel.to   = to.origin();
  kernel.from = from.origin();
  for (int k = 0; k < Rank; ++k) {
    const int d           = left ? Rank - 1 - k : k;
    kernel.to_stride[k]   = to.stride(d);
    kernel.from_stride[k] = from.stride(d);
    kernel.begin[k]       = to_cells.begin[d];
    kernel.extent[k]      = to_cells.end[d] - to_cells.begin[d];
    kernel.from_begin[k]  = from_cells.begin[d];
    kernel.from_end[k]    = from_cells.end[d];
    kernel.core_begin[k]  = from_cells.begin[d];
    kernel.core_end[k]    = from_cells.end[d];
    for (int m = 0; m < Count; ++m) {
      const int o         = sign * offsets[m][d];
      kernel.offset[m][k] = o;
      kernel.shift[m] += o * from.stride(d);
      if (from_cells.begin[d] - o > kernel.core_begin[k])
        kernel.core_begin[k] = from_cells.begin[d] - o;
      if (from_cells.end[d] - o < kernel.core_end[k]) kernel.core_end[k] = from_cells.end[d] - o;
    }
  }
  for (int m = 0; m < Count; ++m) kernel.coefficient[m] = static_cast<T>(coefficients[m]);
  constexpr index_t longest = 4096;  // so that a host's threads can share a long line
  const index_t line        = kernel.extent[Rank - 1];
  kernel.chunk              = !is_host_space_v<Space> ? 1 : line < longest ? line : longest;
  kernel.chunks             = line > 0 ? (line + kernel.chunk - 1) / kernel.chunk : 0;
  if (to_cells.cells() > 0) launch("shard::stencil", space, kernel.items(), kernel);
}

}  // namespace shard::impl

#endif
