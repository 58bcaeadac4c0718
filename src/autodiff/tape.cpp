// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/autodiff/tape.hpp"

namespace shard::impl {

void throw_not_on_tape(const char* function, const char* what) { throw_argument(function, {what}); }

}  // namespace shard::impl
