// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_BROADCAST_HPP
#define SHARD_LAYERS_IMPL_BROADCAST_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shard/base/wanted.hpp"
#include "shard/comm/impl/group_merge.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/exchange/impl/field_spec.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/broadcast_kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// Broadcasting of values against a field x = [batch, channel, space...], as NumPy does: in each
/// dimension they have x's extent and partition, or extent 1. They are a ShardedView of x's rank,
/// not sharded where it has extent 1; or a plain View [batch, channel] of all values; or a
/// ShardedView on a mesh of one rank, with the extents of x's shard or 1.

namespace shard::impl {

/// Whether V is a plain View [batch, channel].
template <class V>
inline constexpr bool is_vectors_v = [] {
  if constexpr (Kokkos::is_view_v<V>)
    return V::rank() == 2;
  else
    return false;
}();

template <class X, class Z>
constexpr bool require_broadcast_types() {
  if constexpr (!is_vectors_v<Z>) {
    static_assert(X::rank == Z::rank,
                  "values that are broadcast have as many dimensions as x, or "
                  "are a plain View [batch, channel]");
    []<int... D>(std::integer_sequence<int, D...>) {
      static_assert(
          ((!is_cut_v<Z, D> ||
            std::is_same_v<typename Z::template axis<D>, typename X::template axis<D>>)&&...),
          "values that are broadcast are sharded as x, or not at all, in each dimension");
    }
    (std::make_integer_sequence<int, X::rank>{});
  }
  static_assert(std::is_same_v<typename X::non_const_value_type, typename Z::non_const_value_type>,
                "a layer's fields have the same value type");
  return true;
}

/// Whether z, on a mesh of one rank, stands beside a field on a larger one: each rank has its own
/// z, and its own part of z's gradient.
template <class X, class Z>
bool is_beside(const Z& z, const X& x) {
  if constexpr (is_vectors_v<Z>)
    return false;
  else
    return z.geometry().mesh->size() == 1 && x.geometry().mesh->size() > 1;
}

/// Throws ArgumentError: values can't be broadcast.
[[noreturn]] void throw_no_broadcast(std::string_view function, std::string_view values, int dim,
                                     const Partition& is, const Partition& field);

/// The dimensions of x, a bit for each, in which z has one value for all points. Throws
/// ArgumentError on every rank unless z can be broadcast.
template <class X, class Z>
unsigned broadcast_dims(std::string_view function, const Z& z, const X& x) {
  static_assert(require_broadcast_types<X, Z>());
  if constexpr (is_vectors_v<Z>) {
    require_extent(function, z.label(), "batch entries", static_cast<index_t>(z.extent(0)),
                   x.global_extent(0));
    require_extent(function, z.label(), "channels", static_cast<index_t>(z.extent(1)),
                   x.global_extent(1));
    return ((1U << X::rank) - 1) & ~3U;
  } else if (is_beside(z, x)) {
    unsigned dims = 0;
    for (int d = 0; d < X::rank; ++d)
      if (z.extent(d) == 1)
        dims |= 1U << d;
      else if (z.extent(d) != x.extent(d) || (d >= 2 && x.partition(d).parts() > 1))
        throw_no_broadcast(function, z.label(), d, z.partition(d), x.partition(d));
    return dims;
  } else {
    unsigned dims = 0;
    if (z.geometry().mesh != x.geometry().mesh)
      require_same_cut(function, x.geometry(), z.geometry());
    [&]<int... D>(std::integer_sequence<int, D...>) {
      const auto check = [&](int d, bool alike) {
        if (alike && z.partition(d) == x.partition(d)) return;
        if (z.global_extent(d) != 1 || z.partition(d).parts() != 1)
          throw_no_broadcast(function, z.label(), d, z.partition(d), x.partition(d));
        dims |= 1U << d;
      };
      (check(D, std::is_same_v<typename Z::template axis<D>, typename X::template axis<D>>), ...);
    }
    (std::make_integer_sequence<int, X::rank>{});
    return dims;
  }
}

/// The dimension of a Block for dimension d of a field.
constexpr int block_dim(int d, int rank) { return d < 2 ? d : d + 5 - rank; }

/// Throws ArgumentError on every rank unless dz, the gradient of z, is broadcast against x as z is.
template <class DZ, class Z, class X>
void require_same_broadcast(std::string_view function, const DZ& dz, const Z& z, const X& x) {
  static_assert(is_vectors_v<DZ> == is_vectors_v<Z>,
                "the gradient of broadcast values is a field if they are, or a View if they are");
  if constexpr (!is_vectors_v<Z>)
    if (broadcast_dims(function, dz, x) != broadcast_dims(function, z, x))
      for (int d = 0; d < X::rank; ++d)
        require_same_partition(function, dz.label(), d, dz.partition(d), z.partition(d));
}

/// The values beside x's owned points: a block of x's extents, with stride 0 where z is broadcast.
template <class X, class Z>
auto broadcast_block(std::string_view function, const Z& z, const X& x) {
  using T             = typename X::non_const_value_type;
  const unsigned dims = broadcast_dims(function, z, x);
  Block<const T> b    = owned_input(x);
  if constexpr (is_vectors_v<Z>) {
    b.origin = z.data() + x.begin(0) * static_cast<index_t>(z.stride(0)) +
               x.begin(1) * static_cast<index_t>(z.stride(1));
    b.stride[0] = static_cast<index_t>(z.stride(0));
    b.stride[1] = static_cast<index_t>(z.stride(1));
    for (int d = 2; d < 5; ++d) b.stride[d] = 0;
  } else {
    b.origin = z.origin();
    for (int d = 0; d < X::rank; ++d)
      b.stride[block_dim(d, X::rank)] = (dims >> d & 1) != 0 ? 0 : z.stride(d);
  }
  return b;
}

/// All values of z that this rank has, as a block.
template <class Z>
auto values_block(const Z& z) {
  if constexpr (is_vectors_v<Z>) {
    Block<typename Z::non_const_value_type> b;
    b.origin   = z.data();
    b.batch    = static_cast<index_t>(z.extent(0));
    b.channels = static_cast<index_t>(z.extent(1));
    for (int d = 0; d < 2; ++d) b.stride[d] = static_cast<index_t>(z.stride(d));
    return b;
  } else {
    return owned_block(local(z));
  }
}

/// Memory for the sums of fields with one geometry, and the ranks that add them, cached in the
/// mesh.
template <class Memory>
class BroadcastSums : public CachedPlan {
 public:
  /// Sums over the dimensions `dims` of x, `across` the ranks of those in which it is sharded.
  /// Collective over the mesh the first time.
  template <class X>
  static std::shared_ptr<BroadcastSums> of(const X& x, unsigned dims, unsigned across,
                                           index_t count) {
    const Geometry& geometry = x.geometry();
    const auto types         = FieldTypeOf<X>::dim_types(geometry);
    // identifies the memory, in place of strides
    const index_t memory[max_rank] = {reinterpret_cast<std::intptr_t>(&tag_), dims, across, count};
    PlanKey key                    = PlanKey::of(KeyKind::operand);
    add_to_key(key, geometry, types.data(), value_kind<double>(), static_cast<int>(sizeof(double)),
               memory);
    auto kept = std::static_pointer_cast<BroadcastSums>(geometry.mesh->find(key));
    if (!kept) {
      index_t cells = 1;
      for (int d = 2; d < X::rank; ++d) cells *= x.extent(d);
      const std::size_t scratch = std::is_same_v<Memory, Kokkos::HostSpace>
                                      ? 0
                                      : SumPlaces::room<Memory>(x.extent(0) * x.extent(1), cells);
      kept                      = std::make_shared<BroadcastSums>(geometry, across, count, scratch);
      geometry.mesh->keep(KeptKind::operand, key, kept);
    }
    return kept;
  }
  BroadcastSums(const Geometry& geometry, unsigned across, index_t count, std::size_t scratch)
      : sums_("shard::broadcast sums", static_cast<std::size_t>(count)),
        scratch_("shard::broadcast scratch", scratch) {
    const auto group = RankGroup::of(geometry, across);
    // the mesh keeps this: a pointer that doesn't own it
    if (group->size() > 1)
      others_ = std::make_unique<GroupMerge<Memory>>(
          std::shared_ptr<MeshState>(std::shared_ptr<MeshState>(), geometry.mesh.get()), group,
          count);
  }
  std::size_t bytes() const override { return (sums_.size() + scratch_.size()) * sizeof(double); }

  /// The sums of the products a x over points; a and x are fields of one partition, x may have no
  /// origin. Collective over the ranks that share the sums; fences `space` if there are several.
  template <class Space, class T>
  const double* run(const Space& space, const SumPlaces& places, const Block<const T>& a,
                    const Block<const T>& x) {
    double* const mine = others_ ? others_->mine() : sums_.data();
    BroadcastKernels<Space, T>::sums(space, mine, places, a, x, scratch_.data());
    if (others_)
      others_->run(space, sums_.data(), places.count,
                   [&]<class On>(const On& on, double* sums, const double* gathered) {
                     NormKernels<On, T>::add_ranks(on, sums, gathered, places.count,
                                                   others_->ranks());
                   });
    return sums_.data();
  }

 private:
  static inline char tag_ = 0;  ///< its address tells memory spaces apart
  Kokkos::View<double*, Memory> sums_, scratch_;
  std::unique_ptr<GroupMerge<Memory>> others_;
};

/// dz = the sums of the products a x over the points that share a value of z; without an origin x
/// is 1. `a` has the partitions of the field that z is broadcast against. Complete on every rank
/// that has the value, and collective over the ranks that share it, but for a z of one rank: then
/// this rank's part.
template <class Space, class DZ, class A>
void set_broadcast_gradient(const Space& space, std::string_view function, const DZ& dz, const A& a,
                            const Block<const typename A::non_const_value_type>& x) {
  using T             = typename A::non_const_value_type;
  const unsigned dims = broadcast_dims(function, dz, a);
  const auto own      = values_block(dz);
  if (dims == 0) {  // a value for each point
    BroadcastKernels<Space, T>::combine(
        space, own, {owned_input(a), x, {}, {}, {}, x.origin == nullptr ? 1.0 : 0.0});
    return;
  }
  SumPlaces places;
  index_t step            = 1;
  const index_t extent[5] = {own.batch, own.channels, own.extent(0), own.extent(1), own.extent(2)};
  for (int d = A::rank - 1; d >= 0; --d) {
    const int to     = block_dim(d, A::rank);
    places.keeps[to] = (dims >> d & 1) == 0;
    places.step[to]  = places.keeps[to] ? step : 0;
    step *= extent[to];
    if (d >= 2 && places.keeps[to]) places.keeps_space = true;
  }
  places.count    = step;
  unsigned across = is_beside(dz, a) ? 0 : dims;
  if constexpr (is_vectors_v<DZ>) {  // of all batch entries and channels
    places.first = a.begin(0) * places.step[0] + a.begin(1);
    across       = ~0U;
  }
  const auto sums = BroadcastSums<typename A::memory_space>::of(a, dims, across, places.count);
  BroadcastKernels<Space, T>::store(
      space, own, sums->template run<Space, T>(space, places, owned_input(a), x), false);
}

}  // namespace shard::impl

#endif
