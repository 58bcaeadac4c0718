// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_INDEX_ORDER_HPP
#define SHARD_VIEW_INDEX_ORDER_HPP

#include <array>
#include <cstdint>
#include <vector>

#include "shard/view/index_space.hpp"

/// \file
/// Helpers that make index spaces: partitions of points, an order of a rank's elements, layers of
/// halo. All work with global ids on the host.

namespace shard {

/// The neighbours of a list of elements: those of element i are id[begin[i]] to
/// id[begin[i + 1] - 1]. An element may name itself.
struct Neighbours {
  std::vector<index_t> begin{0};  ///< one more than elements
  std::vector<std::int64_t> id;   ///< global ids

  /// Appends an element.
  void add(const std::vector<std::int64_t>& ids) {
    id.insert(id.end(), ids.begin(), ids.end());
    begin.push_back(static_cast<index_t>(id.size()));
  }
};

/// A point of a mesh: coordinates, those that aren't used zero.
using MeshPoint = std::array<double, 3>;

/// The part (0 to parts - 1) of each point by recursive coordinate bisection: the points are halved
/// across their longest extent, in proportion to the parts on each side. Weights (default: all 1)
/// are what the parts share equally. The same points give the same parts on every rank. Local.
/// Throws ArgumentError for parts < 1, and for weights of another number or below 0.
std::vector<int> bisection(const std::vector<MeshPoint>& points, int parts,
                           const std::vector<double>& weights = {});

/// The points along a Hilbert curve through their bounding cube (Skilling 2004): place i of the
/// result is the number of the i-th point on the curve. Equal positions keep their order. Local.
std::vector<index_t> curve_order(const std::vector<MeshPoint>& points);

/// The part of each point by cutting the curve into pieces of equal weight. Arguments and errors as
/// bisection.
std::vector<int> curve_partition(const std::vector<MeshPoint>& points, int parts,
                                 const std::vector<double>& weights = {});

/// An order of a rank's own elements.
struct OwnedOrder {
  std::vector<index_t> order;  ///< place i of the new order is element order[i] of the old one
  index_t interior = 0;        ///< the first places, whose neighbours the rank owns
};

/// Renumbers a rank's elements for kernels that read neighbours: the interior first, then those
/// that read the halo, each in the order of reverse Cuthill and McKee (1969), which keeps
/// neighbours near each other in memory. `ids`: the rank's own. Local. Throws ArgumentError if
/// `neighbours` has another number of elements, or an id is twice in `ids`.
OwnedOrder locality_order(const std::vector<std::int64_t>& ids, const Neighbours& neighbours);

/// The places of a rank: its own ids, then layers of halo.
struct FloodedIds {
  std::vector<std::int64_t> ids;  ///< of all places
  index_t owned = 0;              ///< the first of them
  std::vector<int> layers;        ///< of each place of the halo

  /// The description of an index space.
  IndexDescription description() const { return by_global_ids(ids, owned, layers); }
};

namespace impl {
/// Without `cells` the elements with neighbours are those of `ids`.
FloodedIds flood(MPI_Comm comm, const std::vector<std::int64_t>& ids, const FloodedIds* cells,
                 const Neighbours& neighbours, int layers);
}  // namespace impl

/// Makes layers of halo: layer 1 are the neighbours of the rank's own elements, layer l + 1 those
/// of layer l. Each layer is sorted by owner and the owner's place, which is the fastest order to
/// exchange. `neighbours` are those of the rank's own elements. Collective over the mesh; a rank
/// talks only to owners of its halo and of directory entries. Throws ArgumentError on every rank if
/// a neighbour has no owner, an id has two, or the numbers don't fit.
template <class Axis, class... MeshAxes>
FloodedIds flood(const Mesh<MeshAxes...>& mesh, const std::vector<std::int64_t>& ids,
                 const Neighbours& neighbours, int layers) {
  return impl::flood(mesh.template communicator<Axis>(), ids, nullptr, neighbours, layers);
}

/// The halo of a second space along a connectivity: edges or vertices of the `cells` of the first
/// one. `ids` are the rank's own edges, `edges` those of its own cells. Layer 1 are the edges of
/// own cells that other ranks own, layer l + 1 those of layer l of the cells: kernels that run over
/// the cells up to layer l read edges up to layer l + 1. Order, errors and who talks as above, and
/// ArgumentError on every rank for a cell of the halo that nobody owns.
template <class Axis, class... MeshAxes>
FloodedIds flood(const Mesh<MeshAxes...>& mesh, const std::vector<std::int64_t>& ids,
                 const FloodedIds& cells, const Neighbours& edges) {
  const int layers = 1 + (cells.layers.empty() ? 0 : cells.layers.back());
  return impl::flood(mesh.template communicator<Axis>(), ids, &cells, edges, layers);
}

}  // namespace shard

#endif
