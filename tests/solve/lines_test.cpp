// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tridiagonal systems of a column, and along sharded dimensions: solutions, and the same bits on
// every number of ranks.
#include "shard/solve/tridiagonal_lines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/tridiagonal.hpp"
#include "solve/solve_support.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

/// The systems of a field: coefficients, and a right-hand side.
template <class Field>
struct Systems {
  Field lower, diagonal, upper, b;
  explicit Systems(const Field& x)
      : lower(x.like("l")), diagonal(x.like("d")), upper(x.like("u")), b(x.like("b")) {
    using T = typename Field::value_type;
    for (const Field* f : {&lower, &upper, &diagonal}) {
      Kokkos::deep_copy(f->view(), T(NAN));  // no halo is read
      const double phase = f == &lower ? 0.1 : f == &upper ? 0.7 : 1.3;
      set(*f, [&](const auto& i) { return rough(i, phase) + (f == &diagonal ? 3.5 : 0.0); });
    }
    set(b, [](const auto& i) { return rough(i, 2.1); });
  }
};

/// The largest |T x - b| of all points, or of |T' x - b|; x is on this rank alone.
template <int D, class Field>
double residual(const Field& x, bool transposed) {
  const index_t n  = x.global_extent(D);
  const bool rings = impl::BoundaryTraits<typename Field::template boundary<D>>::low.kind ==
                     BoundaryKind::periodic;
  const auto host = on_host(x);
  double most     = 0.0;
  for_owned(host, [&](auto i, const auto&) {
    const index_t at = i[D];
    double sum       = -rough(i, 2.1);
    for (const int side : {-1, 0, 1}) {
      if (!rings && (at + side < 0 || at + side >= n)) continue;
      auto there = i;
      there[D]   = (at + side + n) % n;
      const double there_x =
          std::apply([&](auto... g) { return host(static_cast<int>(g)...); }, there);
      // a row's lower element is in the column of the transposed one's upper
      const auto& of     = transposed ? there : i;
      const double phase = side == 0 ? 1.3 : (side < 0) != transposed ? 0.1 : 0.7;
      sum += (rough(of, phase) + (side == 0 ? 3.5 : 0.0)) * there_x;
    }
    most = std::abs(sum) <= most ? most : std::isnan(sum) ? 1e300 : std::abs(sum);
  });
  return most;
}

template <int D, class Field>
void expect_solved(const Field& x) {
  const Space space;
  Extents<Field::rank> extents;
  for (int d = 0; d < Field::rank; ++d) extents[d] = x.global_extent(d);
  const Field one("x", alone(), extents);
  const Systems<Field> s(x), of_one(one);
  const auto inverse        = tridiagonal_lines<D>(s.lower, s.diagonal, s.upper);
  const auto inverse_of_one = tridiagonal_lines<D>(of_one.lower, of_one.diagonal, of_one.upper);
  for (const bool transposed : {false, true}) {
    if (transposed) {
      inverse.apply_adjoint(space, x, s.b);
      inverse_of_one.apply_adjoint(space, one, of_one.b);
    } else {
      inverse.apply(space, x, s.b);
      inverse_of_one.apply(space, one, of_one.b);
    }
    EXPECT_TRUE(same_bits(x, one)) << "dimension " << D << ", transposed " << transposed;
    EXPECT_LT(residual<D>(one, transposed), 1e-13)
        << "dimension " << D << ", transposed " << transposed;
  }
  const Counts counts = count([&] {
    inverse.set_coefficients(space, s.lower, s.diagonal, s.upper);
    inverse.apply(space, x, s.b);
  });
  EXPECT_EQ(counts.allocations, 0);
}

// Uneven and empty shards, lines of one point, rings, fields of rank 1 to 3.
TEST(TridiagonalLines, SolutionsWithTheBitsOfOneRank) {
  Random random(seed());
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    for (int which = 0; which < 2; ++which) {
      const auto rows    = some_partition(which == 0 ? 21 : 9, shape[0], which, random),
                 columns = some_partition(13, shape[1], which, random);
      const Plane<Zero> plane("x", mesh, {rows, columns});
      expect_solved<0>(plane);
      expect_solved<1>(plane);
      const Cube<double, Zero> cube("x", mesh, {rows, columns, Partition::whole(4)});
      expect_solved<0>(cube);
      expect_solved<1>(cube);
      expect_solved<2>(cube);
      expect_solved<0>(Line<Zero>("x", mesh, {rows}));
      const Plane<Periodic> torus("x", mesh, {rows, columns});
      expect_solved<0>(torus);
      expect_solved<1>(torus);
    }
    for (const index_t n : {1, 2}) {
      expect_solved<0>(Plane<Zero>("x", mesh, {n, 5}));
      expect_solved<0>(Plane<Periodic>("x", mesh, {n, 5}));
    }
  }
}

// A kernel on any instance may be writing the coefficients.
TEST(TridiagonalLines, ConstructorsWaitForCoefficients) {
  using F = Plane<Symmetric>;
  const F diagonal("diagonal", grid(), {8, 8}), beside = diagonal.like("beside");
  deep_copy(Space(), diagonal, 4.0);
  const Diffusion<F, F> a(diagonal, diagonal, {});
  const Counts counts = count([&] {
    tridiagonal_lines<1>(beside, diagonal, beside);
    const Multigrid multigrid(a);
  });
  for (const char* name :
       {"shard::tridiagonal_lines: the coefficients", "shard::multigrid: the coefficients"})
    EXPECT_EQ(std::count(counts.fence_names.begin(), counts.fence_names.end(), name) > 0, true)
        << name;
}

// Coupling 100 times stronger along the second dimension: its lines are a preconditioner.
TEST(TridiagonalLines, PreconditionStrongCoupling) {
  using F = Plane<Zero>;
  const Space space;
  const auto iterations = [&](const Grid& mesh, F& x) {
    x            = F("x", mesh, {24, 40});
    const auto b = x.like("b"), beside = x.like("beside"), diagonal = x.like("diagonal");
    const Diffusion a(x, {.spacing = {1.0, 0.1}});
    set(b, [](const auto& i) { return rough(i, 0.3); });
    set(beside, [](const auto&) { return -100.0; });
    a.diagonal(space, diagonal);
    const SolveOptions options{.relative = 1e-6, .determinism = Determinism::ordered};
    CG cg(x, a, tridiagonal_lines<1>(beside, diagonal, beside), options);
    const SolveResult result = cg(space, x, b);
    EXPECT_TRUE(result) << result.text();
    const F other = x.like("other");
    CG points(x, a, Jacobi(space, x, a), options);
    const SolveResult slow = points(space, other, b);
    EXPECT_TRUE(slow) << slow.text();
    EXPECT_LT(2 * result.iterations, slow.iterations);
    return result.iterations;
  };
  F x, alone_x;
  EXPECT_EQ(iterations(grid(), x), iterations(alone(), alone_x));
  EXPECT_TRUE(same_bits(x, alone_x));
}

TEST(Tridiagonal, AgainstTheProductAndConservation) {
  for (const int n : {1, 2, 60, 128}) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<double> l(size), d(size), u(size), x(size), y(size), w(size);
    for (std::size_t i = 0; i < size; ++i) {
      l[i] = std::sin(static_cast<double>(i)), u[i] = std::cos(static_cast<double>(i));
      d[i] = 2.5, y[i] = std::sin(3.0 * static_cast<double>(i)) + 0.2;
    }
    const auto in = [](std::vector<double>& v) {
      return [&v](int i) -> double& { return v[static_cast<std::size_t>(i)]; };
    };
    solve_tridiagonal(n, in(l), in(d), in(u), in(x), in(y), in(w));
    for (std::size_t i = 0; i < size; ++i)
      EXPECT_NEAR(
          d[i] * x[i] + (i > 0 ? l[i] * x[i - 1] : 0) + (i + 1 < size ? u[i] * x[i + 1] : 0), y[i],
          1e-13);
    // mixing from 1e-12 to 1e12 in one column
    double before = 0.0, after = 0.0, low = 1e300, high = -1e300;
    for (std::size_t i = 0; i < size; ++i) {
      d[i] = 1.0 + 0.5 * std::sin(static_cast<double>(i));  // thickness
      u[i] = std::pow(10.0, -12.0 + static_cast<double>((7 * i) % 25));
      l[i] = 3.0 + y[i];  // the values before
      y[i] = d[i] * l[i];
      before += y[i];
      low = std::min(low, l[i]), high = std::max(high, l[i]);
    }
    solve_diffusion_column(n, in(d), in(u), in(x), in(y), in(w));
    for (std::size_t i = 0; i < size; ++i) {
      after += d[i] * x[i];
      EXPECT_GE(x[i], low * (1.0 - 1e-14));
      EXPECT_LE(x[i], high * (1.0 + 1e-14));
    }
    EXPECT_NEAR(after, before, 1e-13 * before);
  }
}

}  // namespace
}  // namespace shard::testing
