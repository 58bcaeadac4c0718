// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_HELP_HPP
#define SHARD_EXAMPLES_HELP_HPP

#include <shard/base/environment.hpp>

#include <cstdio>
#include <string_view>

/// Whether the arguments ask for help. The first rank prints it.
inline bool asks_for_help(const shard::Environment& environment, int argc, char** argv,
                          const char* usage) {
  bool asks = false;
  for (int a = 1; a < argc; ++a)
    asks = asks || std::string_view(argv[a]) == "--help" || std::string_view(argv[a]) == "-h";
  if (asks && environment.rank() == 0) std::printf("%s\n", usage);
  return asks;
}

#endif
