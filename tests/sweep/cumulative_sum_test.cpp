// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cumulative sums of fields in each kind of memory, over each kind of partition and mesh: the bits
// of a loop.
#include "shard/reduce/cumulative_sum.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sweep/fields.hpp"

namespace sweep_cumulative_test {

using namespace sweep_fields;

/// Sums of these depend on the order of additions.
template <class T>
T value_at(index_t i, index_t j) {
  const double x = 0.1 * static_cast<double>((i * 37 + j * 11) % 101);
  return std::is_integral_v<T> ? static_cast<T>(1e17 * x) : static_cast<T>(x);
}
template <class F>
void fill(const F& f) {
  set(f, value_at<typename F::non_const_value_type>);
}

/// Points that differ from a loop's.
template <class F>
int wrong_points(const F& f, const CumulativeSum& op) {
  using T         = typename F::non_const_value_type;
  using Sum       = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  const index_t n = f.global_extent(op.dim);
  int wrong       = 0;
  for (index_t i = 0; i < f.extent(0); ++i)
    for (index_t j = 0; j < f.extent(1); ++j) {
      std::array<index_t, 2> at{f.to_global(0, i), f.to_global(1, j)};
      const auto d    = static_cast<std::size_t>(op.dim);
      const index_t k = at[d];
      Sum sum         = 0;
      for (at[d] = op.reverse ? n - 1 : 0; at[d] != k; at[d] += op.reverse ? -1 : 1)
        sum += static_cast<Sum>(value_at<T>(at[0], at[1]));
      sum += static_cast<Sum>(value_at<T>(at[0], at[1]));
      wrong += f(i, j) == static_cast<T>(sum) ? 0 : 1;
    }
  return wrong;
}

template <class F>
void check(const F& f, const Field& natural) {
  const Space space;
  for (const CumulativeSum op :
       {CumulativeSum{.dim = 0}, CumulativeSum{.dim = 1}, CumulativeSum{.dim = 0, .reverse = true},
        CumulativeSum{.dim = 1, .reverse = true}}) {
    fill(f);
    op.apply(space, natural, f);
    EXPECT_EQ(wrong_points(natural, op), 0);
    CumulativeSum back = op;
    back.reverse       = !op.reverse;
    op.pullback(space, natural, f);
    EXPECT_EQ(wrong_points(natural, back), 0) << "transpose";
    op.apply(space, f, f);
    EXPECT_EQ(wrong_points(f, op), 0) << "in place";
  }
}

template <class... Axes>
void check_on(const char* name, const Mesh<Axes...>& mesh) {
  SCOPED_TRACE(name);
  constexpr index_t rows = 11, columns = 14;
  shard::testing::for_field_inputs<Field, Lat, Lon>(
      mesh, rows, columns, [&](const auto& f, const std::array<Partition, 2>& partitions) {
        check(f, Field("reference", mesh, partitions));
      });
  const Field f("f", mesh, {rows, columns}), longer("longer", mesh, {rows + 1, columns});
  expect_parts(message_thrown_by<ArgumentError>([&] { CumulativeSum{2}.apply(Space(), f, f); }),
               {"CumulativeSum", "no dimension 2"});
  message_thrown_by<ArgumentError>([&] { CumulativeSum{0}.apply(Space(), longer, f); });
}

TEST(Sweep, CumulativeSumsOfFieldsInEachKindOfMemory) {
  shard::testing::on_input_meshes<Member, Lat, Lon>(
      [](const char* name, const auto& mesh) { check_on(name, mesh); });
}

template <class F>
void check_type(const Mesh<Lat, Lon>& mesh, index_t rows, index_t columns, bool reverse) {
  const F f("f", mesh, {rows, columns});
  fill(f);
  const CumulativeSum op{.dim = 0, .reverse = reverse};
  op.apply(Space(), f, f);
  EXPECT_EQ(wrong_points(f, op), 0);
}

// The first fields have enough lines to be sent in several pieces; the others are of other types
// and layouts.
TEST(CumulativeSum, LongLinesInPieces) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {shard::testing::ranks(), 1});
  check_type<Field>(mesh, 9, 5000, false);
  check_type<FieldOf<float, Kokkos::LayoutLeft>>(mesh, 9, 3000, true);
  check_type<FieldOf<std::int64_t>>(mesh, 23, 17, true);
  check_type<FieldOf<int, Kokkos::LayoutLeft>>(mesh, 23, 17, false);
}

}  // namespace sweep_cumulative_test
