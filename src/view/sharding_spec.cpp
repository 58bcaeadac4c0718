// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/sharding_spec.hpp"

#include <utility>

#include "shard/base/error.hpp"

namespace shard {

namespace {

LogicalMesh global_mesh() {
  std::optional<LogicalMesh> mesh = get_global_mesh();
  if (!mesh)
    impl::throw_argument("ShardingSpec",
                         {"there is no global mesh; give a mesh, or call set_global_mesh"});
  return *std::move(mesh);
}

}  // namespace

ShardingSpec::ShardingSpec(LogicalMesh mesh, const PartitionSpec& spec,
                           const ShardingSpecOptions& options)
    : mesh_(std::move(mesh)), sharding_(mesh_.get_op_sharding(spec)), options_(options) {
  if (options_.local_devices < 0 || options_.local_devices > mesh_.size())
    impl::throw_argument(
        "ShardingSpec",
        {"there are ", impl::text(options_.local_devices), " local devices and the mesh has ",
         impl::text(mesh_.size()), "; give from 1 to that many, or 0 for all"});
  if (options_.local_devices == 0) options_.local_devices = mesh_.size();
}

ShardingSpec::ShardingSpec(const PartitionSpec& spec, const ShardingSpecOptions& options)
    : ShardingSpec(global_mesh(), spec, options) {}

ShardLayout ShardingSpec::layout(std::vector<index_t> extents) const {
  if (options_.minibatch && fits(extents.size()) && !extents.empty()) {
    if (extents[0] % options_.local_devices != 0)
      impl::throw_argument("ShardingSpec::apply",
                           {"when minibatch is configured, the per-host batch size must be "
                            "divisible by the local device count; the batch is ",
                            impl::text(extents[0]), " and there are ",
                            impl::text(options_.local_devices), " local devices"});
    extents[0] = extents[0] / options_.local_devices * mesh_.size();
  }
  return {sharding_, extents, options_.rule};
}

}  // namespace shard
