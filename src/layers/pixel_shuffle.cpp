// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdint>
#include <type_traits>

#include "launch.hpp"
#include "shard/layers/impl/pool_kernels.hpp"

namespace shard::impl {

/// The factors of the three dimensions.
struct PixelFactors {
  Divisor by[3];
  index_t channel_step, point_step;  ///< of coarse channels

  template <class T>
  static PixelFactors of(const Block<T>& fine, const int* factor, bool points_first) {
    const index_t points = static_cast<index_t>(factor[0]) * factor[1] * factor[2];
    return {{Divisor::of(factor[0]), Divisor::of(factor[1]), Divisor::of(factor[2])},
            points_first ? 1 : points,
            points_first ? fine.channels : 1};
  }

  /// The place in the coarse field of a cell of the fine field.
  struct Place {
    index_t c, z, y, x;
  };
  KOKKOS_FUNCTION Place place(index_t channel, index_t z, index_t y, index_t x) const {
    const index_t at[3] = {z, y, x};
    index_t coarse[3], sub = 0;
    for (int d = 0; d < 3; ++d) {
      const auto fine = static_cast<std::uint32_t>(at[d]), whole = by[d].quotient(fine);
      sub       = sub * by[d].divisor + (fine - whole * by[d].divisor);
      coarse[d] = whole;
    }
    return {channel * channel_step + sub * point_step, coarse[0], coarse[1], coarse[2]};
  }
};

/// Copies the coarse field to the fine one, or back. In both cases the rows are those of the fine
/// field.
template <class T, bool ToFine>
struct PixelKernel {
  using Fine   = std::conditional_t<ToFine, T, const T>;
  using Coarse = std::conditional_t<ToFine, const T, T>;
  RowSplit split;
  Block<Fine> fine;
  Block<Coarse> coarse;
  PixelFactors factors;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const auto p = factors.place(r.c, r.z, r.y, x);
      Fine& f      = fine.at(r.n, r.c, r.z, r.y, x);
      Coarse& c    = coarse.at(r.n, p.c, p.z, p.y, p.x);
      if constexpr (ToFine)
        f = c;
      else
        c = f;
    }
  }
};

/// The same on a host. A work item has a row of the fine field, whose elements are those of several
/// coarse rows, interleaved.
template <class T, bool ToFine>
struct PixelRows {
  using Fine   = typename PixelKernel<T, ToFine>::Fine;
  using Coarse = typename PixelKernel<T, ToFine>::Coarse;
  RowSplit split;
  Block<Fine> fine;
  Block<Coarse> coarse;
  PixelFactors factors;

  void operator()(index_t item) const {
    const auto r        = split.row(item);
    const auto p        = factors.place(r.c, r.z, r.y, r.x);
    const auto factor   = static_cast<int>(factors.by[2].divisor);
    Fine* const row     = &fine.at(r.n, r.c, r.z, r.y, r.x);
    Coarse* const rows  = &coarse.at(r.n, p.c, p.z, p.y, p.x);
    const index_t count = r.count / factor;
    const bool unit     = fine.stride[4] == 1 && coarse.stride[4] == 1;
    if (unit && factor == 2) return interleave<2>(row, rows, count);
    if (unit && factor == 3) return interleave<3>(row, rows, count);
    if (unit && factor == 4) return interleave<4>(row, rows, count);
    for (int k = 0; k < factor; ++k)
      for (index_t i = 0; i < count; ++i)
        move(row[(i * factor + k) * fine.stride[4]],
             rows[k * factors.point_step * coarse.stride[1] + i * coarse.stride[4]]);
  }

 private:
  static void move(Fine& f, Coarse& c) {
    if constexpr (ToFine)
      f = c;
    else
      c = f;
  }
  template <int Factor>
  void interleave(Fine* row, Coarse* rows, index_t count) const {
    const index_t step = factors.point_step * coarse.stride[1];
    for (index_t i = 0; i < count; ++i)
      for (int k = 0; k < Factor; ++k) move(row[i * Factor + k], rows[k * step + i]);
  }
};

/// Copies between the fine and the coarse field, by rows on a host and by cells on a device.
template <bool ToFine, class Space, class Fine, class Coarse>
void launch_pixels(const char* name, const Space& space, const Block<Fine>& fine,
                   const Block<Coarse>& coarse, const int* factor, bool points_first) {
  using T = std::remove_const_t<Fine>;
  using Functor =
      std::conditional_t<is_host_v<Space>, PixelRows<T, ToFine>, PixelKernel<T, ToFine>>;
  const RowSplit split = RowSplit::of(space, fine);
  launch(name, space, split.items(),
         Functor{split, fine, coarse, PixelFactors::of(fine, factor, points_first)});
}

template <class Space, class T>
void PixelKernels<Space, T>::to_fine(const Space& space, const Block<T>& fine,
                                     const Block<const T>& coarse, const int* factor,
                                     bool points_first) {
  launch_pixels<true>("shard::pixels_to_fine", space, fine, coarse, factor, points_first);
}

template <class Space, class T>
void PixelKernels<Space, T>::to_coarse(const Space& space, const Block<T>& coarse,
                                       const Block<const T>& fine, const int* factor,
                                       bool points_first) {
  launch_pixels<false>("shard::pixels_to_coarse", space, fine, coarse, factor, points_first);
}

SHARD_KERNELS(PixelKernels)

}  // namespace shard::impl
