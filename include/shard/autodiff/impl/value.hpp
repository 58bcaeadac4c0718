// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_VALUE_HPP
#define SHARD_AUTODIFF_IMPL_VALUE_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shard/base/impl/launch.hpp"
#include "shard/collectives/operations.hpp"
#include "shard/exchange/field_set.hpp"
#include "shard/reduce/reductions.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// The values of differentiable operations: a ShardedView, a std::vector of them, a contiguous
/// plain View, or a std::tuple of these (the state of a model with several fields). Helper
/// functions of the tape and the checks.

namespace shard::impl {

/// A new value of the same type and extents, set to zero. Local.
template <class Value>
Value like_value(const Value& v, std::string_view label) {
  if constexpr (is_tuple_v<Value>) {
    return std::apply([&](const auto&... part) { return Value(like_value(part, label)...); }, v);
  } else if constexpr (FieldSet<Value>) {
    Value fields;
    for (const auto& field : v) fields.push_back(like_value(field, label));
    return fields;
  } else if constexpr (is_sharded_view_v<Value>) {
    return v.like(label);
  } else {
    return Value(std::string(label), v.layout());
  }
}

/// The type of a value's adjoint: the same type; for a Partial sum replicated.
template <class Value>
struct CotangentOf {
  using type = Value;
};
template <class T, class Layout, class... Options>
struct CotangentOf<ShardedView<T, Layout, Options...>> {
  using type = cotangent_t<ShardedView<T, Layout, Options...>>;
};
template <AnyShardedView Field>
struct CotangentOf<std::vector<Field>> {
  using type = std::vector<typename CotangentOf<Field>::type>;
};
template <class... Parts>
struct CotangentOf<std::tuple<Parts...>> {
  using type = std::tuple<typename CotangentOf<Parts>::type...>;
};

/// A new adjoint of a value, set to zero. Collective if a part is a Partial sum.
template <class Value>
typename CotangentOf<Value>::type cotangent_like(const Value& v, std::string_view label) {
  using Adjoint = typename CotangentOf<Value>::type;
  if constexpr (std::is_same_v<Adjoint, Value>)
    return like_value(v, label);
  else if constexpr (is_tuple_v<Value>)
    return std::apply([&](const auto&... part) { return Adjoint(cotangent_like(part, label)...); },
                      v);
  else if constexpr (FieldSet<Value>) {
    Adjoint fields;
    for (const auto& field : v) fields.push_back(cotangent_like(field, label));
    return fields;
  } else
    return placed_anew<Adjoint>(v.any_geometry(), v.partitions());
}

/// The points with their halos, in memory order.
template <class Part>
const auto& memory_of(const Part& p) {
  if constexpr (is_sharded_view_v<Part>)
    return p.view();
  else
    return p;
}

/// to = from, halos too.
template <class Space, class Value>
void copy_value(const Space& space, const Value& to, const Value& from) {
  for_parts([&](const auto& a, const auto& b) { deep_copy(space, a, b); }, to, from);
}

template <class Space, class Value>
void zero_value(const Space& space, const Value& v) {
  for_parts(
      [&](const auto& p) {
        deep_copy(space, p,
                  typename std::remove_cvref_t<decltype(memory_of(p))>::non_const_value_type(0));
      },
      v);
}

/// Calls use(space) with `space`. For memory that it can't access (results of reductions on the
/// host) it fences `space` and passes the host's.
template <class Part, class Space, class Use>
void with_space_of(const Space& space, const Use& use) {
  using Memory = typename Part::memory_space;
  if constexpr (Kokkos::SpaceAccessibility<Space, Memory>::accessible) {
    use(space);
  } else {
    space.fence("shard::autodiff: values on the host");
    const Kokkos::DefaultHostExecutionSpace host;
    use(host);
    host.fence("shard::autodiff: values on the host");
  }
}

template <class T>
struct AddScaledKernel {
  T* to;
  const T* from;
  double scale;

  KOKKOS_FUNCTION void operator()(index_t i) const { to[i] += static_cast<T>(scale) * from[i]; }
};

/// to += scale from, on all points, halos too; both were made by like_value, so their memory
/// layouts are equal.
template <class Space, class Value>
void add_value(const Space& space, const Value& to, const Value& from, double scale = 1.0) {
  for_parts(
      [&](const auto& a, const auto& b) {
        using View = std::remove_cvref_t<decltype(memory_of(a))>;
        with_space_of<View>(space, [&](const auto& s) {
          launch("shard::add value", s, static_cast<index_t>(memory_of(a).span()),
                 AddScaledKernel<typename View::non_const_value_type>{memory_of(a).data(),
                                                                      memory_of(b).data(), scale});
        });
      },
      to, from);
}

template <class T>
struct ViewDotKernel {
  const T* a;
  const T* b;

  KOKKOS_FUNCTION void operator()(index_t i, double& sum) const {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
};

/// Sum over owned points of a b: over all ranks for fields (collective over their mesh), over this
/// rank's values for plain Views. Fences `space`.
template <class Space, class Value>
double dot_value(const Space& space, const Value& a, const Value& b) {
  double sum = 0.0;
  for_parts(
      [&](const auto& p, const auto& q) {
        if constexpr (is_sharded_view_v<std::remove_cvref_t<decltype(p)>>) {
          sum += static_cast<double>(dot(space, p, q));
        } else {
          double part = 0.0;
          using T     = typename std::remove_cvref_t<decltype(p)>::non_const_value_type;
          Kokkos::parallel_reduce(
              "shard::dot value",
              range_policy<ViewDotKernel<T>>(space, static_cast<index_t>(p.span())),
              ViewDotKernel<T>{p.data(), q.data()}, part);
          sum += part;
        }
      },
      a, b);
  return sum;
}

/// This rank's bytes of a value like this one, halos too.
template <class Value>
index_t value_bytes(const Value& v) {
  index_t bytes = 0;
  for_parts(
      [&](const auto& p) {
        using Part = std::remove_cvref_t<decltype(p)>;
        if constexpr (is_sharded_view_v<Part>)
          bytes += static_cast<index_t>(FieldTypeOf<Part>::bytes(p.any_geometry()));
        else
          bytes += static_cast<index_t>(p.span() * sizeof(typename Part::value_type));
      },
      v);
  return bytes;
}

/// The communicator of the first field among the parts; MPI_COMM_NULL if there is none.
template <class Value>
MPI_Comm value_communicator(const Value& v) {
  MPI_Comm comm = MPI_COMM_NULL;
  for_parts(
      [&](const auto& p) {
        if constexpr (is_sharded_view_v<std::remove_cvref_t<decltype(p)>>)
          if (comm == MPI_COMM_NULL) comm = p.communicator();
      },
      v);
  return comm;
}

}  // namespace shard::impl

#endif
