// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_DOT_HPP
#define SHARD_LAYERS_DOT_HPP

#include <Kokkos_Core.hpp>

#include <vector>

#include "shard/comm/rank_group.hpp"
#include "shard/layers/kernels.hpp"
#include "shard/layers/layer_checks.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// The sum of the products of two fields' owned cells over the whole world, in double and in rank
/// order: the same on every rank. Fields are [batch, channel, one to three dimensions in space].
/// Collective over the mesh; allocates: for tests of <A x, y> = <x, A' y>.
template <class Space, AnyShardedView A, AnyShardedView B>
double dot(const Space& space, const A& a, const B& b) {
  impl::require_same_cells("dot", a, b);
  const auto count = static_cast<std::size_t>(a.extent(0) * a.extent(1));
  Kokkos::View<double*, typename A::memory_space> sums("shard::dot", count);
  impl::PointwiseKernels<Space, typename A::non_const_value_type>::dot(
      space, sums.data(), impl::owned_input(a), impl::owned_input(b));
  const auto host = Kokkos::create_mirror_view(sums);
  Kokkos::deep_copy(space, host, sums);
  space.fence("shard::dot: sums for the collective");
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += host(i);
  const auto group = impl::RankGroup::of(a.geometry(), ~0U);
  std::vector<double> all(static_cast<std::size_t>(group->size()));
  group->sum_few(&sum, 1, all.data());
  return sum;
}

}  // namespace shard

#endif
