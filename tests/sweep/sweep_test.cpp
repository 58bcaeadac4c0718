// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchange, copies, redistribution and reductions of fields in each kind of memory, over each kind
// of partition and mesh: right, or the same error on every rank.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "shard/shard.hpp"
#include "shard/view/index_map.hpp"
#include "sweep/fields.hpp"

namespace sweep_test {

using namespace sweep_fields;

double value_at(index_t i, index_t j) { return static_cast<double>((i * 37 + j * 11) % 101 - 50); }

double with_boundary(index_t i, index_t j) {
  return value_at(image_of(BoundaryKind::symmetric, i, rows).source,
                  image_of(BoundaryKind::periodic, j, columns).source);
}

/// What a field in memory of any kind must give; `natural` is one of the same partitions in
/// ordinary memory, `moved` one of others.
template <class F>
void check(const F& f, const Field& natural, const Field& moved) {
  const Space space;
  set(f, value_at);
  set(natural, value_at);
  exchange(space, f);
  EXPECT_EQ(wrong_points(f, with_boundary, true), 0);

  // a plan made for other memory, and one exchange of both
  const Exchange halos(f, natural);
  halos(space);
  EXPECT_EQ(wrong_points(natural, with_boundary, true), 0);
  exchange_adjoint(space, f);
  exchange_adjoint(space, natural);
  int wrong = 0;
  for (index_t i = -F::halo_lo(0); i < f.extent(0) + F::halo_hi(0); ++i)
    for (index_t j = -F::halo_lo(1); j < f.extent(1) + F::halo_hi(1); ++j)
      wrong += f(i, j) == natural(i, j) ? 0 : 1;
  EXPECT_EQ(wrong, 0) << "adjoint";
  set(f, value_at);
  set(natural, value_at);

  // reductions, of const values too
  const FieldOf<const double, typename F::layout> constant(f);
  EXPECT_EQ(sum(space, f), sum(space, natural));
  EXPECT_EQ(sum<Determinism::ordered>(space, constant), sum(space, natural));
  EXPECT_EQ(norm2(space, constant), norm2(space, natural));
  EXPECT_EQ(max(space, f), max(space, natural));
  EXPECT_EQ(mean(space, f), mean(space, natural));
  EXPECT_EQ(dot(space, f, natural), dot(space, natural, natural));
  EXPECT_EQ(dot(space, f, f), dot(space, natural, natural));

  // copies, to itself too
  const Field copy = natural.like("copy");
  deep_copy(space, copy, natural);
  EXPECT_EQ(wrong_points(copy, value_at), 0);
  redistribute(space, copy, constant);
  EXPECT_EQ(wrong_points(copy, value_at), 0);
  redistribute(space, f, f);
  EXPECT_EQ(wrong_points(f, value_at), 0);

  // to another partition and back
  redistribute(space, moved, constant);
  EXPECT_EQ(wrong_points(moved, value_at), 0);
  deep_copy(space, f, 0.0);
  redistribute(space, f, moved);
  EXPECT_EQ(wrong_points(f, value_at), 0);
  if (!(f.partition(0) == moved.partition(0)) || !(f.partition(1) == moved.partition(1)))
    expect_parts(message_thrown_by<ArgumentError>([&] { (void)dot(space, f, moved); }),
                 {"partition"});
}

template <class... Axes>
void check_on(const char* name, const Mesh<Axes...>& mesh) {
  SCOPED_TRACE(name);
  shard::testing::for_field_inputs<Field, Lat, Lon>(
      mesh, rows, columns, [&](const auto& f, const std::array<Partition, 2>& partitions) {
        check(f, Field("reference", mesh, partitions),
              Field("moved", mesh,
                    {shard::testing::another_partition(partitions[0]),
                     shard::testing::another_partition(partitions[1])}));
      });
  const Field f("f", mesh, {rows, columns}), larger("larger", mesh, {rows + 1, columns});
  expect_parts(message_thrown_by<ArgumentError>([&] { redistribute(Space(), larger, f); }),
               {"dimension 0", "11", "12"});
  message_thrown_by<ArgumentError>([&] { (void)dot(Space(), f, larger); });
}

TEST(Sweep, FieldsInEachKindOfMemory) {
  shard::testing::on_input_meshes<Member, Lat, Lon>(
      [](const char* name, const auto& mesh) { check_on(name, mesh); });
}

}  // namespace sweep_test
