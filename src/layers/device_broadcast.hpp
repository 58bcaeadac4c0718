// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_BROADCAST_HPP
#define SHARD_SRC_LAYERS_DEVICE_BROADCAST_HPP

#include <Kokkos_Core.hpp>

#include "device_sums.hpp"
#include "shard/layers/impl/broadcast_kernels.hpp"

/// \file
/// Sums of products over the points that share a broadcast value, on a device.

namespace shard::impl {

/// The dimensions of a block that sums keep, as the digits of a work item, and those over which
/// they run.
struct SumLoops {
  index_t kept[5], summed[5];

  template <class T>
  static SumLoops of(const Block<T>& b, const SumPlaces& places) {
    const index_t extent[5] = {b.batch, b.channels, b.extent(0), b.extent(1), b.extent(2)};
    SumLoops loops;
    for (int d = 0; d < 5; ++d) {
      loops.kept[d]   = places.keeps[d] ? extent[d] : 1;
      loops.summed[d] = places.keeps[d] ? 1 : extent[d];
    }
    return loops;
  }
  /// The kept items in the first `dims` dimensions.
  index_t items(int dims) const {
    index_t n = 1;
    for (int d = 0; d < dims; ++d) n *= kept[d];
    return n;
  }
  KOKKOS_FUNCTION void indices(index_t item, int dims, index_t* at) const {
    for (int d = dims - 1; d >= 0; --d) {
      at[d] = item % kept[d];
      item /= kept[d];
    }
  }
  /// Calls visit(n, c, z, y) for the summed rows of a kept item, in ascending order.
  template <class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void rows(const index_t* at, const Visit& visit) const {
    for (index_t n = at[0]; n < at[0] + summed[0]; ++n)
      for (index_t c = at[1]; c < at[1] + summed[1]; ++c)
        for (index_t z = at[2]; z < at[2] + summed[2]; ++z)
          for (index_t y = at[3]; y < at[3] + summed[3]; ++y) visit(n, c, z, y);
  }
};

/// A row of products, or of single values.
template <class T>
struct RowOfProducts {
  const T *a, *x;
  index_t a_step, x_step;

  static KOKKOS_FORCEINLINE_FUNCTION RowOfProducts of(const Block<const T>& a,
                                                      const Block<const T>& x, index_t n, index_t c,
                                                      index_t z, index_t y) {
    return {&a.at(n, c, z, y, 0), x.origin == nullptr ? nullptr : &x.at(n, c, z, y, 0), a.stride[4],
            x.stride[4]};
  }
  KOKKOS_FORCEINLINE_FUNCTION double value(index_t i) const {
    return static_cast<double>(a[i * a_step]);
  }
  KOKKOS_FORCEINLINE_FUNCTION double product(index_t i) const {
    return static_cast<double>(a[i * a_step]) * static_cast<double>(x[i * x_step]);
  }
};

/// A sum of each thread, on a device.
template <class T>
struct ProductSumsKernel {
  SumLoops loops;
  double* sums;
  SumPlaces places;
  Block<const T> a, x;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    index_t at[5];
    loops.indices(item, 5, at);
    double sum = 0.0;
    loops.rows(at, [&](index_t n, index_t c, index_t z, index_t y) {
      const auto row = RowOfProducts<T>::of(a, x, n, c, z, y);
      for (index_t i = at[4]; i < at[4] + loops.summed[4]; ++i)
        sum += row.x == nullptr ? row.value(i) : row.product(i);
    });
    index_t to = places.first;
    for (int d = 0; d < 5; ++d) to += at[d] * places.step[d];
    sums[to] = sum;
  }
};

/// Products, or values, for the sums of planes on a device.
template <class T>
struct BroadcastTerm {
  static constexpr int kinds = 1;
  Block<const T> a, x;

  struct Cell {
    T a, x;
  };
  struct Plane {
    const T *a, *x;
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {a[at.offset[0]], x == nullptr ? T(1) : x[at.offset[1]]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      sums[0] += static_cast<double>(cell.a) * static_cast<double>(cell.x);
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    return {plane_of(a, n, c), x.origin == nullptr ? nullptr : plane_of(x, n, c)};
  }
  BoxStrides<2> box() const { return plane_box(a, x); }
};

/// Adds sums of planes to those of batch entries and channels.
struct FoldPlanesKernel {
  SumLoops loops;
  double* sums;
  SumPlaces places;
  const double* planes;
  index_t channels;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    index_t at[2];
    loops.indices(item, 2, at);
    double sum = 0.0;
    for (index_t n = at[0]; n < at[0] + loops.summed[0]; ++n)
      for (index_t c = at[1]; c < at[1] + loops.summed[1]; ++c) sum += planes[n * channels + c];
    sums[places.first + at[0] * places.step[0] + at[1] * places.step[1]] = sum;
  }
};

}  // namespace shard::impl

#endif
