// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_INDEX_SPACE_HPP
#define SHARD_VIEW_INDEX_SPACE_HPP

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shard/mesh/mesh.hpp"
#include "shard/view/impl/index_halo.hpp"
#include "shard/view/partition.hpp"
#include "shard/view/region.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// Unstructured dimensions: cells, edges or vertices of any mesh, rows of a matrix, nodes of a
/// graph. A field over an index space has the rank's own elements first, at places 0 to owned - 1,
/// and behind them its halo: copies of elements that other ranks own, in the order that the caller
/// gives. An exchange fills the halo; everything that fields have works with it.

namespace shard {

namespace impl {

/// The dimension of an index space, or -1.
template <class Field>
constexpr int index_dim() {
  return []<int... D>(std::integer_sequence<int, D...>) {
    int found = -1;
    ((FieldTypeOf<Field>::template has_indices<D> ? void(found = D) : void()), ...);
    return found;
  }
  (std::make_integer_sequence<int, Field::rank>{});
}

}  // namespace impl

/// The description of an IndexSpace: see by_global_ids and by_owner.
class IndexDescription {
 public:
  /// For the library's own use.
  explicit IndexDescription(impl::IndexInput input) : input_(std::move(input)) {}
  /// The same with the first `count` owned places as the interior: kernels read no halo there, so
  /// `overlapped`, `interior` and `rim` can use it (default: none). Local.
  IndexDescription interior(index_t count) const {
    IndexDescription with = *this;
    with.input_.interior  = count;
    return with;
  }
  /// The same where the halo may have places that no rank owns: ids of nobody (cells beyond a coast
  /// whose owners dropped them), or the owner -1. An exchange sets them to zero, and so does its
  /// adjoint. Local.
  IndexDescription zero_where_unowned() const {
    IndexDescription with       = *this;
    with.input_.unowned_allowed = true;
    return with;
  }
  /// For the library's own use: the same, for errors of another function.
  IndexDescription named(const char* function) const {
    IndexDescription with = *this;
    with.input_.function  = function;
    return with;
  }
  /// For the library's own use.
  const impl::IndexInput& input() const { return input_; }

 private:
  impl::IndexInput input_;
};

/// Elements by their global ids, any 64-bit numbers: `ids` of this rank's places, the first `owned`
/// of them its own. An id is owned by one rank; it may be several times in a rank's halo, and a
/// rank's own elements may be in its halo (periodic meshes). `layers`: the layer of each place of
/// the halo, from 1, not falling (default: all are of layer 1). Local.
IndexDescription by_global_ids(std::vector<std::int64_t> ids, index_t owned,
                               std::vector<int> layers = {});

/// Elements by the place where they are owned: for each place of the halo the owner's coordinate
/// along the axis and its place there. Local.
IndexDescription by_owner(std::vector<int> owner, std::vector<index_t> place, index_t owned,
                          std::vector<int> layers = {});

/// An index space `Tag` (a type, as a mesh axis is), sharded over the mesh axis `Axis`. It is the
/// partition of a dimension whose ShardDim has the option `Indices<Tag>`:
///
/// \code
/// struct Cell;
/// shard::IndexSpace<Cell, Ranks> cells(mesh, shard::by_global_ids(ids, owned, layers));
/// using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
///                                  shard::ShardDim<0, Ranks, shard::Indices<Cell>>>;
/// Field t("t", mesh, {cells, shard::Partition::whole(60)});  // t(place, level)
/// shard::exchange(space, t);
/// \endcode
template <class Tag, class Axis>
class IndexSpace {
 public:
  /// An empty space, to be assigned later. Any other use throws ArgumentError.
  IndexSpace() = default;
  /// Collective over the mesh. Throws ArgumentError on every rank for an id that two ranks own
  /// (with both), an id of a halo that no rank owns (unless the description has
  /// zero_where_unowned), an owner or a place that doesn't exist, layers that fall or begin below
  /// 1, or lists of different lengths.
  template <class... MeshAxes>
  IndexSpace(const Mesh<MeshAxes...>& mesh, const IndexDescription& description)
      : partition_(partition_from_counts<Axis>(mesh, description.input().owned)) {
    partition_ = impl::with_space(
        partition_, impl::make_index_halo(mesh.template communicator<Axis>(), impl::axis_id<Tag>(),
                                          description.input()));
  }

  /// Elements that this rank owns.
  index_t owned() const { return halo().owned; }
  /// Places of this rank: owned elements and halo up to this layer (default: all).
  index_t places() const { return halo().layer_end.back(); }
  /// The same up to a layer; 0: the owned ones, and any layer where no rank has a halo.
  index_t places(int layer) const { return impl::places_up_to(halo(), layer); }
  /// Number of layers, the largest of all ranks.
  int layers() const { return static_cast<int>(halo().layer_end.size()) - 1; }
  /// For each id its first place on this rank, owned or in the halo; -1 for those that aren't here.
  /// Local; takes the time of sorting all places. Throws ArgumentError for a space described by
  /// owners.
  std::vector<index_t> places_of(const std::vector<std::int64_t>& ids) const {
    return impl::places_of(halo(), ids);
  }
  /// Elements of all ranks.
  index_t size() const { return partition_.size(); }
  /// The dimension's partition: the elements in the order of ranks, then of places.
  const Partition& partition() const {
    static_cast<void>(halo());
    return partition_;
  }
  /// The same, so that a space stands where a field's partitions do.
  operator Partition() const { return partition(); }  // NOLINT(google-explicit-constructor)

 private:
  const impl::IndexHalo& halo() const { return impl::made_halo(partition_); }

  Partition partition_;
};

/// The owned elements and the halo up to layer `layer` in the dimension of an index space, all
/// owned points in the others: a region for parallel_for. Throws ArgumentError for a layer that the
/// space doesn't have.
template <AnyShardedView Field>
impl::RegionOf<Field> layer_region(const Field& field, int layer) {
  constexpr int d = impl::index_dim<Field>();
  static_assert(d >= 0, "no dimension of the field is of an index space");
  auto region            = owned_region(field);
  region.boxes[0].end[d] = impl::places_up_to(*field.partition(d).index_halo(), layer);
  return region;
}

}  // namespace shard

#endif
