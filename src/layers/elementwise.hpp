// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ELEMENTWISE_HPP
#define SHARD_SRC_LAYERS_ELEMENTWISE_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "device_sums.hpp"
#include "launch.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

/// ((c0 r + c1) r + c2) r + ..., written out, so that compilers vectorise the loop around it.
template <class T, class... Rest>
KOKKOS_FORCEINLINE_FUNCTION T horner(T r, T sum, Rest... rest) {
  ((sum = sum * r + static_cast<T>(rest)), ...);
  return sum;
}

/// x held within +-limit. On the bits, whose order is that of the magnitudes: compilers make
/// branches of comparisons of floating-point numbers. A NaN becomes the limit.
KOKKOS_FORCEINLINE_FUNCTION double held(double x, double limit) {
  const auto bits          = Kokkos::bit_cast<std::uint64_t>(x),
             most          = Kokkos::bit_cast<std::uint64_t>(limit);
  const std::uint64_t size = bits & ~(std::uint64_t{1} << 63);
  return Kokkos::bit_cast<double>((bits & (std::uint64_t{1} << 63)) | (size < most ? size : most));
}
KOKKOS_FORCEINLINE_FUNCTION float held(float x, float limit) {
  const auto bits          = Kokkos::bit_cast<std::uint32_t>(x),
             most          = Kokkos::bit_cast<std::uint32_t>(limit);
  const std::uint32_t size = bits & ~(std::uint32_t{1} << 31);
  return Kokkos::bit_cast<float>((bits & (std::uint32_t{1} << 31)) | (size < most ? size : most));
}

/// exp(x) by x = n ln 2 + r and Taylor's series in r (|r| <= ln 2 / 2), to the last place or so:
/// without branches, so that compilers vectorise it. Beyond +-700 (double) and +-87 (float) it
/// stays at the values there.
KOKKOS_FORCEINLINE_FUNCTION double exponential(double x) {
  x                     = held(x, 700.0);
  constexpr double turn = 0x1.8p52;  // added, it rounds to an integer, which stands in the low bits
  const double shifted  = x * 1.4426950408889634 + turn;
  const double n        = shifted - turn;
  const double r        = (x - n * 0x1.62e42fefap-1) - n * 0x1.cf79abc9e3b3ap-40;
  const double p        = horner(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
                                 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0);
  return p * Kokkos::bit_cast<double>((Kokkos::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
}

KOKKOS_FORCEINLINE_FUNCTION float exponential(float x) {
  x                    = held(x, 87.0f);
  constexpr float turn = 0x1.8p23f;
  const float shifted  = x * 1.44269504f + turn;
  const float n        = shifted - turn;
  const float r        = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float p = horner(r, 1.0f / 5040.0f, 1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                         0.5f, 1.0f, 1.0f);
  return p * Kokkos::bit_cast<float>((Kokkos::bit_cast<std::uint32_t>(shifted) + 127) << 23);
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

/// The cells of one work item in a block.
template <class T>
struct Line {
  T* cells;
  index_t step;
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION Line<T> line_of(const Block<T>& b, const RowSplit::Row& r) {
  return {&b.at(r.n, r.c, r.z, r.y, r.x), b.stride[4]};
}

/// to[i] = f(from[i]...) for `count` cells; unit steps in a loop of their own, which compilers
/// vectorise.
template <class T, class F, class... From>
KOKKOS_FORCEINLINE_FUNCTION void map_line(index_t count, const F& f, Line<T> to,
                                          Line<From>... from) {
  if (to.step == 1 && ((from.step == 1) && ...))
    for (index_t i = 0; i < count; ++i) to.cells[i] = f(from.cells[i]...);
  else
    for (index_t i = 0; i < count; ++i) to.cells[i * to.step] = f(from.cells[i * from.step]...);
}

/// to = f(from...) on a device.
template <class F, class T, int From>
struct ElementwiseOp {
  Block<T> to;
  Block<const T> from[From];
  F f;

  struct Cell {
    index_t to;
    T from[From];
  };
  struct Plane {
    T* to;
    const T* from[From];
    F f;
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const PlaneWalk<1 + From>& walk) const {
      Cell cell;
      cell.to = walk.offset[0];
      for (int i = 0; i < From; ++i) cell.from[i] = from[i][walk.offset[1 + i]];
      return cell;
    }
    KOKKOS_FORCEINLINE_FUNCTION void store(const Cell& cell) const {
      if constexpr (From == 1)
        to[cell.to] = f(cell.from[0]);
      else
        to[cell.to] = f(cell.from[0], cell.from[1]);
    }
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c) const {
    Plane p;
    p.to = plane_of(to, n, c);
    for (int i = 0; i < From; ++i) p.from[i] = plane_of(from[i], n, c);
    p.f = f;
    return p;
  }
  KOKKOS_FORCEINLINE_FUNCTION PlaneWalk<1 + From> walk(index_t first, index_t step) const {
    if constexpr (From == 1)
      return walk_of(first, step, to, from[0]);
    else
      return walk_of(first, step, to, from[0], from[1]);
  }
};

}  // namespace shard::impl

#endif
