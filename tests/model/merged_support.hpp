// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_MODEL_MERGED_SUPPORT_HPP
#define SHARD_TESTS_MODEL_MERGED_SUPPORT_HPP

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "model_support.hpp"
#include "shard/model/merge_halos.hpp"
#include "support/support.hpp"

namespace shard::testing {

using Pieces = std::array<Partition, 4>;

/// Balanced, or any begins: shards may be empty.
template <int Rank = 4>
std::array<Partition, static_cast<std::size_t>(Rank)> some_pieces(
    const Extents<Rank>& n, const std::array<int, static_cast<std::size_t>(Rank)>& parts,
    bool balanced, std::mt19937_64& random) {
  std::array<Partition, static_cast<std::size_t>(Rank)> p;
  for (std::size_t d = 0; d < p.size(); ++d) {
    if (balanced || parts[d] == 1) {
      p[d] = Partition::balanced(n.n[d], parts[d]);
      continue;
    }
    std::vector<index_t> begins(static_cast<std::size_t>(parts[d]) + 1, 0);
    for (int r = 1; r < parts[d]; ++r)
      begins[static_cast<std::size_t>(r)] =
          static_cast<index_t>(random() % static_cast<std::uint64_t>(n.n[d] + 1));
    begins.back() = n.n[d];
    std::sort(begins.begin(), begins.end());
    p[d] = Partition::explicit_begins(begins);
  }
  return p;
}

struct WithTangent : Results {
  std::vector<double> ty;
};
template <class Sharded>
WithTangent run_all(const Sharded& model, const Pieces& pieces) {
  const Space space;
  const typename Sharded::Input x("x", model.mesh(), pieces);
  const auto dx = x.like("dx"), tx = x.like("tx");
  fill(x, 0.1);
  fill(tx, 0.2);
  const auto y = model.output(x), dy = y.like("dy"), ty = y.like("ty");
  fill(dy, 0.4);
  model.apply(space, y, x);
  model.pushforward(space, ty, tx, x);
  Kokkos::deep_copy(space, model.gradients().values(), 0.0);
  model.pullback(space, dx, dy, x);
  space.fence("results");
  return {{world(y), world(dx), summed(model.gradients().values(), x.communicator())}, world(ty)};
}

inline void expect_same(const WithTangent& merged, const WithTangent& serial, bool bitwise) {
  EXPECT_EQ(merged.y, serial.y);
  if (bitwise) {
    EXPECT_EQ(merged.ty, serial.ty);
  }
  expect_near(merged.ty, serial.ty, 1e-12);
  expect_near(merged.dx, serial.dx, 1e-12);
  expect_near(merged.gradients, serial.gradients, 1e-12);
}

/// A model with all exchanges merged that can be, on all meshes of these ranks, against the model
/// on one rank: balanced shards, and others.
template <class... Cuts, class ModelType>
void check_merged(const ModelType& model, const Extents<4>& extents, bool cut_columns) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  std::mt19937_64 random(seed());
  const WithTangent serial =
      run_all(domain_parallel<>(model, self), some_pieces(extents, {1, 1, 1, 1}, true, random));
  for (int rows = 1; rows <= ranks(); ++rows) {
    if (ranks() % rows != 0 || (!cut_columns && rows != ranks())) continue;
    const int columns = ranks() / rows;
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {rows, columns});
    const auto merged = domain_parallel<Cuts...>(model, mesh, merge_halos<MergeAlways>());
    for (int round = 0; round < 3; ++round) {
      const Pieces pieces = some_pieces(extents, {1, 1, rows, columns}, round == 0, random);
      SCOPED_TRACE("mesh " + std::to_string(rows) + " x " + std::to_string(columns) + ", rows " +
                   pieces[2].describe() + ", columns " + pieces[3].describe());
      expect_same(run_all(merged, pieces), serial, true);
    }
  }
}

}  // namespace shard::testing

#endif
