// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_RESAMPLING_SPATIAL_POOL_HPP
#define SHARD_LAYERS_RESAMPLING_SPATIAL_POOL_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/node_sums.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// Pools all points of a field to a few nodes, with a learned weight for each node and point:
///
///   s[n, c, k] = sum over all points i of x[n, c, i] weight[k, i]
///
/// PyTorch's einsum("bcn,kn->bck", x, weight), with the points of space as n, row-major:
/// `SpatialPool<2>{16, {61, 120}}`. SpatialUnpool is the way back.
///
/// x = [batch, channel, space...] is sharded in any way, shards uneven or empty. s = [batch,
/// channel, nodes, 1...] is not sharded in space; every rank has all of it. It is a field on x's
/// mesh with x's batch and channels, or a field on a mesh of one rank with the extents of this
/// rank's batch and channels. In a model it is a replicated value.
///
/// Each rank sums its own points in a fixed order, then the ranks' sums are added in rank order in
/// double: bitwise reproducible on one mesh, and the same on every rank. Every rank has the whole
/// weight; the weight's gradient is this rank's part, which is zero but for its own points. The
/// adjoint of an s on a mesh of one rank is a rank's part, as that of a parameter is, so the
/// pullback sums it over the ranks that share the batch and the channels.
template <int Dims>
struct SpatialPool {
  static_assert(Dims >= 1 && Dims <= 3, "a layer's field has one to three spatial dimensions");

  index_t nodes = 1;                   ///< extent of s's first spatial dimension
  std::array<index_t, Dims> points{};  ///< x's global extents in space

  static constexpr LayerSharding sharding = LayerSharding::collective;  ///< sums over all points
  static constexpr bool takes_not_wanted  = true;  ///< dx and gradients may be not_wanted
  static constexpr bool gives_replicated  = true;  ///< s is a replicated value of a model

  /// The weight [nodes, points].
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 2, Memory>;

  /// The weight, initially as that of PyTorch's Linear(points, nodes). It has no bias.
  std::vector<ParameterShape> parameter_shapes() const {
    const index_t all = impl::count_of_points(points);
    return {{"weight", {nodes, all}, 1.0 / std::sqrt(static_cast<double>(all))}};
  }
  /// The same: a rank has the whole weight, also where channels are sharded.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// The partitions of s for an input with these.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(std::array<Partition, Rank> x) const {
    static_assert(Rank == Dims + 2, "partitions of [batch, channel, space...]");
    for (std::size_t d = 2; d < Rank; ++d) x[d] = Partition::whole(d == 2 ? nodes : 1);
    return x;
  }

  /// The sums over this rank's points, and what adds them over the ranks.
  template <class T, class Memory>
  using State = impl::NodeSums<T, Memory>;

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    return State<typename X::non_const_value_type, typename X::memory_space>(x, x.extent(1), nodes);
  }

  /// Sets s on every rank. Collective over the ranks that share x's batch and channels. Throws
  /// ArgumentError, on every rank before any message, if extents or partitions don't fit.
  template <class Space, class Sums, class P, class S, class X>
  void apply(const Space& space, Sums& sums, const P& parameters, const S& s, const X& x) const {
    const auto weight = weights(parameters.weight, s, x);
    sums.clear(space);
    sums.add(space, impl::owned_input(x), weight);
    sums.store_total(space, s);
    mark_written(space, s);
  }
  /// ts = tx weight + x tweight; tangents may be not_wanted (zero). Collective as apply.
  template <class Space, class Sums, class P, class TP, class TS, class TX, class X>
  void pushforward(const Space& space, Sums& sums, const P& parameters,
                   const TP& parameter_tangents, const TS& ts, const TX& tx, const X& x) const {
    const auto weight = weights(parameters.weight, ts, x);
    sums.clear(space);
    if constexpr (is_wanted_v<TX>) {
      impl::require_same_owners(name, x, tx);
      sums.add(space, impl::owned_input(tx), weight);
    }
    if constexpr (is_wanted_v<TP>)
      sums.add(space, impl::owned_input(x), weights(parameter_tangents.weight, ts, x));
    sums.store_total(space, ts);
    mark_written(space, ts);
  }
  /// From ds = dJ/ds: adds this rank's part to the weight's gradient and sets dx. Either may be
  /// not_wanted. Collective as apply if ds is on a mesh of one rank, else local.
  template <class Space, class Sums, class P, class G, class DX, class DS, class X>
  void pullback(const Space& space, Sums& sums, const P& parameters, const G& gradients,
                const DX& dx, const DS& ds, const X& x) const {
    const auto weight = weights(parameters.weight, ds, x);
    if constexpr (is_wanted_v<DX> || is_wanted_v<G>) {
      const auto total =
          impl::is_of_one_rank(ds, x) ? sums.total(space, ds) : impl::owned_input(ds);
      if constexpr (is_wanted_v<G>)
        impl::add_node_products(space, weights(gradients.weight, ds, x), impl::owned_input(x),
                                total);
      if constexpr (is_wanted_v<DX>) {
        impl::require_same_owners(name, x, dx);
        impl::spread_nodes(space, impl::owned_block(impl::local(dx)), total, weight, false);
      }
    }
  }

 private:
  static constexpr const char* name = "SpatialPool";

  /// The weights of x's owned points, a node for each channel of the block.
  template <class W, class S, class X>
  auto weights(const W& weight, const S& s, const X& x) const {
    static_assert(X::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each spatial dimension]");
    impl::require_nodes(name, s, x, nodes);
    return impl::node_weights(name, weight, impl::NodeSteps{0, 1}, x, points, nodes);
  }
};

/// A field from the values of a few nodes, with a learned weight for each point and node:
///
///   y[n, c, i] = sum over k of s[n, c, k] weight[i, k]
///
/// PyTorch's einsum("bck,nk->bcn", s, weight), with the points of space as n, row-major:
/// `SpatialUnpool<2>{16, {61, 120}}`. s is as that of SpatialPool; in a model it is a replicated
/// value. x = [batch, any channels, space...] only gives the mesh, the batch and the points; its
/// values aren't read, so its gradient is zero. y has s's channels.
///
/// y is bitwise the same for any number of ranks, and sends nothing. Every rank has the whole
/// weight; the weight's gradient is this rank's part, which is zero but for its own points. The
/// gradient of s is a sum over all points: complete on every rank for a field on y's mesh, and this
/// rank's part, as that of a parameter is, for a field on a mesh of one rank.
template <int Dims>
struct SpatialUnpool {
  static_assert(Dims >= 1 && Dims <= 3, "a layer's field has one to three spatial dimensions");

  index_t nodes = 1;                   ///< extent of s's first spatial dimension
  std::array<index_t, Dims> points{};  ///< y's global extents in space

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< forward sends nothing
  static constexpr bool takes_not_wanted  = true;  ///< each gradient may be not_wanted
  static constexpr int inputs             = 2;     ///< x and s
  static constexpr bool broadcasts        = true;  ///< s may be replicated

  /// The weight [points, nodes].
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 2, Memory>;

  /// The weight, initially as that of PyTorch's Linear(nodes, points). It has no bias.
  std::vector<ParameterShape> parameter_shapes() const {
    return {{"weight",
             {impl::count_of_points(points), nodes},
             1.0 / std::sqrt(static_cast<double>(nodes))}};
  }
  /// The same: a rank has the whole weight, also where channels are sharded.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// The partitions of y for inputs with these.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(std::array<Partition, Rank> x,
                                                const std::array<Partition, Rank>& s) const {
    static_assert(Rank == Dims + 2, "partitions of [batch, channel, space...]");
    x[1] = s[1];
    return x;
  }

  /// The sums over this rank's points, and what adds them over the ranks.
  template <class T, class Memory>
  using State = impl::NodeSums<T, Memory>;

  /// Collective over the mesh: the state for fields with the meshes and partitions of x and s.
  template <class X, class S>
  auto state(const X& x, const S& s) const {
    return State<typename X::non_const_value_type, typename X::memory_space>(x, s.extent(1), nodes);
  }

  /// Sets y's owned points. Local. Throws ArgumentError, on every rank, if extents or partitions
  /// don't fit.
  template <class Space, class Sums, class P, class Y, class X, class S>
  void apply(const Space& space, Sums&, const P& parameters, const Y& y, const X& x,
             const S& s) const {
    impl::require_same_cells(name, x, y);
    impl::spread_nodes(space, impl::owned_block(impl::local(y)), impl::owned_input(s),
                       weights(parameters.weight, s, y), false);
    mark_written(space, y);
  }
  /// ty = ts weight + s tweight; tangents may be not_wanted (zero). Local.
  template <class Space, class Sums, class P, class TP, class TY, class TX, class TS, class X,
            class S>
  void pushforward(const Space& space, Sums&, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX&, const TS& ts, const X& x, const S& s) const {
    impl::require_same_cells(name, x, ty);
    const auto to     = impl::owned_block(impl::local(ty));
    const auto weight = weights(parameters.weight, s, ty);
    if constexpr (is_wanted_v<TS>) {
      impl::require_nodes(name, ts, ty, nodes);
      impl::spread_nodes(space, to, impl::owned_input(ts), weight, false);
    } else {
      impl::set_zero(space, to);
    }
    if constexpr (is_wanted_v<TP>)
      impl::spread_nodes(space, to, impl::owned_input(s), weights(parameter_tangents.weight, s, ty),
                         true);
    mark_written(space, ty);
  }
  /// From dy = dJ/dy: adds this rank's part to the weight's gradient, sets dx to zero, and sets ds.
  /// Each may be not_wanted. Collective over the ranks that share y's batch and channels if ds is
  /// wanted and is a field on y's mesh, else local.
  template <class Space, class Sums, class P, class G, class DX, class DS, class DY, class X,
            class S>
  void pullback(const Space& space, Sums& sums, const P& parameters, const G& gradients,
                const DX& dx, const DS& ds, const DY& dy, const X& x, const S& s) const {
    impl::require_same_cells(name, x, dy);
    const auto weight = weights(parameters.weight, s, dy);
    if constexpr (is_wanted_v<G>)
      impl::add_node_products(space, weights(gradients.weight, s, dy), impl::owned_input(dy),
                              impl::owned_input(s));
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners(name, x, dx);
      impl::set_zero(space, impl::owned_block(impl::local(dx)));
    }
    if constexpr (is_wanted_v<DS>) {
      impl::require_nodes(name, ds, dy, nodes);
      sums.clear(space);
      sums.add(space, impl::owned_input(dy), weight);
      if (impl::is_of_one_rank(ds, dy))
        sums.store_own(space, ds);
      else
        sums.store_total(space, ds);
    }
  }

 private:
  static constexpr const char* name = "SpatialUnpool";

  /// The weights of y's owned points, a node for each channel of the block.
  template <class W, class S, class Y>
  auto weights(const W& weight, const S& s, const Y& y) const {
    static_assert(Y::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each spatial dimension]");
    impl::require_nodes(name, s, y, nodes);
    return impl::node_weights(name, weight, impl::NodeSteps{1, 0}, y, points, nodes);
  }
};

}  // namespace shard

#endif
