// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_MODEL_UNET_TEST_HPP
#define SHARD_TESTS_MODEL_UNET_TEST_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "shard/layers/loss/mean_square.hpp"
#include "shard/model/parameter_arena.hpp"
#include "shard/model/unet.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"

namespace unet_test {

struct Lat;
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;

/// A smooth but irregular function of the global indices.
struct FillKernel {
  shard::impl::LocalField<double, 4> f;
  double scale;

  KOKKOS_FUNCTION void operator()(shard::index_t cell) const {
    shard::index_t i[4], offset = 0;
    for (int d = 3; d >= 0; --d) {
      i[d] = cell % f.extent[d];
      cell /= f.extent[d];
      offset += i[d] * f.stride[d];
      i[d] += f.begin[d];
    }
    f.origin[offset] =
        scale * Kokkos::sin(0.7 * static_cast<double>(i[0]) + 0.3 * static_cast<double>(i[1]) +
                            0.37 * static_cast<double>(i[2]) +
                            0.21 * static_cast<double>(i[3] * (i[2] % 3))) +
        0.1 * scale * scale;
  }
};

template <class Field>
void fill(const Space& space, const Field& field, double scale) {
  const auto f         = shard::impl::local(field);
  shard::index_t cells = 1;
  for (const shard::index_t n : f.extent) cells *= n;
  Kokkos::parallel_for("fill", Kokkos::RangePolicy<Space>(space, 0, cells), FillKernel{f, scale});
}

/// A cell of a field by its global indices, and all owned cells of this rank.
struct Cells {
  std::vector<std::array<shard::index_t, 4>> at;
  std::vector<double> value;
};

template <class Field>
Cells cells_of(const Field& field) {
  const auto host = create_mirror_view(field);
  deep_copy(Space(), host, field);
  Kokkos::fence();
  Cells cells;
  for (int b = 0; b < host.extent(0); ++b)
    for (int c = 0; c < host.extent(1); ++c)
      for (int i = 0; i < host.extent(2); ++i)
        for (int j = 0; j < host.extent(3); ++j) {
          cells.at.push_back({b, c, host.to_global(2, i), host.to_global(3, j)});
          cells.value.push_back(host(b, c, i, j));
        }
  return cells;
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradients;
  Cells output, input_gradient;
};

/// One step of training, up to the gradients.
template <class Net>
Outcome step(MPI_Comm comm, const shard::Extents<2>& shape, shard::index_t rows,
             shard::index_t columns, std::uint64_t random_begins) {
  const shard::Mesh<Lat, Lon> mesh(comm, shape);
  const Space space;
  std::mt19937_64 engine(random_begins);
  const auto partition = [&](shard::index_t n, int parts) {
    if (random_begins == 0) return shard::Partition::balanced(n, parts);
    std::vector<shard::index_t> begins{0, n};
    std::uniform_int_distribution<shard::index_t> anywhere(0, n);
    for (int p = 1; p < parts; ++p) begins.push_back(anywhere(engine));
    std::sort(begins.begin(), begins.end());
    return shard::Partition::explicit_begins(begins);
  };
  const auto lat = partition(rows, mesh.template size<Lat>()),
             lon = partition(columns, mesh.template size<Lon>());
  Net net(space, mesh, {2, 4, 2}, 2, lat, lon, 7);
  const auto target = net.output().like("target"), dy = target.like("dy");
  fill(space, net.input(), 1.0);
  fill(space, target, 0.7);
  std::vector<double> weights;
  for (shard::index_t i = 0; i < rows; ++i) weights.push_back(1.0 + 0.1 * static_cast<double>(i));
  shard::MeanSquare loss(target, weights);
  const shard::GradientSum<double> sum(
      target, static_cast<shard::index_t>(net.gradients().values().extent(0)));

  Outcome o;
  net.apply(space);
  o.loss = loss(space, net.output(), target);
  loss.pullback(space, dy, net.output(), target);
  net.pullback(space, dy);
  sum(space, net.gradients().values());
  const auto g = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), net.gradients().values());
  o.gradients.assign(g.data(), g.data() + g.extent(0));
  o.output         = cells_of(net.output());
  o.input_gradient = cells_of(net.input_gradient());
  return o;
}

inline double largest(const std::vector<double>& values) {
  double m = 0;
  for (const double v : values) m = std::max(m, std::abs(v));
  return m;
}

/// This rank's cells against the whole field of one rank.
inline void expect_equal(const Cells& mine, const Cells& whole, shard::index_t channels,
                         shard::index_t rows, shard::index_t columns, const char* what) {
  const double scale = largest(whole.value);
  double apart       = 0;
  for (std::size_t k = 0; k < mine.at.size(); ++k) {
    const auto& at = mine.at[k];
    apart          = std::max(apart,
                              std::abs(mine.value[k] -
                                       whole.value[static_cast<std::size_t>(
                                  ((at[0] * channels + at[1]) * rows + at[2]) * columns + at[3])]));
  }
  EXPECT_LE(apart, 1e-12 * scale) << what;
}

/// All meshes of all ranks against one rank.
template <class Net>
void compare(shard::index_t rows, shard::index_t columns) {
  const Outcome one = step<Net>(MPI_COMM_SELF, {1, 1}, rows, columns, 0);
  int size          = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::uint64_t seed = shard::testing::seed();
  for (const std::uint64_t begins : {std::uint64_t{0}, seed + 1, seed + 2})
    for (const shard::Extents<2>& shape :
         {shard::Extents<2>{size, 1}, shard::Extents<2>{1, size}, shard::Extents<2>{0, 0}}) {
      SCOPED_TRACE("shape " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   ", begins " + std::to_string(begins));
      const Outcome all = step<Net>(MPI_COMM_WORLD, shape, rows, columns, begins);
      EXPECT_NEAR(all.loss, one.loss, 1e-12 * one.loss);
      ASSERT_EQ(all.gradients.size(), one.gradients.size());
      double apart = 0;
      for (std::size_t i = 0; i < one.gradients.size(); ++i)
        apart = std::max(apart, std::abs(one.gradients[i] - all.gradients[i]));
      EXPECT_LE(apart, 1e-12 * largest(one.gradients)) << "parameters' gradients";
      expect_equal(all.output, one.output, 2, rows, columns, "output");
      expect_equal(all.input_gradient, one.input_gradient, 2, rows, columns, "input's gradient");
    }
}

}  // namespace unet_test

#endif
