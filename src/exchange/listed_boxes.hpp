// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_LISTED_BOXES_HPP
#define SHARD_SRC_EXCHANGE_LISTED_BOXES_HPP

#include <Kokkos_Core.hpp>

#include "host_copy.hpp"

namespace shard::impl {

/// Equal boxes of few values at listed places: edges of small tiles, points of an index space. All
/// choices are made once for the list, because a box takes a few nanoseconds.
template <class T>
struct ListedBoxes {
  /// A dimension of the boxes; strides in bytes.
  struct Dim {
    index_t extent = 1, from = 0, to = 0;
  };
  static constexpr index_t size = sizeof(T), at_once = 8;  ///< values of a longer line

  std::byte *from, *to;
  const index_t *from_places, *to_places;
  index_t count;
  Dim inner, middle, outer;
  bool clear;

  /// Copies them, or returns false if other loops are better.
  KOKKOS_INLINE_FUNCTION bool copied() const {
    const bool contiguous = (inner.extent == 1) || (inner.from == size && inner.to == size);
    ListedBoxes boxes     = *this;
    if (contiguous) {
      if (with_short_count(inner.extent, ShortLines<true>{boxes})) return true;
      if (inner.extent >= longest) return false;
      clear ? boxes.lines<true>() : boxes.lines<false>();
      return true;
    }
    if (middle.extent < inner.extent) {
      boxes.inner  = middle;
      boxes.middle = inner;
    }
    return with_short_count(boxes.inner.extent, ShortLines<false>{boxes});
  }

 private:
  static constexpr index_t longest = 256;

  /// Calls use(source, target) for each line.
  template <class Use>
  KOKKOS_INLINE_FUNCTION void for_each_line(const Use& use) const {
    for (index_t o = 0; o < outer.extent; ++o)
      for (index_t b = 0; b < count; ++b) {
        std::byte* source = from + from_places[b] + o * outer.from;
        std::byte* target = to + to_places[b] + o * outer.to;
        for (index_t m = 0; m < middle.extent; ++m, source += middle.from, target += middle.to)
          use(source, target);
      }
  }
  /// Copies N values, which are loaded before they are stored: the compiler can't exclude an
  /// overlap.
  template <int N, bool Clear>
  KOKKOS_INLINE_FUNCTION static void copy(std::byte* source, index_t source_step, std::byte* target,
                                          index_t target_step) {
    T values[N];
    for (int n = 0; n < N; ++n) values[n] = *reinterpret_cast<T*>(source + n * source_step);
    for (int n = 0; n < N; ++n) *reinterpret_cast<T*>(target + n * target_step) = values[n];
    if constexpr (Clear)
      for (int n = 0; n < N; ++n) *reinterpret_cast<T*>(source + n * source_step) = T(0);
  }

  /// Lines of N values: contiguous, or apart on some side (a turned box).
  template <bool IsContiguous>
  struct ShortLines {
    const ListedBoxes& boxes;

    template <int N>
    KOKKOS_INLINE_FUNCTION void run() const {
      boxes.clear ? copy_all<N, true>() : copy_all<N, false>();
    }
    template <int N, bool Clear>
    KOKKOS_INLINE_FUNCTION void copy_all() const {
      boxes.for_each_line([inner = boxes.inner](std::byte* source, std::byte* target) {
        copy<N, Clear>(source, IsContiguous ? size : inner.from, target,
                       IsContiguous ? size : inner.to);
      });
    }
  };
  /// Lines of more contiguous values.
  template <bool Clear>
  KOKKOS_INLINE_FUNCTION void lines() const {
    for_each_line([n = inner.extent](std::byte* source, std::byte* target) {
      index_t i = 0;
      for (; i + at_once <= n; i += at_once)
        copy<at_once, Clear>(source + i * size, size, target + i * size, size);
      for (; i < n; ++i) copy<1, Clear>(source + i * size, size, target + i * size, size);
    });
  }
};

}  // namespace shard::impl

#endif
