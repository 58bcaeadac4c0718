// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_BIAS_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_BIAS_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/layers/attention/attention.hpp"
#include "shard/layers/impl/attention_bias_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// Attention with learned numbers that are added to the scores: `Biased<WindowAttention<8, 8>,
/// RelativeBias>{{.heads = 4}}`. `Attention` is a WindowAttention or a GridAttention.
///
///   y[i] = sum over j of i's group of softmax over j of (scale q[i] . k[j] + b[head, i, j]) v[j]
///
/// b depends on the places of i and j in their group, which the `Bias` says. It is computed once at
/// each apply, for the pairs of one group, and its gradient once at each pullback. A layer with
/// three inputs and the bias's parameters, which every rank has. It sends what the attention sends.
template <class Attention, class Bias>
struct Biased {
  Attention attention;  ///< which points attend to which
  Bias bias{};          ///< what is added to the scores

  static constexpr int dims               = Attention::dims;      ///< spatial dimensions
  static constexpr LayerSharding sharding = Attention::sharding;  ///< the attention's
  static constexpr bool takes_not_wanted  = true;  ///< each gradient may be not_wanted
  static constexpr int inputs             = 3;     ///< queries, keys and values

  /// The bias's parameters.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = typename Bias::template Parameters<T, Memory>;

  /// Those of the bias, for all heads.
  std::vector<ParameterShape> parameter_shapes() const {
    return bias.parameter_shapes(Attention::sizes, attention.heads);
  }
  /// The same: a rank has the parameters of all heads, also where channels are sharded.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// The state of one use of the layer.
  template <class AttentionState, class BiasState>
  struct State {
    AttentionState attention;  ///< the attention's
    BiasState bias;            ///< what the bias keeps for its pullback
    impl::BiasTable table;     ///< which pairs of points read which value
  };

  /// Collective over the mesh: the state for fields with q's mesh and partitions; further inputs
  /// don't matter. Throws ArgumentError, on every rank, if groups or heads don't fit.
  template <class Q, class... More>
  auto state(const Q& q, const More&...) const {
    auto attend = attention.state(q);
    auto held   = bias.template state<typename Q::non_const_value_type, typename Q::memory_space>(
        Attention::sizes, attention.heads);
    State<decltype(attend), decltype(held)> s{std::move(attend), std::move(held), {}};
    bool relative[3] = {true, true, true};
    for (int d = 0; d < dims; ++d) relative[d + 3 - dims] = bias.relative(d, dims);
    s.table = attention.hold_bias(s.attention, bias.each_head, bias.each_row, relative);
    if constexpr (Bias::each_row)
      impl::require_extent("Biased", q.label(), "rows of windows", s.table.all_types, bias.types);
    return s;
  }

  /// Computes y's owned points. Collective as the attention's.
  template <class Space, class S, class P, class Y, class Q, class K, class V>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const Q& q, const K& k,
             const V& v) const {
    impl::BiasKernels<Space, typename Y::non_const_value_type>::expand(
        space, state.attention.bias.values.data(), bias.table(space, state.bias, parameters),
        state.table);
    attention.apply(space, state.attention, y, q, k, v);
  }

  /// ty = the tangent of y for those of the parameters, q, k and v, each of which may be not_wanted
  /// (zero). The inputs and the state must be unchanged since apply. Collective as apply.
  template <class Space, class S, class P, class TP, class TY, class TQ, class TK, class TV,
            class Q, class K, class V>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TQ& tq, const TK& tk, const TV& tv, const Q& q, const K& k,
                   const V& v) const {
    auto& held       = state.attention.bias;
    held.has_tangent = is_wanted_v<TP>;
    if constexpr (is_wanted_v<TP>) {
      if (held.tangents.size() != held.values.size())
        held.tangents =
            decltype(held.tangents)("shard::attention bias tangent", held.values.size());
      impl::BiasKernels<Space, typename TY::non_const_value_type>::expand(
          space, held.tangents.data(),
          bias.table_tangent(space, state.bias, parameters, parameter_tangents), state.table);
    }
    attention.pushforward(space, state.attention, ty, tq, tk, tv, q, k, v);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dq, dk and dv.
  /// Each may be not_wanted. The sum of all ranks' parts is dJ/d(parameters). The inputs and the
  /// state must be unchanged since apply. Collective as apply.
  template <class Space, class S, class P, class G, class DQ, class DK, class DV, class DY, class Q,
            class K, class V>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DQ& dq,
                const DK& dk, const DV& dv, const DY& dy, const Q& q, const K& k,
                const V& v) const {
    [[maybe_unused]] auto& held = state.attention.bias;
    if constexpr (is_wanted_v<G>) {
      const auto count = static_cast<std::size_t>(held.chunks * state.table.types * held.sum_heads *
                                                  state.table.pairs());
      if (held.sums.size() != count)
        held.sums = decltype(held.sums)("shard::attention bias sums", count);
    }
    attention.template pullback_with_bias<is_wanted_v<G>>(space, state.attention, dq, dk, dv, dy, q,
                                                          k, v);
    if constexpr (is_wanted_v<G>) {
      impl::BiasKernels<Space, typename DY::non_const_value_type>::collect(
          space, bias.table_gradient(space, state.bias, gradients), held.gradient(), held.sum_heads,
          state.table);
      bias.pull_table(space, state.bias, parameters, gradients);
    }
  }
};

namespace impl {

/// Base of the biases that are a table of parameters with this number of dimensions.
template <int Rank>
struct TableOfParameters {
  /// The table.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = WeightAndBias<T, Rank, Memory>;
  /// No state.
  struct State {};

  /// The state of one use.
  template <class T, class Memory>
  State state(const auto&, index_t) const {
    return {};
  }
  /// The table itself.
  template <class Space, class P>
  const auto* table(const Space&, const State&, const P& parameters) const {
    return parameters.weight.data();
  }
  /// Its tangent.
  template <class Space, class P, class TP>
  const auto* table_tangent(const Space&, const State&, const P&, const TP& tangents) const {
    return tangents.weight.data();
  }
  /// Where the table's gradient is added.
  template <class Space, class G>
  auto* table_gradient(const Space&, const State&, const G& gradients) const {
    return gradients.weight.data();
  }
  /// Nothing is left to do.
  template <class Space, class P, class G>
  void pull_table(const Space&, const State&, const P&, const G&) const {}
};

}  // namespace impl

/// A learned number for each difference of two points' places in a group, and each head (Liu et al.
/// 2021): the parameter `relative_position_bias_table` [(2 w0 - 1) (2 w1 - 1) ..., heads] of Swin
/// transformers for windows of w0 x w1 x ... points. Points i and j read the row with the digits
/// i_d - j_d + w_d - 1, the last dimension fastest. Initially uniform with the standard deviation
/// 0.02.
struct RelativeBias : impl::TableOfParameters<2> {
  static constexpr bool each_head = true;   ///< a number for each head
  static constexpr bool each_row  = false;  ///< the same for all windows

  /// Every dimension counts by differences.
  static constexpr bool relative(int, int) { return true; }

  /// The table.
  template <std::size_t Dims>
  std::vector<ParameterShape> parameter_shapes(const std::array<index_t, Dims>& sizes,
                                               index_t heads) const {
    index_t rows = 1;
    for (const index_t w : sizes) rows *= 2 * w - 1;
    return {{"relative_position_bias_table", {rows, heads}, 0.02 * std::sqrt(3.0)}};
  }
};

/// Pangu-Weather's earth-specific bias (Bi et al. 2023): another table for each row of windows. It
/// depends on the difference of two points' longitudes (the last dimension) and on both latitudes
/// and both heights. Windows that differ only in longitude share a table. The parameter is
/// `earth_specific_bias` [(2 w_lon - 1) w_lat^2 w_height^2, types, heads], with types = the number
/// of windows in height times that in latitude; a type is the window's number in height times the
/// number in latitude plus its number in latitude (after a shift, those of the shifted windows).
/// Points i and j read the row with the digits z_i + w_height z_j, lat_i + w_lat lat_j and lon_i -
/// lon_j + w_lon - 1, the last one fastest. With one dimension of latitude the first is missing.
///
/// Every rank has all types' parameters, computes the bias of its own rows of windows only, and
/// adds only to their gradients: without shards of longitude each gradient is whole on one rank.
/// Initially uniform with the standard deviation 0.02.
struct EarthBias : impl::TableOfParameters<3> {
  index_t types = 1;  ///< rows of windows: ArgumentError if fields have others

  static constexpr bool each_head = true;  ///< a number for each head
  static constexpr bool each_row  = true;  ///< and each row of windows

  /// A bias for this number of rows of windows.
  constexpr EarthBias(index_t types_ = 1) : types(types_) {}

  /// The last dimension counts by differences.
  static constexpr bool relative(int d, int dims) { return d == dims - 1; }

  /// The tables.
  template <std::size_t Dims>
  std::vector<ParameterShape> parameter_shapes(const std::array<index_t, Dims>& sizes,
                                               index_t heads) const {
    index_t rows = 2 * sizes[Dims - 1] - 1;
    for (std::size_t d = 0; d + 1 < Dims; ++d) rows *= sizes[d] * sizes[d];
    return {{"earth_specific_bias", {rows, types, heads}, 0.02 * std::sqrt(3.0)}};
  }
};

}  // namespace shard

#endif
