// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An existing model takes shard in, step by step (docs/adopting.md). Each step is run beside the
// model as it was, on one rank and on all, and must have the same bits.
//
// host_model network.safetensors by_hand.cpp with_shard.hpp: the network's weights, and the files
// whose lines are counted.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "with_shard.hpp"

namespace {

constexpr int columns = 60, levels = 30, steps = 60;

struct Runtime {  // the model's, as everything else in it
  Runtime(int& argc, char**& argv) {
    MPI_Init(&argc, &argv);
    Kokkos::initialize(argc, argv);
  }
  Runtime(const Runtime&)            = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() {
    Kokkos::finalize();
    MPI_Finalize();
  }
};

void run(host::Model& model) {
  for (int n = 0; n < steps; ++n) model.step();
}

/// Cells of all ranks that have other bits than the same cells of `alone`, a run on one rank.
int differences(const host::Model& model, const host::Model& alone) {
  const host::Grid& grid = model.grid();
  int found              = 0;
  for (int v = 0; v < host::variables; ++v)
    for (int k = host::ghosts; k < levels + host::ghosts; ++k)
      for (int i = host::ghosts; i < grid.nx + host::ghosts; ++i)
        found += std::memcmp(&model.state()(v, k, i), &alone.state()(v, k, grid.first + i),
                             sizeof(double)) != 0
                     ? 1
                     : 0;
  MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_SUM, grid.comm);
  return found;
}

/// Lines of a file that are neither blank nor comments: of each part that begins with a line in
/// which `mark` is, after those before the first one.
std::vector<int> lines_of(const char* path, const char* mark) {
  std::ifstream file(path);
  std::vector<int> lines{0};
  for (std::string line; std::getline(file, line);) {
    if (line.find(mark) != std::string::npos) lines.push_back(0);
    const auto first = line.find_first_not_of(' ');
    lines.back() += first != std::string::npos && line.compare(first, 2, "//") != 0 ? 1 : 0;
  }
  lines.resize(5);
  return lines;
}

class Report {
 public:
  explicit Report(bool prints) : prints_(prints) {}
  void row(const char* what, const host::Model& model, const host::Model& alone) {
    const int different     = differences(model, alone);
    const auto [mass, heat] = model.totals();
    right                   = right && different == 0;
    if (prints_) std::printf("%-28s %9d  %.15e  %.15e\n", what, different, mass, heat);
  }
  bool right = true;

 private:
  bool prints_;
};

int compare(const char* weights, const char* by_hand, const char* with_shard) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  host::Model alone(MPI_COMM_SELF, columns, levels), plain(MPI_COMM_WORLD, columns, levels);
  WithHalos halos(MPI_COMM_WORLD, columns, levels);
  WithWalls walls(MPI_COMM_WORLD, columns, levels);
  WithIntegrals integrals(MPI_COMM_WORLD, columns, levels),
      integrals_alone(MPI_COMM_SELF, columns, levels);
  WithNetwork network(MPI_COMM_WORLD, columns, levels, weights),
      network_alone(MPI_COMM_SELF, columns, levels, weights);
  const auto before = integrals.totals();
  for (host::Model* model :
       {&alone, &plain, static_cast<host::Model*>(&halos), static_cast<host::Model*>(&walls),
        static_cast<host::Model*>(&integrals), static_cast<host::Model*>(&integrals_alone),
        static_cast<host::Model*>(&network), static_cast<host::Model*>(&network_alone)})
    run(*model);

  if (rank == 0)
    std::printf(
        "%d x %d cells, %d steps, %d ranks; differences from one rank:\n%-28s %9s  %-21s  %s\n",
        columns, levels, steps, ranks, "", "cells", "mass / area", "energy / area");
  Report report(rank == 0);
  report.row("as it was", plain, alone);
  report.row("1 halos by a plan", halos, alone);
  report.row("2 walls as boundaries", walls, alone);
  report.row("3 integrals by reduce", integrals, alone);
  report.row("4 a network (from itself)", network, network_alone);

  const auto was = plain.totals(), is = integrals.totals(), one = integrals_alone.totals();
  const auto far = [](double a, double b) { return std::fabs(a / b - 1) > 1e-12; };
  double rising = 0, changed = 0;
  for (int k = host::ghosts; k < levels + host::ghosts; ++k)
    for (int i = host::ghosts; i < columns + host::ghosts; ++i) {
      rising  = std::fmax(rising, std::fabs(alone.state()(host::momentum_z, k, i)));
      changed = std::fmax(changed, std::fabs(network_alone.state()(host::momentum_z, k, i) -
                                             alone.state()(host::momentum_z, k, i)));
    }
  if (far(was[0], is[0]) || far(was[1], is[1]) || far(before[0], is[0]) || one != is)
    report.right = false;
  if (!(rising > 0.1 && rising < 10 && changed > 1e-4 && changed < rising)) report.right = false;
  if (rank == 0)
    std::printf("momentum upwards up to %.3f, changed by the network by up to %.3f\n", rising,
                changed);
  const auto out = lines_of(by_hand, "Model::"), in = lines_of(with_shard, "/// Step");
  for (std::size_t step = 1; rank == 0 && step < in.size(); ++step)
    std::printf("step %d: %2d lines out, %2d in\n", static_cast<int>(step), out[step], in[step]);
  if (rank == 0) std::printf("%s\n", report.right ? "the same answers" : "OTHER ANSWERS");
  return report.right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  if (argc != 4)
    return std::printf("usage: %s network.safetensors by_hand.cpp with_shard.hpp\n", argv[0]), 1;
  return compare(argv[1], argv[2], argv[3]);
}
