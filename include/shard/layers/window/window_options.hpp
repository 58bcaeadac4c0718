// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_WINDOW_OPTIONS_HPP
#define SHARD_LAYERS_WINDOW_WINDOW_OPTIONS_HPP

#include <array>
#include <cstddef>
#include <type_traits>

#include "shard/layers/window/window.hpp"
#include "shard/view/boundary.hpp"

namespace shard {

/// In place of a Padding: as many outputs as inputs, by padding of d (k - 1) in all, the smaller
/// half at the low end (PyTorch's padding='same'). For stride 1.
struct Same {};

/// In place of a Padding: none (PyTorch's padding='valid').
struct Valid {};

/// The required boundary of the input field: one for all spatial dimensions or one for each. A
/// field with another boundary doesn't compile. Without this option the field's own boundary
/// applies. A PoleFold names the field's longitude dimension, as in a ShardDim.
template <class... Boundary>
struct PaddingMode {
  static_assert((impl::is_boundary<Boundary>::value && ...),
                "a padding mode is a boundary: Zero, Periodic, Reflect, Clamp, Symmetric, "
                "PoleFold, Constant or Sides");
  static_assert((impl::pads_v<Boundary> && ...),
                "a padding mode is neither NorthFold, Given nor ByIndex");
};

/// The layer is for shards that begin and end at multiples of its stride. It requires only
/// aligned_halo_t, and throws ArgumentError, on every rank before any message, if a partition needs
/// more. So a window as wide as its stride needs no halo.
struct Aligned {};

namespace impl {

template <class Option>
inline constexpr bool is_padding_v = std::is_same_v<Option, Same> || std::is_same_v<Option, Valid>;
template <auto... P>
inline constexpr bool is_padding_v<Padding<P...>> = true;

/// The padding mode among the options, void if there is none.
template <class... Options>
struct FindMode {
  using type = void;
};
template <class First, class... Rest>
struct FindMode<First, Rest...> : FindMode<Rest...> {};
template <class... Boundary, class... Rest>
struct FindMode<PaddingMode<Boundary...>, Rest...> {
  using type = PaddingMode<Boundary...>;
};

/// The boundary of dimension `D` of `Dims`.
template <class Mode, int D, int Dims>
struct BoundaryOf {
  using type = Zero;
};
template <class Boundary, int D, int Dims>
struct BoundaryOf<PaddingMode<Boundary>, D, Dims> {
  using type = Boundary;
};
template <class First, class Second, class... Rest, int D, int Dims>
struct BoundaryOf<PaddingMode<First, Second, Rest...>, D, Dims> {
  static_assert(sizeof...(Rest) + 2 == Dims,
                "a padding mode has one boundary, or one for each dimension of the kernel");
  using type =
      std::conditional_t<D == 0, First,
                         typename BoundaryOf<PaddingMode<Second, Rest...>, D - 1, Dims - 1>::type>;
};

constexpr LowHigh padding_of(int width) { return {width, width}; }
constexpr LowHigh padding_of(LowHigh width) { return width; }

/// Reads one option of a layer into the windows; an option's number of entries must be the
/// kernel's.
template <int Dims>
struct WindowOptions {
  std::array<Window, Dims> windows{};
  bool same = false;

  template <int... K>
  constexpr void read(Kernel<K...>) {
    int d = 0;
    ((windows[static_cast<std::size_t>(d++)].kernel = K), ...);
  }
  template <int... S>
  constexpr void read(Stride<S...>) {
    static_assert(sizeof...(S) == Dims, "a stride has one entry for each dimension of the kernel");
    int d = 0;
    ((windows[static_cast<std::size_t>(d++)].stride = S), ...);
  }
  template <int... D>
  constexpr void read(Dilation<D...>) {
    static_assert(sizeof...(D) == Dims,
                  "a dilation has one entry for each dimension of the kernel");
    int d = 0;
    ((windows[static_cast<std::size_t>(d++)].dilation = D), ...);
  }
  template <auto... P>
  constexpr void read(Padding<P...>) {
    static_assert(sizeof...(P) == Dims, "a padding has one entry for each dimension of the kernel");
    static_assert(((padding_of(P).lo >= 0 && padding_of(P).hi >= 0) && ...),
                  "a padding isn't negative");
    std::size_t d = 0;
    ((windows[d].padding_lo = padding_of(P).lo, windows[d].padding_hi = padding_of(P).hi, ++d),
     ...);
  }
  constexpr void read(Same) { same = true; }
  constexpr void read(Valid) {}
  constexpr void read(Aligned) {}
  template <class... Boundary>
  constexpr void read(PaddingMode<Boundary...>) {}

  /// Call it after all options are read.
  constexpr void pad() {
    if (!same) return;
    for (Window& w : windows) {
      w.padding_lo = w.reach() / 2;
      w.padding_hi = w.reach() - w.padding_lo;
    }
  }
  constexpr bool has_unit_strides() const {
    for (const Window& w : windows)
      if (w.stride != 1) return false;
    return true;
  }
};

template <int Dims, class... Options>
constexpr std::array<Window, Dims> make_windows() {
  static_assert((static_cast<int>(is_padding_v<Options>) + ... + 0) <= 1,
                "a layer has one padding: Padding, Same or Valid");
  constexpr auto options = [] {
    WindowOptions<Dims> read;
    (read.read(Options{}), ...);
    read.pad();
    return read;
  }();
  static_assert(!options.same || options.has_unit_strides(), "Same padding needs a stride of 1");
  return options.windows;
}

template <class>
struct KernelDims;
template <int... K>
struct KernelDims<Kernel<K...>> {
  static constexpr int value = static_cast<int>(sizeof...(K));
};

}  // namespace impl

}  // namespace shard

#endif
