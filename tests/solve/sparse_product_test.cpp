// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One step of TRiSK's shallow-water equations (Ringler et al. 2010) by products with sparse
// matrices on a tape: its adjoint is the transpose of its tangent, and has the bits of one rank.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../examples/voronoi_mesh.hpp"
#include "shard/shard.hpp"
#include "shard/solve/sparse_product.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace sparse_product_test {

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
using Product = SparseProduct<double, Ranks, Row, Column, Kokkos::HostSpace>;
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

class Model {
 public:
  Model(MPI_Comm comm, const voronoi::Mesh& m)
      : mesh(comm, {0}),
        cell(owned(m.cell.size(), 7)),
        edge(owned(m.edge.size(), 11)),
        vertex(owned(m.vertex.size(), 13)),
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
  /// Elements in a scattered partition.
  std::vector<Id> owned(std::size_t n, Id factor) const {
    std::vector<Id> ids;
    for (Id i = 0; i < static_cast<Id>(n); ++i)
      if (i / factor % mesh.size() == mesh.rank()) ids.push_back(i);
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

TEST(SparseProduct, OneTriskStepsAdjointIsItsTangentsTranspose) {
  const voronoi::Mesh mesh(2);
  const Model model(MPI_COMM_WORLD, mesh), alone(MPI_COMM_SELF, mesh);
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

TEST(SparseProduct, LevelsAndFieldsOfOtherElements) {
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
TEST(SparseProduct, ComplexCoefficients) {
  using Complex = Kokkos::complex<double>;
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = mesh.rank(), n = mesh.size(), next = (me + 1) % n, before = (me + n - 1) % n;
  const auto own  = [](Id i) { return Complex(1.0, static_cast<double>(i)); };
  const auto step = [](Id i) { return Complex(static_cast<double>(2 + i), -3.0); };
  const SparseProduct<Complex, Ranks, Cell, Edge, Kokkos::HostSpace> turn(
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

}  // namespace sparse_product_test
