// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mesh_benchmark: what it takes to work specs out on a mesh of 65 536 devices, to tile and groups:
// the median time of 21 tries and the most memory at once. Ends with 1 if one of them misses its
// target, 50 ms and 64 MB. No communicator, one process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include "support/counted_memory.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "support/arguments.hpp"

namespace {

constexpr double most_seconds = 0.050;
constexpr double most_bytes   = 64e6;

/// The mesh and the spec's tile and groups, made anew; prints what it took. Whether that is little.
bool measure(const char* name, const std::vector<int>& shape, bool in_order,
             const shard::PartitionSpec& spec) {
  std::vector<int> ids(65536);
  std::iota(ids.begin(), ids.end(), 0);
  if (!in_order) std::reverse(ids.begin(), ids.end());
  std::vector<double> seconds;
  const std::size_t before = counted_memory::start();
  std::size_t groups       = 0;
  for (int i = 0; i < 21; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const shard::LogicalMesh mesh(ids, shape);
    const shard::OpSharding sharding = mesh.get_op_sharding(spec);
    groups = sharding.tile_assignment().ids.size() + sharding.replication_groups().ids.size();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2],
               bytes  = static_cast<double>(counted_memory::most() - before);
  std::printf("%-48s %8.2f ms %8.2f MB  (%zu entries)\n", name, median * 1e3, bytes * 1e-6, groups);
  return median < most_seconds && bytes < most_bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (!support::Arguments(argc, argv, "").understood()) return 2;
  std::printf("%-48s %11s %11s\n", "mesh of 65536 devices, spec", "time", "memory");
  using shard::none;
  bool good = measure("65536, (0,)", {65536}, true, {0});
  good &= measure("256 x 256, (0, 1)", {256, 256}, true, {0, 1});
  good &= measure("256 x 256, (1, None)", {256, 256}, true, {1, none});
  good &= measure("65536 x 1, (0,), groups of one", {65536, 1}, true, {0});
  good &= measure("16 x 16 x 16 x 16, (3, (0, 2), None), reversed", {16, 16, 16, 16}, false,
                  {3, {0, 2}, none});
  good &= measure("2 in 16 axes, ((15, ..., 8), None)", std::vector<int>(16, 2), true,
                  {{15, 14, 13, 12, 11, 10, 9, 8}, none});
  return good ? 0 : 1;
}
