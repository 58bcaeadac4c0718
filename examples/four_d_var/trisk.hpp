// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shallow-water equations on an icosahedral Voronoi mesh (TRiSK: Thuburn et al. 2009, Ringler
// et al. 2010), written once, for whatever runs operations: a graph, which has the tangent and the
// adjoint too, or a tape.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_TRISK_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_TRISK_HPP

#include <shard/shard.hpp>
#include <shard/solve/sparse_gather.hpp>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../shallow_water/williamson.hpp"
#include "../voronoi_mesh.hpp"
#include "pointwise.hpp"

using State = std::tuple<Field<Cell>, Field<Edge>>;  // depth, and velocity normal to the edges
using Ids   = std::vector<std::int64_t>;
template <class Row, class Column = Row>
using Product = shard::SparseGather<double, Ranks, Row, Column>;

inline std::size_t at(std::int64_t id) { return static_cast<std::size_t>(id); }

/// The entries of the rows that `of(row, add)` gives by add(column, value).
template <class Of>
std::vector<shard::MatrixEntry<double>> entries(const Ids& rows, const Of& of) {
  std::vector<shard::MatrixEntry<double>> list;
  for (const auto row : rows)
    of(row, [&](std::int64_t column, double value) { list.push_back({row, column, value}); });
  return list;
}

/// Means of the values at both ends of the edges.
template <class Ends>
auto means(const Ids& edges, const Ends& ends) {
  return entries(edges, [&](auto e, auto add) {
    for (const int end : ends[at(e)]) add(end, 0.5);
  });
}
/// Differences of these values over the lengths (on the unit sphere) between them.
template <class Ends>
auto differences(const Ids& edges, const Ends& ends, const std::vector<double>& length) {
  return entries(edges, [&](auto e, auto add) {
    const double s = 1 / (length[at(e)] * radius);
    add(ends[at(e)][0], -s);
    add(ends[at(e)][1], s);
  });
}
/// Sums of what flows through, or along, the edges of each polygon over its area. It flows from
/// the polygon that is end number `from` of the edge.
template <class Edges, class Ends>
auto flows(const Ids& polygons, const Edges& edges_on, const Ends& ends, std::size_t from,
           const std::vector<double>& length, const std::vector<double>& area) {
  return entries(polygons, [&](auto p, auto add) {
    for (const int e : edges_on[at(p)])
      add(e, (ends[at(e)][from] == p ? 1 : -1) * length[at(e)] / (area[at(p)] * radius));
  });
}

/// A field with the value of each id.
template <class Tag, class Of>
Field<Tag> field(const shard::Mesh<Ranks>& ranks, const Ids& ids, const shard::Partition& space,
                 const Of& of) {
  const Field<Tag> f("field", ranks, {space});
  const auto host = Kokkos::create_mirror_view(f.view());
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = of(ids[i]);
  Kokkos::deep_copy(f.view(), host);
  return f;
}

struct VorticityKernel {
  Field<Vertex> q, f, circulation, depth;
  KOKKOS_FUNCTION void operator()(int v) const { q(v) = (f(v) + circulation(v)) / depth(v); }
};
struct VorticityTangentKernel {
  Field<Vertex> tq, tc, td, f, circulation, depth;
  KOKKOS_FUNCTION void operator()(int v) const {
    tq(v) = (tc(v) - (f(v) + circulation(v)) / depth(v) * td(v)) / depth(v);
  }
};
struct VorticityAdjointKernel {
  Field<Vertex> dc, dd, dq, f, circulation, depth;
  KOKKOS_FUNCTION void operator()(int v) const {
    dc(v) = dq(v) / depth(v);
    dd(v) = -dc(v) * (f(v) + circulation(v)) / depth(v);
  }
};
/// Potential vorticity: (f + curl of the velocity) / depth.
struct Vorticity {
  Field<Vertex> f;
  using F = Field<Vertex>;
  void apply(const Space& space, const F& q, const F& circulation, const F& depth) const {
    each_point("vorticity", space, q, VorticityKernel{q, f, circulation, depth});
  }
  void pushforward(const Space& space, const F& tq, const F& tc, const F& td, const F& circulation,
                   const F& depth) const {
    each_point("vorticity, tangent", space, tq,
               VorticityTangentKernel{tq, tc, td, f, circulation, depth});
  }
  void pullback(const Space& space, const F& dc, const F& dd, const F& dq, const F& circulation,
                const F& depth) const {
    each_point("vorticity, adjoint", space, dq,
               VorticityAdjointKernel{dc, dd, dq, f, circulation, depth});
  }
};

/// The model on the ranks of a communicator. Edges and vertices belong to their first cell's owner.
class Trisk {
 public:
  Trisk(MPI_Comm comm, const voronoi::Mesh& m)
      : ranks(comm, {0}),
        owner_(shard::bisection(m.cell, ranks.size())),
        cell(owned(m.cell.size(), [&](std::size_t c) { return static_cast<int>(c); })),
        edge(owned(m.edge.size(), [&](std::size_t e) { return m.cells_on_edge[e][0]; })),
        vertex(owned(m.vertex.size(), [&](std::size_t v) { return m.cells_on_vertex[v][0]; })),
        cells(ranks, described(cell)),
        edges(ranks, described(edge)),
        to_vertices(ranks, vertex, cell,
                    entries(vertex,
                            [&](auto v, auto add) {
                              for (std::size_t j = 0; j < 3; ++j)
                                add(m.cells_on_vertex[at(v)][j],
                                    m.kite[at(v)][j] / m.vertex_area[at(v)]);
                            })),
        along(ranks, edge, vertex, differences(edge, m.vertices_on_edge, m.edge_length)),
        to_edges_(ranks, edge, cell, means(edge, m.cells_on_edge)),
        gradient_(ranks, edge, cell, differences(edge, m.cells_on_edge, m.cell_distance)),
        curl_(ranks, vertex, edge,
              flows(vertex, m.edges_on_vertex, m.vertices_on_edge, 1, m.cell_distance,
                    m.vertex_area)),
        kinetic_(ranks, cell, edge,
                 entries(cell,
                         [&](auto c, auto add) {
                           for (const int e : m.edges_on_cell[at(c)])
                             add(e, 0.25 * m.edge_length[at(e)] * m.cell_distance[at(e)] /
                                        m.cell_area[at(c)]);
                         })),
        divergence_(ranks, cell, edge,
                    flows(cell, m.edges_on_cell, m.cells_on_edge, 0, m.edge_length, m.cell_area)),
        mean_(ranks, edge, vertex, means(edge, m.vertices_on_edge)),
        turn_(ranks, edge,
              entries(edge,
                      [&](auto e, auto add) {
                        for (const auto& w : m.edges_on_edge[at(e)]) add(w.edge, w.weight);
                      })),
        vorticity_{field<Vertex>(ranks, vertex, curl_.matrix().rows().partition(),
                                 [&](auto v) { return 2 * omega * m.vertex[at(v)][2]; })} {}

  /// dh/dt = -div(h u), du/dt = q (h u)_perp - grad(K + g h).
  template <class Run, class H, class U>
  std::tuple<H, U> tendencies(Run& run, const H& h, const U& u) const {
    const U flux       = run.run(Times{}, run.run(to_edges_, h), u);
    const auto q       = run.run(vorticity_, run.run(curl_, u), run.run(to_vertices, h));
    const H kinetic    = run.run(kinetic_, run.run(Times{}, u, u));
    const H bernoulli  = run.run(sum(1, gravity), kinetic, h);
    const U q_edge     = run.run(mean_, q);
    const U turned     = run.run(Times{}, q_edge, run.run(turn_, flux));
    const U turned_too = run.run(turn_, run.run(Times{}, q_edge, flux));  // conserves energy
    return {run.run(sum(-1), run.run(divergence_, flux)),
            run.run(sum(0.5, 0.5, -1), turned, turned_too, run.run(gradient_, bernoulli))};
  }

  /// One step of Runge and Kutta's method of fourth order.
  template <class Run, class H, class U>
  std::tuple<H, U> step(Run& run, const H& h, const U& u, double dt) const {
    const auto [h1, u1] = tendencies(run, h, u);
    const auto next     = [&](double s, const H& dh, const U& du) {
      return tendencies(run, run.run(sum(1, s), h, dh), run.run(sum(1, s), u, du));
    };
    const auto [h2, u2] = next(dt / 2, h1, u1);
    const auto [h3, u3] = next(dt / 2, h2, u2);
    const auto [h4, u4] = next(dt, h3, u3);
    const auto all      = sum(1, dt / 6, dt / 3, dt / 3, dt / 6);
    return {run.run(all, h, h1, h2, h3, h4), run.run(all, u, u1, u2, u3, u4)};
  }

  /// A case of Williamson et al. 1992, turned eastwards by an angle.
  State start(const voronoi::Mesh& m, const Williamson& of, double turned = 0) const {
    const auto place = [&](const voronoi::Point& p) {
      return std::pair(std::asin(p[2]), std::atan2(p[1], p[0]) - turned);
    };
    const auto depth = [&](auto c) {
      const auto [lat, lon] = place(m.cell[at(c)]);
      return of.depth(lat, lon);
    };
    const auto velocity = [&](auto e) {
      const voronoi::Point &p = m.edge[at(e)], east = voronoi::unit({-p[1], p[0], 0}),
                           north = voronoi::cross(p, east);
      const auto [lat, lon]      = place(p);
      return of.east(lat, lon) * voronoi::dot(m.normal[at(e)], east) +
             of.north(lat, lon) * voronoi::dot(m.normal[at(e)], north);
    };
    return {field<Cell>(ranks, cell, cells.partition(), depth),
            field<Edge>(ranks, edge, edges.partition(), velocity)};
  }

  /// The areas of cells, and those that edges stand for.
  State areas(const voronoi::Mesh& m) const {
    return {field<Cell>(ranks, cell, cells.partition(), [&](auto c) { return m.cell_area[at(c)]; }),
            field<Edge>(ranks, edge, edges.partition(),
                        [&](auto e) { return m.edge_length[at(e)] * m.cell_distance[at(e)] / 2; })};
  }

  shard::Mesh<Ranks> ranks;

 private:
  std::vector<int> owner_;  // of each cell

 public:
  Ids cell, edge, vertex;  ///< that this rank owns
  shard::IndexSpace<Cell, Ranks> cells;
  shard::IndexSpace<Edge, Ranks> edges;
  Product<Vertex, Cell> to_vertices;
  Product<Edge, Vertex> along;  ///< the derivative along the edges

  int owner(int of_cell) const { return owner_[at(of_cell)]; }

 private:
  template <class CellOf>
  Ids owned(std::size_t n, const CellOf& cell_of) const {
    Ids ids;
    for (std::size_t i = 0; i < n; ++i)
      if (owner(cell_of(i)) == ranks.rank()) ids.push_back(static_cast<std::int64_t>(i));
    return ids;
  }
  static shard::IndexDescription described(const Ids& ids) {
    return shard::by_global_ids(ids, static_cast<shard::index_t>(ids.size()));
  }

  Product<Edge, Cell> to_edges_, gradient_;
  Product<Vertex, Edge> curl_;
  Product<Cell, Edge> kinetic_, divergence_;
  Product<Edge, Vertex> mean_;
  Product<Edge> turn_;
  Vorticity vorticity_;
};

#endif
