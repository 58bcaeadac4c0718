// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_NODE_SUMS_HPP
#define SHARD_LAYERS_IMPL_NODE_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/comm/impl/group_merge.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/impl/linear_kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"

/// \file
/// Products of a field x = [batch, channel, space...] with weights of nodes and points, for
/// SpatialPool and SpatialUnpool. Values of nodes are fields [batch, channel, nodes, 1...]. The
/// weights of a rank's points are a Block whose channels are the nodes. All products are those of
/// Linear's kernels, one for each batch entry.

namespace shard::impl {

template <std::size_t Dims>
index_t count_of_points(const std::array<index_t, Dims>& points) {
  index_t count = 1;
  for (const index_t n : points) count *= n;
  return count;
}

/// Whether s, on a mesh of one rank, isn't on x's mesh: each rank has its own s, and its own part
/// of the adjoint.
template <class S, class X>
bool is_of_one_rank(const S& s, const X& x) {
  return s.geometry().mesh->size() == 1 && s.geometry().mesh != x.geometry().mesh;
}

/// Throws ArgumentError unless s has the batch and channels of x, and all nodes on each rank.
template <class S, class X>
void require_nodes(std::string_view function, const S& s, const X& x, index_t nodes) {
  static_assert(require_broadcast_types<X, S>());
  const bool beside = is_of_one_rank(s, x);
  if (!beside && s.geometry().mesh != x.geometry().mesh)
    require_same_cut(function, x.geometry(), s.geometry());
  for (int d = 0; d < X::rank; ++d) {
    if (d >= 2) {
      require_extent(function, s.label(), "values in a dimension, the first of which is nodes",
                     s.global_extent(d), d == 2 ? nodes : 1);
      if (s.partition(d).parts() > 1)
        throw_argument(function, {"the nodes of \"", s.label(),
                                  "\" are sharded; every rank needs all of them"});
    } else if (beside) {
      require_extent(function, s.label(),
                     d == 0 ? "batch entries of this rank" : "channels of this rank", s.extent(d),
                     x.extent(d));
    } else {
      require_same_partition(function, s.label(), d, s.partition(d), x.partition(d));
    }
  }
}

/// Which dimensions of a weight are the nodes and the points.
struct NodeSteps {
  std::size_t nodes, points;
};

/// The weights of x's owned points. Throws ArgumentError unless the weight has all nodes and all
/// points, and x these points.
template <class W, class X, std::size_t Dims>
auto node_weights(std::string_view function, const W& weight, const NodeSteps& steps, const X& x,
                  const std::array<index_t, Dims>& points, index_t nodes) {
  for (int d = 2; d < X::rank; ++d)
    require_extent(function, x.label(), "points along a spatial dimension", x.global_extent(d),
                   points[static_cast<std::size_t>(d - 2)]);
  require_extent(function, weight.label(), "nodes",
                 static_cast<index_t>(weight.extent(steps.nodes)), nodes);
  require_extent(function, weight.label(), "points",
                 static_cast<index_t>(weight.extent(steps.points)), count_of_points(points));
  Block<typename W::value_type> b;
  b.origin     = weight.data();
  b.batch      = 1;
  b.channels   = nodes;
  b.stride[1]  = static_cast<index_t>(weight.stride(steps.nodes));
  index_t step = static_cast<index_t>(weight.stride(steps.points));
  for (int d = X::rank - 1; d >= 2; --d) {
    const int to  = block_dim(d, X::rank);
    b.stride[to]  = step;
    b.end[to - 2] = x.extent(d);
    b.origin += x.begin(d) * step;
    step *= x.global_extent(d);
  }
  return b;
}

/// The points of one batch entry as rows of channels.
template <class T>
TensorRows<T> rows_of_points(const Block<T>& b, index_t entry) {
  TensorRows<T> rows;
  rows.origin = b.origin + entry * b.stride[0];
  for (int d = 0; d < 3; ++d)
    if (b.extent(d) != 1) rows.rows.append(b.extent(d), b.stride[d + 2]);
  rows.length = b.channels;
  rows.step   = b.stride[1];
  return rows;
}

/// Nodes are the only dimension in space that has more than one value.
template <class T>
index_t node_stride(const Block<T>& s) {
  for (int d = 0; d < 3; ++d)
    if (s.extent(d) > 1) return s.stride[d + 2];
  return 0;
}

/// y = the sum over nodes, ascending, of s and the weights; with `adds` to += it.
template <class Space, class T, class W>
void spread_nodes(const Space& space, const Block<T>& y, const Block<const T>& s,
                  const Block<W>& weights, bool adds) {
  if (y.cells() == 0) return;
  for (index_t n = 0; n < y.batch; ++n)
    LinearKernels<Space, T>::contract(
        space, rows_of_points(y, n), as_const(rows_of_points(weights, 0)),
        Matrix<const T>{s.origin + n * s.stride[0], s.stride[1], node_stride(s)}, nullptr, 0, adds);
}

/// Adds to the weights the products of x and s, summed over batch entries and channels, ascending.
template <class Space, class T>
void add_node_products(const Space& space, const Block<T>& weights, const Block<const T>& x,
                       const Block<const T>& s) {
  if (x.cells() == 0) return;
  for (index_t n = 0; n < x.batch; ++n)
    LinearKernels<Space, T>::contract(
        space, rows_of_points(weights, 0), rows_of_points(x, n),
        Matrix<const T>{s.origin + n * s.stride[0], node_stride(s), s.stride[1]}, nullptr, 0, true);
}

template <class Space, class T>
void set_zero(const Space& space, const Block<T>& y) {
  BroadcastKernels<Space, T>::combine(space, y, Products<T>{});
}

/// Sums over a rank's points for each batch entry, channel and node, and over the ranks that share
/// batch and channels. All memory is allocated when it is made.
template <class T, class Memory>
class NodeSums {
 public:
  /// Collective over x's mesh.
  template <class X>
  NodeSums(const X& x, index_t channels, index_t nodes) {
    constexpr int rank = X::rank;
    own_.batch         = x.extent(0);
    own_.channels      = channels;
    own_.stride[0]     = channels * nodes;
    own_.stride[1]     = nodes;
    constexpr int node = block_dim(2, rank);
    own_.end[node - 2] = nodes;
    own_.stride[node]  = 1;
    count_             = own_.batch * channels * nodes;
    memory_            = decltype(memory_)("shard::node sums", static_cast<std::size_t>(count_));
    own_.origin        = memory_.data();
    unsigned across    = 0;
    for (int d = 2; d < rank; ++d) across |= 1U << d;
    const auto group = RankGroup::of(x.geometry(), across);
    if (group->size() == 1) return;
    sums_   = decltype(sums_)("shard::node sums of all ranks", static_cast<std::size_t>(count_));
    others_ = std::make_shared<GroupMerge<Memory>>(x.geometry().mesh, group, count_);
  }

  /// Sets the sums to zero.
  template <class Space>
  void clear(const Space& space) const {
    Kokkos::deep_copy(space, memory_, T(0));
  }
  /// Adds the sums over points of x and the weights.
  template <class Space, class W>
  void add(const Space& space, const Block<const T>& x, const Block<W>& weights) const {
    if (x.cells() == 0) return;
    for (index_t n = 0; n < x.batch; ++n)
      LinearKernels<Space, T>::add_products(
          space, Matrix<T>{own_.origin + n * own_.stride[0], own_.stride[1], 1},
          rows_of_points(x, n), as_const(rows_of_points(weights, 0)));
  }
  /// s = this rank's sums.
  template <class Space, class S>
  void store_own(const Space& space, const S& s) const {
    PointwiseKernels<Space, T>::copy(space, owned_block(local(s)), as_const(own_));
  }
  /// s = the sums over all ranks, added in rank order. Collective over the ranks that share batch
  /// and channels.
  template <class Space, class S>
  void store_total(const Space& space, const S& s) const {
    if (others_ == nullptr)
      store_own(space, s);
    else
      sum(space, owned_block(local(s)), as_const(own_));
  }
  /// The sum of all ranks' s, valid until the next call. Collective as store_total.
  template <class Space, class S>
  Block<const T> total(const Space& space, const S& s) const {
    if (others_ == nullptr) return owned_input(s);
    sum(space, own_, owned_input(s));
    return as_const(own_);
  }

 private:
  template <class Space>
  void sum(const Space& space, const Block<T>& to, const Block<const T>& from) const {
    if (count_ == 0) return;  // on all of these ranks
    SumPlaces places;         // as they are, in double
    index_t step            = 1;
    const index_t extent[5] = {from.batch, from.channels, from.extent(0), from.extent(1),
                               from.extent(2)};
    for (int d = 4; d >= 0; --d) {
      places.keeps[d] = true;
      places.step[d]  = step;
      step *= extent[d];
    }
    places.count       = count_;
    places.keeps_space = true;
    BroadcastKernels<Space, T>::sums(space, others_->mine(), places, from, {}, nullptr);
    others_->run(space, sums_.data(), count_,
                 [&]<class On>(const On& on, double* sums, const double* gathered) {
                   NormKernels<On, T>::add_ranks(on, sums, gathered, count_, others_->ranks());
                 });
    BroadcastKernels<Space, T>::store(space, to, sums_.data(), false);
  }

  Block<T> own_;  ///< [batch, channel, nodes]
  index_t count_ = 0;
  Kokkos::View<T*, Memory> memory_;
  Kokkos::View<double*, Memory> sums_;
  std::shared_ptr<GroupMerge<Memory>> others_;
};

}  // namespace shard::impl

#endif
