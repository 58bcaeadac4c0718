// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_INPUT_RUNS_HPP
#define SHARD_SRC_LAYERS_INPUT_RUNS_HPP

#include <algorithm>
#include <cstring>

#include "product_tile.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// A run of cells in one row: `length` cells from (z, y, x), which are indices in the sweep, and
/// their place in the tile.
struct Run {
  index_t z, y, x, length, place;
};

/// Divides the cells [first, first + count) of a box of rows into runs. Returns their number.
inline int cut_into_runs(index_t first, index_t count, index_t rows, index_t columns, Run* runs) {
  int n = 0;
  for (index_t place = 0; place < count; ++n) {
    const index_t cell = first + place, row = cell / columns, x = cell % columns;
    const index_t length = std::min(count - place, columns - x);
    runs[n]              = {row / rows, row % rows, x, length, place};
    place += length;
  }
  return n;
}

/// Copies `count` >= Size values in pieces of Size, the last two of which may overlap.
template <int Size, class T>
void copy_in_pieces(const T* from, index_t count, T* to) {
  index_t i = 0;
  for (; i + Size <= count; i += Size) std::memcpy(to + i, from + i, Size * sizeof(T));
  if (i < count) std::memcpy(to + count - Size, from + count - Size, Size * sizeof(T));
}
/// Copies neighbouring values: a few vectors in place of a loop over the rest of a vector.
template <class T>
void copy_run(const T* from, index_t count, T* to) {
  constexpr int lanes = Tile<T>::lanes;
  if (count >= lanes)
    copy_in_pieces<lanes>(from, count, to);
  else if (2 * count >= lanes)
    copy_in_pieces<lanes / 2>(from, count, to);
  else
    for (index_t i = 0; i < count; ++i) to[i] = from[i];
}

template <class T>
void copy_strided(const T* from, index_t step, index_t count, T* to) {
  if (step == 1)
    copy_run(from, count, to);
  else
    for (index_t i = 0; i < count; ++i) to[i] = from[i * step];
}

/// The offset in memory of a run of inputs of channel 0, and the part [begin, end) of the run that
/// is inside the block.
struct RunOfInputs {
  index_t address, step, begin, end;
};

template <class T>
RunOfInputs find_inputs(const Block<T>& in, index_t z, index_t y, index_t x, index_t x_step,
                        index_t length) {
  RunOfInputs r{z * in.stride[2] + y * in.stride[3] + x * in.stride[4], x_step * in.stride[4], 0,
                0};
  if (z < in.begin[0] || z >= in.end[0] || y < in.begin[1] || y >= in.end[1]) return r;
  r.begin = x >= in.begin[2] ? 0 : std::min(length, (in.begin[2] - x + x_step - 1) / x_step);
  r.end   = x >= in.end[2]
                ? r.begin
                : std::max(r.begin, std::min(length, (in.end[2] - x + x_step - 1) / x_step));
  return r;
}

}  // namespace shard::impl

#endif
