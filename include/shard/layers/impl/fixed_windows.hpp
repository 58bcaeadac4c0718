// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_FIXED_WINDOWS_HPP
#define SHARD_LAYERS_IMPL_FIXED_WINDOWS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Whether a host has a specialised kernel with compile-time loops for this window. The result is
/// bitwise that of the general kernel.
bool is_fixed_window(const LocalWindow& window);

/// Whether specialised kernels are used; tests can switch them off.
bool fixed_windows_used();
/// For tests. Don't call it while kernels run.
void use_fixed_windows(bool use);

}  // namespace shard::impl

#endif
