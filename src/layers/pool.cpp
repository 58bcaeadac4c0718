// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device_pool.hpp"
#include "launch.hpp"
#include "pool_rows.hpp"
#include "shard/layers/impl/pool_kernels.hpp"

namespace shard::impl {

template <class T>
struct MaxPoolKernel {
  RowSplit split;
  Block<T> to;
  int* taps;
  Block<const T> from;
  PoolWindow window;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r      = split.row(item);
    const TapRange rz = TapRange::of(window, 0, r.z), ry = TapRange::of(window, 1, r.y);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const TapRange rx = TapRange::of(window, 2, x);
      T largest         = -Kokkos::Experimental::infinity_v<T>;
      int tap           = -1;
      for (int kz = rz.begin; kz < rz.end; ++kz)
        for (int ky = ry.begin; ky < ry.end; ++ky)
          for (int kx = rx.begin; kx < rx.end; ++kx) {
            const T value =
                from.at(r.n, r.c, rz.base + kz * window.dilation[0],
                        ry.base + ky * window.dilation[1], rx.base + kx * window.dilation[2]);
            if (tap < 0 || value > largest || Kokkos::isnan(value)) {
              largest = value;
              tap     = (kz * window.kernel[1] + ky) * window.kernel[2] + kx;
            }
          }
      to.at(r.n, r.c, r.z, r.y, x)            = largest;
      taps[linear(to, r.n, r.c, r.z, r.y, x)] = tap;
    }
  }
};

template <class T>
struct MaxPoolTangentKernel {
  RowSplit split;
  Block<T> to;
  const int* taps;
  Block<const T> from;
  PoolWindow window;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const int tap = taps[linear(to, r.n, r.c, r.z, r.y, x)];
      const int kx = tap % window.kernel[2], ky = tap / window.kernel[2] % window.kernel[1],
                kz = tap / window.kernel[2] / window.kernel[1];
      to.at(r.n, r.c, r.z, r.y, x) =
          tap < 0 ? T(0)
                  : from.at(r.n, r.c,
                            r.z * window.stride[0] + window.offset[0] + kz * window.dilation[0],
                            r.y * window.stride[1] + window.offset[1] + ky * window.dilation[1],
                            x * window.stride[2] + window.offset[2] + kx * window.dilation[2]);
    }
  }
};

/// Stores the chosen taps of owned outputs as the values of a field.
template <class T>
struct MaxPoolTapsKernel {
  RowSplit split;
  Block<T> to;
  const int* taps;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x)
      to.at(r.n, r.c, r.z, r.y, x) = static_cast<T>(taps[linear(to, r.n, r.c, r.z, r.y, x)]);
  }
};

template <class Space, class T>
void PoolKernels<Space, T>::max(const Space& space, const Block<T>& y, int* taps,
                                const Block<const T>& x, const PoolWindow& window) {
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::max_pool", space, split.items(), MaxPoolKernel<T>{split, y, taps, x, window});
}

template <class Space, class T>
void PoolKernels<Space, T>::max_tangent(const Space& space, const Block<T>& ty, const int* taps,
                                        const Block<const T>& tx, const PoolWindow& window) {
  const RowSplit split = RowSplit::of(space, ty);
  launch("shard::max_pool_tangent", space, split.items(),
         MaxPoolTangentKernel<T>{split, ty, taps, tx, window});
}

template <class Space, class T>
void PoolKernels<Space, T>::max_pullback(const Space& space, const Block<T>& dx, const int* taps,
                                         const Block<const T>& dy, const PoolWindow& window) {
  if constexpr (is_host_v<Space>) {
    const MaxPoolScatterRows<T> rows(dx, taps, {}, dy, window);
    launch("shard::max_pool_pullback", space, rows.items(), rows);
  } else {
    const RowSplit split = RowSplit::of_groups(space, dx);
    launch("shard::max_pool_pullback", space, split.items(),
           MaxPoolPullbackKernel<T, ListedTaps>{split, dx, {taps}, dy, window});
  }
}

template <class Space, class T>
void PoolKernels<Space, T>::taps_as_values(const Space& space, const Block<T>& chosen,
                                           const int* taps) {
  const RowSplit split = RowSplit::of(space, chosen);
  launch("shard::max_pool_taps", space, split.items(), MaxPoolTapsKernel<T>{split, chosen, taps});
}

template <class Space, class T>
void PoolKernels<Space, T>::max_pullback_ordered(const Space& space, const Block<T>& dx,
                                                 const Block<const T>& chosen,
                                                 const Block<const T>& dy,
                                                 const PoolWindow& window) {
  if constexpr (is_host_v<Space>) {
    const MaxPoolScatterRows<T> rows(dx, nullptr, chosen, dy, window);
    launch("shard::max_pool_ordered", space, rows.items(), rows);
  } else {
    const RowSplit split = RowSplit::of_groups(space, dx);
    launch("shard::max_pool_ordered", space, split.items(),
           MaxPoolPullbackKernel<T, TapField<T>>{split, dx, {chosen}, dy, window});
  }
}

template <class Space, class T>
void PoolKernels<Space, T>::average(const Space& space, const Block<T>& y, const Block<const T>& x,
                                    const PoolWindow& window, bool count_padding) {
  if constexpr (is_host_v<Space>) {
    ReadTable<T> tables[3];
    list_windows(window, count_padding, y, tables);
    SeparableRows<T>::run("shard::average_pool", space, y, x, tables);
  } else {
    const RowSplit split = RowSplit::of(space, y);
    launch("shard::average_pool", space, split.items(),
           AveragePoolKernel<T>{split, y, x, window, count_padding});
  }
}

template <class Space, class T>
void PoolKernels<Space, T>::average_pullback(const Space& space, const Block<T>& dx,
                                             const Block<const T>& dy, const PoolWindow& window,
                                             bool count_padding) {
  if constexpr (is_host_v<Space>) {
    ReadTable<T> tables[3];
    list_readers(window, count_padding, dx, dy, tables);
    SeparableRows<T>::run("shard::average_pool_pullback", space, dx, dy, tables);
  } else {
    const RowSplit split = RowSplit::of_groups(space, dx);
    launch("shard::average_pool_pullback", space, split.items(),
           AveragePoolPullbackKernel<T>{split, dx, dy, window, count_padding});
  }
}

SHARD_KERNELS(PoolKernels)

}  // namespace shard::impl
