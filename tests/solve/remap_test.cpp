// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of remapping weights: conservative ones between intervals of a line.
#include "shard/io/remap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/netcdf.hpp"
#include "solve/sparse_support.hpp"

namespace sparse_matrix_test {

namespace {

/// Cells of the target that reach beyond the source's end at 1: the last are covered in part.
struct Intervals {
  std::vector<double> source, target;  ///< edges
  std::vector<double> row, column, weight, source_area, target_area, source_fraction,
      target_fraction;

  Intervals(int sources, int targets, bool by_fraction) {
    for (int j = 0; j <= sources; ++j) source.push_back(std::pow(j / (1.0 * sources), 1.3));
    for (int i = 0; i <= targets; ++i) target.push_back(1.06 * i / targets);
    const auto length = [](const std::vector<double>& e, std::size_t i) { return e[i + 1] - e[i]; };
    source_area.resize(source.size() - 1);
    source_fraction.assign(source_area.size(), 0.0);
    for (std::size_t j = 0; j < source_area.size(); ++j) source_area[j] = length(source, j);
    for (std::size_t i = 0; i + 1 < target.size(); ++i) {
      target_area.push_back(length(target, i));
      double covered          = 0.0;
      const std::size_t first = weight.size();
      for (std::size_t j = 0; j < source_area.size(); ++j) {
        const double shared =
            std::min(target[i + 1], source[j + 1]) - std::max(target[i], source[j]);
        if (!(shared > 0.0)) continue;
        row.push_back(static_cast<double>(i + 1));
        column.push_back(static_cast<double>(j + 1));
        weight.push_back(shared);
        covered += shared;
        source_fraction[j] += shared / source_area[j];
      }
      for (std::size_t k = first; k < weight.size(); ++k)
        weight[k] /= by_fraction ? covered : target_area[i];
      target_fraction.push_back(covered / target_area[i]);
    }
  }
  /// On the first rank.
  void write(const std::string& path, bool esmf, bool by_fraction,
             NetcdfType address = NetcdfType::int32) const {
    if (rank() == 0) {
      NetcdfWriter file(path);
      const std::string names[] = {esmf ? "n_s" : "num_links", esmf ? "n_b" : "dst_grid_size",
                                   esmf ? "n_a" : "src_grid_size"};
      file.add_dimension(names[0], weight.size());
      file.add_dimension(names[1], target_area.size());
      file.add_dimension(names[2], source_area.size());
      if (!esmf) file.add_dimension("num_wgts", 1);
      file.add_attribute({"normalization", std::string(by_fraction ? "fracarea" : "destarea")});
      const auto add = [&](const char* name, const std::vector<std::string>& dimensions,
                           NetcdfType type, const std::vector<double>& values) {
        file.add_variable(name, dimensions, type);
        file.write(name, values);
      };
      add(esmf ? "row" : "dst_address", {names[0]}, address, row);
      add(esmf ? "col" : "src_address", {names[0]}, address, column);
      if (esmf)
        add("S", {names[0]}, NetcdfType::float64, weight);
      else
        add("remap_matrix", {names[0], "num_wgts"}, NetcdfType::float64, weight);
      add(esmf ? "area_b" : "dst_grid_area", {names[1]}, NetcdfType::float64, target_area);
      add(esmf ? "frac_b" : "dst_grid_frac", {names[1]}, NetcdfType::float64, target_fraction);
      add(esmf ? "area_a" : "src_grid_area", {names[2]}, NetcdfType::float64, source_area);
      add(esmf ? "frac_a" : "src_grid_frac", {names[2]}, NetcdfType::float64, source_fraction);
      file.close();
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
};

// Both formats and normalisations: integrals are conserved, constants too, the values are those of
// the intervals; own ids give the same as balanced ones.
TEST(Remap, ReadsConservativeWeights) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const shard::testing::ScratchFile file("weights.nc");
  for (const bool esmf : {true, false})
    for (const bool by_fraction : {false, true}) {
      const Intervals on(23, 14, by_fraction);
      on.write(file.path(), esmf, by_fraction);
      const auto remap  = read_remap<double, Ranks, Node, Cell>(mesh, file.path());
      const auto errors = remap_errors(Space(), remap);
      EXPECT_LT(errors.conservation, 1e-13) << esmf << by_fraction;
      EXPECT_LT(errors.consistency, 1e-13) << esmf << by_fraction;

      std::mt19937_64 random(shard::testing::seed() + 20);
      std::vector<Id> targets, sources;
      for (const Id id : owned_ids(random, 14)) targets.push_back(index_of(id));
      for (const Id id : owned_ids(random, 23)) sources.push_back(index_of(id));
      const auto own   = read_remap<double, Ranks, Node, Cell>(mesh, file.path(), targets, sources);
      const auto x     = own.source_area.like("x");
      const auto y     = own.target_area.like("y");
      const auto value = [](Id j) { return std::sin(0.4 * static_cast<double>(j)); };
      const auto host  = Kokkos::create_mirror_view(x.view());
      for (std::size_t j = 0; j < sources.size(); ++j) host(j) = value(sources[j]);
      Kokkos::deep_copy(x.view(), host);
      own.matrix.apply(Space(), y, x);
      Space().fence();
      const auto got = values(y);
      for (std::size_t i = 0; i < targets.size(); ++i) {
        double expected = 0.0;
        for (std::size_t k = 0; k < on.weight.size(); ++k)
          if (static_cast<Id>(on.row[k]) == targets[i] + 1)
            expected += on.weight[k] * value(static_cast<Id>(on.column[k]) - 1);
        EXPECT_NEAR(got(i), expected, 1e-14);
      }
    }
}

TEST(Remap, WrongFilesAreErrors) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const shard::testing::ScratchFile file("weights.nc");
  const auto read = [&] { (void)read_remap<double, Ranks, Node, Cell>(mesh, file.path()); };
  expect_parts(message_thrown_by<ArgumentError>(read), {"read_remap", "weights.nc"});
  Intervals on(23, 14, false);
  // a wrong weight is no error, but the map doesn't conserve
  on.weight[5] *= 1.01;
  on.write(file.path(), true, false);
  const auto errors =
      remap_errors(Space(), read_remap<double, Ranks, Node, Cell>(mesh, file.path()));
  EXPECT_GT(errors.conservation, 1e-4);
  EXPECT_GT(errors.consistency, 1e-4);
  on.row[on.row.size() - 1] = 15;
  on.write(file.path(), true, false);
  expect_parts(message_thrown_by<ArgumentError>(read), {"'row'", "address 15", "1 to 14"});
  on.row[on.row.size() - 1] = 13.5;
  on.write(file.path(), true, false, NetcdfType::float64);
  expect_parts(message_thrown_by<ArgumentError>(read), {"'row'", "address 13.5", "integers"});
  on.row[on.row.size() - 1] = 14;
  Intervals none            = on;
  none.row.clear(), none.column.clear(), none.weight.clear();
  none.write(file.path(), true, false);
  expect_parts(message_thrown_by<ArgumentError>(read), {"'S' has no links", "unlimited"});
  on.write(file.path(), true, false);
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 (void)read_remap<double, Ranks, Node, Cell>(mesh, file.path(), {14 + rank()},
                                                             {rank()});
               }),
               {"14 target cells", "23 source cells"});
}

}  // namespace

}  // namespace sparse_matrix_test
