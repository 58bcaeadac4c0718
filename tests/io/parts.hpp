// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_IO_PARTS_HPP
#define SHARD_TESTS_IO_PARTS_HPP

#include <filesystem>
#include <string>

namespace shard::testing {

/// How many unfinished files lie beside `path`: those whose name goes on after its.
inline int parts_beside(const std::string& path) {
  const std::filesystem::path file(path);
  int parts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path()))
    if (entry.path().filename().string().rfind(file.filename().string() + ".", 0) == 0) ++parts;
  return parts;
}

}  // namespace shard::testing

#endif
