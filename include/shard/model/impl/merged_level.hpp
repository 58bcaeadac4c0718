// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_MERGED_LEVEL_HPP
#define SHARD_MODEL_IMPL_MERGED_LEVEL_HPP

#include <string_view>

#include "shard/layers/impl/outside_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/pool_kernels.hpp"
#include "shard/model/merge_plan.hpp"
#include "shard/model/module.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// The input of a layer of a chain on this rank, or the last layer's output. Point indices are
/// relative to this rank's first owned point of the chain's input; dimensions are those of a Block.
struct MergedLevel {
  index_t channels       = 0;
  IndexRange computed[3] = {{0, 1}, {0, 1}, {0, 1}};  ///< points that the layer before computes
  IndexRange held[3]     = {{0, 1}, {0, 1}, {0, 1}};  ///< and those outside the domain
  DomainEdges edges;
  bool any_beyond = false;

  index_t cells() const {
    index_t n = channels;
    for (const IndexRange& r : held) n *= r.empty() ? 0 : r.end - r.begin;
    return n;
  }
};

/// The levels of a chain, count + 1 of them, for an input of this geometry and outputs of these
/// partitions in space. Throws ArgumentError, on every rank, if channels don't fit or points
/// outside the domain have no local source.
void plan_levels(const MergeLayer* layers, int count, const Geometry& x, const Partition* outputs,
                 MergedLevel* levels);

/// A level's points in memory at `data`.
template <class T>
Block<T> level_block(const MergedLevel& level, index_t batch, T* data, bool with_beyond) {
  Block<T> b;
  b.batch        = batch;
  b.channels     = level.channels;
  index_t stride = 1;
  b.origin       = data;
  for (int d = 2; d >= 0; --d) {
    const IndexRange& held  = level.held[d];
    const IndexRange& shown = with_beyond ? held : level.computed[d];
    b.stride[d + 2]         = stride;
    b.begin[d]              = shown.begin;
    b.end[d]                = shown.empty() ? shown.begin : shown.end;
    if (data != nullptr) b.origin -= held.begin * stride;
    stride *= held.empty() ? 0 : held.end - held.begin;
  }
  b.stride[1] = stride;
  b.stride[0] = stride * level.channels;
  return b;
}

/// The block with another origin of its indices.
template <class T>
Block<T> counted_from(Block<T> b, const index_t* first) {
  for (int d = 0; d < 3; ++d) {
    b.origin += first[d] * b.stride[d + 2];
    b.begin[d] -= first[d];
    b.end[d] -= first[d];
  }
  return b;
}

/// The layer of a module on blocks of points: the kernels that its apply, pushforward and pullback
/// launch.
template <class M, class Space>
struct MergedLayer {
  using T                              = typename M::value_type;
  using Layer                          = typename M::layer_type;
  static constexpr MergeKind kind      = Merging<Layer>::kind;
  static constexpr bool has_parameters = has_parameters_v<Layer, T, typename M::memory_space>;
  using Pools                          = PoolKernels<Space, T>;

  const M& owner;
  const Space& space;
  const MergedLevel& from;  ///< its input
  int* taps;                ///< of a MaxPool

  void apply(const Block<T>& y, const Block<const T>& x) const {
    if constexpr (kind == MergeKind::convolution) {
      ConvolutionKernels<Space, T>::correlate(
          space, y, x, owner.parameters().weight.data(),
          owner.layer().bias ? owner.parameters().bias.data() : nullptr, window());
    } else if constexpr (kind == MergeKind::max_pool) {
      Pools::max(space, counted_from(y, y.begin), taps, counted_from(x, y.begin), pool(y.begin));
    } else if constexpr (kind == MergeKind::average_pool) {
      Pools::average(space, counted_from(y, y.begin), counted_from(x, y.begin), pool(y.begin),
                     Layer::count_padding);
    } else {
      ActivationKernels<Space, T>::apply(space, Merging<Layer>::function(owner.layer()),
                                         Merging<Layer>::figure(owner.layer()), y, x);
    }
  }

  void pushforward(const Block<T>& ty, const Block<const T>& tx, const Block<const T>& x) const {
    if constexpr (kind == MergeKind::convolution)
      ConvolutionKernels<Space, T>::correlate(space, ty, tx, owner.parameters().weight.data(),
                                              nullptr, window());
    else if constexpr (kind == MergeKind::max_pool)
      Pools::max_tangent(space, counted_from(ty, ty.begin), taps, counted_from(tx, ty.begin),
                         pool(ty.begin));
    else if constexpr (kind == MergeKind::average_pool)
      apply(ty, tx);
    else
      times_derivative(ty, tx, x);
  }

  void pullback_parameters(const Block<const T>& dy, const Block<const T>& x) const {
    using Kernels = ConvolutionKernels<Space, T>;
    Kernels::correlate_weights(space, owner.gradients().weight.data(), dy, x, window());
    if (owner.layer().bias) Kernels::sum_channels(space, owner.gradients().bias.data(), dy);
  }

  void pullback_input(const Block<T>& dx, const Block<const T>& dy, const Block<const T>& x) const {
    if constexpr (kind == MergeKind::convolution)
      ConvolutionKernels<Space, T>::correlate_transposed(
          space, dx, dy, owner.parameters().weight.data(), nullptr, window());
    else if constexpr (kind == MergeKind::max_pool)
      Pools::max_pullback(space, counted_from(dx, dy.begin), taps, counted_from(dy, dy.begin),
                          pool(dy.begin));
    else if constexpr (kind == MergeKind::average_pool)
      Pools::average_pullback(space, counted_from(dx, dy.begin), counted_from(dy, dy.begin),
                              pool(dy.begin), Layer::count_padding);
    else
      times_derivative(dx, dy, x);
  }

 private:
  void times_derivative(const Block<T>& b, const Block<const T>& a, const Block<const T>& x) const {
    ActivationKernels<Space, T>::times_derivative(space, Merging<Layer>::function(owner.layer()),
                                                  Merging<Layer>::figure(owner.layer()), b, a, x);
  }

  LocalWindow window() const {
    LocalWindow w = Layer::Shape::local(owner.layer().groups);
    for (int d = 0; d < Layer::dims; ++d)
      w.offset[d + 3 - Layer::dims] = -Layer::window(d).padding_lo;
    return w;
  }

  PoolWindow pool(const index_t* first) const {
    PoolWindow w;
    for (int d = 0; d < 3; ++d) {
      w.first[d] = from.edges.first[d] - first[d];
      w.last[d]  = from.edges.last[d] - first[d];
    }
    for (int d = 0; d < Layer::dims; ++d) {
      const Window of = Layer::window(d);
      const int to    = d + 3 - Layer::dims;
      w.kernel[to]    = of.kernel;
      w.dilation[to]  = of.dilation;
      w.offset[to]    = -of.padding_lo;
    }
    return w;
  }
};

}  // namespace shard::impl

#endif
