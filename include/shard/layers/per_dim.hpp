// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_PER_DIM_HPP
#define SHARD_LAYERS_PER_DIM_HPP

#include <array>
#include <cstddef>
#include <type_traits>

namespace shard {

/// One number for each of `Dims` dimensions, or one for all.
template <class T, int Dims>
struct PerDim {
  std::array<T, static_cast<std::size_t>(Dims)> n{};  ///< the numbers

  /// Zeros.
  constexpr PerDim() = default;
  /// The same number in every dimension.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr PerDim(Number all) {
    for (T& one : n) one = static_cast<T>(all);
  }
  /// One number each.
  template <class... Number>
  requires(Dims > 1 && sizeof...(Number) == static_cast<std::size_t>(Dims) &&
           (std::is_arithmetic_v<Number> && ...)) constexpr PerDim(Number... each)
      : n{static_cast<T>(each)...} {}

  /// The number of dimension `d`.
  constexpr T operator[](int d) const { return n[static_cast<std::size_t>(d)]; }
};

}  // namespace shard

#endif
