// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RECORDED_VALUE_HPP
#define SHARD_MODEL_IMPL_RECORDED_VALUE_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/model/impl/layer_record.hpp"

namespace shard::impl {

/// A constant whose address stands for a type.
template <class Type>
inline constexpr char tag_of_type = 0;

/// The halo that a reader wants along spatial dimension `D`.
template <class InWants, int D>
inline constexpr LowHigh wanted_halo_v{InWants::template at<D>::lo, InWants::template at<D>::hi};
/// Whether it wants one along any dimension.
template <class InWants, int Dims>
inline constexpr bool wants_halo_v = []<int... D>(std::integer_sequence<int, D...>) {
  return ((wanted_halo_v<InWants, D>.lo + wanted_halo_v<InWants, D>.hi > 0) || ...);
}
(std::make_integer_sequence<int, Dims>{});

/// A value of a model: its shape, and the halo of its memory, which is the widest that its readers
/// want.
template <class Types>
struct RecordedValue {
  using T                          = typename Types::value_type;
  using Base                       = typename Types::Base;
  static constexpr int dims        = Types::Cuts::dims;
  static constexpr std::size_t all = static_cast<std::size_t>(dims);

  Geometry geometry;
  typename Types::Partitions partitions;
  bool replicated = false;                  ///< each rank has its own
  std::array<LowHigh, all> halo{};          ///< in space, of its memory
  std::array<const void*, all> boundary{};  ///< of a halo: its type
  bool fixed        = false;                ///< the user's memory
  bool suits_reader = false;                ///< if it gives: its reader wants that halo
  bool gives        = false;                ///< its halo was filled by a HaloExchange
  std::vector<int> copies;                  ///< values with other boundaries

  /// Whether an operation with these wants may read its own memory.
  template <class InWants>
  bool suits() const {
    const auto suits_in = [&]<int D>(std::integral_constant<int, D>) {
      constexpr LowHigh wanted = wanted_halo_v<InWants, D>;
      if (wanted.lo + wanted.hi == 0) return true;
      const void* const outside = &tag_of_type<typename InWants::template at<D>::boundary>;
      const std::size_t d       = static_cast<std::size_t>(D);
      if (fixed)
        return halo[d].lo >= wanted.lo && halo[d].hi >= wanted.hi && boundary[d] == outside;
      return boundary[d] == nullptr || boundary[d] == outside;
    };
    return [&]<int... D>(std::integer_sequence<int, D...>) {
      return (suits_in(std::integral_constant<int, D>{}) && ...);
    }
    (std::make_integer_sequence<int, dims>{});
  }
  /// Its memory has these halos, too.
  template <class InWants>
  void widen() {
    const auto widen_in = [&]<int D>(std::integral_constant<int, D>) {
      constexpr LowHigh wanted = wanted_halo_v<InWants, D>;
      if (wanted.lo + wanted.hi == 0) return;
      LowHigh& own = halo[static_cast<std::size_t>(D)];
      own          = {std::max(own.lo, wanted.lo), std::max(own.hi, wanted.hi)};
      boundary[static_cast<std::size_t>(D)] =
          &tag_of_type<typename InWants::template at<D>::boundary>;
    };
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (widen_in(std::integral_constant<int, D>{}), ...);
    }
    (std::make_integer_sequence<int, dims>{});
  }
  /// Whether a HaloExchange gives just the halos that its reader wants.
  template <class InWants>
  bool gives_all() const {
    return [&]<int... D>(std::integer_sequence<int, D...>) {
      return ((halo[static_cast<std::size_t>(D)].lo == wanted_halo_v<InWants, D>.lo &&
               halo[static_cast<std::size_t>(D)].hi == wanted_halo_v<InWants, D>.hi) &&
              ...);
    }
    (std::make_integer_sequence<int, dims>{});
  }
  /// With its halo.
  index_t bytes() const {
    index_t n = static_cast<index_t>(sizeof(T));
    for (int d = 0; d < Base::rank; ++d) n *= width(d);
    return n;
  }
  /// Points along dimension d, with its halo.
  index_t width(int d) const {
    const LowHigh around = d < 2 ? LowHigh{0, 0} : halo[Geometry::at(d - 2)];
    return geometry.owned(d) + around.lo + around.hi;
  }
  /// The field of its shape at an address.
  Base field_at(T* cells) const {
    FieldState state;
    state.geometry = geometry;
    Kokkos::LayoutRight layout;
    for (int d = 0; d < Base::rank; ++d) {
      layout.dimension[d] = static_cast<std::size_t>(width(d));
      if (d >= 2) state.front[Geometry::at(d)] = halo[Geometry::at(d - 2)].lo;
    }
    return FieldAccess::part<Base>(std::move(state), typename Base::view_type(cells, layout));
  }
};

}  // namespace shard::impl

#endif
