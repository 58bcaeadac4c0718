// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_IMPL_ZIGZAG_CALL_HPP
#define SHARD_COLLECTIVES_IMPL_ZIGZAG_CALL_HPP

#include <string>

#include "shard/collectives/impl/collectives_call.hpp"

namespace shard::impl {

/// The arguments of an operation on a sequence in zigzag order.
struct ZigzagCall {
  CollectiveCall base;
  std::string type{};    ///< of an all-to-all: split_to_full or full_to_split
  bool reverse = false;  ///< of an all-to-all: the other one
  bool zigzag  = true;   ///< of an all-to-all
  PlainView second{};    ///< contexts: those of the second half
  index_t size = 0;      ///< contexts: of the whole sequence, 0 for equal shards
};

/// The operations of zigzag.hpp and zigzag_contexts.hpp. All check their arguments, collectively,
/// and end with a fence.
template <class Space>
struct Sequences {
  static void all_to_all(const Space& space, const ZigzagCall& call);
  static void split(const Space& space, const ZigzagCall& call);
  /// The transpose of split: this rank's chunks among zeros.
  static void spread(const Space& space, const ZigzagCall& call);
  static void gather(const Space& space, const ZigzagCall& call);
  /// The transpose of gather: this rank's chunks of the sum over all ranks.
  static void sum_split(const Space& space, const ZigzagCall& call);
  /// base.to and second are the contexts of base.from.
  static void contexts(const Space& space, const ZigzagCall& call);
  /// The transpose: base.to from the contexts base.from and second.
  static void sum_contexts(const Space& space, const ZigzagCall& call);
};

template <class Axis, class Space, class To, class From, class... MeshAxes>
ZigzagCall zigzag_call(const char* function, const Space& space, const To& to, const From& from,
                       const Mesh<MeshAxes...>& mesh, int dim = 0) {
  ZigzagCall call;
  call.base     = collective_call<Axis>(function, space, to, from, mesh);
  call.base.dim = dim;
  return call;
}

template <class T>
constexpr void require_arithmetic() {
  static_assert(value_kind<T>() != ValueKind::opaque && value_kind<T>() != ValueKind::boolean,
                "a pullback that adds needs an arithmetic value type");
}

}  // namespace shard::impl

#endif
