// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// halo [--filter REGEX] [--quick] [--json FILE] [--list] [--tuning TEXT]
// Halo exchanges of shard and of others, alternating on the same arrays. Names are case/way.
#include <exception>
#include <regex>

#include "measure.hpp"
#include "shard/base/environment.hpp"
#include "shard/exchange/tuning.hpp"
#include "support/arguments.hpp"

namespace {

/// False, and says why, for a command line that can't be used.
bool parse(int argc, char** argv, halo::Options& options) {
  support::Arguments given(argc, argv,
                           "[--filter REGEX] [--quick] [--json FILE] [--list] [--tuning TEXT]");
  options.quick = given.flag("--quick");
  options.list  = given.flag("--list");
  given.take("--filter", options.filter);
  given.take("--tuning", options.tuning);
  given.take_output("--json", options.json);
  try {
    const std::regex filter(options.filter);
  } catch (const std::exception& error) {
    given.refuse("--filter '" + options.filter + "': " + error.what());
  }
  try {
    if (!options.tuning.empty()) shard::tuning_from_text(options.tuning);
  } catch (const std::exception& error) {
    given.refuse("--tuning: " + std::string(error.what()));
  }
  return given.understood();
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  halo::Options options;
  if (!parse(argc, argv, options)) return 2;
  const auto results = halo::measure(environment.world(), options);
  if (results.empty() && !options.list) {
    if (environment.rank() == 0) std::fprintf(stderr, "halo: no case matches the filter\n");
    return 2;
  }
  if (!options.json.empty() && environment.rank() == 0)
    halo::write_json(options.json, results, environment.size());
  peers::end_petsc();
  peers::end_tpetra();
}
