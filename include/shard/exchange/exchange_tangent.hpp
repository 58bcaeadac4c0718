// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_EXCHANGE_TANGENT_HPP
#define SHARD_EXCHANGE_EXCHANGE_TANGENT_HPP

#include <vector>

#include "shard/exchange/exchange.hpp"

namespace shard {

namespace impl {

/// The boundary of a tangent: Constant becomes Zero.
template <class Boundary>
struct TangentBoundary {
  using type = Boundary;
};
template <auto Value>
struct TangentBoundary<Constant<Value>> {
  using type = Zero;
};
template <class Low, class High>
struct TangentBoundary<Sides<Low, High>> {
  using type = Sides<typename TangentBoundary<Low>::type, typename TangentBoundary<High>::type>;
};

template <int Dim, class... B>
struct TangentBoundary<ByIndex<Dim, B...>> {
  using type = ByIndex<Dim, typename TangentBoundary<B>::type...>;
};

template <class Option>
struct TangentOption {
  using type = Option;
};
template <int Dim, class Axis, class... Options>
struct TangentOption<ShardDim<Dim, Axis, Options...>> {
  using Full = ShardDim<Dim, Axis, Options...>;
  using type = ShardDim<Dim, Axis, typename Full::halo,
                        typename TangentBoundary<typename Full::boundary>::type>;
};

template <class Field>
struct TangentField;
template <class T, class Layout, class... Options>
struct TangentField<ShardedView<T, Layout, Options...>> {
  using type = ShardedView<T, Layout, typename TangentOption<Options>::type...>;
};

/// The same field, or set of fields, with Zero in place of Constant boundaries, in the same memory.
template <FieldOrSet Fields>
auto as_tangent(const Fields& f) {
  if constexpr (!has_constants_v<FieldOf<Fields>>) {
    return stored(f);
  } else {
    using Tangent = typename TangentField<FieldOf<Fields>>::type;
    if constexpr (FieldSet<Fields>) {
      std::vector<Tangent> tangents;
      each_field([&](const auto& field) { tangents.push_back(FieldAccess::same<Tangent>(field)); },
                 f);
      return tangents;
    } else {
      return FieldAccess::same<Tangent>(f);
    }
  }
}

}  // namespace impl

/// The exchange of a tangent: as `exchange`, but Constant boundaries give zero. Local; waits for
/// the neighbours.
template <class Space, FieldOrSet... Fields>
void exchange_tangent(const Space& space, const Fields&... fields) {
  shard::exchange(space, impl::as_tangent(fields)...);
}

}  // namespace shard

#endif
