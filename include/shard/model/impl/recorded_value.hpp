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

/// The halos that a reader wants, and their boundaries, as types' addresses.
template <int Dims>
struct WantedHalo {
  std::array<LowHigh, static_cast<std::size_t>(Dims)> sides{};
  std::array<const void*, static_cast<std::size_t>(Dims)> boundary{};

  template <class InWants>
  static constexpr WantedHalo of() {
    return []<int... D>(std::integer_sequence<int, D...>) {
      return WantedHalo{
          {LowHigh{InWants::template at<D>::lo, InWants::template at<D>::hi}...},
          {static_cast<const void*>(&tag_of_type<typename InWants::template at<D>::boundary>)...}};
    }
    (std::make_integer_sequence<int, Dims>{});
  }
  constexpr bool any() const {
    for (const LowHigh& side : sides)
      if (side.lo + side.hi > 0) return true;
    return false;
  }
};

/// A value of a model: its shape, and the halo of its memory, which is the widest that its readers
/// want.
template <class T, class Memory, int Rank>
struct RecordedValue {
  using Field                      = RunField<T, Memory, Rank>;
  static constexpr int dims        = Rank - 2;
  static constexpr std::size_t all = static_cast<std::size_t>(dims);

  Geometry geometry;
  std::array<Partition, static_cast<std::size_t>(Rank)> partitions;
  bool replicated = false;                  ///< each rank has its own
  std::array<LowHigh, all> halo{};          ///< in space, of its memory
  std::array<const void*, all> boundary{};  ///< of a halo: its type
  bool fixed        = false;                ///< the user's memory
  bool suits_reader = false;                ///< if it gives: its reader wants that halo
  bool gives        = false;                ///< its halo was filled by a HaloExchange
  std::vector<int> copies;                  ///< values with other boundaries

  /// Whether an operation with these wants may read its own memory.
  bool suits(const WantedHalo<dims>& wanted) const;
  /// Its memory has these halos, too.
  void widen(const WantedHalo<dims>& wanted);
  /// Whether a HaloExchange gives just the halos that its reader wants.
  bool gives_all(const WantedHalo<dims>& wanted) const;
  /// With its halo.
  index_t bytes() const;
  /// Points along dimension d, with its halo.
  index_t width(int d) const;
  /// The field of its shape at an address.
  Field field_at(T* cells) const;
};

}  // namespace shard::impl

#endif
