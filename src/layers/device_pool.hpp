// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_POOL_HPP
#define SHARD_SRC_LAYERS_DEVICE_POOL_HPP

#include "launch.hpp"
#include "pool_window.hpp"

/// \file
/// Gradients of pooling, and means, on a device: a thread has a cell of a group of channels.

namespace shard::impl {

/// Finds the output that reads a cell with tap `tap` along one dimension. Returns false if the
/// block has none.
template <class T>
KOKKOS_INLINE_FUNCTION bool output_of(const PoolWindow& w, int d, index_t cell, int tap,
                                      const Block<const T>& outputs, index_t& output) {
  const index_t from = cell - w.offset[d] - tap * static_cast<index_t>(w.dilation[d]);
  if (from % w.stride[d] != 0) return false;
  output = from / w.stride[d];
  return output >= outputs.begin[d] && output < outputs.end[d];
}

/// For each of a group of channels the sum over the outputs that read a cell, in ascending order:
/// so the taps descend. term(z, y, x, tap) gives what a channel adds.
template <class T, class Term>
KOKKOS_INLINE_FUNCTION void sum_readers(const PoolWindow& w, const Block<T>& to,
                                        const Block<const T>& outputs, const RowSplit::Row& r,
                                        const Term& term) {
  const index_t z = r.z, y = r.y, x = r.x, rest = to.channels - r.c;
  T sum[channels_at_once] = {};
  index_t oz = 0, oy = 0, ox = 0;
  for (int kz = w.kernel[0] - 1; kz >= 0; --kz) {
    if (!output_of(w, 0, z, kz, outputs, oz)) continue;
    for (int ky = w.kernel[1] - 1; ky >= 0; --ky) {
      if (!output_of(w, 1, y, ky, outputs, oy)) continue;
      for (int kx = w.kernel[2] - 1; kx >= 0; --kx)
        if (output_of(w, 2, x, kx, outputs, ox)) {
          const auto of_channel = term(oz, oy, ox, (kz * w.kernel[1] + ky) * w.kernel[2] + kx);
          for (int c = 0; c < channels_at_once; ++c)
            if (c < rest) sum[c] += of_channel(c);
        }
    }
  }
  for (int c = 0; c < channels_at_once; ++c)
    if (c < rest) to.at(r.n, r.c + c, z, y, x) = sum[c];
}

/// The taps that maxima have chosen, as a list over owned outputs.
struct ListedTaps {
  using Tap = int;
  const int* taps;
  template <class T>
  KOKKOS_FUNCTION const Tap* at(const Block<const T>& outputs, index_t n, index_t c, index_t z,
                                index_t y, index_t x) const {
    return taps + linear(outputs, n, c, z, y, x);
  }
  template <class T>
  KOKKOS_FUNCTION index_t channel_step(const Block<const T>& outputs) const {
    return outputs.cells();
  }
};

/// The same as the values of a field.
template <class T>
struct TapField {
  using Tap = T;
  Block<const T> taps;
  KOKKOS_FUNCTION const Tap* at(const Block<const T>&, index_t n, index_t c, index_t z, index_t y,
                                index_t x) const {
    return &taps.at(n, c, z, y, x);
  }
  KOKKOS_FUNCTION index_t channel_step(const Block<const T>&) const { return taps.stride[1]; }
};

/// The gradient of maxima: each cell sums the outputs that have chosen it.
template <class T, class Taps>
struct MaxPoolPullbackKernel {
  using Tap = typename Taps::Tap;
  RowSplit split;
  Block<T> to;
  Taps chosen;
  Block<const T> from;
  PoolWindow window;

  struct Chosen {
    const Tap* taps;
    const T* values;
    index_t taps_step, step;
    Tap tap;
    KOKKOS_FUNCTION T operator()(int c) const {
      return taps[c * taps_step] == tap ? values[c * step] : T(0);
    }
  };
  struct Term {
    const MaxPoolPullbackKernel& k;
    index_t n, c;

    KOKKOS_FUNCTION Chosen operator()(index_t z, index_t y, index_t x, int tap) const {
      return {k.chosen.at(k.from, n, c, z, y, x), &k.from.at(n, c, z, y, x),
              k.chosen.channel_step(k.from), k.from.stride[1], static_cast<Tap>(tap)};
    }
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    sum_readers(window, to, from, r, Term{*this, r.n, r.c});
  }
};

/// The number of cells that a sum is divided by.
KOKKOS_INLINE_FUNCTION int cells_of(const PoolWindow& w, bool count_padding, const TapRange& z,
                                    const TapRange& y, const TapRange& x) {
  return count_padding ? z.padded(w, 0) * y.padded(w, 1) * x.padded(w, 2)
                       : z.count() * y.count() * x.count();
}

template <class T>
struct AveragePoolKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  PoolWindow window;
  bool count_padding;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r      = split.row(item);
    const TapRange rz = TapRange::of(window, 0, r.z), ry = TapRange::of(window, 1, r.y);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const TapRange rx = TapRange::of(window, 2, x);
      T sum             = T(0);
      for (int kz = rz.begin; kz < rz.end; ++kz)
        for (int ky = ry.begin; ky < ry.end; ++ky)
          for (int kx = rx.begin; kx < rx.end; ++kx)
            sum += from.at(r.n, r.c, rz.base + kz, ry.base + ky, rx.base + kx);
      to.at(r.n, r.c, r.z, r.y, x) =
          sum / static_cast<T>(cells_of(window, count_padding, rz, ry, rx));
    }
  }
};

template <class T>
struct AveragePoolPullbackKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  PoolWindow window;
  bool count_padding;

  struct Share {
    const T* values;
    index_t step;
    T cells;
    KOKKOS_FUNCTION T operator()(int c) const { return values[c * step] / cells; }
  };
  struct Term {
    const AveragePoolPullbackKernel& k;
    index_t n, c;

    KOKKOS_FUNCTION Share operator()(index_t z, index_t y, index_t x, int) const {
      const int cells = cells_of(k.window, k.count_padding, TapRange::of(k.window, 0, z),
                                 TapRange::of(k.window, 1, y), TapRange::of(k.window, 2, x));
      return {&k.from.at(n, c, z, y, x), k.from.stride[1], static_cast<T>(cells)};
    }
  };

  KOKKOS_FUNCTION bool in_world(index_t z, index_t y, index_t x) const {
    return z >= window.first[0] && z < window.last[0] && y >= window.first[1] &&
           y < window.last[1] && x >= window.first[2] && x < window.last[2];
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    if (in_world(r.z, r.y, r.x)) return sum_readers(window, to, from, r, Term{*this, r.n, r.c});
    for (index_t c = r.c; c < r.c + channels_at_once && c < to.channels; ++c)
      to.at(r.n, c, r.z, r.y, r.x) = T(0);
  }
};

}  // namespace shard::impl

#endif
