// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_SPECIAL_FILE_HPP
#define SHARD_SRC_IO_SPECIAL_FILE_HPP

#include <sys/stat.h>

#include <string>

namespace shard::impl {

/// What is at `path` if it is no regular file, in words ("a fifo"); empty where there is a regular
/// file or nothing. Opening a fifo waits for its other end, and a device isn't to be replaced.
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
