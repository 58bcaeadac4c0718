// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_SPATIAL_SOFTMAX_HPP
#define SHARD_LAYERS_POINTWISE_SPATIAL_SOFTMAX_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <vector>

#include "shard/comm/impl/group_merge.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/line_kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
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
    using View = Kokkos::View<double*, Memory>;  ///< memory of the fields' space
    View statistics;                             ///< maximum and sum of exponentials of each line
    View sums;                                   ///< of each line, where several ranks share lines
    std::shared_ptr<impl::GroupMerge<Memory>> others;  ///< the ranks that share lines, or null
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
    using View       = decltype(s.sums);
    s.statistics     = View("shard::softmax statistics", static_cast<std::size_t>(2 * lines));
    const auto mesh  = x.geometry().mesh;
    const auto group = impl::RankGroup::of(x.geometry(), 1U << (D + 2));
    if (group->size() > 1) {
      using Merge = impl::GroupMerge<typename X::memory_space>;
      s.others    = std::make_shared<Merge>(mesh, group, 2 * lines);
      s.sums      = View("shard::softmax sums", static_cast<std::size_t>(lines));
    }
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
    if (!state.others) {
      Kernels::softmax_of_lines(space, to, state.statistics.data(), from, block_dim<X>);
    } else {
      const index_t count = static_cast<index_t>(state.statistics.extent(0));
      Kernels::exponentials(space, state.others->mine(), from, block_dim<X>);
      state.others->run(space, state.statistics.data(), count,
                        [&]<class On>(const On& on, double* statistics, const double* gathered) {
                          using T = typename Y::non_const_value_type;
                          impl::LineKernels<On, T>::merge(on, statistics, gathered, count / 2,
                                                          state.others->ranks());
                        });
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
    if (!state.others) {
      Kernels::derivative_of_lines(space, to, factor, from, statistics, block_dim<X>);
      return;
    }
    const index_t lines = static_cast<index_t>(state.sums.extent(0));
    Kernels::dots(space, state.others->mine(), factor, from, statistics, block_dim<X>);
    state.others->run(space, state.sums.data(), lines,
                      [&]<class On>(const On& on, double* sums, const double* gathered) {
                        using T = typename B::non_const_value_type;
                        impl::NormKernels<On, T>::add_ranks(on, sums, gathered, lines,
                                                            state.others->ranks());
                      });
    Kernels::derivative(space, to, factor, from, statistics, state.sums.data(), block_dim<X>);
  }
};

}  // namespace shard

#endif
