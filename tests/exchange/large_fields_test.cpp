// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several fields with more cells in their halos than a core's cache has lines.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>

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

/// Cells of a, the halo's too, that differ from b's.
index_t differences(const Columns<double>& a, const Columns<double>& b, const Mesh<Y>& mesh) {
  index_t wrong = 0;
  for_all_cells(a, mesh, [&](const double& value, index_t, index_t, bool) {
    wrong += value == b.origin()[&value - a.origin()] ? 0 : 1;
  });
  return wrong;
}

/// next = the sum of a point's neighbours as far as the halo reaches.
struct SumKernel {
  Columns<double> from, to;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    double sum = 0;
    for (int c = -width; c <= width; ++c) sum += from(i, j + c);
    to(i, j) = sum + to(i, j);  // each point once
  }
};

TEST(LargeFields, LongMessagesOfMpiAreTakenBeforeFinish) {
  const shard::testing::ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Kokkos::DefaultHostExecutionSpace space;
  const Columns<double> a("a", mesh, {rows, columns * mesh.size()}), once = a.like("once"),
                                                                     all = a.like("all");
  for (const Tuning& tuning :
       {Tuning{.transport = TransportKind::mpi},
        Tuning{.transport = TransportKind::mpi, .messages = MessageLayout::by_dimension},
        Tuning{.transport = TransportKind::mpi, .message_part = 9999}}) {
    const Exchange halos(tuning, a);
    const auto taken = [](auto& pending) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(100);
      while (!pending.is_filled() && std::chrono::steady_clock::now() < end) pending.advance();
      return pending.is_filled();
    };
    for (int run = 0; run < 2; ++run) {
      set(a, mesh, run);
      auto pending = halos.start(space);
      EXPECT_TRUE(taken(pending));
      EXPECT_EQ(wrong_cells(a, mesh, run), 0);
      pending.finish();
      // the transpose adds once
      Kokkos::deep_copy(a.view(), 1.0);
      Kokkos::deep_copy(once.view(), 1.0);
      halos.adjoint(space, once);
      auto back = halos.start_adjoint(space);
      EXPECT_TRUE(taken(back));
      back.finish();
      EXPECT_EQ(differences(a, once, mesh), 0);
      set(a, mesh, run);
      Kokkos::deep_copy(once.view(), 0.0);
      Kokkos::deep_copy(all.view(), 0.0);
      overlapped("in pieces", space, halos, a, SumKernel{a, once});
      halos(space);
      parallel_for("whole", space, owned_region(a), SumKernel{a, all});
      space.fence();
      EXPECT_EQ(differences(once, all, mesh), 0);
    }
  }
}

}  // namespace
