// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_WANTED_HPP
#define SHARD_BASE_WANTED_HPP

#include <type_traits>

namespace shard {

/// Argument in place of a gradient or a tangent that isn't needed, as for constant inputs and
/// frozen parameters. An operation then skips its computation and its messages. As a tangent it is
/// zero.
struct NotWanted {};
/// The value to pass.
inline constexpr NotWanted not_wanted{};

/// Whether a gradient or a tangent is wanted.
template <class T>
inline constexpr bool is_wanted_v = !std::is_same_v<std::remove_cvref_t<T>, NotWanted>;

}  // namespace shard

#endif
