// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water on an icosahedral Voronoi mesh, as MPAS and Omega solve it (TRiSK: Thuburn et al.
// 2009, Ringler et al. 2010): three index spaces, cells, edges and vertices, whose fields travel in
// one message for each neighbour. Williamson et al. 1992, case 2: a steady flow, so the initial
// state is the answer. The run is done twice, on all ranks and on each rank alone; both have the
// same bits.
//
// 13_unstructured [LEVEL [DAYS [MAP.png]]]: 10 * 4^LEVEL + 2 cells (3), 5 days.
#include <shard/shard.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <unordered_map>

#include "shard/io/map.hpp"
#include "voronoi_mesh.hpp"

struct Ranks;
struct Cell;
struct Edge;
struct Vertex;

using Memory = Kokkos::DefaultExecutionSpace::memory_space;
template <class Tag>
using Field = shard::ShardedView<double*, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Ranks, shard::Indices<Tag>>>;
template <class T>
using List  = Kokkos::View<T*, Memory>;
using Table = Kokkos::View<int**, Kokkos::LayoutRight, Memory>;  // places; -1 where there are fewer
using Numbers = Kokkos::View<double**, Kokkos::LayoutRight, Memory>;
using Space   = Kokkos::DefaultExecutionSpace;

constexpr double radius = 6371220, gravity = 9.80616, omega = 7.292e-5, day = 86400;
constexpr double speed = 2 * 3.14159265358979323846 * radius / (12 * day), depth = 2.94e4 / gravity;

/// The places of one index space on this rank: its own elements, then those that its kernels read.
class Places {
 public:
  Places(const std::vector<int>& owner, int rank) {
    for (std::size_t i = 0; i < owner.size(); ++i)
      if (owner[i] == rank) add(static_cast<int>(i));
    owned = static_cast<shard::index_t>(ids.size());
  }
  void read(int id) {
    if (!place_.contains(id)) halo_.insert(id);
  }
  void close() {
    for (const int id : halo_) add(id);
  }
  int operator()(int id) const { return place_.at(id); }
  bool has(int id) const { return place_.contains(id); }

  std::vector<std::int64_t> ids;
  shard::index_t owned = 0;

 private:
  void add(int id) {
    place_.emplace(id, static_cast<int>(ids.size()));
    ids.push_back(id);
  }
  std::unordered_map<int, int> place_;
  std::set<int> halo_;
};

/// The mesh as kernels read it: places and measures of this rank's elements.
struct Local {
  Table cells_on_edge, vertices_on_edge, edges_on_edge, edges_on_cell, cells_on_vertex,
      edges_on_vertex;
  Numbers weight, flux_sign, curl_sign, kite;  // beside edges_on_edge, edges_on_cell, ..._on_vertex
  List<double> cell_area, vertex_area, edge_length, cell_distance, coriolis;
};

/// Of edges: the depth between two cells. Of vertices: potential vorticity. Of cells: Bernoulli's
/// function.
struct ThicknessKernel {
  Local m;
  Field<Cell> h;
  Field<Edge> h_edge;
  KOKKOS_FUNCTION void operator()(int e) const {
    h_edge(e) = 0.5 * (h(m.cells_on_edge(e, 0)) + h(m.cells_on_edge(e, 1)));
  }
};
struct VorticityKernel {
  Local m;
  Field<Cell> h;
  Field<Edge> u;
  Field<Vertex> q;
  KOKKOS_FUNCTION void operator()(int v) const {
    double circulation = 0, mass = 0;
    for (int j = 0; j < 3; ++j) {
      const int e = m.edges_on_vertex(v, j);
      circulation += m.curl_sign(v, j) * m.cell_distance(e) * radius * u(e);
      mass += m.kite(v, j) * h(m.cells_on_vertex(v, j));
    }
    q(v) = (m.coriolis(v) + circulation / (m.vertex_area(v) * radius * radius)) /
           (mass / m.vertex_area(v));
  }
};
struct BernoulliKernel {
  Local m;
  Field<Cell> h, b;
  Field<Edge> u;
  KOKKOS_FUNCTION void operator()(int c) const {
    double kinetic = 0;
    for (int j = 0; j < static_cast<int>(m.edges_on_cell.extent(1)); ++j) {
      const int e = m.edges_on_cell(c, j);
      if (e >= 0) kinetic += 0.25 * m.edge_length(e) * m.cell_distance(e) * u(e) * u(e);
    }
    b(c) = kinetic / m.cell_area(c) + gravity * h(c);
  }
};
/// The tendencies: dh/dt = - div(h u), du/dt = q (h u)_perp - grad(K + g h).
struct ContinuityKernel {
  Local m;
  Field<Edge> u, h_edge;
  Field<Cell> dh;
  KOKKOS_FUNCTION void operator()(int c) const {
    double out = 0;
    for (int j = 0; j < static_cast<int>(m.edges_on_cell.extent(1)); ++j) {
      const int e = m.edges_on_cell(c, j);
      if (e >= 0) out += m.flux_sign(c, j) * m.edge_length(e) * h_edge(e) * u(e);
    }
    dh(c) = -out / (m.cell_area(c) * radius);
  }
};
struct MomentumKernel {
  Local m;
  Field<Edge> u, h_edge, du;
  Field<Vertex> q;
  Field<Cell> b;
  KOKKOS_FUNCTION double q_edge(int e) const {
    return 0.5 * (q(m.vertices_on_edge(e, 0)) + q(m.vertices_on_edge(e, 1)));
  }
  KOKKOS_FUNCTION void operator()(int e) const {
    double rotated = 0;
    for (int j = 0; j < static_cast<int>(m.edges_on_edge.extent(1)); ++j) {
      const int f = m.edges_on_edge(e, j);
      if (f >= 0) rotated += m.weight(e, j) * h_edge(f) * u(f) * 0.5 * (q_edge(e) + q_edge(f));
    }
    du(e) = rotated -
            (b(m.cells_on_edge(e, 1)) - b(m.cells_on_edge(e, 0))) / (m.cell_distance(e) * radius);
  }
};
/// sum += a d, and stage = now + c d.
template <class F>
struct StageKernel {
  F now, d, sum, stage;
  double a, c;
  KOKKOS_FUNCTION void operator()(int i) const {
    sum(i) += a * d(i);
    stage(i) = now(i) + c * d(i);
  }
};

/// A view of this rank's elements, computed on the host: value(place) or value(place, j).
template <class V, class Value>
V table(std::size_t n, std::size_t width, const Value& value) {
  V view("mesh", n, width);
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < width; ++j) host(i, j) = value(i, j);
  Kokkos::deep_copy(view, host);
  return view;
}
template <class Value>
List<double> list(std::size_t n, const Value& value) {
  List<double> view("mesh", n);
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < n; ++i) host(i) = value(i);
  Kokkos::deep_copy(view, host);
  return view;
}

/// The model on the ranks of a communicator.
class Model {
 public:
  Model(MPI_Comm comm, const voronoi::Mesh& mesh)
      : ranks_(comm, {0}),
        places_(places_of(mesh, ranks_)),
        cells_(ranks_, described(places_.cell)),
        edges_(ranks_, described(places_.edge)),
        vertices_(ranks_, described(places_.vertex)),
        h("h", ranks_, {cells_}),
        u("u", ranks_, {edges_}),
        q_("q", ranks_, {vertices_}) {
    localise(mesh);
    start(mesh);
  }

  /// One step of Runge and Kutta's method of fourth order.
  void step(double dt) {
    const double a[] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}, c[] = {0.5, 0.5, 1.0, 0.0};
    copy(h_sum_, h), copy(u_sum_, u), copy(h_stage_, h), copy(u_stage_, u);
    for (int stage = 0; stage < 4; ++stage) {
      tendencies();
      advance("depth",
              StageKernel<Field<Cell>>{h, dh_, h_sum_, h_stage_, dt * a[stage], dt * c[stage]}, h);
      advance("velocity",
              StageKernel<Field<Edge>>{u, du_, u_sum_, u_stage_, dt * a[stage], dt * c[stage]}, u);
    }
    swap(h, h_sum_), swap(u, u_sum_);
  }

  /// A field's owned elements on the host, and their global ids.
  template <class F>
  static auto values(const F& f) {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), f.owned());
  }
  const std::vector<std::int64_t>& cell_ids() const { return places_.cell.ids; }
  const std::vector<std::int64_t>& edge_ids() const { return places_.edge.ids; }
  MPI_Comm communicator() const { return ranks_.communicator(); }

 private:
  struct AllPlaces {
    Places cell, edge, vertex;
  };

  /// Edges and vertices belong to their first cell's owner.
  static AllPlaces places_of(const voronoi::Mesh& mesh, const shard::Mesh<Ranks>& ranks) {
    const std::vector<int> cell = shard::bisection(mesh.cell, ranks.size());
    std::vector<int> edge, vertex;
    for (const auto& cells : mesh.cells_on_edge)
      edge.push_back(cell[static_cast<std::size_t>(cells[0])]);
    for (const auto& cells : mesh.cells_on_vertex)
      vertex.push_back(cell[static_cast<std::size_t>(cells[0])]);
    AllPlaces p{{cell, ranks.rank()}, {edge, ranks.rank()}, {vertex, ranks.rank()}};
    const auto each = [](const auto& places, const auto& use) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(places.owned); ++i)
        use(static_cast<std::size_t>(places.ids[i]));
    };
    each(p.cell, [&](std::size_t c) {
      for (const int e : mesh.edges_on_cell[c]) p.edge.read(e);
    });
    each(p.vertex, [&](std::size_t v) {
      for (const int e : mesh.edges_on_vertex[v]) p.edge.read(e);
      for (const int c : mesh.cells_on_vertex[v]) p.cell.read(c);
    });
    each(p.edge, [&](std::size_t e) {
      for (const int c : mesh.cells_on_edge[e]) p.cell.read(c);
      for (const int v : mesh.vertices_on_edge[e]) p.vertex.read(v);
      for (const auto& w : mesh.edges_on_edge[e]) {
        p.edge.read(w.edge);
        for (const int v : mesh.vertices_on_edge[static_cast<std::size_t>(w.edge)])
          p.vertex.read(v);
      }
    });
    p.cell.close(), p.edge.close(), p.vertex.close();
    return p;
  }
  static shard::IndexDescription described(const Places& p) {
    return shard::by_global_ids(p.ids, p.owned);
  }

  void localise(const voronoi::Mesh& mesh) {
    const Places &cell = places_.cell, &edge = places_.edge, &vertex = places_.vertex;
    const auto id = [](const Places& p, std::size_t i) {
      return static_cast<std::size_t>(p.ids[i]);
    };
    const auto own = [](const Places& p) { return static_cast<std::size_t>(p.owned); };
    const auto nth = [](const auto& ids, std::size_t j, const Places& p) {
      return j < ids.size() ? p(ids[j]) : -1;
    };
    m_.cells_on_edge    = table<Table>(own(edge), 2, [&](std::size_t e, std::size_t j) {
      return cell(mesh.cells_on_edge[id(edge, e)][j]);
    });
    m_.vertices_on_edge = table<Table>(edge.ids.size(), 2, [&](std::size_t e, std::size_t j) {
      const auto& ends = mesh.vertices_on_edge[id(edge, e)];
      return reads_vertices(mesh, id(edge, e)) ? vertex(ends[j]) : -1;
    });
    m_.edges_on_edge    = table<Table>(own(edge), 10, [&](std::size_t e, std::size_t j) {
      const auto& list = mesh.edges_on_edge[id(edge, e)];
      return j < list.size() ? edge(list[j].edge) : -1;
    });
    m_.weight           = table<Numbers>(own(edge), 10, [&](std::size_t e, std::size_t j) {
      const auto& list = mesh.edges_on_edge[id(edge, e)];
      return j < list.size() ? list[j].weight : 0.0;
    });
    m_.edges_on_cell    = table<Table>(own(cell), 6, [&](std::size_t c, std::size_t j) {
      return nth(mesh.edges_on_cell[id(cell, c)], j, edge);
    });
    m_.flux_sign        = table<Numbers>(own(cell), 6, [&](std::size_t c, std::size_t j) {
      const auto& edges = mesh.edges_on_cell[id(cell, c)];
      if (j >= edges.size()) return 0.0;
      return mesh.cells_on_edge[static_cast<std::size_t>(edges[j])][0] == cell.ids[c] ? 1.0 : -1.0;
    });
    m_.cells_on_vertex  = table<Table>(own(vertex), 3, [&](std::size_t v, std::size_t j) {
      return cell(mesh.cells_on_vertex[id(vertex, v)][j]);
    });
    m_.edges_on_vertex  = table<Table>(own(vertex), 3, [&](std::size_t v, std::size_t j) {
      return edge(mesh.edges_on_vertex[id(vertex, v)][j]);
    });
    m_.curl_sign        = table<Numbers>(own(vertex), 3, [&](std::size_t v, std::size_t j) {
      const int e = mesh.edges_on_vertex[id(vertex, v)][j];
      return mesh.vertices_on_edge[static_cast<std::size_t>(e)][1] == vertex.ids[v] ? 1.0 : -1.0;
    });
    m_.kite             = table<Numbers>(
        own(vertex), 3, [&](std::size_t v, std::size_t j) { return mesh.kite[id(vertex, v)][j]; });
    m_.cell_area = list(own(cell), [&](std::size_t c) { return mesh.cell_area[id(cell, c)]; });
    m_.vertex_area =
        list(own(vertex), [&](std::size_t v) { return mesh.vertex_area[id(vertex, v)]; });
    m_.edge_length =
        list(edge.ids.size(), [&](std::size_t e) { return mesh.edge_length[id(edge, e)]; });
    m_.cell_distance =
        list(edge.ids.size(), [&](std::size_t e) { return mesh.cell_distance[id(edge, e)]; });
    m_.coriolis =
        list(own(vertex), [&](std::size_t v) { return 2 * omega * mesh.vertex[id(vertex, v)][2]; });
  }
  /// Whether this rank's kernels read the vorticity at an edge.
  bool reads_vertices(const voronoi::Mesh& mesh, std::size_t edge) const {
    for (const int v : mesh.vertices_on_edge[edge])
      if (!places_.vertex.has(v)) return false;
    return true;
  }

  /// Case 2: a solid rotation, in balance.
  void start(const voronoi::Mesh& mesh) {
    const auto depths     = Kokkos::create_mirror_view(h.view());
    const auto velocities = Kokkos::create_mirror_view(u.view());
    for (std::size_t c = 0; c < static_cast<std::size_t>(places_.cell.owned); ++c) {
      const double z = mesh.cell[static_cast<std::size_t>(places_.cell.ids[c])][2];
      depths(c)      = depth - (radius * omega * speed + speed * speed / 2) * z * z / gravity;
    }
    for (std::size_t e = 0; e < static_cast<std::size_t>(places_.edge.owned); ++e) {
      const auto id         = static_cast<std::size_t>(places_.edge.ids[e]);
      const auto& [low, up] = mesh.vertices_on_edge[id];
      velocities(e)         = speed *
                      (mesh.vertex[static_cast<std::size_t>(up)][2] -
                       mesh.vertex[static_cast<std::size_t>(low)][2]) /
                      mesh.edge_length[id];
    }
    Kokkos::deep_copy(h.view(), depths);
    Kokkos::deep_copy(u.view(), velocities);
  }

  void tendencies() {
    shard::exchange(space_, h_stage_, u_stage_);
    advance("thickness", ThicknessKernel{m_, h_stage_, h_edge_}, h_edge_);
    advance("vorticity", VorticityKernel{m_, h_stage_, u_stage_, q_}, q_);
    advance("Bernoulli", BernoulliKernel{m_, h_stage_, b_, u_stage_}, b_);
    shard::exchange(space_, h_edge_, q_, b_);
    advance("continuity", ContinuityKernel{m_, u_stage_, h_edge_, dh_}, dh_);
    advance("momentum", MomentumKernel{m_, u_stage_, h_edge_, du_, q_, b_}, du_);
  }
  template <class Kernel, class F>
  void advance(const char* label, const Kernel& kernel, const F& over) {
    shard::parallel_for(label, space_, shard::owned_region(over), kernel);
  }
  template <class F>
  void copy(const F& to, const F& from) {
    shard::deep_copy(space_, to, from);
  }

  Space space_;
  shard::Mesh<Ranks> ranks_;
  AllPlaces places_;
  shard::IndexSpace<Cell, Ranks> cells_;
  shard::IndexSpace<Edge, Ranks> edges_;
  shard::IndexSpace<Vertex, Ranks> vertices_;

 public:
  Field<Cell> h;  ///< depth
  Field<Edge> u;  ///< velocity normal to the edges

 private:
  Field<Vertex> q_;
  Field<Cell> h_sum_ = h.like("h sum"), h_stage_ = h.like("h stage"), dh_ = h.like("dh"),
              b_     = h.like("b");
  Field<Edge> u_sum_ = u.like("u sum"), u_stage_ = u.like("u stage"), du_ = u.like("du"),
              h_edge_ = u.like("h edge");
  Local m_;
};

/// Total energy over 4 pi radius^2, which the scheme conserves but for its time steps.
double energy(const voronoi::Mesh& mesh, const std::vector<double>& h,
              const std::vector<double>& u) {
  double sum = 0;
  for (std::size_t e = 0; e < mesh.edge.size(); ++e) {
    const auto& [a, b] = mesh.cells_on_edge[e];
    sum += 0.25 * mesh.edge_length[e] * mesh.cell_distance[e] *
           (h[static_cast<std::size_t>(a)] + h[static_cast<std::size_t>(b)]) * u[e] * u[e];
  }
  for (std::size_t c = 0; c < mesh.cell.size(); ++c)
    sum += 0.5 * mesh.cell_area[c] * gravity * h[c] * h[c];
  return sum;
}

/// A map of a value for each cell: each point has its nearest cell's.
void draw(const std::string& path, const voronoi::Mesh& mesh, const std::vector<double>& values) {
  constexpr double degree = 3.14159265358979323846 / 180;
  shard::Map map;
  map.title   = "Depth after the run, less the exact one";
  map.units   = "m";
  map.colours = shard::ColourScale::diverging;
  for (int i = 0; i < 90; ++i) map.latitudes.push_back(89.0 - 2 * i);
  for (int j = 0; j < 180; ++j) map.longitudes.push_back(2.0 * j);
  for (const double latitude : map.latitudes)
    for (const double longitude : map.longitudes) {
      const voronoi::Point p{std::cos(latitude * degree) * std::cos(longitude * degree),
                             std::cos(latitude * degree) * std::sin(longitude * degree),
                             std::sin(latitude * degree)};
      std::size_t nearest = 0;
      for (std::size_t c = 1; c < mesh.cell.size(); ++c)
        if (voronoi::dot(p, mesh.cell[c]) > voronoi::dot(p, mesh.cell[nearest])) nearest = c;
      map.values.push_back(values[nearest]);
    }
  shard::Figure figure;
  figure.title = "Williamson case 2 on " + std::to_string(mesh.cell.size()) + " Voronoi cells";
  figure.maps  = {map};
  shard::write_png(path, figure);
}

template <class View>
std::vector<double> vector_of(const View& view) {
  return {view.data(), view.data() + view.extent(0)};
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const int level   = argc > 1 ? std::atoi(argv[1]) : 3;
  const double days = argc > 2 ? std::atof(argv[2]) : 5;
  const double dt   = 900 * std::pow(2.0, 4 - level);
  const int steps   = static_cast<int>(days * day / dt + 0.5);
  const voronoi::Mesh mesh(level);

  Model model(environment.world(), mesh), alone(MPI_COMM_SELF, mesh);
  const auto start         = vector_of(Model::values(alone.h));
  const double energy_then = energy(mesh, start, vector_of(Model::values(alone.u)));
  for (int s = 0; s < steps; ++s) {
    model.step(dt);
    alone.step(dt);
  }
  const auto h = Model::values(model.h), h_alone = Model::values(alone.h);
  const auto u = Model::values(model.u), u_alone = Model::values(alone.u);

  int different  = 0;
  double sums[4] = {};  // of the area times error, error squared, depth, depth squared
  for (std::size_t c = 0; c < h.extent(0); ++c) {
    const auto id = static_cast<std::size_t>(model.cell_ids()[c]);
    if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
      different += std::memcmp(&h(c), &h_alone(id), sizeof(double)) != 0 ? 1 : 0;
    const double error = h(c) - start[id], a = mesh.cell_area[id];
    sums[0] += a * std::fabs(error);
    sums[1] += a * error * error;
    sums[2] += a * std::fabs(start[id]);
    sums[3] += a * start[id] * start[id];
  }
  for (std::size_t e = 0; e < u.extent(0); ++e)
    if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
      different += std::memcmp(&u(e), &u_alone(static_cast<std::size_t>(model.edge_ids()[e])),
                               sizeof(double)) != 0
                       ? 1
                       : 0;
  MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_DOUBLE, MPI_SUM, model.communicator());
  MPI_Allreduce(MPI_IN_PLACE, &different, 1, MPI_INT, MPI_SUM, model.communicator());
  const double l1 = sums[0] / sums[2], l2 = std::sqrt(sums[1] / sums[3]);

  // of a serial program, 5 days
  const double known[][2] = {{3, 4.336e-3}, {4, 1.403e-3}, {5, 4.861e-4}};
  bool right              = different == 0;
  for (const auto& [l, value] : known)
    if (level == static_cast<int>(l) && days == 5)
      right = right && std::fabs(l2 / value - 1) < 1e-3;
  if (environment.rank() == 0) {
    const double drift = energy(mesh, vector_of(h_alone), vector_of(u_alone)) / energy_then - 1;
    std::printf(
        "%zu cells, %d steps of %.0f s: error of the depth l1 %.3e, l2 %.3e; energy %.1e; %s\n",
        mesh.cell.size(), steps, dt, l1, l2, drift,
        different == 0 ? "the same bits as on one rank" : "other bits than on one rank");
    if (argc > 3) {
      auto errors = vector_of(h_alone);
      for (std::size_t c = 0; c < errors.size(); ++c) errors[c] -= start[c];
      draw(argv[3], mesh, errors);
    }
  }
  return right ? 0 : 1;
}
