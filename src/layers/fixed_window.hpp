// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_FIXED_WINDOW_HPP
#define SHARD_SRC_LAYERS_FIXED_WINDOW_HPP

#include <algorithm>

#include "shard/layers/fixed_windows.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

/// A window whose kernel and stride, K and S cells in each of two dimensions, the compiler knows;
/// not dilated. Stands in a kernel's template arguments where LocalWindow does.
template <int K, int S>
struct FixedWindow : LocalWindow {
  static constexpr int kernel[3] = {1, K, K}, stride[3] = {1, S, S}, dilation[3] = {1, 1, 1};

  explicit FixedWindow(const LocalWindow& w) : LocalWindow(w) {}
  static constexpr index_t taps() { return K * K; }
  static bool is(const LocalWindow& w) {
    return std::equal(kernel, kernel + 3, w.kernel) && std::equal(stride, stride + 3, w.stride) &&
           std::equal(dilation, dilation + 3, w.dilation);
  }
};

template <class... Windows>
struct WindowList {};

/// The usual ones: 1x1, patches and the convolutions of encoders and decoders.
using FixedWindows = WindowList<FixedWindow<1, 1>, FixedWindow<2, 2>, FixedWindow<3, 1>,
                                FixedWindow<3, 2>, FixedWindow<4, 2>, FixedWindow<5, 1>>;

template <class Call, class... Windows>
bool call_fixed(const LocalWindow& window, const Call& call, WindowList<Windows...>) {
  return ((Windows::is(window) && (call(Windows(window)), true)) || ...);
}

/// Calls with the FixedWindow that the window is, else with the window itself.
template <class Call>
void with_window(const LocalWindow& window, const Call& call) {
  if (!fixed_windows_used() || !call_fixed(window, call, FixedWindows())) call(window);
}

}  // namespace shard::impl

#endif
