// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_FIXED_WINDOW_HPP
#define SHARD_SRC_LAYERS_FIXED_WINDOW_HPP

#include "shard/layers/impl/fixed_windows.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Three compile-time constants with an array's syntax. (Devices have no static arrays.)
template <int A, int B, int C>
struct FixedNumbers {
  KOKKOS_FUNCTION constexpr int operator[](int d) const { return d == 0 ? A : d == 1 ? B : C; }
  static bool are(const int* of) { return of[0] == A && of[1] == B && of[2] == C; }
};

/// A window with compile-time kernel K x K and stride S x S, not dilated. A template argument of
/// kernels in place of LocalWindow.
template <int K, int S>
struct FixedWindow : LocalWindow {
  [[no_unique_address]] FixedNumbers<1, K, K> kernel;
  [[no_unique_address]] FixedNumbers<1, S, S> stride;
  [[no_unique_address]] FixedNumbers<1, 1, 1> dilation;

  explicit FixedWindow(const LocalWindow& w) : LocalWindow(w) {}
  KOKKOS_FUNCTION static constexpr index_t taps() { return K * K; }
  static bool is(const LocalWindow& w) {
    return FixedNumbers<1, K, K>::are(w.kernel) && FixedNumbers<1, S, S>::are(w.stride) &&
           FixedNumbers<1, 1, 1>::are(w.dilation);
  }
};

template <class... Windows>
struct WindowList {};

/// The common windows: 1x1, patches, and the convolutions of encoders and decoders.
using FixedWindows = WindowList<FixedWindow<1, 1>, FixedWindow<2, 2>, FixedWindow<3, 1>,
                                FixedWindow<3, 2>, FixedWindow<4, 2>, FixedWindow<5, 1>>;

template <class Call, class... Windows>
bool call_fixed(const LocalWindow& window, const Call& call, WindowList<Windows...>) {
  return ((Windows::is(window) && (call(Windows(window)), true)) || ...);
}

/// Calls `use` with the FixedWindow equal to the window, or with the window itself.
template <class Call>
void with_window(const LocalWindow& window, const Call& call) {
  if (!fixed_windows_used() || !call_fixed(window, call, FixedWindows())) call(window);
}

}  // namespace shard::impl

#endif
