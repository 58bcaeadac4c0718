// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposes that add a neighbour's halo in place, with rows of many lengths.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "windows.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

/// Planes of rows, of which each rank has three, one after the other.
template <class T>
using Planes =
    ShardedView<T***, Kokkos::LayoutRight, ShardDim<1, Y, Halo<1>, Periodic>, Kokkos::HostSpace>;

constexpr index_t rows = 3;

/// A small integer, so that sums are exact.
index_t value_of(int rank, index_t plane, index_t row, index_t k) {
  return (131 * rank + 31 * plane + 17 * (row + 1) + 7 * k) % 1009 - 500;
}

/// Calls use(value, plane, row, k) for all cells, those of the halo too.
template <class T, class Use>
void for_all_cells(const Planes<T>& field, const Use& use) {
  for (index_t p = 0; p < field.extent(0); ++p)
    for (index_t r = -1; r <= rows; ++r)
      for (index_t k = 0; k < field.extent(2); ++k)
        use(field.origin()[p * field.stride(0) + r * field.stride(1) + k * field.stride(2)], p, r,
            k);
}

/// Cells that the transpose leaves other than the halo's sum says, where rank `me` has neighbours
/// `below` and `above`.
template <class T>
index_t wrong_after_transpose(const Planes<T>& field, int me, int below, int above) {
  const Exchange halos(Tuning{.direct_run = 1}, field);
  index_t wrong = 0;
  for (int run = 0; run < 2; ++run) {
    for_all_cells(field, [&](T& value, index_t p, index_t r, index_t k) {
      value = static_cast<T>(value_of(me, p, r, k));
    });
    halos.adjoint(Kokkos::DefaultHostExecutionSpace());
    for_all_cells(field, [&](const T& value, index_t p, index_t r, index_t k) {
      index_t expected = 0;
      if (r >= 0 && r < rows) expected = value_of(me, p, r, k);
      if (r == 0) expected += value_of(below, p, rows, k);
      if (r == rows - 1) expected += value_of(above, p, -1, k);
      wrong += value == static_cast<T>(expected) ? 0 : 1;
    });
  }
  return wrong;
}

template <class T>
index_t wrong_after_transpose(const Mesh<Y>& mesh, index_t planes, index_t columns) {
  const int me = mesh.rank(), all = mesh.size();
  const auto field = shared_field<Planes<T>>("field", mesh, {planes, rows * all, columns});
  return wrong_after_transpose(field, me, (me + all - 1) % all, (me + 1) % all);
}

TEST(SharedTranspose, HalosWithinARankAreAdded) {
  const Mesh<X, Y> mesh(MPI_COMM_WORLD, {0, 1});
  for (const index_t columns : {1, 40, 63, 64, 40000}) {
    const auto field = shared_field<Planes<double>>("field", mesh, {1, rows, columns});
    const int me     = mesh.rank();
    EXPECT_EQ(wrong_after_transpose(field, me, me, me), 0) << "rows of " << columns << " doubles";
  }
}

TEST(SharedTranspose, HalosOfEveryLengthAreAdded) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");  // which has them packed
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  struct Shape {
    index_t planes, columns;
  };
  for (const Shape s : {Shape{1, 40}, {1, 40000}, {5, 7}, {50, 13}, {9, 255}, {500, 100}}) {
    EXPECT_EQ(wrong_after_transpose<double>(mesh, s.planes, s.columns), 0)
        << s.planes << " rows of " << s.columns << " doubles";
    EXPECT_EQ(wrong_after_transpose<float>(mesh, s.planes, 2 * s.columns + 1), 0)
        << s.planes << " rows of " << 2 * s.columns + 1 << " floats";
  }
}

}  // namespace
