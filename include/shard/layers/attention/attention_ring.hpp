// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_RING_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_RING_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/base/wanted.hpp"
#include "shard/exchange/impl/moved_fields.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/attention_fields.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/redistribute/impl/common_partition.hpp"

namespace shard {

/// Attention over a sequence that may be sharded: `RingAttention{.heads = 4, .causal = true}`.
/// Fields q, k, v and y are [batch, heads x features, sequence], shards uneven or empty; batch and
/// channels (between heads) may be sharded too.
///
///   y[i] = sum over j of softmax over j of (scale q[i] . k[j]) v[j], with `causal` over j <= i
///
/// Queries stay. Blocks of k and v go round the ring of ranks along the axes that shard the
/// sequence, from each rank to the previous one; with fewer `key_heads` (see WindowAttention) they
/// are smaller. Partial results are merged by the largest scores
/// and sums of exponentials (Liu, Zaharia and Abbeel 2023). Forward there are ranks - 1 steps with
/// one message each, which overlap with the work on the current block. Backward the blocks'
/// gradients travel with them, and one more step returns them to their owners. Memory: two blocks,
/// each as long as the longest shard.
struct RingAttention {
  index_t heads     = 1;      ///< number of heads: equal ranges of channels
  bool causal       = false;  ///< excludes keys after the query
  double scale      = 0.0;    ///< of the scores; 0: 1 / sqrt(features of a head)
  index_t key_heads = 0;      ///< heads of keys and values; 0: as many as of queries

  static constexpr int dims               = 1;                      ///< spatial dimensions
  static constexpr LayerSharding sharding = LayerSharding::moving;  ///< keys and values move

  /// The state: data of apply for pullback and pushforward, and scratch memory.
  template <class Moved>
  struct State : impl::AttentionOutput<Moved> {
    std::array<std::array<Moved, 4>, 2>
        ring;             ///< two blocks each of k, v and the data that travels with them
    index_t longest = 0;  ///< points of the longest shard
  };

  using takes_queries_keys_values = void;  ///< three inputs

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Collective over the mesh: the state for fields with q's mesh and partitions. Throws
  /// ArgumentError, on every rank, if heads don't fit.
  template <class Q>
  auto state(const Q& q) const {
    using Moved = impl::OwnedOnlyOf<Q>;
    static_assert(Q::rank == 3, "a RingAttention's fields are [batch, channel, sequence]");
    impl::require_same_options(q.communicator(), name,
                               {{"heads", heads}, {"key_heads", key_heads}, {"scale", scale}});
    counts().require(name, q);
    State<Moved> s;
    auto partitions    = q.partitions();
    const Partition& p = partitions[2];
    s.out              = impl::placed_anew<Moved>(q.geometry(), partitions);
    for (int r = 0; r < p.parts(); ++r) s.longest = std::max(s.longest, p.count(r));
    impl::Geometry blocks = s.out.geometry();
    blocks.dims[impl::Geometry::at(1)].partition =
        impl::key_channels(partitions[1], heads, key_heads);
    blocks.dims[impl::Geometry::at(2)].partition =
        Partition::balanced(s.longest * p.parts(), p.parts());
    s.ring[0][0] = impl::FieldAccess::allocate<Moved>(std::move(blocks));
    for (auto& set : s.ring)
      for (Moved& block : set)
        if (&block != &s.ring[0][0]) block = s.ring[0][0].like("shard::ring attention");
    s.allocate_sums(local_heads(q));
    return s;
  }

  /// Computes y's owned points. All fields have the same partitions. Collective over the mesh if
  /// the sequence is sharded. Throws ArgumentError, on every rank before any message, if fields
  /// don't fit.
  template <class Space, class S, class Y, class Q, class K, class V>
  void apply(const Space& space, S& state, const Y& y, const Q& q, const K& k, const V& v) const {
    impl::require_attention(name, counts(), q, k, v, y);
    using T = typename Y::non_const_value_type;
    load<T>(space, state.ring[0][0], k);
    load<T>(space, state.ring[0][1], v);
    const int ranks = q.partition(2).parts();
    for (int step = 0; step < ranks; ++step) {
      auto& here        = state.ring[at(step)];
      const auto attend = [&] {
        impl::AttentionKernels<Space, T>::attend(
            space, impl::owned_block(impl::local(state.out)), state.sums.data(),
            impl::owned_input(q), impl::owned_input(here[0]), impl::owned_input(here[1]),
            shape(q, step), {}, step == 0, step + 1 == ranks);
      };
      meanwhile(space, state, step, step + 1 < ranks ? given : 0U, attend);
    }
    impl::PointwiseKernels<Space, T>::copy(space, impl::owned_block(impl::local(y)),
                                           impl::owned_input(state.out));
    mark_written(space, y);
  }

  /// ty = the tangent of y for tq, tk and tv, each of which may be `not_wanted` (zero). q, k, v and
  /// the state must be unchanged since apply. Collective as apply.
  template <class Space, class S, class TY, class TQ, class TK, class TV, class Q, class K, class V>
  void pushforward(const Space& space, S& state, const TY& ty, const TQ& tq, const TK& tk,
                   const TV& tv, const Q& q, const K& k, const V& v) const {
    impl::require_attention(name, counts(), q, k, v, ty, tk, tv);
    using T = typename TY::non_const_value_type;
    using impl::owned_input;
    load<T>(space, state.ring[0][0], k);
    load<T>(space, state.ring[0][1], v);
    load_wanted<T>(space, state.ring[0][2], tk);
    load_wanted<T>(space, state.ring[0][3], tv);
    constexpr unsigned with = blocks_with(is_wanted_v<TK>, is_wanted_v<TV>);
    const int ranks         = q.partition(2).parts();
    for (int step = 0; step < ranks; ++step) {
      auto& here         = state.ring[at(step)];
      const auto tangent = [&] {
        const impl::Block<const T> tangents[3] = {
            impl::tangent_block<T>(tq),
            is_wanted_v<TK> ? owned_input(here[2]) : impl::no_block<T>(),
            is_wanted_v<TV> ? owned_input(here[3]) : impl::no_block<T>()};
        impl::AttentionKernels<Space, T>::tangent(
            space, impl::owned_block(impl::local(ty)), state.sums.data(), owned_input(state.out),
            {owned_input(q), owned_input(here[0]), owned_input(here[1])}, tangents, shape(q, step),
            {}, {}, step == 0, step + 1 == ranks);
      };
      meanwhile(space, state, step, step + 1 < ranks ? given | with : 0U, tangent);
    }
    mark_written(space, ty);
  }

  /// Sets dq, dk and dv from dy = dJ/dy; each may be `not_wanted`. q, k, v and the state must be
  /// unchanged since apply. Collective as apply.
  template <class Space, class S, class DQ, class DK, class DV, class DY, class Q, class K, class V>
  void pullback(const Space& space, S& state, const DQ& dq, const DK& dk, const DV& dv,
                const DY& dy, const Q& q, const K& k, const V& v) const {
    constexpr unsigned with = blocks_with(is_wanted_v<DK>, is_wanted_v<DV>);
    if constexpr (with != 0 || is_wanted_v<DQ>) {
      impl::require_attention(name, counts(), q, k, v, dy, dk, dv);
      using T = typename DY::non_const_value_type;
      using impl::owned_input;
      using Kernels = impl::AttentionKernels<Space, T>;
      load<T>(space, state.ring[0][0], k);
      load<T>(space, state.ring[0][1], v);
      Kernels::products(space, state.sums.data(), owned_input(dy), owned_input(state.out),
                        shape(q, 0));
      const int ranks = q.partition(2).parts();
      for (int step = 0; step < ranks; ++step) {
        auto& here                        = state.ring[at(step)];
        const auto a                      = shape(q, step);
        const impl::Block<const T> qkv[3] = {owned_input(q), owned_input(here[0]),
                                             owned_input(here[1])};
        if constexpr (is_wanted_v<DQ>)
          Kernels::pullback_queries(space, impl::owned_block(impl::local(dq)), {},
                                    state.sums.data(), owned_input(dy), qkv, a, {}, step == 0);
        if constexpr (with != 0) {
          impl::Block<T> to_k, to_v;
          if constexpr (is_wanted_v<DK>) to_k = impl::owned_block(impl::local(here[2]));
          if constexpr (is_wanted_v<DV>) to_v = impl::owned_block(impl::local(here[3]));
          Kernels::pullback_keys(space, to_k, to_v, state.sums.data(), owned_input(dy), qkv, a, {},
                                 step == 0);
        }
        meanwhile(space, state, step, with | (step + 1 < ranks ? given : 0U), [] {});
      }
      if constexpr (is_wanted_v<DK>) unload<T>(space, dk, state.ring[at(ranks)][2]);
      if constexpr (is_wanted_v<DV>) unload<T>(space, dv, state.ring[at(ranks)][3]);
    }
  }

 private:
  static constexpr const char* name = "RingAttention";
  impl::HeadCounts counts() const { return {heads, key_heads}; }
  /// Bits of the blocks to send: k and v, and the data that travels with them.
  static constexpr unsigned given = 3;
  static constexpr unsigned blocks_with(bool k, bool v) { return (k ? 4U : 0U) | (v ? 8U : 0U); }
  static constexpr std::size_t at(int step) { return static_cast<std::size_t>(step % 2); }

  template <class Q>
  index_t local_heads(const Q& q) const {
    return q.extent(1) / (q.global_extent(1) / heads);
  }

  /// In this step the current block is that of the rank `step` places further on.
  template <class Q>
  impl::AttentionShape shape(const Q& q, int step) const {
    const Partition& p = q.partition(2);
    const int mine     = q.geometry().dims[impl::Geometry::at(2)].coordinate;
    const int owner    = (mine + step) % p.parts();
    impl::AttentionShape a;
    a.heads         = local_heads(q);
    a.heads_per_key = counts().per_key();
    a.causal        = causal;
    a.first_query   = q.begin(2);
    a.first_key     = p.begin(owner);
    a.scale =
        scale > 0.0 ? scale : 1.0 / std::sqrt(static_cast<double>(q.global_extent(1) / heads));
    a.queries.dims[2] = {1, q.extent(2), 0, 1, q.extent(2)};
    index_t seen      = p.count(owner);  // 0 for a block after the last query
    if (causal && a.first_key >= a.first_query + q.extent(2)) seen = 0;
    a.keys.dims[2] = {1, seen, 0, 1, seen};
    return a;
  }

  template <class T, class Space, class Block, class From>
  static void load(const Space& space, const Block& block, const From& from) {
    auto to   = impl::owned_block(impl::local(block));
    to.end[2] = from.extent(2);
    impl::PointwiseKernels<Space, T>::copy(space, to, impl::owned_input(from));
  }
  template <class T, class Space, class Block, class From>
  static void load_wanted(const Space& space, const Block& block, const From& from) {
    if constexpr (is_wanted_v<From>) load<T>(space, block, from);
  }
  template <class T, class Space, class To, class Block>
  static void unload(const Space& space, const To& to, const Block& block) {
    impl::PointwiseKernels<Space, T>::copy(space, impl::owned_block(impl::local(to)),
                                           impl::owned_input(block));
  }

  /// Sends these blocks of this step, and works while the messages are in transit.
  template <class Space, class S, class Work>
  static void meanwhile(const Space& space, S& state, int step, unsigned blocks, const Work& work) {
    using Moved = std::remove_cvref_t<decltype(state.out)>;
    auto &here = state.ring[at(step)], &next = state.ring[at(step + 1)];
    if (blocks == 0 || state.longest == 0) {
      work();
      return;
    }
    impl::Reindexing turned[3];
    turned[2] = {-static_cast<int>(state.longest),
                 static_cast<int>(state.longest),
                 {BoundaryKind::periodic},
                 {BoundaryKind::periodic}};
    impl::MovedFields<impl::PlanMemory<Moved>> fields("RingAttention");
    for (std::size_t f = 0; f < 4; ++f)
      if ((blocks >> f & 1U) != 0) fields.add(next[f], here[f], turned);
    auto pending = fields.start(space, impl::Direction::forward);
    work();
    pending.finish();
  }
};

}  // namespace shard

#endif
