// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_FIXED_WINDOWS_HPP
#define SHARD_LAYERS_IMPL_FIXED_WINDOWS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Whether a host runs this window in a kernel of its own, whose loops the compiler knows. The same
/// bits as by the one for any window.
bool is_fixed_window(const LocalWindow& window);

/// Whether those kernels are used: they are, unless a test wants the other for comparison.
bool fixed_windows_used();
/// For tests. Not while kernels run.
void use_fixed_windows(bool use);

}  // namespace shard::impl

#endif
