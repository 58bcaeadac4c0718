// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposes that take a neighbour's halo where it lies: rows of every length that they treat in a
// way of its own, held in pieces or not.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <limits>
#include <string>

#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "windows.hpp"

namespace {

using namespace shard;
using shard::testing::ScopedVariable;
using shard::testing::windows;
using shard::testing::X;
using shard::testing::Y;

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
index_t wrong_after_transpose(const Planes<T>& field, int me, int below, int above,
                              std::size_t hold, bool asks_ahead) {
  const Exchange halos(Tuning{.direct_run         = 1,
                              .adjoint_collect    = 0,
                              .adjoint_hold       = hold,
                              .adjoint_asks_ahead = asks_ahead},
                       field);
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
index_t wrong_after_transpose(const Mesh<Y>& mesh, index_t planes, index_t columns,
                              std::size_t hold, bool asks_ahead) {
  const int me = mesh.rank(), all = mesh.size();
  const auto field = shared_field<Planes<T>>("field", mesh, {planes, rows * all, columns});
  return wrong_after_transpose(field, me, (me + all - 1) % all, (me + 1) % all, hold, asks_ahead);
}

TEST(SharedTranspose, HalosWithinARankAreTaken) {
  const Mesh<X, Y> mesh(MPI_COMM_WORLD, {0, 1});
  for (const index_t columns : {1, 40, 63, 64, 300, 1000, 40000})
    for (const std::size_t hold : {0, 1 << 28}) {
      const auto field = shared_field<Planes<double>>("field", mesh, {1, rows, columns});
      const int me     = mesh.rank();
      EXPECT_EQ(wrong_after_transpose(field, me, me, me, hold, true), 0)
          << "rows of " << columns << " doubles, held up to " << hold;
    }
}

TEST(SharedTranspose, HalosOfEveryLengthAreTaken) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");  // which has them packed
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  struct Shape {
    index_t planes, columns;
  };
  // Doubles: pieces of 256 are held, 96 asked for ahead; what is 192 long and more is taken row by
  // row, shorter rows are held in groups.
  for (const Shape s : {Shape{1, 40},
                        {1, 192},
                        {1, 256},
                        {1, 300},
                        {1, 1000},
                        {1, 40000},
                        {5, 7},
                        {50, 13},
                        {37, 100},
                        {12, 191},
                        {12, 200},
                        {9, 255},
                        {9, 257},
                        {7, 701},
                        {500, 100},
                        {500, 200},
                        {90, 701}})
    for (const std::size_t hold : {0, 1 << 28})
      for (const bool ahead : {false, true}) {
        EXPECT_EQ(wrong_after_transpose<double>(mesh, s.planes, s.columns, hold, ahead), 0)
            << s.planes << " rows of " << s.columns << " doubles, held up to " << hold << ", ahead "
            << ahead;
        EXPECT_EQ(wrong_after_transpose<float>(mesh, s.planes, 2 * s.columns + 1, hold, ahead), 0)
            << s.planes << " rows of " << 2 * s.columns + 1 << " floats, held up to " << hold
            << ", ahead " << ahead;
      }
}

TEST(SharedTranspose, MeasuringTriesToHoldAllAndNothingAndToAskAhead) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const auto field = shared_field<Planes<double>>("field", mesh, {4, rows * mesh.size(), 300});
  const Exchange halos(Tuning{.direct_run = 1, .measured = true}, field);
  if (halos.tuning().transport == TransportKind::mpi) GTEST_SKIP() << "MPI was faster";
  const std::string report = halos.tuning_report();
  for (const std::size_t hold : {std::size_t{0}, std::numeric_limits<std::size_t>::max()})
    EXPECT_NE(report.find(" adjoint_hold=" + std::to_string(hold) + " "), std::string::npos)
        << report;
  EXPECT_NE(report.find(" adjoint_ahead=lines "), std::string::npos) << report;
}

TEST(SharedTranspose, MeasuringTriesItWithoutNeighboursToo) {
  const Mesh<X, Y> mesh(MPI_COMM_WORLD, {0, 1});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const auto field = shared_field<Planes<double>>("field", mesh, {4, rows, 300});
  for (int i = 0; i < 10; ++i) {  // without messages any transport may win
    const std::string report = Exchange(Tuning::measure, field).tuning_report();
    EXPECT_NE(report.find(" us  transpose  "), std::string::npos) << report;
  }
}

}  // namespace
