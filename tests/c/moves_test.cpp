// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From C: redistributions, couplings, files.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "c/cases.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/io/netcdf.hpp"
#include "shard/redistribute/coupling.hpp"

namespace c_test {

TEST(C, RedistributionsHaveTheBitsOfCpp) {
  const Case c;
  const Space space;
  using F    = Haloed<double, Clamp>;
  using Bare = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<0, Lon>,
                           Kokkos::HostSpace>;
  const F x("x", c.mesh, c.partitions), x2               = x.like("x2");
  const Bare y("y", c.mesh, {rows, columns, levels}), y2 = y.like("y2");
  shard_field own =
      c.wrap("x", x2, shard_double,
             c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic)));
  const std::array<shard_dimension, 3> turned = {{{rows, 1, nullptr, nullptr, 0, 0, {}, {}},
                                                  {columns, 0, nullptr, nullptr, 0, 0, {}, {}},
                                                  {levels, -1, nullptr, nullptr, 0, 0, {}, {}}}};
  shard_field other                           = c.wrap("y", y2, shard_double, turned);
  fill(x, 1), fill(x2, 1);
  redistribute(space, y, x);
  EXPECT_EQ(shard_redistribute(other, own), shard_ok) << shard_error_message();
  EXPECT_EQ(differences(y, y2), 0);
  redistribute_adjoint(space, x, y);
  EXPECT_EQ(shard_redistribute_adjoint(own, other), shard_ok);
  EXPECT_EQ(differences(x, x2), 0);
  int64_t first = -1, count = -1;
  EXPECT_EQ(shard_field_owned(other, 1, &first, &count), shard_ok);
  EXPECT_EQ(first, y.begin(1));
  EXPECT_EQ(count, y.extent(1));

  // to an array of the last rank, and back
  const int root = ranks() - 1;
  const Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> all(
      "all", rank() == root ? rows : 0, rank() == root ? columns : 0, levels);
  const auto all2 = Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace>(
      "all2", all.extent(0), all.extent(1), levels);
  gather(space, all, x, root);
  EXPECT_EQ(shard_gather(all2.data(), nullptr, own, root), shard_ok) << shard_error_message();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all.data()[i], all2.data()[i]);
  deep_copy(space, y, -1.0);
  deep_copy(space, y2, -2.0);
  distribute(space, y, all, root);
  EXPECT_EQ(shard_scatter(other, all2.data(), nullptr, root), shard_ok);
  EXPECT_EQ(differences(y, y2), 0);
  EXPECT_EQ(shard_gather(all2.data(), nullptr, own, ranks()), shard_error_argument);

  // the same plan for another array
  const F z = x.like("z"), z2 = x.like("z2");
  fill(z, 3), fill(z2, 3);
  redistribute(space, y, z);
  EXPECT_EQ(shard_field_rebind(own, z2.view().data()), shard_ok);
  EXPECT_EQ(shard_redistribute(other, own), shard_ok);
  EXPECT_EQ(differences(y, y2), 0);
  shard_field_release(&own);
  shard_field_release(&other);
}

// the order of a message's values is one on all ranks, also where an array doesn't tell it
TEST(C, EmptyShardsOfEitherOrder) {
  const Case c;
  const Space space;
  using Bare   = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<1, Lon>,
                           Kokkos::HostSpace>;
  using Turned = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<0, Lon>,
                             Kokkos::HostSpace>;
  const Bare x("x", c.mesh, {1, columns, levels});
  const Turned y("y", c.mesh, {1, columns, levels}), y2 = y.like("y2");
  const auto dims = [&](int rows_over, int columns_over) {
    return std::array<shard_dimension, 3>{{{1, rows_over, nullptr, nullptr, 0, 0, {}, {}},
                                           {columns, columns_over, nullptr, nullptr, 0, 0, {}, {}},
                                           {levels, -1, nullptr, nullptr, 0, 0, {}, {}}}};
  };
  shard_field from = c.wrap("x", x, shard_double, dims(0, 1)),
              to   = c.wrap("y", y2, shard_double, dims(1, 0));
  fill(x, 1 + rank());
  redistribute(space, y, x);
  EXPECT_EQ(shard_redistribute(to, from), shard_ok) << shard_error_message();
  EXPECT_EQ(differences(y, y2), 0);
  shard_field_release(&from);
  shard_field_release(&to);
}

TEST(C, CouplingsHaveTheBitsOfCpp) {
  const Case c;
  const Space space;
  const Mesh<Lat> line(MPI_COMM_WORLD, {ranks()});
  using To   = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<1, Lat>, Kokkos::HostSpace>;
  using From = Haloed<double, Clamp>;
  const From x("x", c.mesh, c.partitions), x2        = x.like("x2");
  const To y("y", line, {rows, columns, levels}), y2 = y.like("y2");
  shard_mesh c_line = nullptr;
  const int all     = ranks();
  ASSERT_EQ(shard_mesh_create(MPI_COMM_WORLD, 1, &all, &c_line), shard_ok);
  shard_field from =
      c.wrap("x", x2, shard_double,
             c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic)));
  const shard_dimension dims[] = {{rows, -1, nullptr, nullptr, 0, 0, {}, {}},
                                  {columns, 0, nullptr, nullptr, 0, 0, {}, {}},
                                  {levels, -1, nullptr, nullptr, 0, 0, {}, {}}};
  const int64_t local[]        = {rows, static_cast<int64_t>(y2.extent(1)), levels};
  const int64_t strides[]      = {1, rows, static_cast<int64_t>(rows * y2.extent(1))};
  shard_field to = nullptr, narrow = nullptr;
  ASSERT_EQ(shard_field_wrap(c_line, "y", y2.view().data(), shard_double, shard_host, 3, dims,
                             local, strides, &to),
            shard_ok);
  ASSERT_EQ(shard_field_wrap(c_line, "n", y2.view().data(), shard_float, shard_host, 3, dims, local,
                             strides, &narrow),
            shard_ok);
  shard_coupling coupling = nullptr;
  EXPECT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &narrow, 1, &from, &coupling),
            shard_error_argument);
  EXPECT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &to, rank() == 0 ? -1 : 1, &from, &coupling),
            shard_error_argument);
  EXPECT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &to, 0, nullptr, &coupling),
            shard_error_argument);
  ASSERT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &to, 1, &from, &coupling), shard_ok)
      << shard_error_message();
  fill(x, 1), fill(x2, 1), fill(y, 2), fill(y2, 2);
  Coupling<To, From> wanted(MPI_COMM_WORLD, &y, &x);
  wanted(space);
  EXPECT_EQ(shard_coupling_run(coupling), shard_ok) << shard_error_message();
  EXPECT_EQ(differences(y, y2), 0);
  wanted.adjoint(space);
  EXPECT_EQ(shard_coupling_adjoint(coupling), shard_ok);
  EXPECT_EQ(differences(x, x2), 0);
  wanted(space);
  EXPECT_EQ(shard_coupling_put(coupling), shard_ok);
  EXPECT_EQ(shard_coupling_put(coupling), shard_error_argument);
  EXPECT_EQ(shard_coupling_get(coupling), shard_ok);
  EXPECT_EQ(shard_coupling_finish(coupling), shard_ok);
  EXPECT_EQ(differences(y, y2), 0);
  for (shard_field* field : {&from, &to, &narrow}) shard_field_release(field);
  EXPECT_EQ(shard_coupling_run(coupling), shard_ok);
  shard_coupling_release(&coupling);
  shard_mesh_release(&c_line);
}

TEST(C, FilesAreThoseOfCpp) {
  const Case c;
  using F = Haloed<double, Clamp>;
  const F x("x", c.mesh, c.partitions), x2 = x.like("x2");
  const auto dims = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  shard_field own = c.wrap("x", x2, shard_double, dims);
  fill(x, 1 + rank());
  const std::string path = "c_test_" + std::to_string(ranks());
  double numbers[]       = {3, 0.25};
  // what C++ writes C reads, and the other way
  Checkpoint state(MPI_COMM_WORLD);
  const Kokkos::View<double*, Kokkos::HostSpace> view("numbers", 2);
  view(0) = 3, view(1) = 0.25;
  state.add("x", x);
  state.add("numbers", view);
  state.save(path + ".st");
  fill(x2, 9);
  numbers[0] = numbers[1] = 0;
  EXPECT_EQ(shard_checkpoint_load((path + ".st").c_str(), 1, &own, 2, numbers), shard_ok)
      << shard_error_message();
  EXPECT_EQ(numbers[0], 3);
  EXPECT_EQ(numbers[1], 0.25);
  const auto expect_same = [&] {
    for (int i = 0; i < x.extent(0); ++i)
      for (int j = 0; j < x.extent(1); ++j)
        for (int k = 0; k < levels; ++k) {
          EXPECT_EQ(x(i, j, k), x2(i, j, k));
        }
  };
  expect_same();
  EXPECT_EQ(shard_checkpoint_save((path + ".st").c_str(), 1, &own, 2, numbers), shard_ok);
  deep_copy(Space(), x, 0.0);
  state.load(path + ".st");
  expect_same();
  EXPECT_EQ(shard_checkpoint_load((path + ".st").c_str(), 1, &own, 1, numbers),
            shard_error_argument);
  EXPECT_EQ(shard_checkpoint_load("none", 1, &own, 2, numbers), shard_error_io);
  EXPECT_EQ(shard_checkpoint_load(nullptr, 1, &own, 2, numbers), shard_error_argument);
  // the dimensions in the opposite order aren't those of the file
  EXPECT_EQ(shard_field_reversed(own, 1), shard_ok);
  EXPECT_EQ(shard_checkpoint_load((path + ".st").c_str(), 1, &own, 2, numbers),
            shard_error_argument);

  shard_output output = nullptr;
  const int begun     = shard_output_create(c.c_mesh, (path + ".nc").c_str(), 0, &output);
  if (begun == shard_error_other) {
    shard_field_release(&own);
    GTEST_SKIP() << shard_error_message();  // a build without NetCDF
  }
  ASSERT_EQ(begun, shard_ok) << shard_error_message();
  const double lat[]  = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const char* names[] = {"time", "level", "lon", "lat"};
  EXPECT_EQ(shard_output_time(output, "days since 2000-01-01", nullptr), shard_ok);
  EXPECT_EQ(shard_output_coordinate(output, "lat", rows, lat, nullptr), shard_ok);
  EXPECT_EQ(shard_output_dimension(output, "lon", columns), shard_ok);
  EXPECT_EQ(shard_output_dimension(output, "level", levels), shard_ok);
  EXPECT_EQ(shard_output_variable(output, "x", shard_complex_float, 4, names, nullptr, nullptr),
            shard_error_argument);
  EXPECT_EQ(shard_output_variable(output, "x", shard_double, 4, names, "x", "m"), shard_ok);
  EXPECT_EQ(shard_output_write_number(output, "time", 0, 1.5), shard_ok) << shard_error_message();
  EXPECT_EQ(shard_output_write(output, "x", 0, own), shard_ok) << shard_error_message();
  EXPECT_EQ(shard_output_write(output, "x", -1, own), shard_error_argument);
  EXPECT_EQ(shard_output_close(output), shard_ok);
  shard_output_release(&output);
  shard_field_release(&own);
  const NetcdfFile file(path + ".nc");
  const auto values = file.read("x");
  ASSERT_EQ(values.size(), static_cast<std::size_t>(rows * columns * levels));
  for (int i = 0; i < x.extent(0); ++i)
    for (int j = 0; j < x.extent(1); ++j)
      for (int k = 0; k < levels; ++k) {
        EXPECT_EQ(values[static_cast<std::size_t>((k * columns + x.begin(1) + j) * rows +
                                                  x.begin(0) + i)],
                  x(i, j, k));
      }
}

}  // namespace c_test
