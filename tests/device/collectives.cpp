// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives on Views in device memory: their kernels are instantiated in src/, here are the
// templates before them.
#include <shard/collectives/collectives.hpp>
#include <shard/collectives/zigzag.hpp>
#include <shard/collectives/zigzag_contexts.hpp>

struct X;

namespace device_collectives {

using namespace shard;
using Space = Kokkos::DefaultExecutionSpace;

void use_collectives(const Mesh<X>& mesh) {
  const Space space;
  const Kokkos::View<float**, Kokkos::LayoutLeft, Space> shard("shard", 2, 3);
  const Kokkos::View<float**, Kokkos::LayoutRight, Space> full("full", 2, 3 * mesh.size());
  all_reduce<X>(space, shard, shard, mesh, 0.5);
  all_reduce<X, Max>(space, shard, shard, mesh);
  all_gather<X>(space, full, shard, mesh, 1);
  reduce_scatter<X>(space, shard, full, mesh, 1);
  all_to_all<X>(space, full, full, mesh, 1, 1);
  broadcast<X>(space, full, full, mesh);
  AllReduce<X>{0.5}.pullback(space, shard, shard, mesh);
  AllReduce<X>{0.5}.pullback_replicated(space, shard, shard, mesh);
  AllGather<X>{1}.pullback(space, shard, full, mesh);
  ReduceScatter<X>{1}.pullback(space, full, shard, mesh);
  AllToAll<X>{1, 1}.pullback(space, full, full, mesh);
  Broadcast<X>{0}.pullback(space, full, full, mesh);
}

void use_sequences(const Mesh<X>& mesh) {
  const Space space;
  const Kokkos::View<float***, Space> split("split", 1, 2 * mesh.size(), 4), context("c", 1, 2, 3),
      full("full", 1, 2, 4 * mesh.size());
  all_to_all<SplitToFull, X>(space, full, split, mesh);
  all_to_all<X>(space, split, full, mesh, "full_to_split");
  ZigzagSplit<X>{2}.pullback(space, full, full, mesh);
  ZigzagGather<X>{2}.pullback(space, full, full, mesh);
  zigzag_contexts<X>(space, context, context, full, mesh);
  ZigzagContexts<X>{}.pullback(space, full, context, context, mesh);
}

}  // namespace device_collectives
