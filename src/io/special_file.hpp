// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_SPECIAL_FILE_HPP
#define SHARD_SRC_IO_SPECIAL_FILE_HPP

#include <sys/stat.h>

#include <string>

namespace shard::impl {

/// The kind of file at `path` as text ("a fifo"); empty for a regular file or none. Opening a fifo
/// would block, and a device must not be replaced.
inline std::string special_file(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode)) return {};
  if (S_ISDIR(found.st_mode)) return "a directory";
  if (S_ISFIFO(found.st_mode)) return "a fifo";
  if (S_ISSOCK(found.st_mode)) return "a socket";
  return "a device";
}

}  // namespace shard::impl

#endif
