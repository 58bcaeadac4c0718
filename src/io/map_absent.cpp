// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands in for map.cpp in builds without Cairo.
#include <shard/io/map.hpp>

#include <stdexcept>

namespace shard {

bool pictures_available() { return false; }

void write_png(const std::string& path, const Figure&) {
  throw std::runtime_error("shard::write_png: picture '" + path +
                           "' can't be drawn, for this build has no Cairo; install it (Debian: "
                           "libcairo2-dev) and configure with -DSHARD_ENABLE_PICTURES=ON");
}

}  // namespace shard
