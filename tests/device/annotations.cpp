// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Annotated tensors in device memory: their kernels are instantiated in src/, here are the
// templates before them.
#include <shard/annotate/as_sharded.hpp>
#include <shard/annotate/manual.hpp>
#include <shard/annotate/shard_inputs.hpp>

struct X;

void use_annotations(const shard::Mesh<X>& mesh) {
  using namespace shard;
  using Space = Kokkos::DefaultExecutionSpace;
  using View  = Kokkos::View<float**, Kokkos::LayoutLeft, Space>;
  using Field = ShardedView<float**, Kokkos::LayoutLeft, ShardDim<1, X>, Space>;
  const Space space;
  const PartitionSpec spec = partition_spec<Field, Mesh<X>>();
  const View whole("whole", 4, 6);
  const auto tensor = mark_sharding(space, whole, mesh, spec);
  const auto shards = tensor.local_shards(space);
  tensor.load_local_shards(space, {shards[0].data});
  const auto joined = from_local_shards(space, std::vector{shards[0].data}, mesh, spec);
  annotate_custom_sharding(space, joined, mesh, {0, none});
  const auto wrapped = wrap_if_sharded(as_sharded<Field>(tensor, mesh));
  const View local   = enable_manual_sharding(space, whole, spec, mesh);
  const auto back    = disable_manual_sharding(space, local, spec, {4, 6}, mesh);
  const View cleared = clear_sharding(space, back), again = unwrap(space, wrapped);
  const auto input = shard_inputs(space, again, mesh, spec);
  const auto clone = mark_sharding_with_gradients(space, input.clone(space), mesh, spec);
}
