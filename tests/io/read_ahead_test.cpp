// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/read_ahead.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/io/netcdf.hpp"
#include "shard/mesh/mesh.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Lat;
struct Lon;
struct Data;

using Space = Kokkos::DefaultExecutionSpace;

constexpr std::size_t members = 2, times = 5, levels = 3, rows = 7, columns = 8;

double value_at(std::size_t member, std::size_t time, std::size_t level, index_t i, index_t j) {
  return static_cast<double>(10000 * member + 1000 * time + 100 * level) +
         0.5 * static_cast<double>(10 * i + j);
}

/// A file from south to north, whose first value is missing.
void write(const ScratchFile& scratch) {
  if (rank() == 0) {
    NetcdfWriter writer(scratch.path());
    const auto coordinate = [&](const char* name, std::size_t n, double first, double step,
                                const char* units) {
      std::vector<double> values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(first + static_cast<double>(i) * step);
      writer.add_coordinate(name, values, {{"units", units}});
    };
    coordinate("number", members, 0, 1, "1");
    coordinate("time", times, 0, 6, "hours since 2017-01-01 00:00:00");
    coordinate("level", levels, 50000, 10000, "Pa");
    coordinate("lat", rows, -90, 30, "degrees_north");
    coordinate("lon", columns, 0, 45, "degrees_east");
    std::vector<double> z;
    for (std::size_t m = 0; m < members; ++m)
      for (std::size_t t = 0; t < times; ++t)
        for (std::size_t l = 0; l < levels; ++l)
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j)
              z.push_back(
                  value_at(m, t, l, static_cast<index_t>(rows - 1 - i), static_cast<index_t>(j)));
    z[0] = std::numeric_limits<double>::quiet_NaN();
    writer.add_variable("z", {"number", "time", "level", "lat", "lon"}, NetcdfType::float64);
    writer.write("z", z);
    writer.close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

template <class Field>
void expect_batch(const Field& field, const std::vector<FieldSample>& samples, std::size_t batch) {
  const auto host = create_mirror_view(field);
  deep_copy(Space(), host, field);
  Space().fence("to be compared");
  const auto of_batch = static_cast<std::size_t>(field.global_extent(0));
  for (index_t n = 0; n < field.extent(0); ++n)
    for (index_t c = 0; c < field.extent(1); ++c)
      for (index_t i = 0; i < field.extent(2); ++i)
        for (index_t j = 0; j < field.extent(3); ++j) {
          const auto& s  = samples[batch * of_batch + static_cast<std::size_t>(field.begin(0) + n)];
          const double v = static_cast<double>(host(n, c, i, j));
          const auto level  = static_cast<std::size_t>(field.begin(1) + c);
          const index_t row = field.begin(2) + i, column = field.begin(3) + j;
          if (s.member == 0 && s.time == 0 && level == 0 && column == 0 &&
              row == static_cast<index_t>(rows) - 1)
            EXPECT_TRUE(std::isnan(v));
          else
            EXPECT_EQ(v, value_at(s.member, s.time, level, row, column));
        }
}

std::vector<FieldSample> all_samples() {
  std::vector<FieldSample> samples;
  for (std::size_t t = times; t-- > 0;)
    for (std::size_t m = 0; m < members; ++m) samples.push_back({m, t});
  return samples;
}

template <class Field, class MeshType>
void check(const FieldReader& reader, const MeshType& mesh) {
  const auto samples = all_samples();
  for (const index_t of_batch : {1, 3})
    for (const std::size_t batches : {1, 2, 5}) {
      const Field x("x", mesh, {of_batch, levels, rows, columns});
      // a field of its own, not the one that it was made for
      const Field other = x.like("other");
      ReadAhead<Field> ahead(reader, x, samples, batches);
      const std::size_t count = samples.size() / static_cast<std::size_t>(of_batch);
      std::size_t missing = 0, done = 0;
      for (; ahead.left() > 0; ++done) {
        ASSERT_TRUE(ahead.next(Space(), done % 2 == 0 ? x : other));
        expect_batch(done % 2 == 0 ? x : other, samples, done);
        missing += ahead.missing();
      }
      EXPECT_EQ(done, count);
      EXPECT_FALSE(ahead.next(Space(), x));
      EXPECT_GE(ahead.reading(), 0.0);
      EXPECT_GE(ahead.waited(), 0.0);
      unsigned long all = missing;
      MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
      EXPECT_EQ(all, 1U);
    }
}

TEST(ReadAhead, ReadsEachRanksPartOfBatches) {
  const ScratchFile scratch("ahead.nc");
  write(scratch);
  const FieldReader reader(scratch.path(), "z");
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  check<ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                    ShardDim<3, Lon, Halo<2>, Periodic>>>(reader, mesh);
  check<ShardedView<float****, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<2, Lon>>>(reader,
                                                                                        mesh);
  // over the batch: some ranks have no sample
  const Mesh<Data, Lon> by_batch(MPI_COMM_WORLD, {ranks(), 1});
  check<ShardedView<float****, Kokkos::LayoutRight, ShardDim<0, Data>, ShardDim<3, Lon>>>(reader,
                                                                                          by_batch);
}

TEST(ReadAhead, MarksTheHaloStaleAndMayEndEarly) {
  const ScratchFile scratch("ahead.nc");
  write(scratch);
  const FieldReader reader(scratch.path(), "z");
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {ranks(), 1});
  using Field = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>, Clamp>>;
  const Field x("x", mesh, {1, levels, rows, columns});
  exchange(Space(), x);
  ReadAhead<Field> ahead(reader, x, all_samples());
  ahead.next(Space(), x);
  exchange(Space(), x);
  const auto host = create_mirror_view(x);
  Kokkos::deep_copy(Space(), host.view(), x.view());
  Space().fence("to be compared");
  if (x.extent(2) > 0 && x.begin(2) == 0) {
    EXPECT_EQ(host(0, 1, -1, 3), value_at(0, times - 1, 1, 0, 3));
  }
}

TEST(ReadAhead, SaysWhatDoesNotFit) {
  const ScratchFile scratch("ahead.nc");
  write(scratch);
  const FieldReader reader(scratch.path(), "z");
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {ranks(), 1});
  using Field = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
  const Field x("x", mesh, {2, levels, rows, columns}), narrow("y", mesh, {2, levels, rows, 7});
  const auto samples = all_samples();
  EXPECT_THROW(ReadAhead<Field>(reader, narrow, samples), ArgumentError);
  EXPECT_THROW(ReadAhead<Field>(reader, x, {{members, 0}}), ArgumentError);
  EXPECT_THROW(ReadAhead<Field>(reader, x, {{0, times}}), ArgumentError);
  EXPECT_THROW(ReadAhead<Field>(reader, x, samples, 0), ArgumentError);
  ReadAhead<Field> ahead(reader, x, samples);
  EXPECT_THROW(ahead.next(Space(), narrow), ArgumentError);
  EXPECT_EQ(ahead.left(), samples.size() / 2);
}

TEST(ReadAhead, PassesOnWhatItsThreadThrew) {
  impl::Ahead ahead(3, 2, [](std::size_t item, std::size_t) {
    if (item == 1) throw NetcdfError("the disk is gone");
  });
  EXPECT_EQ(ahead.take(), 0U);
  ahead.give_back();
  EXPECT_THROW(ahead.take(), NetcdfError);
  EXPECT_THROW(ahead.take(), NetcdfError);
}

}  // namespace
}  // namespace shard::testing
