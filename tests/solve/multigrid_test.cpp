// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Multigrid: the order of the discretisation, iterations, symmetry, the same bits on all ranks.
#include "shard/solve/multigrid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "shard/solve/cg.hpp"
#include "solve/solve_support.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

/// A smooth solution with the value 0 at the walls of the unit square or cube, at cell centres.
template <class Index>
double waves(const Index& i, index_t n) {
  double x = 1.0;
  for (const index_t k : i)
    x *= std::sin(pi * (static_cast<double>(k) + 0.5) / static_cast<double>(n));
  return x;
}
template <class Field>
struct ValueTerm {
  Field f;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    return f(i...);
  }
};

struct Solved {
  int iterations = 0;
  double error   = 0.0;
};

/// Poisson's equation by multigrid-CG: the error of a known solution, the iterations of another.
template <class Field>
Solved poisson(const Grid& mesh, index_t n, const MultigridOptions& options = {}) {
  const Space space;
  Extents<Field::rank> extents;
  for (int d = 0; d < Field::rank; ++d) extents[d] = n;
  const Field x("x", mesh, extents), b = x.like("b");
  const double h = 1.0 / static_cast<double>(n);
  set(b, [&](const auto& i) { return Field::rank * pi * pi * waves(i, n); });
  const Diffusion a(x, {.spacing = {h, h, h}});
  const Multigrid multigrid(a, options);
  CG cg(x, a, multigrid, {.relative = 1e-10, .determinism = Determinism::ordered});
  const SolveResult smooth = cg(space, x, b);
  EXPECT_TRUE(smooth) << smooth.text();
  const double error = error_of(x, [&](const auto& i) { return waves(i, n); });
  set(b, [](const auto& i) { return rough(i); });  // of all wavelengths
  set(x, [](const auto&) { return 0.0; });
  const SolveResult result = cg(space, x, b);
  EXPECT_TRUE(result) << result.text();
  return {result.iterations, error};
}

TEST(Multigrid, OrderTwoAndIterations) {
  const Grid mesh = grid();
  std::vector<Solved> planes, cubes;
  for (const index_t n : {32, 64, 128}) planes.push_back(poisson<Plane<Zero>>(mesh, n));
  for (const index_t n : {16, 32}) cubes.push_back(poisson<Cube<double, Zero>>(mesh, n));
  const Solved odd = poisson<Plane<Zero>>(mesh, 75), cube = poisson<Cube<double, Zero>>(mesh, 21);
  EXPECT_LE(odd.iterations, 13);
  EXPECT_LE(cube.iterations, 13);
  EXPECT_NEAR(odd.error * 75 * 75, planes.back().error * 128 * 128, 0.02 * odd.error * 75 * 75);
  for (const auto* all : {&planes, &cubes})
    for (std::size_t k = 0; k < all->size(); ++k) {
      EXPECT_LE((*all)[k].iterations, 12);
      EXPECT_LE(std::abs((*all)[k].iterations - (*all)[0].iterations), 1);
      if (k > 0) {
        EXPECT_NEAR((*all)[k - 1].error / (*all)[k].error, 4.0, 0.1);
      }
    }
}

template <class Field>
double product(const Field& a, const Field& b) {
  return dots<Determinism::ordered>(Space(), std::tie(a, b))[0];
}

TEST(Multigrid, IsSymmetric) {
  const Space space;
  using P          = Plane<Zero>;
  const auto check = [&](const auto& a, const MultigridOptions& options) {
    const P x = a.like().like("x"), y = x.like("y"), r = x.like("r"), s = x.like("s");
    set(r, [](const auto& i) { return rough(i); });
    set(s, [](const auto& i) { return rough(i) * rough(i) - 0.3; });
    const Multigrid multigrid(a, options);
    EXPECT_GE(multigrid.levels(), 3);
    multigrid.apply(space, x, r);
    multigrid.apply(space, y, s);
    const double one = product(x, s), other = product(r, y);
    EXPECT_NEAR(one, other, 1e-12 * std::abs(one));
    EXPECT_GT(product(x, r), 0.0);
  };
  for (const Extents<2>& extents : {Extents<2>(24, 40), Extents<2>(25, 39), Extents<2>(7, 64)}) {
    const P like("like", grid(), extents), k = like.like("k");
    set(k, [](const auto& i) { return std::exp(6.0 * rough(i)); });
    exchange(space, k);
    for (const auto cycle : {MultigridCycle::v, MultigridCycle::w})
      for (const int smoothing : {1, 2, 3}) {
        const MultigridOptions options{
            .cycle = cycle, .smoothing = smoothing, .gather_below = 100, .bottom = 16};
        check(Diffusion(like, {.spacing = {1.0, 0.7}}), options);
        check(Diffusion<P, P>(like, k, {.spacing = {1.0, 0.7}}), options);
      }
  }
}

// The tables of all ranks of random partitions: restriction is the transpose, nothing reads farther
// than one cell, and linear functions are interpolated exactly away from walls.
TEST(Multigrid, TransferTables) {
  Random random(seed());
  for (index_t n = 4; n < 60; ++n) {
    const index_t half = (n + 1) / 2;
    const int parts    = 1 + static_cast<int>(n % 5);
    const auto fine    = impl::aligned(some_partition(n, parts, 1, random), half);
    const auto coarse  = impl::coarse_partition(fine, half);
    const auto size    = static_cast<std::size_t>(n * half);
    for (const bool periodic : {false, true}) {
      std::vector<double> p(size, 0.0), r(size, 0.0);
      const auto at = [&](index_t f, index_t c) {
        return static_cast<std::size_t>(((f + n) % n) * half + (c + half) % half);
      };
      for (int rank = 0; rank < parts; ++rank) {
        impl::TransferGrids grids{
            n, half, fine.begin(rank), fine.end(rank), coarse.begin(rank), coarse.end(rank)};
        grids.periodic         = periodic;
        grids.zero_wall[0]     = true;
        const auto from_coarse = grids.interpolation(), from_fine = grids.restriction(),
                   means     = grids.means();
        const int fine_count = static_cast<int>(fine.count(rank)),
                  count      = static_cast<int>(coarse.count(rank));
        ASSERT_EQ(from_coarse.size(), static_cast<std::size_t>(fine_count + 2));
        for (int f = 0; f < fine_count; ++f) {
          const auto& point = from_coarse[static_cast<std::size_t>(f) + 1];
          EXPECT_GE(point.first, -1);
          EXPECT_LE(point.first + point.count, count + 1);
          double position = 0.0;
          for (int k = 0; k < point.count; ++k) {
            const double c = static_cast<double>(grids.coarse_begin + point.first + k);
            position += point.weight[k] * (c + 0.5) / static_cast<double>(half);
            p[at(grids.fine_begin + f, grids.coarse_begin + point.first + k)] += point.weight[k];
          }
          if (point.count == 2) {
            EXPECT_NEAR(position,
                        (static_cast<double>(grids.fine_begin + f) + 0.5) / static_cast<double>(n),
                        1e-14);
          }
        }
        ASSERT_EQ(from_fine.size(), static_cast<std::size_t>(count));
        for (int c = 0; c < count; ++c) {
          double mean = 0.0;
          for (const auto* table : {&from_fine, &means}) {
            const auto& point = (*table)[static_cast<std::size_t>(c)];
            EXPECT_GE(point.first, -1);
            EXPECT_LE(point.first + point.count, fine_count + 1);
            for (int k = 0; k < point.count; ++k)
              (table == &means
                   ? mean
                   : r[at(grids.fine_begin + point.first + k, grids.coarse_begin + c)]) +=
                  point.weight[k];
          }
          EXPECT_NEAR(mean, 1.0, 1e-15);
        }
      }
      for (std::size_t k = 0; k < size; ++k)
        EXPECT_NEAR(r[k], p[k] * static_cast<double>(half) / static_cast<double>(n), 1e-15);
    }
  }
  const auto fewer = impl::merged(Partition::explicit_counts({3, 0, 2, 4, 1, 7}));
  EXPECT_EQ(fewer, Partition::explicit_counts({5, 0, 0, 5, 0, 7}));
  EXPECT_EQ(impl::used_parts(fewer), 3);
}

TEST(Multigrid, SameBitsOnAllRanks) {
  const Space space;
  Random random(seed());
  const auto solve = [&](const Grid& mesh, const std::array<Partition, 2>& partitions,
                         Plane<Zero>& x) {
    x            = Plane<Zero>("x", mesh, partitions);
    const auto b = x.like("b");
    set(b, [](const auto& i) { return rough(i); });
    const Diffusion a(x, {.spacing = {1.0, 1.0}});
    // levels of 8 to 1 ranks
    const Multigrid multigrid(a, {.gather_below = 40, .cells_per_rank = 100, .bottom = 16});
    CG cg(x, a, multigrid, {.relative = 1e-9, .determinism = Determinism::ordered});
    const SolveResult result = cg(space, x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_LE(result.iterations, 14);
    return result.iterations;
  };
  const auto shape = shapes(world_size()).back();
  for (const Extents<2>& extents : {Extents<2>(32, 48), Extents<2>(37, 50)}) {
    Plane<Zero> serial;
    const int iterations =
        solve(alone(), {Partition::whole(extents[0]), Partition::whole(extents[1])}, serial);
    for (int which = 0; which < 3; ++which) {
      Plane<Zero> x;
      EXPECT_EQ(solve(grid(),
                      {some_partition(extents[0], shape[0], which, random),
                       some_partition(extents[1], shape[1], which, random)},
                      x),
                iterations);
      EXPECT_TRUE(same_bits(x, serial)) << which;
    }
  }
}

TEST(Multigrid, CyclesJumpsAndAnisotropy) {
  const Grid mesh = grid();
  const Space space;
  // iterations of CG for coefficients and spacings
  const auto count = [&](double jump, double aspect, const MultigridOptions& options,
                         bool flexible) {
    const Plane<Symmetric> x("x", mesh, {64, 64}), b = x.like("b"), k = x.like("k");
    set(k, [&](const auto& i) { return i[0] >= 16 && i[0] < 48 && i[1] >= 32 ? jump : 1.0; });
    exchange(space, k);
    set(b, [](const auto& i) { return rough(i); });
    const Diffusion<Plane<Symmetric>, Plane<Symmetric>> a(
        x, k, {.spacing = {aspect, 1.0}, .shift = 1e-3});
    const Multigrid multigrid(a, options);
    CG cg(x, a, multigrid, {.relative = 1e-8, .flexible = flexible});
    const SolveResult result = cg(space, x, b);
    EXPECT_TRUE(result) << result.text();
    return result.iterations;
  };
  const int plain = count(1.0, 1.0, {}, false);
  EXPECT_LE(plain, 12);
  EXPECT_LE(count(1.0, 1.0, {.cycle = MultigridCycle::w}, false), plain);
  EXPECT_LE(count(1.0, 1.0, {.cycle = MultigridCycle::f}, true), plain);
  EXPECT_LE(count(1.0, 1.0, {.cycle = MultigridCycle::full}, true), plain);
  EXPECT_LE(count(1e4, 1.0, {}, false), 2 * plain);
  EXPECT_LE(count(1.0, 10.0, {}, false), 14);
}

// Balls of another material in a cube. Where interpolation gave a badly coupled diagonal neighbour
// a weight, w-cycles weren't positive, and v-cycles took ten times as many iterations.
TEST(Multigrid, JumpsOfAMillion) {
  using F              = Cube<double, Zero>;
  constexpr int n      = 16;
  const double balls[] = {0.3,  0.3,  0.3,  0.15, 0.7, 0.3, 0.6,  0.18, 0.4,  0.75,
                          0.35, 0.12, 0.65, 0.7,  0.7, 0.2, 0.25, 0.6,  0.75, 0.1};
  const Space space;
  const F x("x", grid(), {n, n, n}), b = x.like("b"), k = x.like("k");
  set(b, [](const auto& i) { return rough(i); });
  const auto steps = [&](double jump, MultigridCycle cycle) {
    set(k, [&](const auto& i) {
      for (int ball = 0; ball < 5; ++ball) {
        double square = 0.0;
        for (std::size_t d = 0; d < 3; ++d)
          square += std::pow((static_cast<double>(i[d]) + 0.5) / n - balls[4 * ball + d], 2);
        if (square < std::pow(balls[4 * ball + 3], 2)) return jump;
      }
      return 1.0;
    });
    const Diffusion<F, F> a(x, k, {});
    CG cg(x, a, Multigrid(a, {.cycle = cycle, .gather_below = 200}), {.relative = 1e-8});
    set(x, [](const auto&) { return 0.0; });
    const SolveResult result = cg(space, x, b);
    EXPECT_TRUE(result) << jump << ": " << result.text();
    return result.iterations;
  };
  EXPECT_LE(steps(1e-6, MultigridCycle::v), 15);
  EXPECT_LE(steps(1e-6, MultigridCycle::w), 15);
  EXPECT_LE(steps(1e6, MultigridCycle::v), 50);
}

// A few cells with coupling 10,000 times stronger become one before the others are coarsened.
TEST(Multigrid, FewLevelsWithStrongCoupling) {
  const Space space;
  const auto steps = [&](const auto& x, const DiffusionOptions& options) {
    using F   = std::remove_cvref_t<decltype(x)>;
    const F b = x.like("b"), k = x.like("k");
    set(k, [](const auto&) { return 1.0; });
    set(b, [](const auto& i) { return rough(i); });
    CG uniform(x, Diffusion(x, options), Multigrid(Diffusion(x, options)), {.relative = 1e-8});
    const Diffusion<F, F> a(x, k, options);
    CG with_k(x, a, Multigrid(a), {.relative = 1e-8});
    const SolveResult one = uniform(space, x, b);
    set(x, [](const auto&) { return 0.0; });
    const SolveResult other = with_k(space, x, b);
    EXPECT_TRUE(one && other) << one.text() << ", " << other.text();
    return std::max(one.iterations, other.iterations);
  };
  for (const index_t n : {1, 2, 3, 5, 8}) {
    const DiffusionOptions first{.spacing = {0.01, 1.0, 1.0}, .shift = 1e-3},
        last{.spacing = {1.0, 1.0, 0.01}, .shift = 1e-3};
    EXPECT_LE(steps(Cube<double, Symmetric>("x", grid(), {n, 32, 24}), first), 14) << n;
    EXPECT_LE(steps(Cube<double, Symmetric>("x", grid(), {32, 24, n}), last), 14) << n;
    if (n > 1) {
      EXPECT_LE(steps(Cube<double, Periodic>("x", grid(), {32, 24, n}), last), 14) << n;
    }
    EXPECT_LE(steps(Cube<double, Zero>("x", grid(), {n, 32, 24}), first), 14) << n;
  }
}

TEST(Multigrid, NeumannAndOddExtents) {
  const Grid mesh = grid();
  const Space space;
  // a singular operator, whose bottom matrix is singular too
  for (const Extents<2>& extents : {Extents<2>(64, 64), Extents<2>(33, 64), Extents<2>(5, 7)}) {
    const Plane<Symmetric> x("x", mesh, extents), b = x.like("b");
    set(b, [](const auto& i) { return rough(i); });
    const double sum  = reduce(space, b, ValueTerm<Plane<Symmetric>>{b});
    const double mean = sum / static_cast<double>(extents[0] * extents[1]);
    set(b, [&](const auto& i) { return rough(i) - mean; });
    const Diffusion a(x, {.spacing = {1.0, 1.0}});
    CG cg(
        x, a, Multigrid(a),
        {.relative = 1e-9, .nullspace = Nullspace::constant, .determinism = Determinism::ordered});
    const SolveResult result = cg(space, x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_LE(result.iterations, 14);
  }
}

TEST(Multigrid, SecondSolveAllocatesNothing) {
  const Grid mesh = grid();
  const Space space;
  const Plane<Zero> x("x", mesh, {32, 32}), b = x.like("b");
  set(b, [](const auto& i) { return rough(i); });
  const Diffusion a(x, {.spacing = {1.0, 1.0}});
  CG cg(x, a, Multigrid(a, {.gather_below = 100}), {.determinism = Determinism::ordered});
  SolveResult first   = cg(space, x, b), second;
  const Counts counts = count([&] { second = cg(space, x, b); });
  set(x, [](const auto&) { return 0.0; });
  const Counts again = count([&] { second = cg(space, x, b); });
  EXPECT_EQ(counts.allocations + again.allocations, 0);
  EXPECT_EQ(second.iterations, first.iterations);
}

TEST(Multigrid, FloatUnderDouble) {
  const Grid mesh = grid();
  const Space space;
  const Cube<double, Zero> x("x", mesh, {16, 16, 16}), b = x.like("b");
  const Cube<float, Zero> f("f", mesh, {16, 16, 16});
  set(b, [](const auto& i) { return rough(i); });
  const Diffusion a(x, {.spacing = {1.0, 1.0, 1.0}});
  const Diffusion single(f, {.spacing = {1.0, 1.0, 1.0}});
  CG cg(x, a, Converted(Multigrid(single), f), {.relative = 1e-12, .flexible = true});
  const SolveResult result = cg(space, x, b);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LE(result.iterations, 14);
}

}  // namespace
}  // namespace shard::testing
