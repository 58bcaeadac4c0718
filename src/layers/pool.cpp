// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/pool_kernels.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "launch.hpp"
#include "separable_rows.hpp"

namespace shard::impl {

/// The taps [begin, end) of an output's window whose cells are inside the domain, along one
/// dimension. Tap k reads the cell base + k * dilation.
struct TapRange {
  index_t base;
  int begin, end;

  KOKKOS_FUNCTION static TapRange of(const PoolWindow& w, int d, index_t output) {
    TapRange r{output * w.stride[d] + w.offset[d], 0, w.kernel[d]};
    while (r.begin < r.end && r.base + r.begin * static_cast<index_t>(w.dilation[d]) < w.first[d])
      ++r.begin;
    while (r.end > r.begin &&
           r.base + (r.end - 1) * static_cast<index_t>(w.dilation[d]) >= w.last[d])
      --r.end;
    return r;
  }
  KOKKOS_FUNCTION int count() const { return end - begin; }
  /// The number of the window's cells inside the domain or its padding. For a window without
  /// dilation that begins there.
  KOKKOS_FUNCTION int padded(const PoolWindow& w, int d) const {
    const index_t room = w.padded[d] - base;
    return room < w.kernel[d] ? static_cast<int>(room) : w.kernel[d];
  }
};

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

template <class T>
KOKKOS_INLINE_FUNCTION index_t linear(const Block<T>& b, index_t n, index_t c, index_t z, index_t y,
                                      index_t x) {
  return (((n * b.channels + c) * b.extent(0) + z) * b.extent(1) + y) * b.extent(2) + x;
}

/// The number of cells that a sum is divided by.
KOKKOS_INLINE_FUNCTION int cells_of(const PoolWindow& w, bool count_padding, const TapRange& z,
                                    const TapRange& y, const TapRange& x) {
  return count_padding ? z.padded(w, 0) * y.padded(w, 1) * x.padded(w, 2)
                       : z.count() * y.count() * x.count();
}

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

template <class T>
struct MaxPoolPullbackKernel {
  RowSplit split;
  Block<T> to;
  const int* taps;
  Block<const T> from;
  PoolWindow window;

  struct Chosen {
    const int* taps;
    const T* values;
    index_t taps_step, step;
    int tap;
    KOKKOS_FUNCTION T operator()(int c) const {
      return taps[c * taps_step] == tap ? values[c * step] : T(0);
    }
  };
  struct Term {
    const MaxPoolPullbackKernel& k;
    index_t n, c;

    KOKKOS_FUNCTION Chosen operator()(index_t z, index_t y, index_t x, int tap) const {
      return {k.taps + linear(k.from, n, c, z, y, x), &k.from.at(n, c, z, y, x), k.from.cells(),
              k.from.stride[1], tap};
    }
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    sum_readers(window, to, from, r, Term{*this, r.n, r.c});
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

template <class T>
struct MaxPoolOrderedKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> chosen, from;
  PoolWindow window;

  struct Chosen {
    const T *taps, *values;
    index_t taps_step, step;
    T tap;
    KOKKOS_FUNCTION T operator()(int c) const {
      return taps[c * taps_step] == tap ? values[c * step] : T(0);
    }
  };
  struct Term {
    const MaxPoolOrderedKernel& k;
    index_t n, c;

    KOKKOS_FUNCTION Chosen operator()(index_t z, index_t y, index_t x, int tap) const {
      return {&k.chosen.at(n, c, z, y, x), &k.from.at(n, c, z, y, x), k.chosen.stride[1],
              k.from.stride[1], static_cast<T>(tap)};
    }
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    sum_readers(window, to, from, r, Term{*this, r.n, r.c});
  }
};

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

/// The gradient of maxima on a host. A work item has all rows along z and a few along y. It adds
/// the gradient of each output that may have chosen one of its cells to the chosen cell, outputs
/// ascending.
template <class T>
struct MaxPoolScatterRows {
  static constexpr index_t rows    = 32;
  static constexpr int most_listed = 256;
  Block<T> to;
  const int* taps;        ///< chosen taps of owned outputs; if null, `chosen` has them
  Block<const T> chosen;  ///< the chosen taps as a field
  Block<const T> from;
  PoolWindow window;
  index_t blocks;

  MaxPoolScatterRows(const Block<T>& dx, const int* tap_list, const Block<const T>& tap_values,
                     const Block<const T>& dy, const PoolWindow& w)
      : to(dx),
        taps(tap_list),
        chosen(tap_values),
        from(dy),
        window(w),
        blocks((dx.extent(1) + rows - 1) / rows) {}

  index_t items() const { return to.cells() == 0 ? 0 : to.batch * to.channels * blocks; }

  /// The position of a tap in its window.
  struct Place {
    index_t z, y, x, offset;
  };
  Place place(int tap) const {
    const int kx = tap % window.kernel[2], ky = tap / window.kernel[2] % window.kernel[1],
              kz = tap / window.kernel[2] / window.kernel[1];
    Place p{kz * static_cast<index_t>(window.dilation[0]),
            ky * static_cast<index_t>(window.dilation[1]),
            kx * static_cast<index_t>(window.dilation[2]), 0};
    p.offset = p.z * to.stride[2] + p.y * to.stride[3] + p.x * to.stride[4];
    return p;
  }
  index_t reach(int d) const {
    return (window.kernel[d] - 1) * static_cast<index_t>(window.dilation[d]);
  }

  void operator()(index_t item) const {
    const index_t block = item % blocks, c = item / blocks % to.channels,
                  n     = item / blocks / to.channels;
    const index_t begin = to.begin[1] + block * rows, end = std::min(begin + rows, to.end[1]);
    for (index_t z = to.begin[0]; z < to.end[0]; ++z)
      for (index_t y = begin; y < end; ++y) {
        T* const row = &to.at(n, c, z, y, to.begin[2]);
        for (index_t x = 0; x < to.extent(2); ++x) row[x * to.stride[4]] = T(0);
      }
    Place places[most_listed];
    const int count = window.kernel[0] * window.kernel[1] * window.kernel[2];
    for (int tap = 0; tap < std::min(count, most_listed); ++tap) places[tap] = place(tap);
    const index_t s = window.stride[1], first_read = begin - window.offset[1] - reach(1);
    const index_t first = std::max(from.begin[1], floor_div(first_read + s - 1, s));
    const index_t last  = std::min(from.end[1], floor_div(end - 1 - window.offset[1], s) + 1);
    for (index_t oz = from.begin[0]; oz < from.end[0]; ++oz)
      for (index_t oy = first; oy < last; ++oy) add_row(n, c, oz, oy, begin, end, places);
  }

 private:
  void add_row(index_t n, index_t c, index_t oz, index_t oy, index_t begin, index_t end,
               const Place* places) const {
    const index_t z = oz * window.stride[0] + window.offset[0],
                  y = oy * window.stride[1] + window.offset[1];
    const bool inside =
        z >= to.begin[0] && z + reach(0) < to.end[0] && y >= begin && y + reach(1) < end;
    const T* const values    = &from.at(n, c, oz, oy, 0);
    const int* const ints    = taps == nullptr ? nullptr : taps + linear(from, n, c, oz, oy, 0);
    const T* const as_values = taps == nullptr ? &chosen.at(n, c, oz, oy, 0) : nullptr;
    const bool listed = window.kernel[0] * window.kernel[1] * window.kernel[2] <= most_listed;
    T* const corner   = &to.at(n, c, z, y, window.offset[2]);
    for (index_t ox = from.begin[2]; ox < from.end[2]; ++ox) {
      const int tap =
          ints != nullptr ? ints[ox] : static_cast<int>(as_values[ox * chosen.stride[4]]);
      if (tap < 0) continue;
      const Place p   = listed ? places[tap] : place(tap);
      const index_t x = ox * window.stride[2];
      if (x + window.offset[2] + p.x < to.begin[2] || x + window.offset[2] + p.x >= to.end[2])
        continue;
      if (!inside &&
          (z + p.z < to.begin[0] || z + p.z >= to.end[0] || y + p.y < begin || y + p.y >= end))
        continue;
      corner[x * to.stride[4] + p.offset] += values[ox * from.stride[4]];
    }
  }
};

/// The inputs that each output of an average reads, and its divisor.
template <class T>
void list_windows(const PoolWindow& w, bool count_padding, const Block<T>& y,
                  ReadTable<T> (&tables)[3]) {
  for (int d = 0; d < 3; ++d)
    for (index_t o = y.begin[d]; o < y.end[d]; ++o) {
      const TapRange r = TapRange::of(w, d, o);
      for (int k = r.begin; k < r.end; ++k) tables[d].add(r.base + k, T(1));
      tables[d].end_cell();
      tables[d].divisor.push_back(static_cast<T>(count_padding ? r.padded(w, d) : r.count()));
    }
}
/// The outputs that read each input of an average.
template <class T>
void list_readers(const PoolWindow& w, bool count_padding, const Block<T>& dx,
                  const Block<const T>& dy, ReadTable<T> (&tables)[3]) {
  for (int d = 0; d < 3; ++d) {
    Readers<T> readers{dx.begin[d], dx.extent(d)};
    std::vector<T> cells;
    for (index_t o = dy.begin[d]; o < dy.end[d]; ++o) {
      const TapRange r = TapRange::of(w, d, o);
      for (int k = r.begin; k < r.end; ++k) readers.add(r.base + k, o, T(1));
      cells.push_back(static_cast<T>(count_padding ? r.padded(w, d) : r.count()));
    }
    tables[d]           = readers.table();
    tables[d].by_source = std::move(cells);
  }
}

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
           MaxPoolPullbackKernel<T>{split, dx, taps, dy, window});
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
           MaxPoolOrderedKernel<T>{split, dx, chosen, dy, window});
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

/// The place in the coarse field of a cell of the fine field.
struct PixelPlace {
  index_t c, z, y, x;

  KOKKOS_FUNCTION static PixelPlace of(const int* f, index_t channel, index_t z, index_t y,
                                       index_t x) {
    const index_t sub = (z % f[0] * f[1] + y % f[1]) * f[2] + x % f[2];
    return {channel * f[0] * f[1] * f[2] + sub, z / f[0], y / f[1], x / f[2]};
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
  int factor[3];

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const PixelPlace p = PixelPlace::of(factor, r.c, r.z, r.y, x);
      Fine& f            = fine.at(r.n, r.c, r.z, r.y, x);
      Coarse& c          = coarse.at(r.n, p.c, p.z, p.y, p.x);
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
  int factor[3];

  void operator()(index_t item) const {
    const auto r        = split.row(item);
    const PixelPlace p  = PixelPlace::of(factor, r.c, r.z, r.y, r.x);
    Fine* const row     = &fine.at(r.n, r.c, r.z, r.y, r.x);
    Coarse* const rows  = &coarse.at(r.n, p.c, p.z, p.y, p.x);
    const index_t count = r.count / factor[2];
    const bool unit     = fine.stride[4] == 1 && coarse.stride[4] == 1;
    if (unit && factor[2] == 2) return interleave<2>(row, rows, count);
    if (unit && factor[2] == 3) return interleave<3>(row, rows, count);
    if (unit && factor[2] == 4) return interleave<4>(row, rows, count);
    for (int k = 0; k < factor[2]; ++k)
      for (index_t i = 0; i < count; ++i)
        move(row[(i * factor[2] + k) * fine.stride[4]],
             rows[k * coarse.stride[1] + i * coarse.stride[4]]);
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
    const index_t step = coarse.stride[1];
    for (index_t i = 0; i < count; ++i)
      for (int k = 0; k < Factor; ++k) move(row[i * Factor + k], rows[k * step + i]);
  }
};

/// Copies between the fine and the coarse field, by rows on a host and by cells on a device.
template <bool ToFine, class Space, class Fine, class Coarse>
void launch_pixels(const char* name, const Space& space, const Block<Fine>& fine,
                   const Block<Coarse>& coarse, const int* factor) {
  using T = std::remove_const_t<Fine>;
  using Functor =
      std::conditional_t<is_host_v<Space>, PixelRows<T, ToFine>, PixelKernel<T, ToFine>>;
  const RowSplit split = RowSplit::of(space, fine);
  launch(name, space, split.items(),
         Functor{split, fine, coarse, {factor[0], factor[1], factor[2]}});
}

template <class Space, class T>
void PixelKernels<Space, T>::to_fine(const Space& space, const Block<T>& fine,
                                     const Block<const T>& coarse, const int* factor) {
  launch_pixels<true>("shard::pixels_to_fine", space, fine, coarse, factor);
}

template <class Space, class T>
void PixelKernels<Space, T>::to_coarse(const Space& space, const Block<T>& coarse,
                                       const Block<const T>& fine, const int* factor) {
  launch_pixels<false>("shard::pixels_to_coarse", space, fine, coarse, factor);
}

template struct PoolKernels<Kokkos::DefaultExecutionSpace, float>;
template struct PoolKernels<Kokkos::DefaultExecutionSpace, double>;
template struct PixelKernels<Kokkos::DefaultExecutionSpace, float>;
template struct PixelKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct PoolKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct PoolKernels<Kokkos::DefaultHostExecutionSpace, double>;
template struct PixelKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct PixelKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
