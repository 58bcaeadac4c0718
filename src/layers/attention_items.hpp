// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTENTION_ITEMS_HPP
#define SHARD_SRC_LAYERS_ATTENTION_ITEMS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "shard/layers/impl/attention_kernels.hpp"

/// \file
/// The places of tokens in a block, and what the attention kernels share.

namespace shard::impl {

/// One of a block's tokens.
struct TokenPlace {
  index_t cell[3];
  std::int32_t token;  // its number in the group
  std::int8_t side;    // two bits a dimension: tokens attend only to tokens of the same side
  bool there;
};

KOKKOS_FORCEINLINE_FUNCTION TokenPlace place_of(const Tokens& all, index_t group, index_t token) {
  TokenPlace p{{0, 0, 0}, static_cast<std::int32_t>(token), 0, true};
  int side = 0;
  // 32-bit divisions are faster; a rank has fewer than 2^32 groups, a group fewer tokens
  auto g = static_cast<std::uint32_t>(group), t = static_cast<std::uint32_t>(token);
  for (int d = 2; d >= 0; --d) {
    const TokenDim& dim = all.dims[d];
    const auto groups   = static_cast<std::uint32_t>(dim.groups),
               tokens   = static_cast<std::uint32_t>(dim.tokens);
    p.cell[d]           = static_cast<index_t>(g % groups) * dim.group_stride +
                static_cast<index_t>(t % tokens) * dim.token_stride - dim.before;
    g /= groups;
    t /= tokens;
    p.there =
        p.there && static_cast<std::uint64_t>(p.cell[d]) < static_cast<std::uint64_t>(dim.cells);
    side =
        4 * side + (p.cell[d] >= dim.first_apart ? 1 : 0) + (p.cell[d] >= dim.second_apart ? 1 : 0);
  }
  p.side = static_cast<std::int8_t>(side);
  return p;
}

/// A token's features of one head.
template <class T>
struct Features {
  T* values;
  index_t step;
  KOKKOS_FORCEINLINE_FUNCTION T& operator[](index_t i) const { return values[i * step]; }
};

/// The operands that all attention kernels need. A work item is one token of the side that is
/// written: a query in the forward pass, a query or a key in the backward pass.
template <class T>
struct AttentionItem {
  AttentionShape shape;
  ScoreBias<const T> bias;
  index_t batch, features;  // features of one head
  index_t numbers;          // queries times heads

  /// The head of keys and values of a head of queries.
  KOKKOS_FORCEINLINE_FUNCTION index_t key_head(index_t h) const { return h / shape.heads_per_key; }
  template <class U>
  KOKKOS_FORCEINLINE_FUNCTION Features<U> features_of(const Block<U>& b, index_t n, index_t h,
                                                      const TokenPlace& p) const {
    return {b.origin == nullptr ? nullptr : &b.at(n, h * features, p.cell[0], p.cell[1], p.cell[2]),
            b.stride[1]};
  }
  /// The index of a query in `sums`.
  KOKKOS_FORCEINLINE_FUNCTION index_t number(index_t n, index_t h, const TokenPlace& p) const {
    const TokenDim* d = shape.queries.dims;
    return (((n * shape.heads + h) * d[0].cells + p.cell[0]) * d[1].cells + p.cell[1]) *
               d[2].cells +
           p.cell[2];
  }
  KOKKOS_FORCEINLINE_FUNCTION bool sees(const TokenPlace& query, const TokenPlace& key) const {
    return key.there && query.side == key.side &&
           (!shape.causal || shape.first_key + key.cell[2] <= shape.first_query + query.cell[2]);
  }
  using BiasRow = typename ScoreBias<const T>::Row;
  KOKKOS_FORCEINLINE_FUNCTION static double bias_at(const BiasRow& row, const TokenPlace& key) {
    return static_cast<double>(row[key.token]);
  }
  /// The logarithm of a query's sum of exp(score) from its largest score and the sum relative to
  /// it.
  KOKKOS_FORCEINLINE_FUNCTION static double logarithm(double largest, double sum) {
    return sum == 0.0 ? 0.0 : largest + Kokkos::log(sum);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION double product(const Features<A>& a, const Features<B>& b) const {
    double sum = 0.0;
    for (index_t i = 0; i < features; ++i)
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  }
  /// to += factor * from
  template <class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(const Features<T>& to, double factor,
                                       const Features<B>& from) const {
    for (index_t i = 0; i < features; ++i)
      to[i] += static_cast<T>(factor * static_cast<double>(from[i]));
  }

  struct Who {
    index_t n, h, group, token;
  };
  /// `heads` are those of the side.
  KOKKOS_FORCEINLINE_FUNCTION Who who(const Tokens& side, index_t heads, index_t item) const {
    Who w{};
    w.token = item % side.tokens();
    item /= side.tokens();
    w.group = item % side.groups();
    item /= side.groups();
    w.h = item % heads;
    w.n = item / heads;
    return w;
  }
  index_t items(const Tokens& side, index_t heads) const {
    return batch * heads * side.groups() * side.tokens();
  }
};

template <class T>
AttentionItem<T> attention_item(const AttentionShape& shape, const ScoreBias<const T>& bias,
                                const Block<const T>& q) {
  index_t cells = 1;
  for (const TokenDim& d : shape.queries.dims) cells *= d.cells;
  const index_t features = shape.heads > 0 ? q.channels / shape.heads : 0;
  return {shape, bias, q.batch, features, q.batch * shape.heads * cells};
}

}  // namespace shard::impl

#endif
