// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_MODEL_MODEL_SUPPORT_HPP
#define SHARD_TESTS_MODEL_MODEL_SUPPORT_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "shard/model/domain_parallel.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"

namespace shard::testing {

struct Lat;
struct Lon;
struct Data;
using Space = Kokkos::DefaultExecutionSpace;

using Conv1 = Conv<Kernel<1, 1>>;
using Conv3 = Conv<Kernel<3, 3>, Padding<1, 1>>;
using Down  = Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;
using Up    = ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;

/// Calls visit(global indices, offset from the first owned cell) for the owned cells.
template <class F, class Visit>
void for_owned(const F& f, const Visit& visit) {
  index_t cells = 1;
  for (int d = 0; d < F::rank; ++d) cells *= f.extent(d);
  for (index_t c = 0; c < cells; ++c) {
    std::array<index_t, static_cast<std::size_t>(F::rank)> global{};
    index_t rest = c, offset = 0;
    for (int d = F::rank - 1; d >= 0; --d) {
      global[static_cast<std::size_t>(d)] = f.begin(d) + rest % f.extent(d);
      offset += rest % f.extent(d) * f.stride(d);
      rest /= f.extent(d);
    }
    visit(global, offset);
  }
}

/// A field [batch, channel, space...] with values that depend on global indices only.
template <class F>
void fill(const F& f, double phase) {
  using T         = typename F::non_const_value_type;
  const auto host = create_mirror_view(f);
  for_owned(host, [&](const auto& g, index_t offset) {
    double angle = phase + 2.1 * static_cast<double>(g[0]), row = 0.0;
    for (std::size_t d = 2; d < g.size(); ++d) {
      const auto i = static_cast<double>(g[d]);
      angle += d + 1 < g.size() ? 0.7 * i * static_cast<double>(g[1] + 1) : 1.3 * i * (row + 1.0);
      row = i;
    }
    host.origin()[offset] = static_cast<T>(std::sin(angle));
  });
  deep_copy(Space(), f, host);
  Space().fence("filled");
}

/// All of a field's cells, on every rank.
template <class F>
std::vector<double> world(const F& f) {
  std::size_t cells = 1;
  for (int d = 0; d < F::rank; ++d) cells *= static_cast<std::size_t>(f.global_extent(d));
  std::vector<double> v(cells);
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence("to be compared");
  for_owned(host, [&](const auto& g, index_t offset) {
    index_t at = 0;
    for (int d = 0; d < F::rank; ++d) at = at * f.global_extent(d) + g[static_cast<std::size_t>(d)];
    v[static_cast<std::size_t>(at)] = static_cast<double>(host.origin()[offset]);
  });
  MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_DOUBLE, MPI_SUM,
                f.communicator());
  return v;
}

/// The sum of all ranks' values.
template <class View>
std::vector<double> summed(const View& view, MPI_Comm comm) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  std::vector<double> v(host.extent(0));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(host(i));
  MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_DOUBLE, MPI_SUM, comm);
  return v;
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b,
                        double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0.0, off = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest        = std::max(largest, std::abs(b[i]));
    const double e = std::abs(a[i] - b[i]);
    off            = e <= off ? off : std::isnan(e) ? 1e300 : e;
  }
  EXPECT_LE(off, tolerance * largest);
}

/// What a model gives and its gradients, for the same numbers on any mesh.
struct Results {
  std::vector<double> y, dx, gradients;
};
/// On a field of any partitions.
template <class Sharded>
Results run_on(const Sharded& model, const typename Sharded::Input& x) {
  const Space space;
  const auto dx = x.like("dx");
  fill(x, 0.1);
  const auto& y = model(space, x);
  const auto dy = y.like("dy");
  fill(dy, 0.4);
  Kokkos::deep_copy(space, model.gradients().values(), 0);
  model.pullback(space, dx, dy, x);
  space.fence("results");
  return {world(y), world(dx), summed(model.gradients().values(), x.communicator())};
}
template <class Sharded>
Results run(const Sharded& model, const Extents<Sharded::rank>& extents) {
  return run_on(model, model.input("x", extents));
}

inline void expect_near(const Results& a, const Results& b, double tolerance) {
  expect_near(a.y, b.y, tolerance);
  expect_near(a.dx, b.dx, tolerance);
  expect_near(a.gradients, b.gradients, tolerance);
}

/// The meshes of all ranks: along one axis, along the other, and both.
inline std::vector<Extents<2>> mesh_shapes() {
  const int n = ranks();
  return n == 1 ? std::vector<Extents<2>>{{1, 1}} : std::vector<Extents<2>>{{n, 1}, {1, n}, {0, 0}};
}

/// Partitions of a model's fields whose last dimensions are cut over as many ranks: any begins,
/// some of the shards may be empty. The same on every rank.
template <int Rank, std::size_t Cuts>
std::array<Partition, static_cast<std::size_t>(Rank)> random_partitions(
    const Extents<Rank>& extents, const std::array<int, Cuts>& parts, std::mt19937_64& engine) {
  std::array<Partition, static_cast<std::size_t>(Rank)> all;
  for (int d = 0; d < Rank; ++d) {
    const int cut = d - (Rank - static_cast<int>(Cuts));
    const int n   = cut < 0 ? 1 : parts[static_cast<std::size_t>(cut)];
    std::vector<index_t> begins{0, extents[d]};
    std::uniform_int_distribution<index_t> anywhere(0, extents[d]);
    for (int p = 1; p < n; ++p) begins.push_back(anywhere(engine));
    std::sort(begins.begin(), begins.end());
    all[static_cast<std::size_t>(d)] = Partition::explicit_begins(begins);
  }
  return all;
}

}  // namespace shard::testing

#endif
