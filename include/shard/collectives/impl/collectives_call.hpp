// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_IMPL_COLLECTIVES_CALL_HPP
#define SHARD_COLLECTIVES_IMPL_COLLECTIVES_CALL_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shard/base/types.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/redistribute/impl/plain_view.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/partial.hpp"

namespace shard::impl {

/// The type-erased arguments of a collective.
struct CollectiveCall {
  const char* function = "";
  MeshState* mesh      = nullptr;
  int axis             = 0;
  PlainView to, from;
  int rank           = 0;  ///< of both Views
  int value_size     = 0;  ///< bytes
  ValueKind kind     = ValueKind::opaque;
  bool first_is_fast = false;  ///< messages hold the first dimension contiguously, not the last
  ReductionKind op   = ReductionKind::sum;
  double scale       = 1;
  int dim = 0, concat_dim = 0, root = 0;

  /// The same along these dimensions.
  CollectiveCall along(int d, int concat = 0) const {
    CollectiveCall call = *this;
    call.dim            = d;
    call.concat_dim     = concat;
    return call;
  }
  /// The same that reduces, to a View of type `To`, and multiplies the result.
  template <class Op, class To>
  CollectiveCall reducing(double factor) const {
    CollectiveCall call = *this;
    call.op             = reduction_kind<Op, typename To::value_type>();
    call.scale          = factor;
    return call;
  }
};

/// The collectives of collectives.hpp, on the ranks along the axis. `Space` is an enabled execution
/// space that can access both Views. All check their arguments, collectively, and end with a fence.
template <class Space>
struct Collectives {
  static void all_reduce(const Space& space, const CollectiveCall& call);
  /// The two halves of all_reduce: each rank reduces its share of a View with one dimension, which
  /// is share_of; and each rank gets all shares.
  static void reduce_shares(const Space& space, const CollectiveCall& call);
  static void gather_shares(const Space& space, const CollectiveCall& call);
  static void all_gather(const Space& space, const CollectiveCall& call);
  static void reduce_scatter(const Space& space, const CollectiveCall& call);
  static void all_to_all(const Space& space, const CollectiveCall& call);
  static void broadcast(const Space& space, const CollectiveCall& call);
  /// The transpose of broadcast: the sum at the root, zeros elsewhere.
  static void reduce(const Space& space, const CollectiveCall& call);
  /// Local: `to` is `scale` times `from`.
  static void scaled_copy(const Space& space, const CollectiveCall& call);
};

/// Multiplies or divides an extent by the number of ranks along an axis; `dim` counts from 0, or
/// from -1 for the last. Ignores a dimension out of range.
inline void share_extent(index_t* n, int rank, int dim, bool gathered, int ranks) {
  const int d = dim < 0 ? dim + rank : dim;
  if (d >= 0 && d < rank) n[d] = gathered ? n[d] * ranks : n[d] / ranks;
}

/// `axis`: its number, or -1 for all ranks of the mesh.
template <class Space, class To, class From>
CollectiveCall collective_call(const char* function, const Space&, const To& to, const From& from,
                               MeshState* mesh, int axis) {
  static_assert(Kokkos::is_view<To>::value && Kokkos::is_view<From>::value,
                "the collectives are between Kokkos::Views; of a field give view() or owned()");
  static_assert(To::rank() == From::rank() && To::rank() >= 1 && To::rank() <= max_rank,
                "the collectives are between Views of the same rank, 1 to 6");
  using T = typename To::value_type;
  static_assert(!std::is_const_v<T>, "a collective writes its first View");
  static_assert(std::is_same_v<T, typename From::non_const_value_type>,
                "the collectives are between Views of the same value type");
  static_assert(std::is_trivially_copyable_v<T>, "the collectives move bytes");
  static_assert(Kokkos::SpaceAccessibility<Space, typename To::memory_space>::accessible &&
                    Kokkos::SpaceAccessibility<Space, typename From::memory_space>::accessible,
                "the execution space doesn't reach a View's memory");
  CollectiveCall call;
  call.function      = function;
  call.mesh          = mesh;
  call.axis          = axis;
  call.to            = plain_view(to);
  call.from          = plain_view(from);
  call.rank          = static_cast<int>(To::rank());
  call.value_size    = static_cast<int>(sizeof(T));
  call.kind          = value_kind<T>();
  call.first_is_fast = std::is_same_v<typename To::array_layout, Kokkos::LayoutLeft> &&
                       std::is_same_v<typename From::array_layout, Kokkos::LayoutLeft>;
  return call;
}
template <class Axis, class Space, class To, class From, class... MeshAxes>
CollectiveCall collective_call(const char* function, const Space& space, const To& to,
                               const From& from, const Mesh<MeshAxes...>& mesh) {
  return collective_call(function, space, to, from, mesh.state().get(),
                         Mesh<MeshAxes...>::template index_of<Axis>);
}

}  // namespace shard::impl

#endif
