// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATION_HPP
#define SHARD_SRC_LAYERS_CORRELATION_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The outputs of one residue class along one dimension, and what they read. Output q < count is
/// cell first + q * step; its tap t < taps is number tap + t * tap_step of the window, and reads
/// the input cell in + t * in_tap_step + q * in_step.
template <class Int>
struct SweepOf {
  Int first, step, count;
  Int tap, tap_step, taps;
  Int in, in_tap_step, in_step;
};
using Sweep = SweepOf<index_t>;

template <class Int>
KOKKOS_INLINE_FUNCTION Int greatest_common_divisor(Int a, Int b) {
  while (b != 0) {
    const Int r = a % b;
    a           = b;
    b           = r;
  }
  return a;
}

template <class Int, class Window>
KOKKOS_INLINE_FUNCTION SweepOf<Int> sweep_correlate(const Window& w, int d, Int begin, Int extent) {
  return {begin,
          1,
          extent,
          0,
          1,
          w.kernel[d],
          begin * w.stride[d] + static_cast<Int>(w.offset[d]),
          w.dilation[d],
          w.stride[d]};
}

/// The sweep of the outputs begin + residue, begin + residue + s, ... of a transposed correlation
/// with stride s.
template <class Int, class Window>
KOKKOS_INLINE_FUNCTION SweepOf<Int> sweep_transposed(const Window& w, int d, Int begin, Int extent,
                                                     Int residue) {
  const Int s = w.stride[d], dilation = w.dilation[d];
  if (s == 1)  // no divisions
    return {begin,     1, extent, 0, 1, w.kernel[d], begin - static_cast<Int>(w.offset[d]),
            -dilation, 1};
  SweepOf<Int> sweep{};
  sweep.first    = begin + residue;
  sweep.step     = s;
  sweep.count    = residue < extent ? (extent - residue + s - 1) / s : 0;
  sweep.tap_step = s / greatest_common_divisor(s, dilation);
  sweep.in_step  = 1;
  const Int from = sweep.first - static_cast<Int>(w.offset[d]);
  for (sweep.tap = 0; sweep.tap < sweep.tap_step && (from - sweep.tap * dilation) % s != 0;
       ++sweep.tap) {
  }
  if (sweep.tap == sweep.tap_step || sweep.tap >= w.kernel[d]) return sweep;
  sweep.taps        = (w.kernel[d] - 1 - sweep.tap) / sweep.tap_step + 1;
  sweep.in          = (from - sweep.tap * dilation) / s;
  sweep.in_tap_step = -(sweep.tap_step * dilation) / s;
  return sweep;
}

/// The operands of a correlation or its transpose. The window is a LocalWindow or a FixedWindow.
template <class T, bool Transposed, class Window>
struct Correlation {
  Block<T> out;
  Block<const T> in;
  const T* weight;
  const T* bias;
  Window window;
  bool onto;  ///< adds to the output's values; otherwise a sum begins with the bias
  index_t out_per_group, in_per_group, weight_out, weight_in;

  Correlation(const Block<T>& to, const Block<const T>& from, const T* w, const T* b,
              const Window& win, bool adds)
      : out(to),
        in(from),
        weight(w),
        bias(b),
        window(win),
        onto(adds),
        out_per_group(to.channels / win.groups),
        in_per_group(from.channels / win.groups),
        weight_out(Transposed ? win.taps() : in_per_group * win.taps()),
        weight_in(Transposed ? out_per_group * win.taps() : win.taps()) {}

  /// The sweep of one residue class of the outputs [begin, begin + extent).
  KOKKOS_FUNCTION Sweep sweep(int d, index_t begin, index_t extent, index_t residue) const {
    if constexpr (Transposed)
      return sweep_transposed(window, d, begin, extent, residue);
    else
      return sweep_correlate(window, d, begin, extent);
  }

  /// Pointer to the weights of an output channel.
  KOKKOS_FUNCTION const T* weights_of(index_t group, index_t channel) const {
    return weight + (Transposed ? group * in_per_group * weight_in +
                                      (channel - group * out_per_group) * weight_out
                                : channel * weight_out);
  }

  /// The index in the window of the taps (tz, ty, tx) of three sweeps.
  template <class Int>
  KOKKOS_FUNCTION Int tap(const SweepOf<Int>& z, const SweepOf<Int>& y, const SweepOf<Int>& x,
                          Int tz, Int ty, Int tx) const {
    return ((z.tap + tz * z.tap_step) * window.kernel[1] + y.tap + ty * y.tap_step) *
               window.kernel[2] +
           x.tap + tx * x.tap_step;
  }
};

}  // namespace shard::impl

#endif
