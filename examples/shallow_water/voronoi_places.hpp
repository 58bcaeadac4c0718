// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// This rank's part of an icosahedral Voronoi mesh: which cells, edges and vertices it owns,
// computes and reads, and the coefficients of TRiSK (Ringler et al. 2010) beside them.
//
// A stage reads depths and velocities two layers around what the rank owns, and computes in the
// first layer what its neighbours compute too. So one message per neighbour and stage is enough.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_PLACES_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_PLACES_HPP

#include <shard/shard.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../voronoi_mesh.hpp"
#include "williamson.hpp"

/// The places of one index space on this rank: its own elements, then layer 1 and layer 2. Own
/// elements are in the order of a Hilbert curve, so that neighbours are near each other in memory.
class Places {
 public:
  Places(const std::vector<voronoi::Point>& points, std::vector<int> owner, int rank)
      : owner_(std::move(owner)), on_curve_(points.size()), place_(points.size(), -1) {
    const auto curve = shard::curve_order(points);
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const auto id = static_cast<std::size_t>(curve[i]);
      on_curve_[id] = i;
      if (owner_[id] == rank) append(id);
    }
    owned = computed = ids.size();
  }
  /// Asks for an element in the layer that is made.
  void need(int id) {
    int& place = place_[static_cast<std::size_t>(id)];
    if (place >= 0) return;
    place = static_cast<int>(wanted_.size());
    wanted_.push_back(static_cast<std::size_t>(id));
  }
  /// Ends a layer: its elements by owner and the owner's place, as exchanges are fastest.
  void end_layer(int layer) {
    std::sort(wanted_.begin(), wanted_.end(), [this](std::size_t a, std::size_t b) {
      return std::pair(owner_[a], on_curve_[a]) < std::pair(owner_[b], on_curve_[b]);
    });
    for (const std::size_t id : wanted_) append(id);
    layers_.resize(ids.size() - owned, layer);
    if (layer == 1) computed = ids.size();
    wanted_.clear();
  }
  int operator()(int id) const { return place_[static_cast<std::size_t>(id)]; }
  std::size_t id(std::size_t place) const { return static_cast<std::size_t>(ids[place]); }
  shard::IndexDescription description() const {
    return shard::by_global_ids(ids, static_cast<shard::index_t>(owned), layers_);
  }
  std::vector<std::int64_t> owned_ids() const {
    return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(owned)};
  }
  /// Calls use(id) for the first `count` places.
  template <class Use>
  void each(std::size_t count, const Use& use) const {
    for (std::size_t i = 0; i < count; ++i) use(id(i));
  }

  std::vector<std::int64_t> ids;
  std::size_t owned = 0, computed = 0;  // computed: owned and layer 1

 private:
  void append(std::size_t id) {
    place_[id] = static_cast<int>(ids.size());
    ids.push_back(static_cast<std::int64_t>(id));
  }
  std::vector<int> owner_;
  std::vector<std::size_t> on_curve_;
  std::vector<int> place_, layers_;
  std::vector<std::size_t> wanted_;
};

/// The places of all three spaces. Edges and vertices belong to their first cell's owner.
struct MeshPlaces {
  MeshPlaces(const voronoi::Mesh& mesh, int rank, int ranks)
      : MeshPlaces(mesh, shard::bisection(mesh.cell, ranks), rank) {}

  Places cell, edge, vertex;

 private:
  MeshPlaces(const voronoi::Mesh& mesh, const std::vector<int>& owner, int rank)
      : cell(mesh.cell, owner, rank),
        edge(mesh.edge, of_first(mesh.cells_on_edge, owner), rank),
        vertex(mesh.vertex, of_first(mesh.cells_on_vertex, owner), rank) {
    const auto need = [](Places& places, const auto& ids) {
      for (const int id : ids) places.need(id);
    };
    // layer 1: what the tendencies of the rank's own elements read
    edge.each(edge.owned, [&](std::size_t e) {
      need(cell, mesh.cells_on_edge[e]);
      for (const auto& other : mesh.edges_on_edge[e]) edge.need(other.edge);
    });
    cell.each(cell.owned, [&](std::size_t c) { need(edge, mesh.edges_on_cell[c]); });
    cell.end_layer(1), edge.end_layer(1);
    edge.each(edge.computed, [&](std::size_t e) { need(vertex, mesh.vertices_on_edge[e]); });
    vertex.end_layer(1);
    // layer 2: depths and velocities from which that is computed
    edge.each(edge.computed, [&](std::size_t e) { need(cell, mesh.cells_on_edge[e]); });
    vertex.each(vertex.computed, [&](std::size_t v) {
      need(cell, mesh.cells_on_vertex[v]);
      need(edge, mesh.edges_on_vertex[v]);
    });
    cell.each(cell.computed, [&](std::size_t c) { need(edge, mesh.edges_on_cell[c]); });
    cell.end_layer(2), edge.end_layer(2);
  }
  template <class Lists>
  static std::vector<int> of_first(const Lists& lists, const std::vector<int>& owner) {
    std::vector<int> owners;
    for (const auto& cells : lists) owners.push_back(owner[static_cast<std::size_t>(cells[0])]);
    return owners;
  }
};

using Memory = Kokkos::DefaultExecutionSpace::memory_space;
template <class T, int N>
using Rows = Kokkos::View<T* [N], Memory>;
using List = Kokkos::View<double*, Memory>;

/// Places and coefficients, in metres, as kernels read them. A pentagon's sixth edge, and what else
/// is missing, is an edge of this rank with coefficient 0.
struct Local {
  Local(const voronoi::Mesh& mesh, const MeshPlaces& p) {
    const Places &cell = p.cell, &edge = p.edge, &vertex = p.vertex;
    const auto size = [](int i) { return static_cast<std::size_t>(i); };

    fill(cells_on_edge, edge.computed,
         [&](std::size_t e, std::size_t j) { return cell(mesh.cells_on_edge[edge.id(e)][j]); });
    fill(vertices_on_edge, edge.computed, [&](std::size_t e, std::size_t j) {
      return vertex(mesh.vertices_on_edge[edge.id(e)][j]);
    });
    const auto around = [&](std::size_t e, std::size_t j) {
      const auto& list = mesh.edges_on_edge[edge.id(e)];
      return j < list.size() ? list[j] : voronoi::Mesh::Weight{static_cast<int>(edge.id(e)), 0.0};
    };
    fill(edges_on_edge, edge.owned,
         [&](std::size_t e, std::size_t j) { return edge(around(e, j).edge); });
    fill(perpendicular, edge.owned,
         [&](std::size_t e, std::size_t j) { return around(e, j).weight; });
    fill(per_distance, edge.owned,
         [&](std::size_t e) { return 1 / (mesh.cell_distance[edge.id(e)] * radius); });
    fill(edge_area, edge.owned, [&](std::size_t e) {
      return mesh.edge_length[edge.id(e)] * mesh.cell_distance[edge.id(e)] * radius * radius;
    });

    const auto is_missing = [&](std::size_t c, std::size_t j) {
      return j >= mesh.edges_on_cell[cell.id(c)].size();
    };
    const auto edge_of = [&](std::size_t c, std::size_t j) {
      return mesh.edges_on_cell[cell.id(c)][is_missing(c, j) ? 0 : j];
    };
    fill(edges_on_cell, cell.computed,
         [&](std::size_t c, std::size_t j) { return edge(edge_of(c, j)); });
    fill(divergence, cell.owned, [&](std::size_t c, std::size_t j) {
      const auto e      = size(edge_of(c, j));
      const bool is_out = mesh.cells_on_edge[e][0] == static_cast<int>(cell.id(c));
      const double per  = mesh.edge_length[e] / (mesh.cell_area[cell.id(c)] * radius);
      return is_missing(c, j) ? 0.0 : is_out ? per : -per;
    });
    fill(kinetic, cell.computed, [&](std::size_t c, std::size_t j) {
      const auto e = size(edge_of(c, j));
      return is_missing(c, j)
                 ? 0.0
                 : 0.25 * mesh.edge_length[e] * mesh.cell_distance[e] / mesh.cell_area[cell.id(c)];
    });
    fill(cell_area, cell.owned,
         [&](std::size_t c) { return mesh.cell_area[cell.id(c)] * radius * radius; });

    fill(cells_on_vertex, vertex.computed,
         [&](std::size_t v, std::size_t j) { return cell(mesh.cells_on_vertex[vertex.id(v)][j]); });
    fill(edges_on_vertex, vertex.computed,
         [&](std::size_t v, std::size_t j) { return edge(mesh.edges_on_vertex[vertex.id(v)][j]); });
    fill(curl, vertex.computed, [&](std::size_t v, std::size_t j) {
      const auto id    = vertex.id(v);
      const auto e     = size(mesh.edges_on_vertex[id][j]);
      const double per = mesh.cell_distance[e] / (mesh.vertex_area[id] * radius);
      return mesh.vertices_on_edge[e][1] == static_cast<int>(id) ? per : -per;
    });
    fill(kite, vertex.computed, [&](std::size_t v, std::size_t j) {
      return mesh.kite[vertex.id(v)][j] / mesh.vertex_area[vertex.id(v)];
    });
  }

  Rows<int, 2> cells_on_edge, vertices_on_edge;
  Rows<int, 10> edges_on_edge;
  Rows<double, 10> perpendicular;  ///< of the velocity at an edge, beside edges_on_edge
  List per_distance;               ///< 1 / the distance of an edge's cells
  List edge_area;                  ///< an edge's length times that distance
  Rows<int, 6> edges_on_cell;
  Rows<double, 6> divergence, kinetic;  ///< of a cell, beside edges_on_cell
  List cell_area;
  Rows<int, 3> edges_on_vertex, cells_on_vertex;
  Rows<double, 3> curl;  ///< at a vertex, beside edges_on_vertex
  Rows<double, 3> kite;  ///< the shares of a vertex' cells, beside cells_on_vertex

 private:
  /// A View of `count` elements, computed on the host: value(place), or value(place, j).
  template <class View, class Value>
  static void fill(View& view, std::size_t count, const Value& value) {
    view            = View("mesh", count);
    const auto host = Kokkos::create_mirror_view(view);
    for (std::size_t i = 0; i < count; ++i)
      if constexpr (View::rank() == 1)
        host(i) = value(i);
      else
        for (std::size_t j = 0; j < host.extent(1); ++j) host(i, j) = value(i, j);
    Kokkos::deep_copy(view, host);
  }
};

#endif
