// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_IMPL_PLAIN_VIEW_HPP
#define SHARD_REDISTRIBUTE_IMPL_PLAIN_VIEW_HPP

#include <array>
#include <cstddef>

#include "shard/base/types.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// A View without its type. Strides are in bytes.
struct PlainView {
  std::byte* data = nullptr;
  std::array<index_t, max_rank> extent{}, stride{};
};

template <class View>
PlainView plain_view(const View& view) {
  using T = typename View::non_const_value_type;
  PlainView plain;
  plain.data = reinterpret_cast<std::byte*>(const_cast<T*>(view.data()));
  for (std::size_t d = 0; d < View::rank(); ++d) {
    plain.extent[d] = static_cast<index_t>(view.extent(d));
    plain.stride[d] = static_cast<index_t>(view.stride(d)) * static_cast<index_t>(sizeof(T));
  }
  return plain;
}

}  // namespace shard::impl

#endif
