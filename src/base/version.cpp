// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/base/version.hpp>

namespace shard {

Version version() noexcept {
  return {SHARD_VERSION_MAJOR, SHARD_VERSION_MINOR, SHARD_VERSION_PATCH, SHARD_VERSION_STRING};
}

}  // namespace shard
