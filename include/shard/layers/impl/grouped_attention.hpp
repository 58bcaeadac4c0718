// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_GROUPED_ATTENTION_HPP
#define SHARD_LAYERS_IMPL_GROUPED_ATTENTION_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/base/wanted.hpp"
#include "shard/exchange/impl/moved_fields.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/attention_bias_kernels.hpp"
#include "shard/layers/impl/attention_fields.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/window/pad.hpp"
#include "shard/redistribute/impl/common_partition.hpp"

namespace shard::impl {

/// Memory of a bias of an attention: the numbers that are added to the scores, their tangents, and
/// the sums of the scores' gradients; and of a mask. Empty Views without a bias or a mask.
template <class T, class Memory>
struct AttentionBias {
  using View = Kokkos::View<T*, Memory>;
  View values;
  View sums;                 ///< allocated by the first pullback to the parameters
  View tangents;             ///< allocated by the first pushforward of the parameters
  bool has_tangent = false;  ///< else the tangents are zero
  index_t heads = 1, of_a_type = 1, tokens = 0, chunks = 0;  ///< see PairTable and BiasSums
  index_t sum_heads = 1;                                     ///< heads of `sums`
  View given;                                                ///< of a mask
  PairTable<const T> mask;                                   ///< `given`, for the kernels

  ScoreBias<const T> added() const { return {{values.data(), heads, of_a_type, tokens}, mask}; }
  ScoreBias<const T> added_tangents() const {
    if (!has_tangent) return {};
    return {{tangents.data(), heads, of_a_type, tokens}, {}};
  }
  BiasSums<T> gradient() const { return {sums.data(), chunks, of_a_type, tokens}; }
};

/// The state of an attention whose groups may be on several ranks.
template <class Moved>
struct AttentionState : AttentionOutput<Moved> {
  Moved q, k, v;  ///< redistributed, as `out`, so that groups are whole; else only `out` is there
  Moved dq, dk, dv, dy;
  AttentionBias<typename Moved::non_const_value_type, typename Moved::memory_space> bias;
  bool moves = false;
  std::array<Reindexing, static_cast<std::size_t>(Moved::rank)> turned{};  ///< from q to `out`
};

/// Attention within groups of points of a field's spatial dimensions. `Layer` defines the groups.
template <class Layer, int Dims>
struct GroupedAttention {
  using takes_queries_keys_values         = void;  ///< three inputs
  static constexpr int dims               = Dims;  ///< spatial dimensions
  static constexpr LayerSharding sharding = LayerSharding::moving;

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Collective over the mesh: the state for fields with q's mesh and partitions. Throws
  /// ArgumentError, on every rank, if groups or heads don't fit.
  template <class Q>
  auto state(const Q& q) const {
    using Moved = OwnedOnlyOf<Q>;
    require_rank<Q>();
    require_same_options(q.communicator(), Layer::name,
                         {{"heads", self().heads},
                          {"key_heads", self().key_heads},
                          {"scale", self().scale},
                          {"masked", self().masks()}});
    counts().require(Layer::name, q);
    AttentionState<Moved> s;
    auto partitions = q.partitions();
    for (int d = 0; d < Dims; ++d) {
      self().require_extent(d, q.global_extent(d + 2));
      s.moves = s.moves || self().moves(d, q.partition(d + 2));
    }
    if (s.moves)
      for (int d = 0; d < Dims; ++d)
        partitions[Geometry::at(d + 2)] = self().home(d, q.partition(d + 2));
    s.out = placed_anew<Moved>(q.geometry(), partitions);
    for (int d = 0; d < Dims; ++d)
      s.turned[Geometry::at(d + 2)] = self().reindexing(d, s.out.partition(d + 2));
    if (s.moves) {
      for (Moved* moved : {&s.q, &s.dq, &s.dy}) *moved = s.out.like("shard::attention");
      Geometry keys = s.out.geometry();
      keys.dims[Geometry::at(1)].partition =
          key_channels(q.partition(1), self().heads, self().key_heads);
      s.k = FieldAccess::allocate<Moved>(std::move(keys));
      for (Moved* moved : {&s.v, &s.dk, &s.dv}) *moved = s.k.like("shard::attention");
    }
    s.allocate_sums(local_heads(s.out));
    return s;
  }

  /// y = softmax(scale q k') v in each group and head. All fields have the same partitions, k and v
  /// with the channels of their heads.
  /// Collective over the mesh if groups are on several ranks, else local. Throws ArgumentError, on
  /// every rank before any message, if fields don't fit.
  template <class Space, class S, class Y, class Q, class K, class V>
  void apply(const Space& space, S& state, const Y& y, const Q& q, const K& k, const V& v) const {
    require_attention(Layer::name, counts(), q, k, v, y);
    using T = typename Y::non_const_value_type;
    if (state.moves) {
      bring(space, state, state.q, q, state.k, k, state.v, v);
      attend<T>(space, state, owned_input(state.q), owned_input(state.k), owned_input(state.v));
    } else {
      attend<T>(space, state, owned_input(q), owned_input(k), owned_input(v));
    }
    give(space, state, y, state.out);
    mark_written(space, y);
  }

  /// ty = the tangent of y for tq, tk and tv, each of which may be `not_wanted` (zero). q, k, v and
  /// the state must be unchanged since apply.
  template <class Space, class S, class TY, class TQ, class TK, class TV, class Q, class K, class V>
  void pushforward(const Space& space, S& state, const TY& ty, const TQ& tq, const TK& tk,
                   const TV& tv, const Q& q, const K& k, const V& v) const {
    require_attention(Layer::name, counts(), q, k, v, ty, tk, tv);
    using T = typename TY::non_const_value_type;
    if (state.moves) {
      bring(space, state, state.dq, tq, state.dk, tk, state.dv, tv);
      const Block<const T> moved[3] = {moved_block<T, TQ>(state.dq), moved_block<T, TK>(state.dk),
                                       moved_block<T, TV>(state.dv)};
      tangent<T>(space, state, state.dy,
                 {owned_input(state.q), owned_input(state.k), owned_input(state.v)}, moved);
      give(space, state, ty, state.dy);
    } else {
      const Block<const T> here[3] = {tangent_block<T>(tq), tangent_block<T>(tk),
                                      tangent_block<T>(tv)};
      tangent<T>(space, state, ty, {owned_input(q), owned_input(k), owned_input(v)}, here);
    }
    mark_written(space, ty);
  }

  /// Sets dq, dk and dv from dy = dJ/dy; each may be `not_wanted`. q, k, v and the state must be
  /// unchanged since apply. Collective as apply.
  template <class Space, class S, class DQ, class DK, class DV, class DY, class Q, class K, class V>
  void pullback(const Space& space, S& state, const DQ& dq, const DK& dk, const DV& dv,
                const DY& dy, const Q& q, const K& k, const V& v) const {
    pullback_with_bias<false>(space, state, dq, dk, dv, dy, q, k, v);
  }

  /// As pullback. With `Bias` it also sets the sums of the scores' gradients in the state.
  template <bool Bias, class Space, class S, class DQ, class DK, class DV, class DY, class Q,
            class K, class V>
  void pullback_with_bias(const Space& space, S& state, const DQ& dq, const DK& dk, const DV& dv,
                          const DY& dy, const Q& q, const K& k, const V& v) const {
    if constexpr (Bias || is_wanted_v<DQ> || is_wanted_v<DK> || is_wanted_v<DV>) {
      require_attention(Layer::name, counts(), q, k, v, dy, dk, dv);
      using T = typename DY::non_const_value_type;
      if (state.moves) {
        bring(space, state, state.dy, dy);
        pull<T, Bias, is_wanted_v<DQ>, is_wanted_v<DK>, is_wanted_v<DV>>(
            space, state, state.dq, state.dk, state.dv, owned_input(state.dy),
            {owned_input(state.q), owned_input(state.k), owned_input(state.v)});
        give_wanted(space, state, dq, state.dq);
        give_wanted(space, state, dk, state.dk);
        give_wanted(space, state, dv, state.dv);
      } else {
        pull<T, Bias, is_wanted_v<DQ>, is_wanted_v<DK>, is_wanted_v<DV>>(
            space, state, dq, dk, dv, owned_input(dy),
            {owned_input(q), owned_input(k), owned_input(v)});
      }
    }
  }

  /// Allocates the memory of a bias in the state of an attention, and returns the table of which
  /// pairs of tokens read which value. `relative`: see BiasTable. With `each_row` windows that
  /// differ only along the last dimension share a type, else all do.
  template <class S>
  BiasTable hold_bias(S& state, bool each_head, bool each_row, const bool (&relative)[3]) const {
    const auto tokens = shape(state.out).queries;
    BiasTable table;
    for (int d = 0; d < 3; ++d) {
      table.tokens[d]   = tokens.dims[d].tokens;
      table.relative[d] = relative[d];
    }
    const index_t heads = local_heads(state.out), groups = tokens.groups();
    if (each_head) {
      table.heads      = heads;
      table.first_head = state.out.begin(1) / (state.out.global_extent(1) / self().heads);
      table.all_heads  = self().heads;
    }
    index_t of_a_type = std::max<index_t>(groups, 1);
    if (each_row) {
      of_a_type       = std::max<index_t>(tokens.dims[2].groups, 1);
      table.types     = groups / of_a_type;
      table.all_types = 1;
      for (int d = 0; d < Dims - 1; ++d) {
        const index_t w  = tokens.dims[d + 3 - Dims].tokens;
        const index_t of = (state.out.global_extent(d + 2) + w - 1) / w;
        table.all_types *= of;
        if (d < Dims - 2) {
          table.first_layer = (state.out.begin(d + 2) + w - 1) / w;
          continue;
        }
        table.rows_here = std::max<index_t>(tokens.dims[1].groups, 1);
        table.first_row = (state.out.begin(d + 2) + w - 1) / w;
        table.all_rows  = of;
      }
    }
    using View      = typename decltype(state.bias)::View;
    auto& bias      = state.bias;
    const index_t n = tokens.tokens();
    bias.heads      = table.heads;
    bias.sum_heads  = heads;
    bias.of_a_type  = of_a_type;
    bias.tokens     = n;
    // enough of them for many threads; they cost memory and the time to sum them
    bias.chunks = std::clamp<index_t>(64 / std::max<index_t>(table.types * heads, 1), 1, 16);
    bias.chunks = std::min(bias.chunks, state.out.extent(0) * of_a_type);
    bias.values =
        View("shard::attention bias", static_cast<std::size_t>(table.types * table.heads * n * n));
    return table;
  }

  /// Copies this rank's part of a mask [windows or 1, heads or 1, query, key] to the state of an
  /// attention. Throws ArgumentError, on every rank, if it doesn't fit.
  template <class S, class Mask>
  void hold_mask(S& state, const Mask& mask) const {
    const Tokens tokens = shape(state.out).queries;
    const index_t n = tokens.tokens(), heads = local_heads(state.out);
    index_t all[3] = {1, 1, 1}, first[3] = {0, 0, 0};  // windows of the domain
    for (int d = 0; d < Dims; ++d) {
      const int to    = d + 3 - Dims;
      const index_t w = tokens.dims[to].tokens;
      all[to]         = (state.out.global_extent(d + 2) + w - 1) / w;
      first[to]       = (state.out.begin(d + 2) + w - 1) / w;
    }
    const auto extent  = [&](int d) { return static_cast<index_t>(mask.extent(d)); };
    const auto require = [&](int d, const char* what, index_t number) {
      if (d == 3 || extent(d) != 1) require_extent("Masked", "mask", what, extent(d), number);
    };
    require(0, "windows", all[0] * all[1] * all[2]);
    require(1, "heads", self().heads);
    if (extent(2) != n) require_extent("Masked", "mask", "queries", extent(2), n);
    require(3, "keys", n);
    const bool each = extent(0) > 1, each_head = extent(1) > 1;
    const index_t first_head = state.out.begin(1) / (state.out.global_extent(1) / self().heads);
    const index_t groups = tokens.groups(), types = each ? groups : 1,
                  of_heads = each_head ? heads : 1;
    using View             = typename decltype(state.bias)::View;
    state.bias.given =
        View("shard::attention mask", static_cast<std::size_t>(types * of_heads * n * n));
    const auto host = Kokkos::create_mirror_view(state.bias.given);
    std::size_t to  = 0;
    for (index_t type = 0; type < types; ++type) {
      index_t window = 0, rest = type, step = 1;
      for (int d = 2; each && d >= 0; --d) {
        window += step * (rest % tokens.dims[d].groups + first[d]);
        rest /= tokens.dims[d].groups;
        step *= all[d];
      }
      for (index_t h = 0; h < of_heads; ++h)
        for (index_t i = 0; i < n; ++i)
          for (index_t j = 0; j < n; ++j)
            host(to++) = static_cast<typename View::value_type>(
                mask(window, each_head ? first_head + h : 0, i, j));
    }
    Kokkos::deep_copy(state.bias.given, host);
    state.bias.mask = {state.bias.given.data(), of_heads, each ? 1 : std::max<index_t>(groups, 1),
                       n};
  }

 private:
  const Layer& self() const { return static_cast<const Layer&>(*this); }
  HeadCounts counts() const { return {self().heads, self().key_heads}; }

  template <class Q>
  static constexpr void require_rank() {
    static_assert(Q::rank == Dims + 2,
                  "the layer's field is [batch, channel, one for each spatial dimension]");
  }
  /// Number of heads of the owned channels.
  template <class Q>
  index_t local_heads(const Q& q) const {
    return q.extent(1) / (q.global_extent(1) / self().heads);
  }

  template <class Moved>
  AttentionShape shape(const Moved& field) const {
    AttentionShape a;
    const index_t features = field.global_extent(1) / self().heads;
    a.heads                = local_heads(field);
    a.heads_per_key        = counts().per_key();
    a.scale = self().scale > 0.0 ? self().scale : 1.0 / std::sqrt(static_cast<double>(features));
    for (int d = 0; d < Dims; ++d)
      a.queries.dims[d + 3 - Dims] =
          self().tokens(d, field.extent(d + 2), field.begin(d + 2), field.global_extent(d + 2));
    a.keys = a.queries;
    return a;
  }

  /// Pairs of a redistributed field and the field that it is read from, which may be not_wanted.
  template <class Space, class S, class... MovedAndFrom>
  void bring(const Space& space, const S& state, const MovedAndFrom&... pairs) const {
    MovedFields<PlanMemory<decltype(state.out)>> fields(Layer::name);
    const auto take = [&](const auto& moved, const auto& from) {
      if constexpr (is_wanted_v<decltype(from)>) fields.add(moved, from, state.turned.data());
    };
    take_pairs(take, pairs...);
    fields.run(space, Direction::forward);
  }
  template <class Take>
  static void take_pairs(const Take&) {}
  template <class Take, class A, class B, class... Rest>
  static void take_pairs(const Take& take, const A& a, const B& b, const Rest&... rest) {
    take(a, b);
    take_pairs(take, rest...);
  }
  /// y = the redistributed points of `from`, in which groups are whole: the inverse of bring.
  template <class Space, class S, class Y, class Moved>
  void give(const Space& space, S& state, const Y& y, const Moved& from) const {
    using T = typename Y::non_const_value_type;
    if (!state.moves) {
      PointwiseKernels<Space, T>::copy(space, owned_block(local(y)), owned_input(from));
      return;
    }
    PaddingKernels<Space, T>::clear(space, owned_block(local(y)));
    MovedFields<PlanMemory<Moved>> fields(Layer::name);
    fields.add(from, y, state.turned.data());
    fields.run(space, Direction::adjoint);
  }
  template <class Space, class S, class Y, class Moved>
  void give_wanted(const Space& space, S& state, const Y& y, const Moved& from) const {
    if constexpr (is_wanted_v<Y>) give(space, state, y, from);
  }
  template <class T, class Wanted, class Moved>
  static Block<const T> moved_block(const Moved& field) {
    if constexpr (is_wanted_v<Wanted>)
      return owned_input(field);
    else
      return no_block<T>();
  }

  template <class T, class Space, class S>
  void attend(const Space& space, S& state, const Block<const T>& q, const Block<const T>& k,
              const Block<const T>& v) const {
    AttentionKernels<Space, T>::attend(space, owned_block(local(state.out)), state.sums.data(), q,
                                       k, v, shape(state.out), state.bias.added(), true, true);
  }
  template <class T, class Space, class S, class TY>
  void tangent(const Space& space, S& state, const TY& ty, const Block<const T> (&qkv)[3],
               const Block<const T> (&tangents)[3]) const {
    AttentionKernels<Space, T>::tangent(
        space, owned_block(local(ty)), state.sums.data(), owned_input(state.out), qkv, tangents,
        shape(state.out), state.bias.added(), state.bias.added_tangents(), true, true);
  }
  template <class T, bool WantBias, bool WantQ, bool WantK, bool WantV, class Space, class S,
            class DQ, class DK, class DV>
  void pull(const Space& space, S& state, const DQ& dq, const DK& dk, const DV& dv,
            const Block<const T>& dy, const Block<const T> (&qkv)[3]) const {
    using Kernels                 = AttentionKernels<Space, T>;
    const auto a                  = shape(state.out);
    const ScoreBias<const T> bias = state.bias.added();
    if constexpr (WantBias || WantQ || WantK)
      Kernels::products(space, state.sums.data(), dy, owned_input(state.out), a);
    Block<T> to_q, to_k, to_v;
    BiasSums<T> to_bias;
    if constexpr (WantQ) to_q = owned_block(local(dq));
    if constexpr (WantK) to_k = owned_block(local(dk));
    if constexpr (WantV) to_v = owned_block(local(dv));
    if constexpr (WantBias) to_bias = state.bias.gradient();
    Kernels::pullback(space, to_q, to_k, to_v, to_bias, state.sums.data(), dy, qkv, a, bias);
  }
};

}  // namespace shard::impl

#endif
