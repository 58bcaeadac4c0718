// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Poisson's equation in boxes by Fourier transforms: eigenvectors, which are known, and the
// operator.
#include "shard/solve/fft_poisson.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "shard/solve/cg.hpp"
#include "solve/solve_support.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using NoFluxToZero = Sides<Symmetric, Zero>;
using ZeroToNoFlux = Sides<Zero, Clamp>;

/// The eigenvector number k of n points, and its eigenvalue for the spacing 1.
template <class Boundary>
double wave(index_t i, index_t k, index_t n) {
  const double x = static_cast<double>(i) + 0.5, at = static_cast<double>(k);
  const double turn = pi / static_cast<double>(n);
  if constexpr (std::is_same_v<Boundary, Periodic>)
    return std::cos(2 * turn * at * (x - 0.5)) + 0.5 * std::sin(2 * turn * at * (x - 0.5));
  else if constexpr (std::is_same_v<Boundary, Symmetric>)
    return std::cos(turn * at * x);
  else if constexpr (std::is_same_v<Boundary, Zero>)
    return std::sin(turn * (at + 1) * x);
  else if constexpr (std::is_same_v<Boundary, NoFluxToZero>)
    return std::cos(turn * (at + 0.5) * x);
  else
    return std::sin(turn * (at + 0.5) * x);
}
template <class Boundary>
double eigenvalue(index_t k, index_t n) {
  const double at = static_cast<double>(k), turn = pi / static_cast<double>(n);
  const double angle = std::is_same_v<Boundary, Periodic>    ? 2 * at
                       : std::is_same_v<Boundary, Symmetric> ? at
                       : std::is_same_v<Boundary, Zero>      ? at + 1
                                                             : at + 0.5;
  return 2 - 2 * std::cos(turn * angle);
}

double rough(index_t i, index_t j, index_t k) {
  return std::sin(0.3 + 1.7 * static_cast<double>(i * i) + 0.9 * static_cast<double>(j) +
                  2.3 * static_cast<double>(k * j));
}

template <class A, class B, class C>
using Box = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>, A>,
                        ShardDim<1, Unsharded, Halo<1>, B>, ShardDim<2, Lon, Halo<1>, C>>;
template <class A, class B>
using Rectangle = ShardedView<double**, Kokkos::LayoutLeft, ShardDim<0, Lat, Halo<1>, A>,
                              ShardDim<1, Lon, Halo<1>, B>>;

/// Every eigenvector of a rectangle, with the pair of spacings.
template <class A, class B>
void expect_eigenvectors(const Extents<2>& extents) {
  const index_t m = extents[0], n                  = extents[1];
  const Rectangle<A, B> x("x", grid(), extents), b = x.like("b");
  const double h = 0.5, w = 2.0, shift = 0.25;
  const FFTPoisson inverse(Diffusion(x, {.spacing = {h, w}, .shift = shift}));
  for (index_t k = 0; k < m; ++k)
    for (index_t l = k % 2; l < n; l += 2) {
      const auto v = [&](const auto& i) { return wave<A>(i[0], k, m) * wave<B>(i[1], l, n); };
      const double lambda = eigenvalue<A>(k, m) / (h * h) + eigenvalue<B>(l, n) / (w * w) + shift;
      set(b, v);
      inverse.apply(Space(), x, b);
      EXPECT_LT(error_of(x, [&](const auto& i) { return v(i) / lambda; }), 1e-13)
          << k << ", " << l << " of " << m << " x " << n;
    }
}

TEST(FFTPoisson, EigenvectorsOfAllWalls) {
  expect_eigenvectors<Symmetric, Symmetric>({13, 10});
  expect_eigenvectors<Zero, Periodic>({7, 12});
  expect_eigenvectors<Periodic, Zero>({9, 8});
  expect_eigenvectors<NoFluxToZero, ZeroToNoFlux>({6, 11});
  expect_eigenvectors<ZeroToNoFlux, NoFluxToZero>({5, 3});
  expect_eigenvectors<Symmetric, Zero>({1, 2});
}

// 65 x 130 cells between walls without flux, and a b of mean 0 (E10): the exact solution. With
// another mean the rest is solved.
TEST(FFTPoisson, NeumannIsThePseudoInverse) {
  const Rectangle<Symmetric, Symmetric> x("x", grid(), {65, 130}), b = x.like("b");
  const double h = 1.0 / 65;
  const FFTPoisson inverse(Diffusion(x, {.spacing = {h, h}}));
  const auto sum = [&](const auto& i, bool over) {
    double all = 0.0;
    for (const auto& [k, l] : {std::pair<index_t, index_t>{1, 0}, {0, 3}, {40, 129}, {64, 77}}) {
      const double lambda =
          (eigenvalue<Symmetric>(k, 65) + eigenvalue<Symmetric>(l, 130)) / (h * h);
      all += wave<Symmetric>(i[0], k, 65) * wave<Symmetric>(i[1], l, 130) / (over ? lambda : 1.0);
    }
    return all;
  };
  for (const double mean : {0.0, 3.0}) {
    set(b, [&](const auto& i) { return sum(i, false) + mean; });
    inverse.apply(Space(), x, b);
    EXPECT_LT(error_of(x, [&](const auto& i) { return sum(i, true); }), 1e-14);
  }
}

/// The solution of a rough right-hand side, whose residual is small, on this mesh.
template <class Field>
Field solved(const Grid& mesh, const std::array<Partition, Field::rank>& partitions) {
  const Field x("x", mesh, partitions), b = x.like("b"), y = x.like("y");
  set(b, [](const auto& i) {
    return rough(i[0], i.size() > 1 ? i[1] : 2, i.size() > 2 ? i[i.size() - 1] : 1);
  });
  const Diffusion a(x, {.spacing = {0.5, 1.0, 2.0}, .shift = 0.5});
  const FFTPoisson inverse(a);
  inverse.apply(Space(), x, b);
  a.apply(Space(), y, x);
  axpby(Space(), y, 1.0, b, -1.0);
  const auto norms = dots(Space(), std::tie(y, y), std::tie(b, b));
  EXPECT_LT(norms[0], 1e-24 * norms[1]);
  return x;
}

template <class Field>
void expect_bits_of_one_rank(const Extents<Field::rank>& extents) {
  Random random(seed());
  const auto shape = shapes(world_size()).back();
  std::array<Partition, Field::rank> whole;
  for (int d = 0; d < Field::rank; ++d)
    whole[static_cast<std::size_t>(d)] = Partition::whole(extents[d]);
  const Field serial = solved<Field>(alone(), whole);
  for (int which = 0; which < 3; ++which) {
    auto partitions = whole;
    partitions[0]   = some_partition(extents[0], shape[0], which, random);
    if (Field::rank > 1)
      partitions.back() = some_partition(extents[Field::rank - 1], shape[1], which, random);
    EXPECT_TRUE(same_bits(solved<Field>(grid(), partitions), serial)) << which;
  }
}

TEST(FFTPoisson, BitsOfOneRankOnAnyPartition) {
  expect_bits_of_one_rank<Rectangle<Zero, Symmetric>>({24, 35});
  expect_bits_of_one_rank<Rectangle<NoFluxToZero, Periodic>>({3, 16});
  expect_bits_of_one_rank<Box<Periodic, Zero, Symmetric>>({6, 10, 15});
  expect_bits_of_one_rank<Box<ZeroToNoFlux, Symmetric, Zero>>({12, 5, 7});
}

TEST(FFTPoisson, LinesAreSolvedToo) {
  const auto solve = [](const Grid& mesh) {
    const Line<Zero> x("x", mesh, {30}), b = x.like("b");
    set(b, [](const auto& i) { return wave<Zero>(i[0], 4, 30); });
    const FFTPoisson inverse(Diffusion(x, {.spacing = {0.1}}));
    inverse.apply(Space(), x, b);
    const double lambda = eigenvalue<Zero>(4, 30) / 0.01;
    EXPECT_LT(error_of(x, [&](const auto& i) { return wave<Zero>(i[0], 4, 30) / lambda; }), 1e-14);
    return x;
  };
  EXPECT_TRUE(same_bits(solve(grid()), solve(alone())));
}

// The exact inverse takes one step, and that of the mean coefficient few of any size.
TEST(FFTPoisson, Preconditions) {
  using Cells = Rectangle<Zero, Symmetric>;
  for (const index_t n : {16, 32, 64}) {
    const Cells x("x", grid(), {n, n}), b = x.like("b"), k = x.like("k");
    set(b, [](const auto& i) { return rough(i[0], i[1], 1); });
    set(k, [&](const auto& i) {
      return 1.0 + 0.5 * std::sin(6.0 * static_cast<double>(i[0] + i[1]) / static_cast<double>(n));
    });
    exchange(Space(), k);
    const Diffusion<Cells> mean(x, {.spacing = {1.0, 1.0}});
    const FFTPoisson inverse(mean);
    CG exact(x, mean, inverse, {.relative = 1e-12});
    const SolveResult one = exact(Space(), x, b);
    EXPECT_TRUE(one) << one.text();
    EXPECT_EQ(one.iterations, 1);
    CG cg(x, Diffusion<Cells, Cells>(x, k, {.spacing = {1.0, 1.0}}), inverse, {.relative = 1e-10});
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_LE(result.iterations, 22);
  }
}

TEST(FFTPoisson, ErrorsAndAllocations) {
  const Rectangle<Zero, Zero> x("x", grid(), {8, 8}), b = x.like("b");
  const double lambda = 2 * eigenvalue<Zero>(2, 8);
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 FFTPoisson(Diffusion(x, {.spacing = {1.0, 1.0}, .shift = -lambda}));
               }),
               {"FFTPoisson", "minus an eigenvalue"});
  const FFTPoisson inverse(Diffusion(x, {.spacing = {1.0, 1.0}}));
  set(b, [](const auto& i) { return rough(i[0], i[1], 1); });
  inverse.apply(Space(), x, b);
  const Counts counts = count([&] { inverse.apply(Space(), x, b); });
  EXPECT_EQ(counts.allocations, 0);
}

}  // namespace
}  // namespace shard::testing
