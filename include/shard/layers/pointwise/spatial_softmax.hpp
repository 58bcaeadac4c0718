// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_SPATIAL_SOFTMAX_HPP
#define SHARD_LAYERS_POINTWISE_SPATIAL_SOFTMAX_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <vector>

#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/line_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// y = exp(x - m) / sum of exp(x - m) over each global line along spatial dimension D (from 0), m
/// its maximum. Fields are [batch, channel, space...]; every dimension may be sharded. Forward, one
/// collective over the ranks that shard D gathers each rank's maximum and sum of exponentials of
/// each line. They are merged in rank order (as in flash attention, Dao et al. 2022). Pullback and
/// tangent need one collective of the sum of y dy.
template <int D>
struct SpatialSoftmax {
  static constexpr LayerSharding sharding = LayerSharding::collective;  ///< sums along D

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// The state of one use of the layer: data of apply for pullback, and scratch memory. Allocates
  /// everything when it is made.
  template <class Memory>
  struct State {
    using View     = Kokkos::View<double*, Memory>;    ///< memory of the fields' space
    using HostView = typename View::host_mirror_type;  ///< its mirror on the host
    std::shared_ptr<impl::MeshState> mesh;             ///< whose communicator the group may use
    std::shared_ptr<impl::RankGroup> group;            ///< the ranks that share lines
    View statistics;           ///< maximum and sum of exponentials of each line
    View sums;                 ///< of each line
    HostView statistics_host;  ///< host copy of `statistics`, for the collective
    HostView sums_host;        ///< host copy of `sums`, for the collective
    Kokkos::View<double*, Kokkos::HostSpace> gathered;  ///< all ranks' values
  };

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    static_assert(D >= 0 && D + 2 < X::rank,
                  "a SpatialSoftmax runs along one of its field's spatial dimensions");
    State<typename X::memory_space> s;
    index_t lines = 1;
    for (int d = 0; d < X::rank; ++d)
      if (d != D + 2) lines *= x.extent(d);
    s.mesh            = x.geometry().mesh;
    s.group           = impl::RankGroup::of(x.geometry(), 1U << (D + 2));
    using View        = decltype(s.sums);
    s.statistics      = View("shard::softmax statistics", static_cast<std::size_t>(2 * lines));
    s.sums            = View("shard::softmax sums", static_cast<std::size_t>(lines));
    s.statistics_host = Kokkos::create_mirror_view(s.statistics);
    s.sums_host       = Kokkos::create_mirror_view(s.sums);
    const auto ranks  = static_cast<index_t>(s.group->size());
    s.gathered        = Kokkos::View<double*, Kokkos::HostSpace>(
        "shard::softmax gathered", static_cast<std::size_t>(2 * lines * ranks));
    return s;
  }

  /// Computes y's owned points; y may be x. Collective over the ranks that share x's lines; fences
  /// `space` if there are several.
  template <class Space, class S, class Y, class X>
  void apply(const Space& space, S& state, const Y& y, const X& x) const {
    using Kernels = impl::LineKernels<Space, typename Y::non_const_value_type>;
    impl::require_same_owners("SpatialSoftmax", x, y);
    const auto to   = impl::owned_block(impl::local(y));
    const auto from = impl::owned_input(x);
    if (state.group->size() == 1) {
      Kernels::softmax_of_lines(space, to, state.statistics.data(), from, block_dim<X>);
    } else {
      Kernels::exponentials(space, state.statistics.data(), from, block_dim<X>);
      Kokkos::deep_copy(space, state.statistics_host, state.statistics);
      space.fence("shard::SpatialSoftmax: values for the collective");
      const auto lines = static_cast<index_t>(state.sums.extent(0));
      state.group->gather(state.statistics_host.data(), static_cast<int>(2 * lines),
                          state.gathered.data());
      impl::merge_exponentials(state.gathered.data(), lines, state.group->size(),
                               state.statistics_host.data());
      Kokkos::deep_copy(space, state.statistics, state.statistics_host);
      Kernels::softmax(space, to, from, state.statistics.data(), block_dim<X>);
    }
    mark_written(space, y);
  }
  /// The tangent of y for the tangent tx of x, y (tx - sum of y tx). x and the state must be
  /// unchanged since apply. Collective as apply. ty may be tx.
  template <class Space, class S, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const TY& ty, const TX& tx, const X& x) const {
    derive(space, state, ty, tx, x);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx = y (dy - sum of y dy) from dy = dJ/dy. x and the state must be unchanged
  /// since apply. Collective as apply, unless dx is not_wanted. dx may be dy.
  template <class Space, class S, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<DX>) derive(space, state, dx, dy, x);
  }

 private:
  /// D among the three spatial dimensions of a Block.
  template <class X>
  static constexpr int block_dim = D + 5 - X::rank;

  template <class Space, class S, class B, class A, class X>
  void derive(const Space& space, S& state, const B& b, const A& a, const X& x) const {
    using Kernels = impl::LineKernels<Space, typename B::non_const_value_type>;
    impl::require_same_owners("SpatialSoftmax", x, a);
    impl::require_same_owners("SpatialSoftmax", x, b);
    const auto to     = impl::owned_block(impl::local(b));
    const auto factor = impl::owned_input(a), from = impl::owned_input(x);
    const double* const statistics = state.statistics.data();
    double* const sums             = state.sums.data();
    if (state.group->size() == 1) {
      Kernels::derivative_of_lines(space, to, factor, from, statistics, sums, block_dim<X>);
      return;
    }
    Kernels::dots(space, sums, factor, from, statistics, block_dim<X>);
    Kokkos::deep_copy(space, state.sums_host, state.sums);
    space.fence("shard::SpatialSoftmax: sums for the collective");
    state.group->sum_few(state.sums_host.data(), static_cast<int>(state.sums.extent(0)),
                         state.gathered.data());
    Kokkos::deep_copy(space, state.sums, state.sums_host);
    Kernels::derivative(space, to, factor, from, statistics, sums, block_dim<X>);
  }
};

}  // namespace shard

#endif
