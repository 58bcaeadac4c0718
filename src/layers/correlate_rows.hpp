// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATE_ROWS_HPP
#define SHARD_SRC_LAYERS_CORRELATE_ROWS_HPP

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "correlation.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"
#include "product_tile.hpp"

namespace shard::impl {

/// Depthwise convolutions on a host: correlation and its transpose with stride 1 and few output
/// channels in a group. A work item computes two neighbouring rows of one output channel, a few
/// vectors at a time, so that both rows use each vector of inputs that is loaded. The order of
/// additions is that of CorrelateTiles.
template <class T, bool Transposed>
struct CorrelateRows : Correlation<T, Transposed, LocalWindow> {
  using Operands = Correlation<T, Transposed, LocalWindow>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::window;
  static constexpr int lanes = Tile<T>::lanes, vectors = 4, width = vectors * lanes;
  static constexpr index_t most_reach = 64, most_channels = 2;

  index_t pairs;

  explicit CorrelateRows(const Operands& operands)
      : Operands(operands), pairs((out.extent(1) + 1) / 2) {}

  bool fits() const {
    for (int d = 0; d < 3; ++d)
      if (window.stride[d] != 1) return false;
    return out_per_group <= most_channels &&
           (window.kernel[2] - 1) * static_cast<index_t>(window.dilation[2]) <= most_reach;
  }
  index_t items() const { return out.batch * out.channels * out.extent(0) * pairs; }

  /// The place of a work item, and the buffers of its two rows.
  struct Rows {
    Sweep z, y, x;
    const T* channels;  ///< inputs of the group
    const T* weights;
    index_t plane;  ///< index in the sweep of z
    index_t row;    ///< index in the sweep of y, of the first of two rows
    index_t piece;  ///< the first column
    T* first;       ///< sums of the row that meets the first row of taps first
    T* second;
    const T* begin_first;  ///< initial values of the sums
    const T* begin_second;
  };

  void operator()(index_t item) const {
    const index_t row = item % pairs * 2, plane = item / pairs % out.extent(0),
                  channel = item / pairs / out.extent(0) % out.channels,
                  n       = item / pairs / out.extent(0) / out.channels;
    const index_t group   = channel / out_per_group;
    Rows r{this->sweep(0, out.begin[0], out.extent(0), 0),
           this->sweep(1, out.begin[1], out.extent(1), 0),
           this->sweep(2, out.begin[2], out.extent(2), 0),
           in.origin + n * in.stride[0] + group * in_per_group * in.stride[1],
           this->weights_of(group, channel),
           plane,
           row,
           0,
           nullptr,
           nullptr,
           nullptr,
           nullptr};
    const bool both = row + 1 < r.y.count, shared = std::abs(r.y.in_tap_step) == 1;
    T* const cells = &out.at(n, channel, out.begin[0] + plane, out.begin[1] + row, out.begin[2]);
    for (index_t piece = 0; piece < r.x.count; piece += width) {
      r.piece             = piece;
      const index_t count = std::min<index_t>(width, r.x.count - piece);
      T* const to         = cells + piece * out.stride[4];
      if (both && shared) {
        compute<true>(r, count, to, to + out.stride[3], channel);
      } else {
        compute<false>(r, count, to, nullptr, channel);
        if (!both) continue;
        ++r.row;
        compute<false>(r, count, to + out.stride[3], nullptr, channel);
        --r.row;
      }
    }
  }

 private:
  template <bool Both>
  void compute(Rows r, index_t count, T* upper, T* lower, index_t channel) const {
    alignas(vector_bytes) T begin[2][width], sums[2][width];
    T* const to[]      = {upper, lower};
    const bool direct  = out.stride[4] == 1 && count % lanes == 0;
    constexpr int rows = Both ? 2 : 1;
    for (int i = 0; i < rows; ++i) {
      std::fill_n(begin[i], width, bias == nullptr ? T(0) : bias[channel]);
      if (onto) copy_strided(to[i], out.stride[4], count, begin[i]);
    }
    // A transposed correlation reads the inputs backwards: the lower row comes first.
    const int first = Both && r.y.in_tap_step < 0 ? 1 : 0;
    r.first         = direct ? to[first] : sums[first];
    r.begin_first   = begin[first];
    r.second        = direct ? to[1 - first] : sums[1 - first];
    r.begin_second  = begin[1 - first];
    const auto used = static_cast<int>((count + lanes - 1) / lanes);
    static_assert(vectors == 4, "each number of vectors has its case");
    if (used == 4)
      add<Both>(r, std::make_integer_sequence<int, 4>());
    else if (used == 3)
      add<Both>(r, std::make_integer_sequence<int, 3>());
    else if (used == 2)
      add<Both>(r, std::make_integer_sequence<int, 2>());
    else
      add<Both>(r, std::make_integer_sequence<int, 1>());
    if (direct) return;
    for (int i = 0; i < rows; ++i)
      for (index_t j = 0; j < count; ++j) to[i][j * out.stride[4]] = sums[i][j];
  }

  template <bool Both, int... I>
  void add(const Rows& r, std::integer_sequence<int, I...>) const {
    constexpr int used = static_cast<int>(sizeof...(I));
    const auto load    = [](const T* from) { return *reinterpret_cast<const Lanes<T>*>(from); };
    Lanes<T> a[]       = {load(r.begin_first + I * lanes)...},
             b[]       = {load((Both ? r.begin_second : r.begin_first) + I * lanes)...};
    T line[width + most_reach];
    const index_t step = r.x.in_tap_step, taps = r.x.taps, rows = r.y.taps;
    // of the row that comes first
    const index_t row = r.row + (Both && r.y.in_tap_step < 0 ? 1 : 0);
    for (index_t c = 0; c < in_per_group; ++c)
      for (index_t tz = 0; tz < r.z.taps; ++tz)
        for (index_t j = 0; j < rows + (Both ? 1 : 0); ++j) {
          const T* const p  = inputs(r, c, tz, row, j, used * lanes, line);
          const T* const wa = r.weights + c * weight_in +
                              (tz * rows + j) * taps;  // the second row is one tap behind
          const T* const wb = wa - taps;
          if (!Both || j == 0)
            for (index_t t = 0; t < taps; ++t)
              (add_product<T>(a[I], wa[t], load(p + t * step + I * lanes)), ...);
          else if (j == rows)
            for (index_t t = 0; t < taps; ++t)
              (add_product<T>(b[I], wb[t], load(p + t * step + I * lanes)), ...);
          else
            for (index_t t = 0; t < taps; ++t) {
              const Lanes<T> v[] = {load(p + t * step + I * lanes)...};
              (add_product<T>(a[I], wa[t], v[I]), ...);
              (add_product<T>(b[I], wb[t], v[I]), ...);
            }
        }
    ((*reinterpret_cast<Lanes<T>*>(r.first + I * lanes) = a[I]), ...);
    if constexpr (Both) ((*reinterpret_cast<Lanes<T>*>(r.second + I * lanes) = b[I]), ...);
  }

  /// Pointer to the input of tap (j, 0) at the first column. If the block doesn't contain all
  /// inputs of the `count` columns, the pointer is into `line`, a copy with zeros for the others.
  const T* inputs(const Rows& r, index_t c, index_t tz, index_t row, index_t j, index_t count,
                  T* line) const {
    const index_t z = r.z.in + tz * r.z.in_tap_step + r.plane,
                  y = r.y.in + j * r.y.in_tap_step + row, x = r.x.in + r.piece,
                  reach = (r.x.taps - 1) * r.x.in_tap_step, begin = x + std::min<index_t>(reach, 0),
                  length   = count + std::abs(reach);
    const T* const channel = r.channels + c * in.stride[1];
    const RunOfInputs from = find_inputs(in, z, y, begin, 1, length);
    if (from.begin == 0 && from.end == length && from.step == 1)
      return channel + from.address + (x - begin);
    std::fill_n(line, from.begin, T(0));
    copy_strided(channel + from.address + from.begin * from.step, from.step, from.end - from.begin,
                 line + from.begin);
    std::fill(line + std::max(from.begin, from.end), line + length, T(0));
    return line + (x - begin);
  }
};

}  // namespace shard::impl

#endif
