// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_SAME_POINTS_HPP
#define SHARD_VIEW_IMPL_SAME_POINTS_HPP

#include <string_view>

#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// Throws ArgumentError unless two fields of one rank are on one mesh with the same axes and
/// partitions: on every rank alike. Of index spaces the owned elements count, not the halo.
void require_same_points(std::string_view function, const Geometry& a, const Geometry& b);
/// Throws ArgumentError, on every rank alike, unless a dimension of a field has the owned elements
/// of `wanted`.
void require_owned(std::string_view function, const Geometry& field, int d,
                   const Partition& wanted);

}  // namespace shard::impl

#endif
