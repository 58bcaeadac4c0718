// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_LEARNED_QUERIES_HPP
#define SHARD_LAYERS_POINTWISE_LEARNED_QUERIES_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Learned tokens that are the same at every point: the latents of a Perceiver (Jaegle et al. 2021)
/// and of Aurora's encoder, which attend to a column of levels (ColumnAttention).
///
///   y[n, c, l, i...] = weight[l, c]
///
/// The input x = [batch, any channels, any extent, space...] only gives the mesh, the batch and
/// all further dimensions; its values aren't read. y is [batch, channels, tokens, space...]. The
/// first spatial dimension isn't sharded; all others may be, in any way, and channels too. Every
/// rank has the whole weight. Local; y is bitwise the same for any number of ranks.
struct LearnedQueries {
  index_t tokens   = 1;  ///< extent of y's first spatial dimension
  index_t channels = 1;  ///< channels of y

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing
  /// All dimensions of space but the first.
  static constexpr bool can_be_sharded(int d) { return d != 0; }

  /// The weight [tokens, channels].
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 2, Memory>;

  /// The weight, initially uniform with the standard deviation 0.02. It has no bias.
  std::vector<ParameterShape> parameter_shapes() const {
    return {{"weight", {tokens, channels}, 0.02 * std::sqrt(3.0)}};
  }
  /// The same: a rank has the whole weight, also where channels are sharded.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// The partitions of y for an input with these.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(std::array<Partition, Rank> x) const {
    static_assert(Rank >= 3, "partitions of [batch, channel, one to three spatial dimensions]");
    x[1] = Partition::balanced(channels, x[1].parts());
    x[2] = Partition::balanced(tokens, x[2].parts());
    return x;
  }

  /// Sets y's owned points. Throws ArgumentError, on every rank, if extents or partitions don't
  /// fit.
  template <class Space, class P, class Y, class X>
  void apply(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    set(space, y, at_points(parameters, y));
    mark_written(space, y);
  }
  /// The tangent of y for that of the weight, which may be not_wanted (zero). y doesn't depend on
  /// x.
  template <class Space, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, const P&, const TP& parameter_tangents, const TY& ty,
                   const TX&, const X& x) const {
    require(ty, x);
    if constexpr (is_wanted_v<TP>)
      set(space, ty, at_points(parameter_tangents, ty));
    else
      set(space, ty, {});
    mark_written(space, ty);
  }
  /// From dy = dJ/dy: adds this rank's part to the weight's gradient, the sum over its points, and
  /// sets dx to zero. Either may be not_wanted. Local.
  template <class Space, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, const P&, const G& gradients, const DX& dx, const DY& dy,
                const X& x) const {
    require(dy, x);
    if constexpr (is_wanted_v<G>) {
      using T             = typename DY::non_const_value_type;
      constexpr int token = impl::block_dim(2, DY::rank);
      impl::SumPlaces places;
      places.keeps[1] = places.keeps[token] = places.keeps_space = true;
      places.step[1]                                             = 1;
      places.step[token]                                         = channels;
      places.first                                               = dy.begin(1);
      places.count                                               = tokens * channels;
      const auto sums =
          impl::BroadcastSums<typename DY::memory_space>::of(dy, ~6U, 0U, places.count);
      impl::Block<T> to;  // one row of all values
      to.origin    = gradients.weight.data();
      to.batch     = 1;
      to.channels  = places.count;
      to.stride[1] = 1;
      impl::BroadcastKernels<Space, T>::store(
          space, to, sums->template run<Space, T>(space, places, impl::owned_input(dy), {}), true);
    }
    if constexpr (is_wanted_v<DX>) set(space, dx, {});
  }

 private:
  static constexpr const char* name = "LearnedQueries";

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    static_assert(!impl::is_cut_v<X, 2>, "LearnedQueries' first spatial dimension is unsharded");
    impl::require_same_rank_and_value<Y, X>();
    impl::require_same_cut(name, y.geometry(), x.geometry());
    impl::require_extent(name, y.label(), "channels", y.global_extent(1), channels);
    impl::require_extent(name, y.label(), "tokens", y.global_extent(2), tokens);
    for (int d = 0; d < X::rank; ++d)
      if (d != 1 && d != 2)
        impl::require_same_partition(name, y.label(), d, y.partition(d), x.partition(d));
  }
  /// The weight beside y's owned points: a block of y's extents.
  template <class P, class Y>
  auto at_points(const P& parameters, const Y& y) const {
    auto b   = impl::owned_input(y);
    b.origin = parameters.weight.data() + y.begin(1);
    for (int d = 0; d < 5; ++d) b.stride[d] = 0;
    b.stride[1]                           = 1;
    b.stride[impl::block_dim(2, Y::rank)] = channels;
    return b;
  }
  /// y = values, or zero without an origin.
  template <class Space, class Y>
  static void set(const Space& space, const Y& y,
                  const impl::Block<const typename Y::non_const_value_type>& values) {
    using T = typename Y::non_const_value_type;
    impl::Products<T> terms;
    terms.s = values;
    impl::BroadcastKernels<Space, T>::combine(space, impl::owned_block(impl::local(y)), terms);
  }
};

}  // namespace shard

#endif
