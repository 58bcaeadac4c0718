// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATE_WEIGHTS_ROWS_HPP
#define SHARD_SRC_LAYERS_CORRELATE_WEIGHTS_ROWS_HPP

#include <algorithm>
#include <utility>

#include "input_runs.hpp"
#include "lanes.hpp"
#include "product_tile.hpp"
#include "scratch.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Weight gradient of depthwise convolutions on a host: few channels in a group and stride 1 along
/// rows. A work item computes all taps of one coarse and one fine channel. It multiplies a vector
/// of coarse cells by the vectors of fine cells that the taps of one row of the window read. Lane i
/// sums the columns i, i + lanes, ...; the lanes are added at the end.
template <class T>
struct CorrelateWeightsRows {
  static constexpr int lanes             = Tile<T>::lanes;
  static constexpr index_t most_channels = 2, most_lines = 32, most_taps = 8, most_reach = 64;

  T* gradient;
  Block<const T> coarse, fine;
  LocalWindow window;
  index_t coarse_per_group, fine_per_group, lines, taps, reach;

  CorrelateWeightsRows(T* dw, const Block<const T>& small, const Block<const T>& large,
                       const LocalWindow& win)
      : gradient(dw),
        coarse(small),
        fine(large),
        window(win),
        coarse_per_group(small.channels / win.groups),
        fine_per_group(large.channels / win.groups),
        lines(static_cast<index_t>(win.kernel[0]) * win.kernel[1]),
        taps(win.kernel[2]),
        reach((taps - 1) * win.dilation[2]) {}

  bool fits() const {
    return window.stride[2] == 1 && coarse_per_group <= most_channels &&
           fine_per_group <= most_channels && lines <= most_lines && taps <= most_taps &&
           reach <= most_reach;
  }
  index_t items() const { return coarse.channels * fine_per_group; }

  void operator()(index_t item) const {
    const index_t a = item / fine_per_group,
                  b = a / coarse_per_group * fine_per_group + item % fine_per_group;
    alignas(vector_bytes) T sums[most_lines * most_taps * lanes];
    std::fill_n(sums, lines * taps * lanes, T(0));
    const index_t count = coarse.extent(2);
    T* const room       = scratch_values<T>(2 * count + reach);
    for (index_t n = 0; n < coarse.batch; ++n)
      for (index_t z = coarse.begin[0]; z < coarse.end[0]; ++z)
        for (index_t y = coarse.begin[1]; y < coarse.end[1]; ++y) {
          const T* cells = &coarse.at(n, a, z, y, coarse.begin[2]);
          if (coarse.stride[4] != 1) {
            copy_strided(cells, coarse.stride[4], count, room);
            cells = room;
          }
          for (index_t l = 0; l < lines; ++l)
            add_line(cells, fine_cells(n, b, z, y, l, room + count), count,
                     sums + l * taps * lanes);
        }
    for (index_t w = 0; w < lines * taps; ++w) {
      T sum = T(0);
      for (int i = 0; i < lanes; ++i) sum += sums[w * lanes + i];
      gradient[item * lines * taps + w] += sum;
    }
  }

 private:
  /// Pointer to the fine cells that row y of the coarse block reads with line l of the window. If
  /// the block doesn't contain all of them, the pointer is to `copied`, with zeros for the others.
  const T* fine_cells(index_t n, index_t channel, index_t z, index_t y, index_t l,
                      T* copied) const {
    const index_t kz = l / window.kernel[1], ky = l % window.kernel[1],
                  length = coarse.extent(2) + reach;
    const RunOfInputs from =
        find_inputs(fine, z * window.stride[0] + kz * window.dilation[0] + window.offset[0],
                    y * window.stride[1] + ky * window.dilation[1] + window.offset[1],
                    coarse.begin[2] + window.offset[2], 1, length);
    const T* const row = fine.origin + n * fine.stride[0] + channel * fine.stride[1] + from.address;
    if (from.begin == 0 && from.end == length && from.step == 1) return row;
    std::fill_n(copied, from.begin, T(0));
    copy_strided(row + from.begin * from.step, from.step, from.end - from.begin,
                 copied + from.begin);
    std::fill(copied + from.end, copied + length, T(0));
    return copied;
  }

  void add_line(const T* cells, const T* line, index_t count, T* sums) const {
    static_assert(most_taps == 8, "each number of taps has its case");
    switch (taps) {
      case 1: return add<0>(cells, line, count, sums);
      case 2: return add<0, 1>(cells, line, count, sums);
      case 3: return add<0, 1, 2>(cells, line, count, sums);
      case 4: return add<0, 1, 2, 3>(cells, line, count, sums);
      case 5: return add<0, 1, 2, 3, 4>(cells, line, count, sums);
      case 6: return add<0, 1, 2, 3, 4, 5>(cells, line, count, sums);
      case 7: return add<0, 1, 2, 3, 4, 5, 6>(cells, line, count, sums);
      default: return add<0, 1, 2, 3, 4, 5, 6, 7>(cells, line, count, sums);
    }
  }
  template <int... Tap>
  void add(const T* cells, const T* line, index_t count, T* sums) const {
    const auto load    = [](const T* from) { return *reinterpret_cast<const Lanes<T>*>(from); };
    const index_t step = window.dilation[2];
    Lanes<T> s[]       = {load(sums + Tap * lanes)...};
    index_t i          = 0;
    for (; i + lanes <= count; i += lanes) {
      const Lanes<T> c = load(cells + i);
      (add_products<T>(s[Tap], c, load(line + i + Tap * step)), ...);
    }
    if (i < count) {
      T last[lanes] = {}, read[lanes + most_reach] = {};
      std::copy_n(cells + i, count - i, last);
      std::copy_n(line + i, count - i + reach, read);
      (add_products<T>(s[Tap], load(last), load(read + Tap * step)), ...);
    }
    ((*reinterpret_cast<Lanes<T>*>(sums + Tap * lanes) = s[Tap]), ...);
  }
};

}  // namespace shard::impl

#endif
