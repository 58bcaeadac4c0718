// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_BROADCAST_CASES_HPP
#define SHARD_TESTS_LAYERS_BROADCAST_CASES_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "layers/layer_support.hpp"

/// \file
/// Values that are broadcast against a field [batch, channel, rows, columns]: each kind, and how a
/// plain loop reads them.

namespace shard::testing::broadcast {

using N4      = std::array<index_t, 4>;
using Vectors = Kokkos::View<double**, Kokkos::LayoutRight>;

/// Calls visit(i, k) for each point i of a field of extents n, and the place k of its value in a
/// world of extents nz.
template <class Visit>
void for_points(const N4& n, const N4& nz, const Visit& visit) {
  const World<4> field(n), values(nz);
  N4 at{};
  for (at[0] = 0; at[0] < n[0]; ++at[0])
    for (at[1] = 0; at[1] < n[1]; ++at[1])
      for (at[2] = 0; at[2] < n[2]; ++at[2])
        for (at[3] = 0; at[3] < n[3]; ++at[3]) {
          N4 k = at;
          for (std::size_t d = 0; d < 4; ++d)
            if (nz[d] == 1) k[d] = 0;
          visit(field.at(at), values.at(k));
        }
}

template <class Z>
auto like(const Z& z) {
  if constexpr (Kokkos::is_view_v<Z>)
    return Vectors("like", z.extent(0), z.extent(1));
  else
    return z.like("like");
}
/// Sets values: those of a field that this rank has, or all of a View.
template <class Z>
void set(const Z& z, const World<4>& world) {
  if constexpr (Kokkos::is_view_v<Z>)
    set_values(z, world.v);
  else
    scatter(z, world);
}
/// Largest difference on any rank, relative to the world's largest value.
template <class Z>
double difference(const Z& z, const World<4>& world) {
  if constexpr (Kokkos::is_view_v<Z>) {
    Space().fence();
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), z);
    double mine = 0.0, all = 0.0;
    for (std::size_t i = 0; i < world.v.size(); ++i)
      mine = std::max(mine, std::abs(host.data()[i] - world.v[i]));
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all / std::max(world.largest(), 1e-300);
  } else {
    return shard::testing::difference(z, world);
  }
}

/// Calls use(values, extents) for each kind of values that can be broadcast against x.
template <class X, class Use>
void for_values(const Grid& mesh, const X& x, const Use& use) {
  const N4 n{x.global_extent(0), x.global_extent(1), x.global_extent(2), x.global_extent(3)};
  const auto p   = x.partitions();
  using All      = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat>, ShardDim<3, Lon>>;
  using Rows     = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>>;
  using Columns  = ShardedView<double****, Kokkos::LayoutRight, ShardDim<3, Lon>>;
  using None     = ShardedView<double****, Kokkos::LayoutRight>;
  const auto one = Partition::whole(1);
  const auto field = [&]<class Z>(const char* name, std::array<Partition, 4> partitions, Z*) {
    SCOPED_TRACE(name);
    N4 nz{};
    for (std::size_t d = 0; d < 4; ++d) nz[d] = partitions[d].size();
    use(Z(name, mesh, partitions), nz);
  };
  field("as the field", p, static_cast<All*>(nullptr));
  field("of points", {p[0], one, p[2], p[3]}, static_cast<All*>(nullptr));
  field("of points, all batch entries", {one, one, p[2], p[3]}, static_cast<All*>(nullptr));
  field("of channels", {p[0], p[1], one, one}, static_cast<None*>(nullptr));
  field("of channels, all batch entries", {one, p[1], one, one}, static_cast<None*>(nullptr));
  field("of batch entries", {p[0], one, one, one}, static_cast<None*>(nullptr));
  field("one value", {one, one, one, one}, static_cast<None*>(nullptr));
  field("of rows", {p[0], p[1], p[2], one}, static_cast<Rows*>(nullptr));
  field("of columns", {one, p[1], one, p[3]}, static_cast<Columns*>(nullptr));
  SCOPED_TRACE("View");
  use(Vectors("vectors", static_cast<std::size_t>(n[0]), static_cast<std::size_t>(n[1])),
      N4{n[0], n[1], 1, 1});
}

}  // namespace shard::testing::broadcast

#endif
