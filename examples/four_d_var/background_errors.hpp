// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of a background state: balanced and correlated. U maps a control vector of uncorrelated
// numbers of variance 1 to increments of the state, so their covariance is B = U U'.
#ifndef SHARD_EXAMPLES_FOUR_D_VAR_BACKGROUND_ERRORS_HPP
#define SHARD_EXAMPLES_FOUR_D_VAR_BACKGROUND_ERRORS_HPP

#include <shard/solve/cg.hpp>
#include <shard/solve/linear_solve.hpp>

#include <cmath>
#include <tuple>

#include "trisk.hpp"

/// For the stream function and for the depth that isn't in balance with it.
using Control = std::tuple<Field<Cell>, Field<Cell>>;

struct ErrorSizes {
  double balanced   = 200;    // m, of the depth at 45 degrees north
  double unbalanced = 20;     // m
  double length     = 1.5e6;  // m, of the correlations
};

class BackgroundErrors {
  using Matrix = shard::SparseMatrix<double, Ranks, Cell>;
  using Solve  = shard::LinearSolve<shard::CG<Field<Cell>, Matrix>>;

 public:
  BackgroundErrors(const Trisk& model, const voronoi::Mesh& m, const ErrorSizes& sizes)
      : sizes_(sizes),
        kappa_(std::pow(sizes.length / radius, 2) / (2 * power - 4)),
        to_vertices_(model.to_vertices),
        along_(model.along),
        matrix_(model.ranks, model.cell,
                entries(model.cell,
                        [&](auto c, auto add) {
                          add(c, m.cell_area[at(c)]);
                          for (const int e : m.edges_on_cell[at(c)]) flux(m, c, e, add);
                        })),
        solve_(shard::CG(matrix_.make_column_vector("x"), matrix_,
                         {.relative = 1e-13, .determinism = shard::Determinism::ordered})),
        area_{of_cells(model, [&](auto c) { return m.cell_area[at(c)]; })},
        // the variance of the increments is 1 on a plane (Weaver and Mirouze 2013)
        normalised_{of_cells(
            model,
            [&](auto c) { return std::sqrt(4 * pi * kappa_ * (power - 1) / m.cell_area[at(c)]); })},
        balance_{of_cells(model, [&](auto c) {
          return std::sqrt(2.0) * sizes.balanced *
                 m.cell[at(c)][2];  // f / g of the stream function
        })} {}

  /// A control vector, zero.
  Control control() const {
    return {matrix_.make_column_vector("control"), matrix_.make_column_vector("control")};
  }

  /// Depth and velocity: U (stream, depth).
  template <class Run, class V>
  auto increments(Run& run, const V& stream, const V& depth) const {
    const auto psi        = correlated(run, stream);
    const auto wind       = run.run(along_, run.run(to_vertices_, psi));
    const double psi_size = gravity * sizes_.balanced / (std::sqrt(2.0) * omega);  // m^2/s
    return std::tuple(
        run.run(sum(1, sizes_.unbalanced), run.run(balance_, psi), correlated(run, depth)),
        run.run(sum(-psi_size), wind));
  }

 private:
  static constexpr int power = 4;

  /// The root of (1 - kappa laplacian)^-power, a correlation (Weaver and Courtier 2001), between
  /// integrals over the cells: (A + kappa S)^-1 A power / 2 times, A the areas, S symmetric.
  template <class Run, class V>
  V correlated(Run& run, const V& v) const {
    V x = run.run(normalised_, v);
    for (int k = 0; k < power / 2; ++k) x = run.run(solve_, run.run(area_, x));
    return x;
  }
  template <class Add>
  void flux(const voronoi::Mesh& m, std::int64_t c, int e, const Add& add) const {
    const auto [a, b] = m.cells_on_edge[at(e)];
    const double s    = kappa_ * m.edge_length[at(e)] / m.cell_distance[at(e)];
    add(c, s);
    add(a == c ? b : a, -s);
  }
  template <class Of>
  Field<Cell> of_cells(const Trisk& model, const Of& of) const {
    return field<Cell>(model.ranks, model.cell, matrix_.columns().partition(), of);
  }

  ErrorSizes sizes_;
  double kappa_;
  Product<Vertex, Cell> to_vertices_;
  Product<Edge, Vertex> along_;
  Matrix matrix_;
  Solve solve_;
  Scaled<Field<Cell>> area_, normalised_, balance_;
};

#endif
