// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "emulator/progress.hpp"

namespace emulator {

namespace {

constexpr int steps = 5;

struct Run {
  std::vector<double> losses, gradients,
      parameters;  // gradients of all steps, parameters after the last
};

Run run(MPI_Comm comm, const Samples& samples, const Normalisation& normalisation,
        const TrainerOptions& options) {
  const auto trainer = make_trainer(comm, samples, normalisation, options, true);
  Run r;
  for (int s = 0; s < steps; ++s) {
    std::vector<int> pairs;
    for (int b = 0; b < options.batch; ++b)
      pairs.push_back((s * options.batch + b) % samples.training());
    r.losses.push_back(trainer->step(pairs));
    const std::vector<double> g = trainer->gradients();
    r.gradients.insert(r.gradients.end(), g.begin(), g.end());
  }
  r.parameters = trainer->parameters();
  return r;
}

/// The largest difference over the largest value.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i]));
    apart   = std::max(apart,
                     std::isfinite(a[i]) && std::isfinite(b[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  }
  return largest > 0 ? apart / largest : apart;
}

}  // namespace

bool check_ranks_agree(MPI_Comm comm, const Samples& samples, const Normalisation& normalisation,
                       TrainerOptions options) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const Run all = run(comm, samples, normalisation, options);
  options.mesh  = {1, 1};
  int good      = 1;
  if (rank == 0) {
    const Run one = run(MPI_COMM_SELF, samples, normalisation, options);
    Table table({"after 5 steps", "1 rank against " + std::to_string(size), "allowed"});
    const auto row = [&](const char* what, const std::vector<double>& a,
                         const std::vector<double>& b, double allowed) {
      const double apart = difference(a, b);
      char text[32], limit[32];
      std::snprintf(text, sizeof text, "%.1e", apart);
      std::snprintf(limit, sizeof limit, "%.0e", allowed);
      table.add({what, text, limit});
      if (!(apart <= allowed)) good = 0;
    };
    row("loss", one.losses, all.losses, 1e-12);
    row("gradients", one.gradients, all.gradients, 1e-12);
    row("parameters", one.parameters, all.parameters, 1e-9);
    std::printf("Largest relative differences in double precision:\n%s%s\n", table.text().c_str(),
                good != 0 ? "The ranks agree.\n" : "THE RANKS DO NOT AGREE.\n");
    std::fflush(stdout);
  }
  MPI_Bcast(&good, 1, MPI_INT, 0, comm);
  return good != 0;
}

}  // namespace emulator
