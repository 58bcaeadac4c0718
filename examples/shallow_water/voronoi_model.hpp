// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water on an icosahedral Voronoi mesh as MPAS and Omega solve it (TRiSK: Thuburn et al.
// 2009, Ringler et al. 2010): depths at cells, normal velocities at edges, potential vorticity at
// vertices. The vorticity flux is the one that conserves energy, so energy drifts by the error of
// the time step only (Runge and Kutta, fourth order).
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_MODEL_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_VORONOI_MODEL_HPP

#include <shard/shard.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "flows.hpp"
#include "shard/io/checkpoint.hpp"
#include "voronoi_places.hpp"

struct Ranks;
struct Cell;
struct Edge;
struct Vertex;

using Space = Kokkos::DefaultExecutionSpace;
template <class Tag>
using Field = shard::ShardedView<double*, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Ranks, shard::Indices<Tag>>>;

/// The curl of the velocity at a vertex.
KOKKOS_FUNCTION inline double curl_at(const Local& m, const Field<Edge>& u, int v) {
  double sum = 0;
  for (int j = 0; j < 3; ++j) sum += m.curl(v, j) * u(m.edges_on_vertex(v, j));
  return sum;
}
struct CurlKernel {
  Local m;
  Field<Edge> u;
  Field<Vertex> out;
  KOKKOS_FUNCTION void operator()(int v) const { out(v) = curl_at(m, u, v); }
};
/// Potential vorticity: (f + curl of the velocity) / h.
struct VorticityKernel {
  Local m;
  Field<Cell> h;
  Field<Edge> u;
  Field<Vertex> f, q;
  KOKKOS_FUNCTION void operator()(int v) const {
    double depth = 0;
    for (int j = 0; j < 3; ++j) depth += m.kite(v, j) * h(m.cells_on_vertex(v, j));
    q(v) = (f(v) + curl_at(m, u, v)) / depth;
  }
};
/// At edges: the mass flux h u, and the mean potential vorticity of both ends.
struct FluxKernel {
  Local m;
  Field<Cell> h;
  Field<Edge> u, flux, q_edge;
  Field<Vertex> q;
  KOKKOS_FUNCTION void operator()(int e) const {
    flux(e)   = 0.5 * (h(m.cells_on_edge(e, 0)) + h(m.cells_on_edge(e, 1))) * u(e);
    q_edge(e) = 0.5 * (q(m.vertices_on_edge(e, 0)) + q(m.vertices_on_edge(e, 1)));
  }
};
/// Bernoulli's function: kinetic energy + g (h + ground).
struct BernoulliKernel {
  Local m;
  Field<Cell> h, ground, bernoulli;
  Field<Edge> u;
  KOKKOS_FUNCTION void operator()(int c) const {
    double sum = gravity * (h(c) + ground(c));
    for (int j = 0; j < 6; ++j) {
      const double v = u(m.edges_on_cell(c, j));
      sum += m.kinetic(c, j) * v * v;
    }
    bernoulli(c) = sum;
  }
};
/// What a stage of the time step makes of a tendency d: sum = start + a d (the first stage) or
/// sum += a d, and next = now + c d, where the next stage is.
template <class F>
struct Stage {
  F now, sum, next;
  double a, c;
  bool is_first;
  KOKKOS_FUNCTION void add(int i, double d) const {
    sum(i)  = (is_first ? now(i) : sum(i)) + a * d;
    next(i) = now(i) + c * d;
  }
};
/// dh/dt = - div(h u)
struct ContinuityKernel {
  Local m;
  Field<Edge> flux;
  Stage<Field<Cell>> h;
  KOKKOS_FUNCTION void operator()(int c) const {
    double sum = 0;
    for (int j = 0; j < 6; ++j) sum += m.divergence(c, j) * flux(m.edges_on_cell(c, j));
    h.add(c, -sum);
  }
};
/// du/dt = q (h u)_perpendicular - grad(Bernoulli)
struct MomentumKernel {
  Local m;
  Field<Edge> flux, q_edge;
  Field<Cell> bernoulli;
  Stage<Field<Edge>> u;
  KOKKOS_FUNCTION void operator()(int e) const {
    double turned = 0;
    for (int j = 0; j < 10; ++j) {
      const int other = m.edges_on_edge(e, j);
      turned += m.perpendicular(e, j) * flux(other) * (q_edge(e) + q_edge(other));
    }
    const double rise = bernoulli(m.cells_on_edge(e, 1)) - bernoulli(m.cells_on_edge(e, 0));
    u.add(e, 0.5 * turned - rise * m.per_distance(e));
  }
};
/// Mass and potential energy of a cell, per density; kinetic energy of an edge.
struct CellBudget {
  Local m;
  Field<Cell> h, ground;
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int c) const {
    return {m.cell_area(c) * h(c), m.cell_area(c) * gravity * h(c) * (0.5 * h(c) + ground(c))};
  }
};
struct EdgeBudget {
  Local m;
  Field<Cell> h;
  Field<Edge> u;
  KOKKOS_FUNCTION double operator()(int e) const {
    return 0.25 * m.edge_area(e) * (h(m.cells_on_edge(e, 0)) + h(m.cells_on_edge(e, 1))) * u(e) *
           u(e);
  }
};

/// The model on the ranks of a communicator.
class Voronoi {
 public:
  /// The mesh must live as long as the model. 1, 2 or 4 stages of a step follow each exchange; with
  /// more, a rank also computes what its neighbours have in the layers that the later stages read.
  Voronoi(MPI_Comm comm, const voronoi::Mesh& of, int stages_per_exchange = 1)
      : mesh(of),
        ranks(comm, {0}),
        places(mesh, ranks.rank(), ranks.size(), checked(stages_per_exchange)),
        cells(ranks, places.cell.description()),
        edges(ranks, places.edge.description()),
        vertices(ranks, places.vertex.description()),
        h("h", ranks, {cells}),
        u("u", ranks, {edges}),
        m_(mesh, places),
        q_("q", ranks, {vertices}) {}

  /// The start of a case.
  void start(const Flow& flow) {
    is_advected_ = flow.advected;
    set_cells(h, [&](std::size_t c) { return flow.depth(mesh.cell[c], 0); });
    set_cells(ground, [&](std::size_t c) { return flow.relief(mesh.cell[c]); });
    set(f_, places.vertex, [&](std::size_t v) { return flow.coriolis(mesh.vertex[v]); });
    set(u, places.edge, [&](std::size_t e) { return normal_velocity(mesh, flow, e, 0); });
  }
  /// A field at this rank's cells, value(id), the halo too.
  template <class Value>
  void set_cells(const Field<Cell>& field, const Value& value) {
    set(field, places.cell, value);
  }
  /// Coriolis parameter of the earth.
  void set_coriolis() {
    set(f_, places.vertex, [&](std::size_t v) { return Flow::earth(mesh.vertex[v]); });
  }
  /// The mean velocity through an edge.
  static double normal_velocity(const voronoi::Mesh& on, const Flow& flow, std::size_t e,
                                double time) {
    const auto& [right, left] = on.vertices_on_edge[e];
    return (flow.stream(on.vertex[static_cast<std::size_t>(right)], time) -
            flow.stream(on.vertex[static_cast<std::size_t>(left)], time)) /
           (on.edge_length[e] * radius);
  }

  /// One step of Runge and Kutta's method of fourth order. A stage makes depths and velocities up
  /// to the layer that the stages before the next exchange read: two layers for each of them. Sums
  /// are whole at the rank's own elements; others are not needed once there was an exchange.
  void step(double dt) {
    const double a[] = {dt / 6, dt / 3, dt / 3, dt / 6}, c[] = {dt / 2, dt / 2, dt, 0};
    for (int s = 0; s < 4; ++s) {
      const auto& hs  = s == 0 ? h : h_stage_;
      const auto& us  = s == 0 || is_advected_ ? u : u_stage_;
      const int layer = 2 * (places.stages - 1 - s % places.stages);
      if (s % places.stages == 0) shard::exchange(space_, hs, us);
      if (!is_advected_) {
        run("vorticity", shard::layer_region(q_, layer + 1), VorticityKernel{m_, hs, us, f_, q_});
        run("Bernoulli", shard::layer_region(b_, layer + 1),
            BernoulliKernel{m_, hs, ground, b_, us});
      }
      run("fluxes", shard::layer_region(flux_, layer + 1),
          FluxKernel{m_, hs, us, flux_, q_edge_, q_});
      run("continuity", shard::layer_region(h, layer),
          ContinuityKernel{m_, flux_, {h, h_sum_, h_stage_, a[s], c[s], s == 0}});
      if (!is_advected_)
        run("momentum", shard::layer_region(u, layer),
            MomentumKernel{m_, flux_, q_edge_, b_, {u, u_sum_, u_stage_, a[s], c[s], s == 0}});
    }
    swap(h, h_sum_);
    if (!is_advected_) swap(u, u_sum_);
  }

  /// Mass and energy per density, the same on any number of ranks.
  std::array<double, 2> budget() const {
    constexpr auto order = shard::Determinism::ordered;
    shard::exchange(space_, h, u);
    const auto [mass, potential] = shard::reduce<order>(space_, h, CellBudget{m_, h, ground});
    return {mass, potential + shard::reduce<order>(space_, u, EdgeBudget{m_, h, u})};
  }
  /// The relative vorticity at vertices.
  Field<Vertex> vorticity() const {
    Field<Vertex> out = q_.like("vorticity");
    shard::exchange(space_, u);
    run("curl", shard::owned_region(out), CurlKernel{m_, u, out});
    return out;
  }
  /// A field's elements of all ranks on rank 0, in the order of their ids.
  template <class Tag>
  std::vector<double> by_id(const Field<Tag>& field) const {
    std::vector<std::int64_t> all(
        ranks.rank() == 0 ? static_cast<std::size_t>(field.global_extent(0)) : 0);
    std::iota(all.begin(), all.end(), 0);
    const shard::IndexSpace<Tag, Ranks> on_root(
        ranks, shard::by_global_ids(all, static_cast<shard::index_t>(all.size())));
    const Field<Tag> gathered("gathered", ranks, {on_root});
    shard::redistribute(space_, gathered, field);
    space_.fence("gathered");
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), gathered.owned());
    return {host.data(), host.data() + host.extent(0)};
  }
  /// Writes or reads depths and velocities; any number of ranks reads what another one wrote.
  void save(const std::string& path) { state().save(path); }
  void load(const std::string& path) { state().load(path); }

  const voronoi::Mesh& mesh;
  shard::Mesh<Ranks> ranks;
  MeshPlaces places;
  shard::IndexSpace<Cell, Ranks> cells;
  shard::IndexSpace<Edge, Ranks> edges;
  shard::IndexSpace<Vertex, Ranks> vertices;
  Field<Cell> h, ground = h.like("ground");  ///< depth and height of the ground
  Field<Edge> u;                             ///< velocity normal to the edges

 private:
  static int checked(int stages) {
    if (stages == 1 || stages == 2 || stages == 4) return stages;
    throw std::invalid_argument("Voronoi: " + std::to_string(stages) +
                                " stages per exchange, not 1, 2 or 4");
  }
  template <class F, class Value>
  static void set(const F& field, const Places& places, const Value& value) {
    const auto host = Kokkos::create_mirror_view(field.view());
    for (std::size_t i = 0; i < places.ids.size(); ++i) host(i) = value(places.id(i));
    Kokkos::deep_copy(field.view(), host);
  }
  template <class Region, class Kernel>
  void run(const char* label, const Region& over, const Kernel& kernel) const {
    shard::parallel_for(label, space_, over, kernel);
  }
  shard::Checkpoint state() {
    shard::Checkpoint all(ranks.communicator());
    all.add("h", h), all.add("u", u);
    return all;
  }

  Space space_;
  Local m_;
  bool is_advected_  = false;
  Field<Cell> h_sum_ = h.like("h sum"), h_stage_ = h.like("h stage"), b_ = h.like("Bernoulli");
  Field<Edge> u_sum_ = u.like("u sum"), u_stage_ = u.like("u stage"), flux_ = u.like("h u"),
              q_edge_ = u.like("q at edges");
  Field<Vertex> q_, f_ = q_.like("Coriolis");
};

#endif
