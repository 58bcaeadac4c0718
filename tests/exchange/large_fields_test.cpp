// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several fields with more cells in their halos than a core's cache has lines.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using shard::testing::Y;

constexpr index_t rows = 3000, columns = 6, width = 2;

template <class T>
using Columns =
    ShardedView<T**, Kokkos::LayoutRight, ShardDim<1, Y, Halo<width>, Periodic>, Kokkos::HostSpace>;

index_t value_of(int field, index_t row, index_t column) {
  return (100003 * field + 31 * row + 7 * column) % 16001;
}

/// Calls use(value, row, column of the whole field, whether it is owned) for all cells.
template <class T, class Use>
void for_all_cells(const Columns<T>& field, const Mesh<Y>& mesh, const Use& use) {
  const index_t all = columns * mesh.size();
  for (index_t row = 0; row < rows; ++row)
    for (index_t c = -width; c < columns + width; ++c)
      use(field.origin()[row * field.stride(0) + c * field.stride(1)], row,
          (mesh.rank() * columns + c + all) % all, c >= 0 && c < columns);
}

template <class T>
void set(const Columns<T>& field, const Mesh<Y>& mesh, int number) {
  for_all_cells(field, mesh, [&](T& value, index_t row, index_t column, bool owned) {
    value = owned ? static_cast<T>(value_of(number, row, column)) : T(-7);
  });
}

template <class T>
index_t wrong_cells(const Columns<T>& field, const Mesh<Y>& mesh, int number) {
  index_t wrong = 0;
  for_all_cells(field, mesh, [&](const T& value, index_t row, index_t column, bool) {
    wrong += value == static_cast<T>(value_of(number, row, column)) ? 0 : 1;
  });
  return wrong;
}

void check(const Mesh<Y>& mesh, const Tuning& tuning) {
  const auto a = shared_field<Columns<double>>("a", mesh, {rows, columns * mesh.size()}),
             b = shared_field<Columns<double>>("b", mesh, {rows, columns * mesh.size()});
  const auto c = shared_field<Columns<float>>("c", mesh, {rows, columns * mesh.size()});
  const Exchange halos(tuning, a, b, c);
  for (int run = 0; run < 2; ++run) {
    set(a, mesh, 0);
    set(b, mesh, 1);
    set(c, mesh, 2);
    halos(Kokkos::DefaultHostExecutionSpace());
    EXPECT_EQ(wrong_cells(a, mesh, 0), 0) << to_text(tuning);
    EXPECT_EQ(wrong_cells(b, mesh, 1), 0) << to_text(tuning);
    EXPECT_EQ(wrong_cells(c, mesh, 2), 0) << to_text(tuning);
  }
}

TEST(LargeFields, SeveralAreUnpackedInTheOppositeOrder) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  check(mesh, {.transport = TransportKind::mpi});
  check(mesh, {});
  check(mesh, {.direct_run = 1});
}

}  // namespace
