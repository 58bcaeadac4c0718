// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_ZIGZAG_HPP
#define SHARD_COLLECTIVES_ZIGZAG_HPP

#include <string>
#include <string_view>
#include <type_traits>

#include "shard/collectives/impl/axis_operation.hpp"
#include "shard/collectives/impl/zigzag_call.hpp"
#include "shard/collectives/zigzag_partition.hpp"

/// \file
/// Sequences sharded over one axis of a mesh, in plain Kokkos::Views: the all-to-all that gives
/// each rank the whole sequence of some channels, and split and gather in zigzag order.
///
/// Each is an operation with `apply`, `pushforward` and `pullback`, and a function. All are
/// collective over the ranks along `Axis`, and blocking. The ranks first compare their arguments:
/// every rank throws AgreementError if they differ, and ArgumentError, with the numbers, if they
/// are invalid. Values are trivially copyable. The pullbacks are the transposes in the inner
/// product that sums over all ranks, and overwrite their first View.

namespace shard {

struct SplitToFull {};  ///< all-to-all: from shards of the sequence to the full sequence
struct FullToSplit {};  ///< all-to-all: from the full sequence to shards of it
struct Zigzag {};       ///< shards in zigzag order (ZigzagPartition)
struct Contiguous {};   ///< shards in natural order, one chunk per rank

/// The all-to-all of context parallelism, between Views [batch, channel, sequence] with up to two
/// additional spatial dimensions. With P ranks along the axis, SplitToFull is (B, C, L / P, ...) ->
/// (B, C / P, L, ...): rank r gets channels [r C / P, (r + 1) C / P) of the whole sequence in
/// natural order. FullToSplit is its inverse. P divides C and L; in zigzag order 2 P divides L, P =
/// 1 too. Pushforward is the operation itself; the pullback is the other type.
template <class Type, class Axis, class Order = Zigzag>
struct ContextAllToAll : impl::AxisOperation<ContextAllToAll<Type, Axis, Order>, Axis> {
  static_assert(std::is_same_v<Type, SplitToFull> || std::is_same_v<Type, FullToSplit>,
                "the type of an all-to-all of sequences is SplitToFull or FullToSplit");
  static_assert(std::is_same_v<Order, Zigzag> || std::is_same_v<Order, Contiguous>,
                "the order of a sequence's shards is Zigzag or Contiguous");
  /// Whether it is SplitToFull.
  static constexpr bool is_split_to_full = std::is_same_v<Type, SplitToFull>;
  /// Whether shards are in zigzag order.
  static constexpr bool is_zigzag = std::is_same_v<Order, Zigzag>;

  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, 1, !is_split_to_full, mesh.template size<Axis>());
    impl::share_extent(n, rank, 2, is_split_to_full, mesh.template size<Axis>());
  }

 private:
  friend impl::AxisOperation<ContextAllToAll, Axis>;
  static constexpr const char* names[] = {"all_to_all", "all_to_all's pullback"};
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    run<To>(is_split_to_full, space, call);
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    run<To>(!is_split_to_full, space, call);
  }
  template <class To, class Space>
  static void run(bool split_to_full, const Space& space, const impl::CollectiveCall& call) {
    static_assert(To::rank() >= 3 && To::rank() <= 5,
                  "an all-to-all of sequences needs [batch, channel, 1 to 3 spatial dimensions]");
    impl::Sequences<Space>::all_to_all(
        space, {call, split_to_full ? "split_to_full" : "full_to_split", false, is_zigzag});
  }
};

/// ContextAllToAll whose type and order are values. Throws ArgumentError on every rank for a type
/// that isn't "split_to_full" or "full_to_split", and for Views that aren't of rank 3, 4 or 5.
template <class Axis>
struct NamedContextAllToAll : impl::AxisOperation<NamedContextAllToAll<Axis>, Axis> {
  std::string_view type;  ///< "split_to_full" or "full_to_split"
  bool zigzag = true;     ///< whether shards are in zigzag order

  /// Local.
  explicit NamedContextAllToAll(std::string_view of = {}, bool in_zigzag = true)
      : type(of), zigzag(in_zigzag) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    const bool to_full = type == "split_to_full";
    impl::share_extent(n, rank, 1, !to_full, mesh.template size<Axis>());
    impl::share_extent(n, rank, 2, to_full, mesh.template size<Axis>());
  }

 private:
  friend impl::AxisOperation<NamedContextAllToAll, Axis>;
  static constexpr const char* names[] = {"all_to_all", "all_to_all's pullback"};
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::all_to_all(space, {call, std::string(type), false, zigzag});
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::all_to_all(space, {call, std::string(type), true, zigzag});
  }
};

/// y is the concatenation of this rank's two chunks of a replicated sequence x along a dimension.
/// ZigzagPartition::exists tells which lengths can be split. Local data movement. The transpose has
/// zeros at all other chunks; if the replicas of x are one variable it gathers the d_to of all
/// ranks.
template <class Axis>
struct ZigzagSplit : impl::AxisOperation<ZigzagSplit<Axis>, Axis> {
  int dim = 0;  ///< the dimension of the sequence, from 0, or from -1 for the last

  /// Local.
  explicit ZigzagSplit(int d = 0) : dim(d) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    const int d = dim < 0 ? dim + rank : dim;
    if (d >= 0 && d < rank && ZigzagPartition::exists(n[d], mesh.template size<Axis>()))
      n[d] =
          ZigzagPartition(n[d], mesh.template size<Axis>()).count(mesh.template coordinate<Axis>());
  }

 private:
  friend impl::AxisOperation<ZigzagSplit, Axis>;
  static constexpr const char* names[] = {"zigzag_split", "zigzag_split's pullback",
                                          "zigzag_split's replicated pullback"};
  static constexpr bool may_count_once = true;
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::split(space, {call.along(dim)});
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::spread(space, {call.along(dim)});
  }
  template <class To, class Space>
  void backward_replicated(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::gather(space, {call.along(dim)});
  }
};

/// y is the whole sequence, in natural order, on every rank; x this rank's two chunks of it, along
/// a dimension. The inverse of ZigzagSplit. The transpose is this rank's chunks of the sum of all
/// ranks' d_to, in the order of the ranks, of arithmetic values; where the result counts once, this
/// rank's chunks of d_to, by local data movement.
template <class Axis>
struct ZigzagGather : impl::AxisOperation<ZigzagGather<Axis>, Axis> {
  int dim = 0;  ///< the dimension of the sequence, from 0, or from -1 for the last

  /// Local.
  explicit ZigzagGather(int d = 0) : dim(d) {}
  /// Changes x's extents to y's, for shards of equal lengths.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, dim, true, mesh.template size<Axis>());
  }

 private:
  friend impl::AxisOperation<ZigzagGather, Axis>;
  static constexpr const char* names[] = {"zigzag_gather", "zigzag_gather's pullback",
                                          "zigzag_gather's replicated pullback"};
  static constexpr bool may_count_once = true;
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::gather(space, {call.along(dim)});
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    impl::require_arithmetic<typename To::value_type>();
    impl::Sequences<Space>::sum_split(space, {call.along(dim)});
  }
  template <class To, class Space>
  void backward_replicated(const Space& space, const impl::CollectiveCall& call) const {
    impl::Sequences<Space>::split(space, {call.along(dim)});
  }
};

/// ContextAllToAll as a function: `all_to_all<SplitToFull, Seq>(space, to, from, mesh)` in zigzag
/// order, `all_to_all<FullToSplit, Seq, Contiguous>(space, to, from, mesh)`.
template <class Type, class Axis, class Order = Zigzag, class Space, class To, class From,
          class... MeshAxes>
void all_to_all(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh) {
  ContextAllToAll<Type, Axis, Order>{}.apply(space, to, from, mesh);
}
/// NamedContextAllToAll as a function: `all_to_all<Seq>(space, to, from, mesh, "split_to_full")`.
template <class Axis, class Space, class To, class From, class... MeshAxes>
void all_to_all(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh,
                std::string_view type, bool zigzag = true) {
  NamedContextAllToAll<Axis>{type, zigzag}.apply(space, to, from, mesh);
}

/// ZigzagSplit as a function: `zigzag_split<Seq>(space, shard, full, mesh, 2)`.
template <class Axis, class Space, class To, class From, class... MeshAxes>
void zigzag_split(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh,
                  int dim = 0) {
  ZigzagSplit<Axis>{dim}.apply(space, to, from, mesh);
}
/// ZigzagGather as a function: `zigzag_gather<Seq>(space, full, shard, mesh, 2)`.
template <class Axis, class Space, class To, class From, class... MeshAxes>
void zigzag_gather(const Space& space, const To& to, const From& from,
                   const Mesh<MeshAxes...>& mesh, int dim = 0) {
  ZigzagGather<Axis>{dim}.apply(space, to, from, mesh);
}

}  // namespace shard

#endif
