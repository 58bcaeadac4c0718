// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_WANTED_HPP
#define SHARD_BASE_WANTED_HPP

#include <type_traits>

namespace shard {

/// Stands in place of a gradient or a tangent that nobody asks for: of an input that isn't
/// differentiated, of frozen parameters. An operation then neither computes it nor sends a message
/// for it; the tangent of what isn't wanted is zero.
struct NotWanted {};
/// The value to pass.
inline constexpr NotWanted not_wanted{};

/// Whether a gradient or a tangent is asked for.
template <class T>
inline constexpr bool is_wanted_v = !std::is_same_v<std::remove_cvref_t<T>, NotWanted>;

}  // namespace shard

#endif
