// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// halo [--filter REGEX] [--quick] [--json FILE] [--list] [--untouched] [--tuning TEXT]
// Halo exchanges of shard and of others, in turns on the same arrays. Names are case/way.
#include <cstring>
#include <string_view>

#include "measure.hpp"
#include "shard/base/environment.hpp"

namespace {

bool parse(int argc, char** argv, halo::Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value           = [&](std::string_view name) -> const char* {
      if (arg == name && i + 1 < argc) return argv[++i];
      if (arg.starts_with(name) && arg.size() > name.size() && arg[name.size()] == '=')
        return argv[i] + name.size() + 1;
      return nullptr;
    };
    if (arg == "--quick") {
      options.quick = true;
    } else if (arg == "--list") {
      options.list = true;
    } else if (arg == "--untouched") {
      options.touch = false;
    } else if (const char* filter = value("--filter")) {
      options.filter = filter;
    } else if (const char* json = value("--json")) {
      options.json = json;
    } else if (const char* tuning = value("--tuning")) {
      options.tuning = tuning;
    } else {
      std::fprintf(stderr,
                   "halo: '%s' is not understood\n"
                   "usage: mpirun -n 2 halo [--filter REGEX] [--quick] [--json FILE] [--list] "
                   "[--untouched] [--tuning TEXT]\n",
                   argv[i]);
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  halo::Options options;
  if (!parse(argc, argv, options)) return 2;
  const auto results = halo::measure(environment.world(), options);
  if (!options.json.empty() && environment.rank() == 0)
    halo::write_json(options.json, results, environment.size());
  peers::end_petsc();
  peers::end_tpetra();
}
