// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_ROTARY_HPP
#define SHARD_LAYERS_POINTWISE_ROTARY_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/embedding_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// Which two features of a head a rotary embedding rotates. Weights trained with one order give
/// another function with the other.
enum class RotaryPairs : std::uint8_t {
  neighbours,  ///< 2i and 2i + 1 (RoFormer, GPT-J, Llama's own code)
  halves,      ///< i and i + d/2 (GPT-NeoX, Hugging Face's Llama)
};

/// Rotary position embedding (Su et al. 2021) of queries and keys: the pair i of the d features of
/// each head at position p is rotated by the angle p theta^(-2i/d). Fields are [batch, heads x
/// features, space...]; the position is the global index along spatial dimension `dim`. Batch and
/// space may be sharded, channels by whole heads. Local, and bitwise the same for any number of
/// ranks: angles are in double.
///
/// `first` and `count` restrict it to some features of each head; for axial embeddings use one
/// Rotary for each dimension.
struct Rotary {
  index_t heads     = 1;                        ///< number of heads
  RotaryPairs pairs = RotaryPairs::neighbours;  ///< which features are rotated together
  double theta      = 10000.0;                  ///< of the frequencies
  int dim           = 0;                        ///< the spatial dimension that has the positions
  index_t first     = 0;                        ///< the first feature of a head that is rotated
  index_t count     = 0;  ///< number of features that are rotated, even; 0: all from the first on

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Cosines and sines of the owned positions.
  template <class Memory>
  struct State {
    Kokkos::View<double*, Memory> table;  ///< two for each position and pair
  };

  /// The state for fields with x's partitions. Local. Throws ArgumentError on every rank for heads,
  /// features or a dimension that don't fit.
  template <class X>
  State<typename X::memory_space> state(const X& x) const {
    const impl::RotaryShape s = shape(x);
    const int d               = dim + 2;
    const auto size           = static_cast<std::size_t>(2 * s.count / 2 * x.extent(d));
    State<typename X::memory_space> made{
        Kokkos::View<double*, typename X::memory_space>("shard::rotary", size)};
    const auto host = Kokkos::create_mirror_view(made.table);
    impl::fill_rotary(host.data(), x.begin(d), x.extent(d), s.count, theta);
    Kokkos::deep_copy(made.table, host);
    return made;
  }

  /// Computes y's owned points; y may be x.
  template <class Space, class S, class Y, class X>
  void apply(const Space& space, const S& state, const Y& y, const X& x) const {
    rotate(space, state, y, x, false);
    mark_written(space, y);
  }
  /// The tangent of y for the tangent tx of x; ty may be tx.
  template <class Space, class S, class TY, class TX, class X>
  void pushforward(const Space& space, const S& state, const TY& ty, const TX& tx, const X&) const {
    apply(space, state, ty, tx);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy, the inverse rotation; dx may be dy, or not_wanted.
  template <class Space, class S, class DX, class DY, class X>
  void pullback(const Space& space, const S& state, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) rotate(space, state, dx, dy, true);
  }

 private:
  template <class X>
  impl::RotaryShape shape(const X& x) const {
    return impl::rotary_shape(x.label(), x.partition(1), heads, first, count, dim, X::rank - 2,
                              pairs == RotaryPairs::halves);
  }
  template <class Space, class S, class Y, class X>
  void rotate(const Space& space, const S& state, const Y& y, const X& x, bool back) const {
    using T = typename Y::non_const_value_type;
    impl::require_same_owners("Rotary", x, y);
    impl::RotaryShape s = shape(x);
    s.dim               = dim + 5 - X::rank;
    impl::EmbeddingKernels<Space, T>::rotate(space, impl::owned_block(impl::local(y)),
                                             impl::owned_input(x), s, state.table.data(), back);
  }
};

}  // namespace shard

#endif
