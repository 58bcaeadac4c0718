// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_MODEL_MODEL_SUPPORT_HPP
#define SHARD_TESTS_MODEL_MODEL_SUPPORT_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "shard/model/domain_parallel.hpp"
#include "shard/shard.hpp"

namespace shard::testing {

struct Lat;
struct Lon;
struct Data;
using Space = Kokkos::DefaultExecutionSpace;

/// A field [batch, channel, latitude, longitude] with values that depend on global indices only.
template <class F>
void fill(const F& f, double phase) {
  const auto host = create_mirror_view(f);
  for (index_t n = 0; n < f.extent(0); ++n)
    for (index_t c = 0; c < f.extent(1); ++c)
      for (index_t i = 0; i < f.extent(2); ++i)
        for (index_t j = 0; j < f.extent(3); ++j) {
          const auto row    = static_cast<double>(f.begin(2) + i),
                     column = static_cast<double>(f.begin(3) + j);
          host(n, c, i, j) =
              std::sin(phase + 0.7 * row * static_cast<double>(c + 1) + 1.3 * column * (row + 1.0) +
                       2.1 * static_cast<double>(f.begin(0) + n));
        }
  deep_copy(Space(), f, host);
  Space().fence("filled");
}

/// All of a field's cells, on every rank.
template <class F>
std::vector<double> world(const F& f) {
  const auto at = [&](index_t n, index_t c, index_t i, index_t j) {
    return static_cast<std::size_t>(
        ((n * f.global_extent(1) + c) * f.global_extent(2) + i) * f.global_extent(3) + j);
  };
  std::vector<double> v(at(f.global_extent(0), 0, 0, 0));
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence("to be compared");
  for (index_t n = 0; n < f.extent(0); ++n)
    for (index_t c = 0; c < f.extent(1); ++c)
      for (index_t i = 0; i < f.extent(2); ++i)
        for (index_t j = 0; j < f.extent(3); ++j)
          v[at(f.begin(0) + n, c, f.begin(2) + i, f.begin(3) + j)] = host(n, c, i, j);
  MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_DOUBLE, MPI_SUM,
                f.communicator());
  return v;
}

/// The sum of all ranks' values.
template <class View>
std::vector<double> summed(const View& view, MPI_Comm comm) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  std::vector<double> v(host.data(), host.data() + host.extent(0));
  MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_DOUBLE, MPI_SUM, comm);
  return v;
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b,
                        double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0.0, off = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    off     = std::max(off, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(off, tolerance * largest);
}

/// What a model gives and its gradients, for the same numbers on any mesh.
struct Results {
  std::vector<double> y, dx, gradients;
};
template <class Sharded>
Results run(const Sharded& model, const Extents<4>& extents) {
  const Space space;
  const auto x = model.input("x", extents), dx = x.like("dx");
  fill(x, 0.1);
  const auto& y = model(space, x);
  const auto dy = y.like("dy");
  fill(dy, 0.4);
  Kokkos::deep_copy(space, model.gradients().values(), 0.0);
  model.pullback(space, dx, dy, x);
  space.fence("results");
  return {world(y), world(dx), summed(model.gradients().values(), x.communicator())};
}

}  // namespace shard::testing

#endif
