// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure.hpp"

#include <mpi.h>

#include <algorithm>

namespace scaling {

namespace {

template <class T>
void write_edges_of(const peers::Problem& p) {
  for (std::byte* origin : p.origins)
    for (int d = 0; d < peers::dims; ++d)
      if (p.width[static_cast<std::size_t>(d)] > 0)
        for (const peers::Box& box : {low_edge(p, d), high_edge(p, d)})
          for_lines(p, box, [&](peers::index_t first, peers::index_t count, peers::index_t stride) {
            T* line = reinterpret_cast<T*>(origin) + first;
            for (peers::index_t i = 0; i < count; ++i) line[i * stride] += T(1e-6);
          });
}

}  // namespace

Measured measure(const std::vector<Timed>& functions, int calls, support::Handshake& handshake) {
  const int warm = 2 + calls / 10, check_every = std::max(5, calls / 6);
  std::vector<std::vector<double>> times(functions.size());
  support::Turns turns;
  for (int i = -warm, near = 0; i < 5 * calls && near < calls; ++i) {
    for (std::size_t f = 0; f < functions.size(); ++f) {
      functions[f].before();
      if (i >= 0) turns.see(handshake.apart());
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      functions[f].call();
      if (i >= 0) times[f].push_back((MPI_Wtime() - begin) * 1e6);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (i < 0) continue;
    turns.see(handshake.apart());
    turns.end_turn();
    if (i % check_every == check_every - 1) near = turns.count_near(MPI_COMM_WORLD);
  }
  turns.count_near(MPI_COMM_WORLD);
  Measured measured;
  const auto enough = static_cast<std::size_t>(calls / 6);
  measured.apart    = turns.of(support::Turns::near, times.front()).size() < enough;
  for (std::size_t f = 0; f < functions.size(); ++f) {
    auto of = turns.of(measured.apart ? support::Turns::far : support::Turns::near, times[f]);
    MPI_Allreduce(MPI_IN_PLACE, of.data(), static_cast<int>(of.size()), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    measured.turns.resize(of.size());
    for (std::size_t turn = 0; turn < of.size(); ++turn) measured.turns[turn].push_back(of[turn]);
  }
  return measured;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void write_edges(const peers::Problem& problem) {
  problem.value_bytes == 4 ? write_edges_of<float>(problem) : write_edges_of<double>(problem);
}

}  // namespace scaling
