// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_GROUP_NORM_HPP
#define SHARD_LAYERS_GROUP_NORM_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <vector>

#include "shard/comm/rank_group.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/kernels.hpp"
#include "shard/layers/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Group normalisation over the whole world: y = (x - mean) / sqrt(var + eps) * weight + bias, mean
/// and (biased) variance of each batch entry and group of channels over all cells of all ranks.
/// Fields are [batch, channel, space...]; batch and space may be cut, shards uneven or empty.
///
/// Forward: count, mean and sum of squared differences per shard in double, gathered in one
/// collective and merged in rank order (Chan, Golub, LeVeque 1983), the same on every rank.
/// Backward: two sums in one collective; dx = rstd (w dy - S1 / D - xhat S2 / D), D the number of
/// cells of a group.
struct GroupNorm {
  index_t groups   = 1;     ///< groups of channels
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  bool affine      = true;  ///< whether there are a weight and a bias per channel

  /// Weight and bias, one value per channel, as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 1, Memory>;

  /// Weight (1) and bias (0); none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!affine) return {};
    return {{"weight", {channels}, 0.0, 1.0}, {"bias", {channels}, 0.0, 0.0}};
  }

  /// What one use of the layer keeps from apply to pullback, and its scratch memory. Made once;
  /// nothing is allocated afterwards.
  template <class Memory>
  struct State {
    std::shared_ptr<impl::MeshState> mesh;       ///< whose communicator the group may use
    std::shared_ptr<impl::RankGroup> group;      ///< the ranks that share the cells
    Kokkos::View<double*, Memory> local;         ///< count, mean, squares of this shard
    Kokkos::View<double*, Memory> statistics;    ///< mean and 1 / sqrt(var + eps) of the world
    Kokkos::View<double*, Memory> sums;          ///< S1 and S2
    Kokkos::View<double*, Memory> channel_sums;  ///< what S1 and S2 are summed of
    using HostView = typename Kokkos::View<double*, Memory>::host_mirror_type;  ///< a mirror
    HostView local_host;                                ///< local on the host, for the collective
    HostView statistics_host;                           ///< statistics on the host
    HostView sums_host;                                 ///< sums on the host, for the collective
    Kokkos::View<double*, Kokkos::HostSpace> gathered;  ///< all ranks' values
    double cells = 0.0;                                 ///< of a group, all ranks together
  };

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    using Memory = typename X::memory_space;
    State<Memory> s;
    unsigned dims = 0;
    for (int d = 1; d < X::rank; ++d) dims |= 1U << d;
    s.mesh         = x.geometry().mesh;
    s.group        = impl::RankGroup::of(x.geometry(), dims);
    const auto n   = static_cast<std::size_t>(x.extent(0) * groups);
    s.local        = Kokkos::View<double*, Memory>("shard::norm moments", 3 * n);
    s.statistics   = Kokkos::View<double*, Memory>("shard::norm statistics", 2 * n);
    s.sums         = Kokkos::View<double*, Memory>("shard::norm sums", 2 * n);
    s.channel_sums = Kokkos::View<double*, Memory>(
        "shard::norm channel sums", static_cast<std::size_t>(2 * x.extent(0) * channels));
    s.local_host      = Kokkos::create_mirror_view(s.local);
    s.statistics_host = Kokkos::create_mirror_view(s.statistics);
    s.sums_host       = Kokkos::create_mirror_view(s.sums);
    s.gathered        = Kokkos::View<double*, Kokkos::HostSpace>(
        "shard::norm gathered", 3 * n * static_cast<std::size_t>(s.group->size()));
    return s;
  }

  /// Computes y's owned cells. Collective over the ranks that share x's cells. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    using T       = typename Y::non_const_value_type;
    using Kernels = impl::NormKernels<Space, T>;
    Kernels::moments(space, state.local.data(), impl::owned_input(x), groups);
    Kokkos::deep_copy(space, state.local_host, state.local);
    space.fence("shard::GroupNorm: moments for the collective");
    const auto n = static_cast<int>(x.extent(0) * groups);
    state.group->gather(state.local_host.data(), 3 * n, state.gathered.data());
    state.cells = impl::merge_moments(state.gathered.data(), n, state.group->size(), eps,
                                      state.statistics_host.data());
    Kokkos::deep_copy(space, state.statistics, state.statistics_host);
    Kernels::apply(space, impl::owned_block(impl::local(y)), impl::owned_input(x),
                   state.statistics.data(), affine ? parameters.weight.data() : nullptr,
                   affine ? parameters.bias.data() : nullptr, groups);
    mark_written(space, y);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx. x is
  /// what apply was given, the state as it left it. Collective as apply. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    require(dy, x);
    require(dx, x);
    using T          = typename DX::non_const_value_type;
    using Kernels    = impl::NormKernels<Space, T>;
    const T* weights = affine ? parameters.weight.data() : nullptr;
    Kernels::pullback_sums(space, state.channel_sums.data(), impl::owned_input(dy),
                           impl::owned_input(x), state.statistics.data(), groups);
    Kernels::fold_sums(space, state.sums.data(), affine ? gradients.weight.data() : nullptr,
                       affine ? gradients.bias.data() : nullptr, state.channel_sums.data(), weights,
                       x.extent(0), channels, groups);
    Kokkos::deep_copy(space, state.sums_host, state.sums);
    space.fence("shard::GroupNorm: sums for the collective");
    state.group->sum_few(state.sums_host.data(), static_cast<int>(2 * x.extent(0) * groups),
                         state.gathered.data());
    Kokkos::deep_copy(space, state.sums, state.sums_host);
    Kernels::pullback(space, impl::owned_block(impl::local(dx)), impl::owned_input(dy),
                      impl::owned_input(x), state.statistics.data(), state.sums.data(), weights,
                      groups, state.cells);
  }

 private:
  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    static_assert(!impl::is_cut_v<X, 1>, "a GroupNorm's channels can't be cut");
    impl::require_groups("GroupNorm", channels, channels, groups);
    impl::require_extent("GroupNorm", x.label(), "channels", x.global_extent(1), channels);
    impl::require_extent("GroupNorm", y.label(), "channels", y.global_extent(1), channels);
    impl::require_same_cells("GroupNorm", x, y);
  }
};

}  // namespace shard

#endif
