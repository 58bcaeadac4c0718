// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One step of TRiSK's shallow-water equations (Ringler et al. 2010) by products with sparse
// matrices on a tape: its adjoint is the transpose of its tangent, and has the bits of one rank.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../examples/voronoi_mesh.hpp"
#include "shard/shard.hpp"
#include "shard/solve/sparse_gather.hpp"
#include "shard/solve/weighted_gather.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace sparse_gather_test {

struct Ranks;
struct Cell;
struct Edge;
struct Vertex;

using namespace shard;
using Space = Kokkos::DefaultHostExecutionSpace;
using Id    = std::int64_t;
template <class Tag>
using Field =
    ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, Ranks, Indices<Tag>>, Kokkos::HostSpace>;
template <class Row, class Column = Row>
using Product = SparseGather<double, Ranks, Row, Column, Kokkos::HostSpace>;
using Entries = std::vector<MatrixEntry<double>>;

constexpr double gravity = 9.80616, omega = 7.292e-5, radius = 6371220;

std::size_t at(Id i) { return static_cast<std::size_t>(i); }

/// y = c a b.
struct Times {
  double c = 1;
  template <class F>
  void apply(const Space&, const F& y, const F& a, const F& b) const {
    for (index_t i = 0; i < y.extent(0); ++i) y(i) = c * a(i) * b(i);
  }
  template <class F>
  void pushforward(const Space&, const F& ty, const F& ta, const F& tb, const F& a,
                   const F& b) const {
    for (index_t i = 0; i < ty.extent(0); ++i) ty(i) = c * (ta(i) * b(i) + a(i) * tb(i));
  }
  template <class F>
  void pullback(const Space&, const F& da, const F& db, const F& dy, const F& a, const F& b) const {
    for (index_t i = 0; i < dy.extent(0); ++i) {
      da(i) = c * dy(i) * b(i);
      db(i) = c * dy(i) * a(i);
    }
  }
};
/// y = a + c b.
struct Plus {
  double c = 1;
  template <class F>
  void apply(const Space&, const F& y, const F& a, const F& b) const {
    for (index_t i = 0; i < y.extent(0); ++i) y(i) = a(i) + c * b(i);
  }
  template <class F>
  void pushforward(const Space& space, const F& ty, const F& ta, const F& tb, const F&,
                   const F&) const {
    apply(space, ty, ta, tb);
  }
  template <class F>
  void pullback(const Space&, const F& da, const F& db, const F& dy, const F&, const F&) const {
    for (index_t i = 0; i < dy.extent(0); ++i) {
      da(i) = dy(i);
      db(i) = c * dy(i);
    }
  }
};
/// q = (f + circulation) / mass.
struct Vorticity {
  std::vector<double> f;
  using F = Field<Vertex>;
  void apply(const Space&, const F& q, const F& a, const F& b) const {
    for (index_t i = 0; i < q.extent(0); ++i) q(i) = (f[at(i)] + a(i)) / b(i);
  }
  void pushforward(const Space&, const F& tq, const F& ta, const F& tb, const F& a,
                   const F& b) const {
    for (index_t i = 0; i < tq.extent(0); ++i)
      tq(i) = ta(i) / b(i) - (f[at(i)] + a(i)) / (b(i) * b(i)) * tb(i);
  }
  void pullback(const Space&, const F& da, const F& db, const F& dq, const F& a, const F& b) const {
    for (index_t i = 0; i < dq.extent(0); ++i) {
      da(i) = dq(i) / b(i);
      db(i) = -dq(i) * (f[at(i)] + a(i)) / (b(i) * b(i));
    }
  }
};

/// A value and its tangent, and operations on them as a tape runs them on values.
template <class F>
struct Dual {
  F x, t;
};
struct Tangents {
  template <class Op, class... X>
  auto run(const Op& op, const Dual<X>&... x) {
    const auto y = impl::make_output(op, x.x...), t = impl::make_output(op, x.x...);
    op.apply(Space(), y, x.x...);
    if constexpr (requires { op.pushforward(Space(), t, x.t..., x.x...); })
      op.pushforward(Space(), t, x.t..., x.x...);
    else
      op.pushforward(Space(), t, x.t...);
    return Dual<std::remove_const_t<decltype(y)>>{y, t};
  }
};

/// Runs operations at once.
struct Values {
  template <class Op, class... X>
  auto run(const Op& op, const X&... x) {
    const auto y = impl::make_output(op, x...);
    op.apply(Space(), y, x...);
    return std::remove_const_t<decltype(y)>(y);
  }
};

/// The owner of each cell, edge and vertex.
struct Owners {
  std::vector<int> cell, edge, vertex;

  /// Short runs of ids, all over the mesh.
  static Owners scattered(const voronoi::Mesh& m, int ranks) {
    const auto runs = [&](std::size_t n, int length) {
      std::vector<int> owner(n);
      for (std::size_t i = 0; i < n; ++i) owner[i] = static_cast<int>(i) / length % ranks;
      return owner;
    };
    return {runs(m.cell.size(), 7), runs(m.edge.size(), 11), runs(m.vertex.size(), 13)};
  }
  /// Compact parts, but a twentieth of the cells anywhere. Edges and vertices belong to their first
  /// cell's owner.
  static Owners with_islands(const voronoi::Mesh& m, int ranks) {
    std::mt19937_64 random(shard::testing::seed());
    Owners o{bisection(m.cell, ranks), {}, {}};
    for (std::size_t n = m.cell.size() / 20; n > 0; --n)
      o.cell[random() % m.cell.size()] =
          static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    for (const auto& cells : m.cells_on_edge) o.edge.push_back(o.cell[at(cells[0])]);
    for (const auto& cells : m.cells_on_vertex) o.vertex.push_back(o.cell[at(cells[0])]);
    return o;
  }
};

class Model {
 public:
  /// `order`: other numbers, other orders of a rank's elements; 0: that of the ids.
  Model(MPI_Comm comm, const voronoi::Mesh& m, const Owners& owners, unsigned order = 0)
      : mesh(comm, {0}),
        cell(owned(owners.cell, order)),
        edge(owned(owners.edge, order)),
        vertex(owned(owners.vertex, order)),
        cells(mesh, by_global_ids(cell, static_cast<index_t>(cell.size()))),
        edges(mesh, by_global_ids(edge, static_cast<index_t>(edge.size()))),
        thickness_(mesh, edge, cell,
                   entries(edge,
                           [&](Id e, auto add) {
                             for (const int c : m.cells_on_edge[at(e)]) add(c, 0.5);
                           })),
        gradient_(mesh, edge, cell,
                  entries(edge,
                          [&](Id e, auto add) {
                            const double s = 1 / (m.cell_distance[at(e)] * radius);
                            add(m.cells_on_edge[at(e)][0], -s);
                            add(m.cells_on_edge[at(e)][1], s);
                          })),
        kite_(mesh, vertex, cell,
              entries(vertex,
                      [&](Id v, auto add) {
                        for (std::size_t j = 0; j < 3; ++j)
                          add(m.cells_on_vertex[at(v)][j], m.kite[at(v)][j] / m.vertex_area[at(v)]);
                      })),
        curl_(mesh, vertex, edge,
              entries(vertex,
                      [&](Id v, auto add) {
                        for (const int e : m.edges_on_vertex[at(v)])
                          add(e, (m.vertices_on_edge[at(e)][1] == v ? 1 : -1) *
                                     m.cell_distance[at(e)] / (m.vertex_area[at(v)] * radius));
                      })),
        kinetic_(mesh, cell, edge,
                 entries(cell,
                         [&](Id c, auto add) {
                           for (const int e : m.edges_on_cell[at(c)])
                             add(e, 0.25 * m.edge_length[at(e)] * m.cell_distance[at(e)] /
                                        m.cell_area[at(c)]);
                         })),
        convergence_(mesh, cell, edge,
                     entries(cell,
                             [&](Id c, auto add) {
                               for (const int e : m.edges_on_cell[at(c)])
                                 add(e, (m.cells_on_edge[at(e)][0] == c ? -1 : 1) *
                                            m.edge_length[at(e)] / (m.cell_area[at(c)] * radius));
                             })),
        mean_(mesh, edge, vertex,
              entries(edge,
                      [&](Id e, auto add) {
                        for (const int v : m.vertices_on_edge[at(e)]) add(v, 0.5);
                      })),
        turn_(mesh, edge, entries(edge, [&](Id e, auto add) {
                for (const auto& w : m.edges_on_edge[at(e)]) add(w.edge, w.weight);
              })) {
    for (const Id v : vertex) vorticity_.f.push_back(2 * omega * m.vertex[at(v)][2]);
  }

  /// One step of Runge and Kutta's method of fourth order, by whatever runs operations.
  template <class Run, class H, class U>
  std::pair<H, U> step(Run& run, const H& h, const U& u, double dt) const {
    const double a[] = {dt / 6, dt / 3, dt / 3, dt / 6}, c[] = {dt / 2, dt / 2, dt, 0};
    H h_sum = h, h_stage = h;
    U u_sum = u, u_stage = u;
    for (int s = 0; s < 4; ++s) {
      const auto [dh, du] = tendencies(run, h_stage, u_stage);
      h_sum               = run.run(Plus{a[s]}, h_sum, dh);
      u_sum               = run.run(Plus{a[s]}, u_sum, du);
      if (s == 3) break;
      h_stage = run.run(Plus{c[s]}, h, dh);
      u_stage = run.run(Plus{c[s]}, u, du);
    }
    return {h_sum, u_sum};
  }

  /// A field with values that depend on the ids only.
  template <class F>
  F made(const std::vector<Id>& ids, const Partition& space, double mean, double size,
         double phase) const {
    const F f("f", mesh, {space});
    for (std::size_t i = 0; i < ids.size(); ++i)
      f(i) = mean + size * std::sin(phase + 1.7 * static_cast<double>(ids[i]));
    return f;
  }

  Mesh<Ranks> mesh;
  std::vector<Id> cell, edge, vertex;
  IndexSpace<Cell, Ranks> cells;
  IndexSpace<Edge, Ranks> edges;

 private:
  /// This rank's elements.
  std::vector<Id> owned(const std::vector<int>& owner, unsigned order) const {
    std::vector<Id> ids;
    for (Id i = 0; i < static_cast<Id>(owner.size()); ++i)
      if (owner[at(i)] == mesh.rank()) ids.push_back(i);
    std::mt19937_64 random(order);
    if (order != 0) std::shuffle(ids.begin(), ids.end(), random);
    return ids;
  }
  template <class Of>
  static Entries entries(const std::vector<Id>& rows, const Of& of) {
    Entries list;
    for (const Id row : rows)
      of(row, [&](Id column, double value) { list.push_back({row, column, value}); });
    return list;
  }
  template <class Run, class H, class U>
  std::pair<H, U> tendencies(Run& run, const H& h, const U& u) const {
    const U flux   = run.run(Times{}, run.run(thickness_, h), u);
    const auto q   = run.run(vorticity_, run.run(curl_, u), run.run(kite_, h));
    const U q_edge = run.run(mean_, q);
    const H b      = run.run(Plus{gravity}, run.run(kinetic_, run.run(Times{}, u, u)), h);
    // q_ef = (q_e + q_f) / 2, so that the fluxes conserve energy
    const U half    = run.run(Times{0.5}, q_edge, run.run(turn_, flux));
    const U rotated = run.run(Plus{0.5}, half, run.run(turn_, run.run(Times{}, q_edge, flux)));
    return {run.run(convergence_, flux), run.run(Plus{-1}, rotated, run.run(gradient_, b))};
  }

  Product<Edge, Cell> thickness_, gradient_;
  Product<Vertex, Cell> kite_;
  Product<Vertex, Edge> curl_;
  Product<Cell, Edge> kinetic_, convergence_;
  Product<Edge, Vertex> mean_;
  Product<Edge> turn_;
  Vorticity vorticity_;
};

/// The step's result and its gradient, of one model.
struct Answer {
  Field<Cell> h, dh;
  Field<Edge> u, du;
  double left = 0, right = 0;  ///< of the dot-product test

  Answer(const Model& m, double dt) {
    const auto cells = m.cells.partition(), edges = m.edges.partition();
    const auto h0 = m.made<Field<Cell>>(m.cell, cells, 3000, 50, 0);
    const auto u0 = m.made<Field<Edge>>(m.edge, edges, 0, 20, 1);
    const auto th = m.made<Field<Cell>>(m.cell, cells, 0, 1, 2);
    const auto tu = m.made<Field<Edge>>(m.edge, edges, 0, 1, 3);
    const auto yh = m.made<Field<Cell>>(m.cell, cells, 0, 1, 4);
    const auto yu = m.made<Field<Edge>>(m.edge, edges, 0, 1, 5);
    Tape tape{Space()};
    std::tie(h, u) = m.step(tape, h0, u0, dt);
    // the adjoint is linear in the outputs' adjoints, which are given one after the other
    dh = copy_of(tape.pullback(h, yh, h0));
    du = copy_of(tape.gradient(u0));
    tape.pullback(u, yu, u0);
    add(dh, tape.gradient(h0));
    add(du, tape.gradient(u0));
    Tangents tangents;
    const auto [h_dual, u_dual] =
        m.step(tangents, Dual<Field<Cell>>{h0, th}, Dual<Field<Edge>>{u0, tu}, dt);
    left = dot<Determinism::ordered>(Space(), h_dual.t, yh) +
           dot<Determinism::ordered>(Space(), u_dual.t, yu);
    right = dot<Determinism::ordered>(Space(), th, dh) + dot<Determinism::ordered>(Space(), tu, du);
  }

 private:
  template <class F>
  static F copy_of(const F& f) {
    const F copy = f.like("copy");
    Kokkos::deep_copy(copy.owned(), f.owned());
    return copy;
  }
  template <class F>
  static void add(const F& to, const F& f) {
    for (index_t i = 0; i < to.extent(0); ++i) to(i) += f(i);
  }
};

TEST(SparseGather, OneTriskStepsAdjointIsItsTangentsTranspose) {
  const voronoi::Mesh mesh(2);
  const Model model(MPI_COMM_WORLD, mesh, Owners::scattered(mesh, shard::testing::ranks())),
      alone(MPI_COMM_SELF, mesh, Owners::scattered(mesh, 1));
  const Answer parts(model, 3600), whole(alone, 3600);
  EXPECT_GT(std::abs(parts.left), 1.0);
  EXPECT_LE(std::abs(parts.left - parts.right), 1e-12 * std::abs(parts.left));
  EXPECT_EQ(parts.left, whole.left);
  EXPECT_EQ(parts.right, whole.right);
  for (std::size_t i = 0; i < model.cell.size(); ++i) {  // the bits of one rank
    EXPECT_EQ(parts.h(i), whole.h(model.cell[i])) << model.cell[i];
    EXPECT_EQ(parts.dh(i), whole.dh(model.cell[i])) << model.cell[i];
  }
  for (std::size_t i = 0; i < model.edge.size(); ++i) {
    EXPECT_EQ(parts.u(i), whole.u(model.edge[i])) << model.edge[i];
    EXPECT_EQ(parts.du(i), whole.du(model.edge[i])) << model.edge[i];
  }
}

/// Ten steps, and the depth and velocity of all elements by ids, on rank 0.
std::vector<double> after_ten_steps(const Model& m, std::size_t cells, std::size_t edges) {
  Values values;
  auto h = m.made<Field<Cell>>(m.cell, m.cells.partition(), 3000, 50, 0);
  auto u = m.made<Field<Edge>>(m.edge, m.edges.partition(), 0, 20, 1);
  for (int step = 0; step < 10; ++step) std::tie(h, u) = m.step(values, h, u, 600);
  std::vector<double> all(cells + edges), sum(all.size());
  for (std::size_t i = 0; i < m.cell.size(); ++i) all[at(m.cell[i])] = h(i);
  for (std::size_t i = 0; i < m.edge.size(); ++i) all[cells + at(m.edge[i])] = u(i);
  MPI_Reduce(all.data(), sum.data(), static_cast<int>(all.size()), MPI_DOUBLE, MPI_SUM, 0,
             m.mesh.communicator());  // each element is of one rank
  return sum;
}

// E3SM 1467, 1487, 1552: halos that were too narrow in some partitions
TEST(SparseGather, AModelOnAPartitionWithIslandsHasTheBitsOfOneRank) {
  const voronoi::Mesh mesh(4);
  ASSERT_EQ(mesh.cell.size(), 2562U);
  const Owners owners   = Owners::with_islands(mesh, shard::testing::ranks());
  const auto neighbours = [&](const std::vector<Id>& ids) {
    Neighbours near;
    for (const Id id : ids) {
      std::vector<Id> cells;
      for (const int e : mesh.edges_on_cell[at(id)])
        for (const int c : mesh.cells_on_edge[at(e)])
          if (c != id) cells.push_back(c);
      near.add(cells);
    }
    return near;
  };
  {  // three layers: each place has its id, and the neighbours of a layer are in the next one
    const Model model(MPI_COMM_WORLD, mesh, owners, 5);
    const FloodedIds flooded = flood<Ranks>(model.mesh, model.cell, neighbours(model.cell), 3);
    const IndexSpace<Cell, Ranks> cells(model.mesh, flooded.description());
    const Field<Cell> t("t", model.mesh, {cells});
    Kokkos::deep_copy(t.view(), -1.0);
    for (index_t i = 0; i < cells.owned(); ++i) t(i) = static_cast<double>(flooded.ids[at(i)]);
    exchange(Space(), t);
    for (index_t i = 0; i < cells.places(); ++i)
      EXPECT_EQ(t(i), static_cast<double>(flooded.ids[at(i)])) << i;
    for (int layer = 0; layer < cells.layers(); ++layer) {
      const auto begin = flooded.ids.begin();
      const auto inner = neighbours({begin, begin + cells.places(layer)});
      for (const Id id : inner.id) {
        const auto end = begin + cells.places(layer + 1);
        EXPECT_NE(std::find(begin, end, id), end) << id << " around layer " << layer;
      }
    }
    const auto parts = after_ten_steps(model, mesh.cell.size(), mesh.edge.size());
    if (model.mesh.rank() == 0) {  // in another order too
      const Model alone(MPI_COMM_SELF, mesh, Owners::scattered(mesh, 1));
      const auto whole = after_ten_steps(alone, mesh.cell.size(), mesh.edge.size());
      EXPECT_TRUE(parts == whole);
      EXPECT_NE(whole[0], 3000.0);
    }
  }
}

TEST(SparseGather, LevelsAndFieldsOfOtherElements) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = mesh.rank(), n = mesh.size();
  // cell i = edge i - edge i + 1, on a ring
  const Product<Cell, Edge> difference(mesh, {me}, {me}, {{me, me, 1}, {me, (me + 1) % n, -1}});
  const IndexSpace<Edge, Ranks> edges(mesh, by_global_ids({me}, 1)),
      others(mesh, by_global_ids({(me + 1) % n + (n == 1 ? 1 : 0)}, 1));
  using Levels = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Ranks, Indices<Edge>>,
                             Kokkos::HostSpace>;
  const Levels x("x", mesh, {edges, Partition::whole(3)}), dx = x.like("dx");
  for (int k = 0; k < 3; ++k) x(0, k) = static_cast<double>(me * (k + 1));
  Tape tape{Space()};
  const auto y = tape.run(difference, x);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(y(0, k), static_cast<double>((me - (me + 1) % n) * (k + 1)));
  }
  const auto dy = y.like("dy");
  for (int k = 0; k < 3; ++k) dy(0, k) = static_cast<double>(me * me + k);
  const auto gradient = tape.pullback(y, dy, x);
  const Id before     = (me + n - 1) % n;
  for (int k = 0; k < 3; ++k)
    EXPECT_EQ(gradient(0, k), static_cast<double>(me * me - before * before));
  const Levels wrong("wrong", mesh, {others, Partition::whole(3)});
  shard::testing::expect_parts(shard::testing::message_thrown_by<ArgumentError>(
                                   [&] { difference.apply(Space(), y, wrong); }),
                               {"wrong", "owned ids"});
}

// The pullback conjugates: each cell's own edge and the next, with phases.
TEST(SparseGather, ComplexCoefficients) {
  using Complex = Kokkos::complex<double>;
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = mesh.rank(), n = mesh.size(), next = (me + 1) % n, before = (me + n - 1) % n;
  const auto own  = [](Id i) { return Complex(1.0, static_cast<double>(i)); };
  const auto step = [](Id i) { return Complex(static_cast<double>(2 + i), -3.0); };
  const SparseGather<Complex, Ranks, Cell, Edge, Kokkos::HostSpace> turn(
      mesh, {me}, {me}, {{me, me, own(me)}, {me, next, step(me)}});
  const auto x_of = [](Id i) { return Complex(static_cast<double>(i), 2.0); };
  const auto x = turn.matrix().make_column_vector("x"), dx = x.like("dx");
  x(0)         = x_of(me);
  const auto y = turn.output(x), dy = y.like("dy");
  turn.apply(Space(), y, x);
  EXPECT_EQ(y(0), own(me) * x_of(me) + step(me) * x_of(next));
  dy(0) = Complex(1.0, static_cast<double>(me));
  turn.pullback(Space(), dx, dy);
  const auto conj = [](const Complex& z) { return Complex(z.real(), -z.imag()); };
  EXPECT_EQ(dx(0),
            conj(own(me)) * dy(0) + conj(step(before)) * Complex(1.0, static_cast<double>(before)));
}

/// A graph of 24 nodes whose edges have weights, on the ranks of a communicator.
struct Graph {
  struct Node;
  static constexpr Id nodes       = 24;
  static constexpr index_t levels = 2;
  using Levels  = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Ranks, Indices<Node>>,
                             Kokkos::HostSpace>;
  using Product = SparseGather<double, Ranks, Node, Node, Kokkos::HostSpace>;
  using Weights = Kokkos::View<double*, Kokkos::HostSpace>;

  explicit Graph(MPI_Comm comm)
      : mesh(comm, {0}),
        ids(own()),
        cells(mesh, described()),
        product(mesh, Product(mesh, ids, entries())) {}

  Levels field(int salt) const {
    return filled(Levels("f", mesh, {cells, Partition::whole(levels)}), salt);
  }
  template <class F>
  F filled(const F& f, int salt) const {
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (index_t k = 0; k < levels; ++k) f(i, k) = value(salt, ids[i], k);
    return f;
  }
  Weights weights(int salt) const {
    const auto list = product.product().matrix().entries();
    const Weights w("w", list.size());
    for (std::size_t e = 0; e < list.size(); ++e) w(e) = value(salt, list[e].row, list[e].column);
    return w;
  }
  /// A whole number, so that sums are exact, or with `salt` from 10 on a fraction.
  static double value(int salt, Id a, Id b) {
    const auto n = static_cast<double>((a * 31 + b * 17 + salt * 7) % 13 - 6);
    return salt < 10 ? n : n / 7;
  }

  Mesh<Ranks> mesh;
  std::vector<Id> ids;
  IndexSpace<Node, Ranks> cells;
  WeightedGather<double, Ranks, Node, Node, Kokkos::HostSpace> product;

 private:
  std::vector<Id> own() const {
    std::vector<Id> mine;
    for (Id i = nodes; i-- > 0;)
      if (i / 3 % mesh.size() == mesh.rank()) mine.push_back(i);
    return mine;
  }
  IndexDescription described() const {
    return by_global_ids(ids, static_cast<index_t>(ids.size()));
  }
  Entries entries() const {
    Entries list;
    for (const Id i : ids)
      for (const Id step : {0, 1, 5, 7, 11})
        if ((i + step) % 4 != 0) list.push_back({i, (i * 5 + step) % nodes, 1.0});
    return list;
  }
};

TEST(WeightedGather, CoefficientsAreAnInputOfTheOperation) {
  const Graph g(MPI_COMM_WORLD);
  const auto all = [](double mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return mine;
  };
  const auto dot_of = [&](const Graph::Weights& a, const Graph::Weights& b) {
    double sum = 0;
    for (std::size_t e = 0; e < a.extent(0); ++e) sum += a(e) * b(e);
    return all(sum);
  };
  const auto x = g.field(1), tx = g.field(2);
  const auto w = g.weights(4), tw = g.weights(5);
  Tape tape{Space()};
  const auto y  = tape.run(g.product, x, w);
  const auto dy = g.filled(y.like("dy"), 3);
  const auto dw = tape.pullback(y, dy, w);
  const auto dx = tape.gradient(x);
  // against plain sums
  double expected = 0;
  for (const auto& e : g.product.product().matrix().entries())
    for (index_t k = 0; k < Graph::levels; ++k)
      expected += Graph::value(3, e.row, k) * Graph::value(4, e.row, e.column) *
                  Graph::value(1, e.column, k);
  EXPECT_NE(all(expected), 0.0);
  EXPECT_EQ(dot(Space(), y, dy), all(expected));
  EXPECT_EQ(dot(Space(), x, dx), all(expected));
  EXPECT_EQ(dot_of(w, dw), all(expected));
  // the dot-product test
  const auto ty = y.like("ty");
  g.product.pushforward(Space(), ty, tx, tw, x, w);
  EXPECT_EQ(dot(Space(), ty, dy), dot(Space(), tx, dx) + dot_of(tw, dw));
  // differences are exact, as y is linear in w
  const Graph::Weights moved("moved", w.extent(0));
  for (std::size_t e = 0; e < w.extent(0); ++e) moved(e) = w(e) + tw(e);
  const auto z = y.like("z");
  g.product.apply(Space(), z, x, moved);
  EXPECT_EQ(dot(Space(), z, dy) - dot(Space(), y, dy), dot_of(tw, dw));
  g.product.pushforward(Space(), ty, not_wanted, tw, x, w);
  EXPECT_EQ(dot(Space(), ty, dy), dot_of(tw, dw));
  shard::testing::expect_parts(
      shard::testing::message_thrown_by<ArgumentError>(
          [&] { g.product.apply(Space(), y, x, Graph::Weights("long", w.extent(0) + 1)); }),
      {"WeightedGather", "coefficients are given"});
}

TEST(SparseGather, TheOutputIsNotTheInput) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id row = mesh.rank();
  const Product<Cell, Cell> twice(mesh, {row}, {{row, row, 2.0}});
  const auto x = twice.matrix().make_column_vector("x");
  shard::testing::expect_parts(
      shard::testing::message_thrown_by<ArgumentError>([&] { twice.apply(Space(), x, x); }),
      {"the output \"x\" has memory of the input \"x\""});
}

// SHARD_CHECK=1 marks the halo of what is written, but a gradient's is added to the owners.
TEST(SparseGather, GradientsHaveHalosOfZeros) {
  const shard::testing::ScopedVariable checked("SHARD_CHECK", "1");
  const Graph g(MPI_COMM_WORLD);
  const auto& product = g.product.product();
  const auto dx       = product.transpose().make_row_vector("dx");
  const auto dy       = product.transpose().make_column_vector("dy");
  Kokkos::deep_copy(dy.view(), 1.0);
  product.pullback(Space(), dx, dy);
  Space().fence();
  for (index_t i = dx.extent(0); i < product.transpose().rows().places(); ++i)
    EXPECT_EQ(dx(i), 0.0) << i;
}

// Each call compares the lengths of all ranks.
TEST(WeightedGather, LengthsAreCheckedTogether) {
  const Graph g(MPI_COMM_WORLD);
  const auto x = g.field(1);
  const auto w = g.weights(4);
  const Graph::Weights mine("mine", w.extent(0) + (shard::testing::rank() == 0 ? 1 : 0));
  shard::testing::expect_parts(shard::testing::message_thrown_by<ArgumentError>([&] {
                                 g.product.apply(Space(), g.product.output(x, w), x, mine);
                               }),
                               {"WeightedGather", "rank 0", "coefficients are given"});
  g.product.apply(Space(), g.product.output(x, w), x, w);
  const Graph::Weights longer("long", w.extent(0) + (shard::testing::rank() == 0 ? 1 : 0));
  shard::testing::expect_parts(shard::testing::message_thrown_by<ArgumentError>([&] {
                                 g.product.apply(Space(), g.product.output(x, w), x, longer);
                               }),
                               {"WeightedGather", "rank 0", "coefficients are given"});
}

TEST(WeightedGather, GradientsHaveTheBitsOfOneRank) {
  const Graph g(MPI_COMM_WORLD), alone(MPI_COMM_SELF);
  const auto gradients = [](const Graph& on) {
    Tape tape{Space()};
    const auto x  = on.field(11);
    const auto w  = on.weights(14);
    const auto y  = tape.run(on.product, tape.run(on.product, x, w), w);  // shared by two layers
    const auto dw = tape.pullback(y, on.filled(y.like("dy"), 13), w);
    return std::tuple(y, tape.gradient(x), dw, on.product.product().matrix().entries());
  };
  const auto [y, dx, dw, entries]              = gradients(g);
  const auto [y_1, dx_1, dw_1, entries_of_one] = gradients(alone);
  for (std::size_t i = 0; i < g.ids.size(); ++i)
    for (index_t k = 0; k < Graph::levels; ++k) {
      const index_t there = Graph::nodes - 1 - g.ids[i];
      EXPECT_EQ(y(i, k), y_1(there, k));
      EXPECT_EQ(dx(i, k), dx_1(there, k));
    }
  for (std::size_t e = 0; e < entries.size(); ++e)
    for (std::size_t f = 0; f < entries_of_one.size(); ++f)
      if (entries[e].row == entries_of_one[f].row &&
          entries[e].column == entries_of_one[f].column) {
        EXPECT_EQ(dw(e), dw_1(f));
      }
}

}  // namespace sparse_gather_test
