// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces map.cpp and boxes.cpp in builds without Cairo.
#include <shard/io/boxes.hpp>
#include <shard/io/map.hpp>

#include <stdexcept>

namespace shard {

namespace {

[[noreturn]] void refuse(const std::string& path) {
  throw std::runtime_error("shard::write_png: picture '" + path +
                           "' can't be drawn, for this build has no Cairo; install it (Debian: "
                           "libcairo2-dev) and configure with -DSHARD_ENABLE_PICTURES=ON");
}

}  // namespace

bool pictures_available() { return false; }

void write_png(const std::string& path, const Figure&) { refuse(path); }
void write_png(const std::string& path, const BoxFigure&) { refuse(path); }

}  // namespace shard
