// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ATTENTION_FIELDS_HPP
#define SHARD_LAYERS_IMPL_ATTENTION_FIELDS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "shard/base/wanted.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"

namespace shard::impl {

/// The state of an attention: data of apply for pullback and pushforward. `Moved` is a field
/// without halos.
template <class Moved>
struct AttentionOutput {
  Moved out;                                                 ///< y
  Kokkos::View<double*, typename Moved::memory_space> sums;  ///< see the layer's kernels

  /// Allocates the sums of out's points in `heads` heads.
  void allocate_sums(index_t heads) {
    index_t queries = out.extent(0) * heads;
    for (int d = 2; d < Moved::rank; ++d) queries *= out.extent(d);
    sums = decltype(sums)("shard::attention sums", static_cast<std::size_t>(2 * queries));
  }
};

template <class T>
Block<const T> no_block() {
  return {};
}

/// The owned points of a field for the kernels, or none.
template <class T, class Field>
Block<const T> tangent_block(const Field& field) {
  if constexpr (is_wanted_v<Field>)
    return owned_input(field);
  else
    return no_block<T>();
}

/// The numbers of heads of an attention: see its options.
struct HeadCounts {
  index_t heads, key_heads;

  index_t per_key() const { return heads_per_key(heads, key_heads); }
  /// Throws ArgumentError, on every rank, unless they fit the queries.
  template <class Q>
  void require(const char* function, const Q& q) const {
    require_grouped_heads(function, q.label().c_str(), q.partition(1), heads, key_heads);
  }
  /// The same for fields that are read or written beside q, where they are wanted: y with q's
  /// channels, and those with the keys'.
  template <class Q, class Y, class... Keys>
  void require_channels(const char* function, const Q& q, const Y& y, const Keys&... keys) const {
    require(function, q);
    require_channels_of(function, y, q.partition(1));
    const Partition of_keys = key_channels(q.partition(1), heads, key_heads);
    (require_channels_of(function, keys, of_keys), ...);
  }

 private:
  template <class Field>
  static void require_channels_of(const char* function, const Field& field, const Partition& p) {
    if constexpr (is_wanted_v<Field>) {
      require_extent(function, field.label(), "channels", field.global_extent(1), p.size());
      require_same_partition(function, field.label(), 1, field.partition(1), p);
    }
  }
};

/// Checks shared by the attention layers, whose fields q, k, v and y have the same points; `more`
/// are like k or not wanted.
template <class Q, class K, class V, class Y, class... More>
void require_attention(const char* function, const HeadCounts& heads, const Q& q, const K& k,
                       const V& v, const Y& y, const More&... more) {
  [[maybe_unused]] const auto same = [&](const auto& other) {
    if constexpr (is_wanted_v<decltype(other)>) require_same_cells(function, q, other);
  };
  (same(k), same(v), same(y));
  (same(more), ...);
  heads.require_channels(function, q, y, k, v, more...);
}

}  // namespace shard::impl

#endif
