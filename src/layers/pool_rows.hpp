// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_POOL_ROWS_HPP
#define SHARD_SRC_LAYERS_POOL_ROWS_HPP

#include <algorithm>
#include <utility>
#include <vector>

#include "pool_window.hpp"
#include "separable_rows.hpp"

/// \file
/// Gradients of pooling, and the tables of means, on a host.

namespace shard::impl {

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

}  // namespace shard::impl

#endif
