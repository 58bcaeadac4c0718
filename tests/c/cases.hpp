// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_C_CASES_HPP
#define SHARD_TESTS_C_CASES_HPP

#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "shard/c/shard.h"
#include "shard/shard.hpp"
#include "support/support.hpp"

namespace c_test {

struct Lat;
struct Lon;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
using Grid  = Mesh<Lat, Lon>;

template <class T, class BoundaryOfLat, class BoundaryOfLon = Periodic>
using Haloed = ShardedView<T***, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<2, 1>, BoundaryOfLat>,
                           ShardDim<1, Lon, Halo<1, 2>, BoundaryOfLon>, Kokkos::HostSpace>;

constexpr index_t rows = 12, columns = 16, levels = 3;

/// Uneven begins of n elements over the ranks of an axis; some ranks may own nothing.
inline std::vector<int64_t> begins_of(index_t n, int parts) {
  std::vector<int64_t> begins{0};
  for (int r = 1; r < parts; ++r)
    begins.push_back(std::min<index_t>(n, begins.back() + (r * 5) % (2 * n / parts + 1)));
  begins.push_back(n);
  return begins;
}

inline shard_boundary kind(int k, int odd = 0, int dimension = 0) {
  shard_boundary b{};
  b.kind      = k;
  b.odd       = odd;
  b.dimension = dimension;
  return b;
}

/// A mesh, and dimensions with uneven partitions.
struct Case {
  Grid mesh{MPI_COMM_WORLD, {0, 0}};
  shard_mesh c_mesh         = nullptr;
  std::vector<int64_t> lats = begins_of(rows, mesh.size<Lat>()),
                       lons = begins_of(columns, mesh.size<Lon>());
  std::array<Partition, 3> partitions{Partition::explicit_begins({lats.begin(), lats.end()}),
                                      Partition::explicit_begins({lons.begin(), lons.end()}),
                                      Partition::whole(levels)};

  Case() {
    const int sizes[] = {mesh.size<Lat>(), mesh.size<Lon>()};
    EXPECT_EQ(shard_mesh_create(MPI_COMM_WORLD, 2, sizes, &c_mesh), shard_ok);
  }
  ~Case() { shard_mesh_release(&c_mesh); }

  std::array<shard_dimension, 3> dimensions(const shard_boundary& low, const shard_boundary& high,
                                            const shard_boundary& lon) const {
    return {{{rows, 0, nullptr, lats.data(), 2, 1, low, high},
             {columns, 1, nullptr, lons.data(), 1, 2, lon, lon},
             {levels, -1, nullptr, nullptr, 0, 0, {}, {}}}};
  }
  template <class F>
  shard_field wrap(const char* name, const F& f, int type,
                   const std::array<shard_dimension, 3>& dims) const {
    shard_field field       = nullptr;
    const auto& view        = f.view();
    const int64_t local[]   = {static_cast<int64_t>(view.extent(0)),
                               static_cast<int64_t>(view.extent(1)),
                               static_cast<int64_t>(view.extent(2))};
    const int64_t strides[] = {static_cast<int64_t>(view.stride(0)),
                               static_cast<int64_t>(view.stride(1)),
                               static_cast<int64_t>(view.stride(2))};
    EXPECT_EQ(shard_field_wrap(c_mesh, name, view.data(), type, shard_host, 3, dims.data(), local,
                               strides, &field),
              shard_ok)
        << shard_error_message();
    return field;
  }
};

template <class F>
void fill(const F& f, int seed) {
  using T = typename F::value_type;
  for (std::size_t i = 0; i < f.view().span(); ++i)
    f.view().data()[i] =
        static_cast<T>((i * 37 + static_cast<std::size_t>(seed) * 11) % 101) / T(7);
}
template <class F>
int differences(const F& a, const F& b) {
  int wrong = 0;
  for (std::size_t i = 0; i < a.view().span(); ++i)
    wrong += a.view().data()[i] == b.view().data()[i] ? 0 : 1;
  return wrong;
}

}  // namespace c_test

#endif
