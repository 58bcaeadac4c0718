// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roll, Flip, Slice, IndexSelect, Split and Concatenate of fields in each kind of memory, over each
// kind of partition and mesh: the elements that NumPy would give, and the bits of the serial
// transpose.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

#include "shard/autodiff/tape.hpp"
#include "shard/redistribute/rearrange.hpp"
#include "sweep/fields.hpp"

namespace sweep_rearrange_test {

using namespace sweep_fields;

/// Sums of these depend on the order of additions.
double value_at(index_t i, index_t j) { return 0.1 * static_cast<double>((i * 37 + j * 11) % 101); }

/// The same in which dimension `dim` has the elements `source`.
struct Mapped {
  int dim;
  std::vector<index_t> source;
  double operator()(index_t i, index_t j) const {
    return dim == 0 ? value_at(source[static_cast<std::size_t>(i)], j)
                    : value_at(i, source[static_cast<std::size_t>(j)]);
  }
  /// The transpose of value_at, in the order of targets.
  double transposed(index_t i, index_t j) const {
    double sum = 0;
    for (std::size_t t = 0; t < source.size(); ++t)
      if (source[t] == (dim == 0 ? i : j))
        sum +=
            dim == 0 ? value_at(static_cast<index_t>(t), j) : value_at(i, static_cast<index_t>(t));
    return sum;
  }
};

/// y and dx as they must be, for y in memory of each kind and of each partition.
template <class Op, class X>
void check(const char* name, const Op& op, const X& x, const Field& natural,
           const std::vector<index_t>& source) {
  SCOPED_TRACE(name);
  const Space space;
  const Mapped mapped{op.dim, source};
  const auto own = op.output(x);
  const auto run = [&](const auto& y) {
    set(x, value_at);
    op.apply(space, y, x);
    EXPECT_EQ(wrong_points(y, mapped), 0);
    set(y, value_at);
    const auto transposed = [&](index_t i, index_t j) { return mapped.transposed(i, j); };
    op.pullback(space, x, y);
    EXPECT_EQ(wrong_points(x, transposed), 0) << "transpose";
    op.pullback(space, natural, y);
    EXPECT_EQ(wrong_points(natural, transposed), 0) << "transpose of another layout";
  };
  run(own);
  auto partitions = own.partitions();
  partitions[static_cast<std::size_t>(op.dim)] =
      shard::testing::another_partition(own.partition(op.dim));
  run(impl::placed_anew<Field>(own.geometry(), partitions));
}

template <class X>
void check_all(const X& x, const Field& natural) {
  std::vector<index_t> rolled, back, flipped, sliced, some{3, 4, 5, 2, 2, 9, 8, 7, 0, 10, 2};
  for (index_t i = 0; i < rows; ++i) rolled.push_back((i + rows - 3) % rows);
  for (index_t j = 0; j < columns; ++j) back.push_back((j + 5) % columns);
  for (index_t j = columns - 1; j >= 0; --j) flipped.push_back(j);
  for (index_t j = 3; j < 12; j += 2) sliced.push_back(j);
  check("Roll", Roll(0, 3 + 2 * rows), x, natural, rolled);
  check("Roll back", Roll(1, -5), x, natural, back);
  check("Flip", Flip(1), x, natural, flipped);
  check("Slice", Slice(0, 2, 7), x, natural, {2, 3, 4, 5, 6});
  check("Slice by steps", Slice(1, 3, 12, 2), x, natural, sliced);
  check("Slice of nothing", Slice(1, 4, 4), x, natural, {});
  check("IndexSelect", IndexSelect(0, some), x, natural, some);

  const Space space;
  set(x, value_at);
  const Split split(0, {4, 0, 7});
  const auto parts = split.output(x);
  split.apply(space, parts, x);
  EXPECT_EQ(wrong_points(parts[0], value_at), 0);
  EXPECT_EQ(wrong_points(parts[2], [](index_t i, index_t j) { return value_at(i + 4, j); }), 0);
  const Concatenate concatenate(0);
  const auto turned = std::make_tuple(parts[2], parts[1], parts[0]);
  const auto y      = concatenate.output(turned);
  concatenate.apply(space, y, turned);
  int wrong = 0;
  for (index_t i = 0; i < y.extent(0); ++i)
    for (index_t j = 0; j < y.extent(1); ++j)
      wrong += y(i, j) == value_at((y.to_global(0, i) + 4) % rows, y.to_global(1, j)) ? 0 : 1;
  EXPECT_EQ(wrong, 0) << "Concatenate";
  // the transposes are each other
  set(y, value_at);
  concatenate.pullback(space, turned, y);
  EXPECT_EQ(wrong_points(parts[0], [](index_t i, index_t j) { return value_at(i + 7, j); }), 0);
  split.pullback(space, x, parts);
  EXPECT_EQ(
      wrong_points(x, [](index_t i, index_t j) { return value_at(i < 4 ? i + 7 : i - 4, j); }), 0);
}

template <class... Axes>
void check_on(const char* name, const Mesh<Axes...>& mesh) {
  SCOPED_TRACE(name);
  shard::testing::for_field_inputs<Field, Lat, Lon>(
      mesh, rows, columns, [&](const auto& f, const std::array<Partition, 2>& partitions) {
        check_all(f, Field("reference", mesh, partitions));
      });
}

TEST(Sweep, RearrangementsOfFieldsInEachKindOfMemory) {
  shard::testing::on_input_meshes<Member, Lat, Lon>(
      [](const char* name, const auto& mesh) { check_on(name, mesh); });
}

TEST(Rearrangement, MistakesAreErrors) {
  const Space space;
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 1});
  const Field x("x", mesh, {rows, columns}), y("y", mesh, {rows, columns});
  const auto refused = [](std::initializer_list<const char*> parts, const auto& call) {
    expect_parts(message_thrown_by<ArgumentError>(call), parts);
  };
  refused({"Roll", "no dimension 2"}, [&] { Roll(2, 1).apply(space, y, x); });
  refused({"Roll", "memory"}, [&] { Roll(0, 1).apply(space, x, x); });
  refused({"Slice", "dimension 0", "11", "5"}, [&] { Slice(0, 2, 7).apply(space, y, x); });
  refused({"Slice", "12:13:1", "11"}, [&] { (void)Slice(0, 12, 13).output(x); });
  refused({"step"}, [&] { (void)Slice(0, 2, 7, 0).output(x); });
  refused({"IndexSelect", "index 11"}, [&] { (void)IndexSelect(0, {3, 11}).output(x); });
  refused({"Split", "[4, 6]", "11"}, [&] { (void)Split(0, {4, 6}).output(x); });
  refused({"Concatenate", "22"}, [&] { Concatenate(0).apply(space, y, std::make_tuple(x, x)); });
}

TEST(Rearrangement, OnATape) {
  const Space space;
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 1});
  const Field x("x", mesh, {rows, columns});
  set(x, value_at);
  Tape<Space> tape(space);
  const auto a = tape.run(Slice(0, 0, 4), x), b = tape.run(Slice(0, 4), x);
  const auto y  = tape.run(Concatenate(0), std::make_tuple(b, a));
  const auto z  = tape.run(Flip(1), y);
  const auto dz = z.like("dz");
  set(dz, value_at);
  const Field dx = tape.pullback(z, dz, x);
  EXPECT_EQ(
      wrong_points(dx, [](index_t i,
                          index_t j) { return value_at(i < 4 ? i + 7 : i - 4, columns - 1 - j); }),
      0);
}

}  // namespace sweep_rearrange_test
