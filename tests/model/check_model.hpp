// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_MODEL_CHECK_MODEL_HPP
#define SHARD_TESTS_MODEL_CHECK_MODEL_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "merged_support.hpp"
#include "shard/io/safetensors.hpp"

/// \file
/// Models of examples/models beside PyTorch's: tests/data/make_models.py, ... wrote their weights,
/// inputs, outputs and gradients.

namespace shard::testing {

/// A file of tests/data/models.
struct ModelFile {
  std::string name;
  /// See SafetensorsOptions.
  std::vector<std::pair<std::string, std::string>> rename = {};
  std::string path                          = SHARD_TEST_DATA "/models/" + name + ".safetensors";
  std::map<std::string, std::string> theirs = {};  ///< names in the file, where they differ
  std::vector<double> operator()(const std::string& array) const {
    return read_safetensors<double>(path, array);
  }
};

/// Sets a field's owned points from all points.
template <class F>
void set_points(const F& f, const std::vector<double>& all) {
  const auto host = create_mirror_view(f);
  for_owned(host, [&](const auto& g, index_t offset) {
    index_t at = 0;
    for (int d = 0; d < F::rank; ++d) at = at * f.global_extent(d) + g[static_cast<std::size_t>(d)];
    host.origin()[offset] = all.at(static_cast<std::size_t>(at));
  });
  deep_copy(Space(), f, host);
  Space().fence("points are set");
}

/// Loads the weights by their names, and keeps those that differ from the model's. Nothing else is
/// missing in the file.
template <class M>
void load_weights(ModelFile& file, const M& model) {
  const auto report = load_safetensors(file.path, model.parameters(), MPI_COMM_WORLD,
                                       {.rename = file.rename, .strict = false});
  EXPECT_TRUE(report.missing.empty()) << report.missing.front();
  for (const auto& name : report.unexpected)
    EXPECT_TRUE(name.starts_with("example.") || name.starts_with("gradient.")) << name;
  for (const auto& [theirs, ours] : report.renamed) file.theirs[ours] = theirs;
}

/// Compares the sums over the ranks of all parameters' gradients. The file has sums of each
/// gradient's products with 8 cosines, which are as many numbers for each weight.
template <class Net>
void expect_gradients(const ModelFile& file, const Net& net, double tolerance) {
  const auto all = summed(net.gradients().values(), net.mesh().communicator());
  std::vector<double> expected, got;
  for (const auto& entry : net.gradients().entries()) {
    const auto theirs = file.theirs.find(entry.name);
    for (const double g :
         file("gradient." + (theirs == file.theirs.end() ? entry.name : theirs->second)))
      expected.push_back(g);
    for (int k = 1; k <= 8; ++k) {
      double sum = 0.0;
      for (index_t i = 0; i < entry.count(); ++i)
        sum += all[static_cast<std::size_t>(entry.offset + i)] *
               std::cos(k * (static_cast<double>(i) + 0.5));
      got.push_back(sum);
    }
  }
  expect_near(got, expected, tolerance);
}

/// Whether the table of models in docs/models.md has this row: what was checked.
template <class M>
void expect_row(const ModelFile& file, const M& model, const std::string& oracle) {
  const auto number = [](std::size_t n) {
    std::string text = std::to_string(n);
    for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
      text.insert(static_cast<std::size_t>(at), " ");
    return text;
  };
  const std::string row = "| [" + file.name + "](../examples/models/" + file.name + ".hpp) | " +
                          number(model.parameters().values().extent(0)) + " | " + oracle + " |";
  std::ifstream page(SHARD_DOCS "/models.md");
  bool found = false;
  for (std::string line; std::getline(page, line);) found = found || line.starts_with(row);
  EXPECT_TRUE(found) << "docs/models.md lacks: " << row;
}

/// A replicated input: its name and extents.
template <int Rank>
struct Replicated {
  std::string name;
  Extents<Rank> extents;
};

/// Runs a model with an input "input" and `N` replicated ones on all meshes of the ranks, with even
/// and uneven shards, and compares outputs and all gradients. The last two dimensions are sharded.
template <std::size_t N = 0, int Rank = 4, class M>
void check_model(ModelFile& file, const M& model, const Extents<Rank>& extents,
                 const std::array<Replicated<Rank>, N>& others = {}, double tolerance = 1e-10) {
  load_weights(file, model);
  std::mt19937_64 random(seed());
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto net = domain_parallel<ShardDim<-2, Lat>, ShardDim<-1, Lon>>(model, mesh);
    using Input    = typename std::remove_cvref_t<decltype(net)>::Input;
    for (const bool even : {true, false}) {
      std::array<int, static_cast<std::size_t>(Rank)> parts;
      parts.fill(1);
      parts[Rank - 2]   = mesh.size<Lat>();
      parts[Rank - 1]   = mesh.size<Lon>();
      const auto pieces = some_pieces(extents, parts, even, random);
      SCOPED_TRACE("rows " + pieces[Rank - 2].describe() + ", columns " +
                   pieces[Rank - 1].describe());
      const Input x("x", mesh, pieces), dx = x.like("dx");
      set_points(x, file("example.input"));
      std::array<Input, N> z, dz;
      for (std::size_t i = 0; i < N; ++i) {
        z[i]  = net.replicated(others[i].name, others[i].extents);
        dz[i] = z[i].like("dz");
        set_points(z[i], file("example." + others[i].name));
      }
      Kokkos::deep_copy(Space(), net.gradients().values(), 0.0);
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto y = net.output(x, z[I]...), dy = net.output(x, z[I]...);
        set_points(dy, file("example.dy"));
        net.apply(Space(), y, x, z[I]...);
        expect_near(world(y), file("example.output"), tolerance);
        net.pullback(Space(), dx, dz[I]..., dy, x, z[I]...);
      }
      (std::make_index_sequence<N>{});
      Space().fence("gradients");
      expect_near(world(dx), file("example.dinput"), tolerance);
      for (std::size_t i = 0; i < N; ++i) {
        const std::size_t n = file("example." + others[i].name).size();
        expect_near(summed(Kokkos::View<double*, Space::memory_space>(dz[i].origin(), n),
                           mesh.communicator()),
                    file("example.d" + others[i].name), tolerance);
      }
      expect_gradients(file, net, tolerance);
    }
  }
}

}  // namespace shard::testing

#endif
