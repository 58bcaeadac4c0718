// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_SHARED_POINTS_HPP
#define SHARD_EXCHANGE_IMPL_SHARED_POINTS_HPP

#include <string_view>

#include "shard/exchange/impl/field_spec.hpp"

namespace shard::impl {

/// Whether two fields have owned points in common or are copies of one field: exact for equal
/// strides, else whether they begin at the same address.
bool share_points(const FieldArgs& a, const void* a_origin, const FieldArgs& b,
                  const void* b_origin);
/// Throws ArgumentError: an output is an input.
[[noreturn]] void throw_shared(std::string_view function, const Geometry& to, const Geometry& from);

}  // namespace shard::impl

#endif
