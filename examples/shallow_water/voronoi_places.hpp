// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// This rank's part of an icosahedral Voronoi mesh: which cells, edges and vertices it owns,
// computes and reads, and the coefficients of TRiSK (Ringler et al. 2010) beside them.
//
// A stage of the time step reads depths and velocities two layers around what it makes of them, and
// in the first layer fluxes, Bernoulli's function and vorticity, which this rank computes as its
// neighbours do. So one message per neighbour and stage is enough, or one for several stages with
// two layers for each.
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

/// The places of one index space on this rank: its own elements, then the layers of the halo. Own
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
    owned = ids.size();
    ends_.push_back(owned);
  }
  /// Asks for an element in the layer that is made.
  void need(int id) {
    int& place = place_[static_cast<std::size_t>(id)];
    if (place >= 0) return;
    place = static_cast<int>(wanted_.size());
    wanted_.push_back(static_cast<std::size_t>(id));
  }
  /// Ends a layer: its elements by owner and the owner's place, as exchanges are fastest.
  void end_layer() {
    std::sort(wanted_.begin(), wanted_.end(), [this](std::size_t a, std::size_t b) {
      return std::pair(owner_[a], on_curve_[a]) < std::pair(owner_[b], on_curve_[b]);
    });
    for (const std::size_t id : wanted_) append(id);
    layers_.resize(ids.size() - owned, static_cast<int>(ends_.size()));
    ends_.push_back(ids.size());
    wanted_.clear();
  }
  /// How many elements the rank has up to a layer; 0: its own.
  std::size_t up_to(int layer) const { return ends_[static_cast<std::size_t>(layer)]; }
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
  std::size_t owned = 0;

 private:
  void append(std::size_t id) {
    place_[id] = static_cast<int>(ids.size());
    ids.push_back(static_cast<std::int64_t>(id));
  }
  std::vector<int> owner_;
  std::vector<std::size_t> on_curve_, ends_;
  std::vector<int> place_, layers_;
  std::vector<std::size_t> wanted_;
};

/// The places of all three spaces. Edges and vertices belong to their first cell's owner.
struct MeshPlaces {
  /// With a halo of two layers for each stage per exchange.
  MeshPlaces(const voronoi::Mesh& mesh, int rank, int ranks, int stages_per_exchange)
      : MeshPlaces(mesh, shard::bisection(mesh.cell, ranks), rank, stages_per_exchange) {}

  Places cell, edge, vertex;
  int stages;  // per exchange

 private:
  MeshPlaces(const voronoi::Mesh& mesh, const std::vector<int>& owner, int rank, int per_exchange)
      : cell(mesh.cell, owner, rank),
        edge(mesh.edge, of_first(mesh.cells_on_edge, owner), rank),
        vertex(mesh.vertex, of_first(mesh.cells_on_vertex, owner), rank),
        stages(per_exchange) {
    const auto need = [](Places& places, const auto& ids) {
      for (const int id : ids) places.need(id);
    };
    // from the last stage before an exchange, whose tendencies are of layer 0, to the first
    for (int layer = 0; layer < 2 * stages; layer += 2) {
      // an odd layer: what the tendencies up to the layer before read
      edge.each(edge.up_to(layer), [&](std::size_t e) {
        need(cell, mesh.cells_on_edge[e]);
        for (const auto& other : mesh.edges_on_edge[e]) edge.need(other.edge);
      });
      cell.each(cell.up_to(layer), [&](std::size_t c) { need(edge, mesh.edges_on_cell[c]); });
      cell.end_layer(), edge.end_layer();
      edge.each(edge.up_to(layer + 1),
                [&](std::size_t e) { need(vertex, mesh.vertices_on_edge[e]); });
      vertex.end_layer();
      // an even layer: depths and velocities from which that is computed
      edge.each(edge.up_to(layer + 1), [&](std::size_t e) { need(cell, mesh.cells_on_edge[e]); });
      vertex.each(vertex.up_to(layer + 1), [&](std::size_t v) {
        need(cell, mesh.cells_on_vertex[v]);
        need(edge, mesh.edges_on_vertex[v]);
      });
      cell.each(cell.up_to(layer + 1), [&](std::size_t c) { need(edge, mesh.edges_on_cell[c]); });
      cell.end_layer(), edge.end_layer(), vertex.end_layer();
    }
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
    // the first stage after an exchange: what its tendencies need, and what has tendencies
    const int last          = 2 * p.stages - 1;
    const std::size_t cells = cell.up_to(last), edges = edge.up_to(last),
                      vertices = vertex.up_to(last), stepped_cells = cell.up_to(last - 1),
                      stepped_edges = edge.up_to(last - 1);
    const auto size                 = [](int i) { return static_cast<std::size_t>(i); };

    fill(cells_on_edge, edges,
         [&](std::size_t e, std::size_t j) { return cell(mesh.cells_on_edge[edge.id(e)][j]); });
    fill(vertices_on_edge, edges, [&](std::size_t e, std::size_t j) {
      return vertex(mesh.vertices_on_edge[edge.id(e)][j]);
    });
    const auto around = [&](std::size_t e, std::size_t j) {
      const auto& list = mesh.edges_on_edge[edge.id(e)];
      return j < list.size() ? list[j] : voronoi::Mesh::Weight{static_cast<int>(edge.id(e)), 0.0};
    };
    fill(edges_on_edge, stepped_edges,
         [&](std::size_t e, std::size_t j) { return edge(around(e, j).edge); });
    fill(perpendicular, stepped_edges,
         [&](std::size_t e, std::size_t j) { return around(e, j).weight; });
    fill(per_distance, stepped_edges,
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
    fill(edges_on_cell, cells, [&](std::size_t c, std::size_t j) { return edge(edge_of(c, j)); });
    fill(divergence, stepped_cells, [&](std::size_t c, std::size_t j) {
      const auto e      = size(edge_of(c, j));
      const bool is_out = mesh.cells_on_edge[e][0] == static_cast<int>(cell.id(c));
      const double per  = mesh.edge_length[e] / (mesh.cell_area[cell.id(c)] * radius);
      return is_missing(c, j) ? 0.0 : is_out ? per : -per;
    });
    fill(kinetic, cells, [&](std::size_t c, std::size_t j) {
      const auto e = size(edge_of(c, j));
      return is_missing(c, j)
                 ? 0.0
                 : 0.25 * mesh.edge_length[e] * mesh.cell_distance[e] / mesh.cell_area[cell.id(c)];
    });
    fill(cell_area, cell.owned,
         [&](std::size_t c) { return mesh.cell_area[cell.id(c)] * radius * radius; });

    fill(cells_on_vertex, vertices,
         [&](std::size_t v, std::size_t j) { return cell(mesh.cells_on_vertex[vertex.id(v)][j]); });
    fill(edges_on_vertex, vertices,
         [&](std::size_t v, std::size_t j) { return edge(mesh.edges_on_vertex[vertex.id(v)][j]); });
    fill(curl, vertices, [&](std::size_t v, std::size_t j) {
      const auto id    = vertex.id(v);
      const auto e     = size(mesh.edges_on_vertex[id][j]);
      const double per = mesh.cell_distance[e] / (mesh.vertex_area[id] * radius);
      return mesh.vertices_on_edge[e][1] == static_cast<int>(id) ? per : -per;
    });
    fill(kite, vertices, [&](std::size_t v, std::size_t j) {
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
