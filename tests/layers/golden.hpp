// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_GOLDEN_HPP
#define SHARD_TESTS_LAYERS_GOLDEN_HPP

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "layers/layer_support.hpp"

namespace shard::testing {

using Json = nlohmann::json;

/// The reference values: tests/data/layers.json, or the file that SHARD_GOLDEN_LAYERS names.
inline const Json& golden_file() {
  static const Json file = [] {
    const char* other = std::getenv("SHARD_GOLDEN_LAYERS");
    std::ifstream stream(other != nullptr && *other != '\0' ? other
                                                            : SHARD_TEST_DATA "/layers.json");
    return Json::parse(stream);
  }();
  return file;
}

template <int Rank>
World<Rank> golden_array(const Json& a) {
  World<Rank> w(a["shape"].get<std::array<index_t, Rank>>());
  w.v = a["data"].get<std::vector<double>>();
  return w;
}
/// A gradient: the shape is that of `like`.
template <int Rank>
World<Rank> golden_like(const Json& data, const World<Rank>& like) {
  World<Rank> w = like;
  w.v           = data.get<std::vector<double>>();
  return w;
}

/// For one case: every mesh of this number of ranks, balanced and random partitions.
inline void on_all_meshes(
    const std::function<void(const Grid&, const std::array<int, 2>&, int, Random&)>& body) {
  Random random(seed());
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    for (int which = 0; which < (world_size() > 1 ? 3 : 1); ++which) {
      SCOPED_TRACE("mesh " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   (which == 0 ? ", balanced" : ", random partition"));
      body(mesh, shape, which, random);
    }
  }
}

using Handler = std::function<void(const Json&)>;

/// The case's op and parameters, by which it finds its types.
inline std::string key_of(const std::string& op, const Json& params) {
  return op + " " + params.dump();
}

/// Runs all cases of the file whose op is among the table's; a case that the table lacks fails.
inline void run_golden(const std::map<std::string, Handler>& table) {
  std::map<std::string, bool> ops;
  for (const auto& [key, handler] : table) ops[key.substr(0, key.find(' '))] = true;
  int count = 0;
  for (const Json& one : golden_file()["cases"]) {
    const std::string op = one["op"];
    if (ops.count(op) == 0) continue;
    const std::string key = key_of(op, one["params"]);
    SCOPED_TRACE(key);
    const auto found = table.find(key);
    ASSERT_NE(found, table.end()) << "no types for this case";
    found->second(one);
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace shard::testing

#endif
