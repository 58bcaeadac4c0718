// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure.hpp"

#include <Kokkos_Core.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "support/turns.hpp"

namespace {

constexpr double micro = 1e-6, giga = 1e9;

/// A rank and the one that it exchanges messages with; none: MPI_PROC_NULL.
class Pair {
 public:
  Pair(MPI_Comm comm, int peer) : comm_(comm), peer_(peer) {}

  /// Median seconds in which both have sent `count` messages of `bytes` bytes, those of the slowest
  /// pair. `calls` follow one another in a turn; before each turn all sleep for `pause`.
  double seconds(std::size_t bytes, int count, int calls, int turns, double pause = 0) {
    const std::vector<char> out(bytes, 'x');
    std::vector<char> in(bytes * static_cast<std::size_t>(count));
    std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(count));
    std::vector<double> times;
    for (int turn = 0; turn < turns; ++turn) {
      if (pause > 0) {
        MPI_Barrier(comm_);
        usleep(static_cast<useconds_t>(pause / micro));
      }
      times.push_back(
          support::slowest_seconds(comm_,
                                   [&] {
                                     for (int call = 0; call < calls; ++call) {
                                       for (int i = 0; i < count; ++i) {
                                         const auto at = static_cast<std::size_t>(i);
                                         MPI_Irecv(in.data() + at * bytes, static_cast<int>(bytes),
                                                   MPI_BYTE, peer_, 1, comm_, &requests[2 * at]);
                                         MPI_Isend(out.data(), static_cast<int>(bytes), MPI_BYTE,
                                                   peer_, 1, comm_, &requests[2 * at + 1]);
                                       }
                                       MPI_Waitall(static_cast<int>(requests.size()),
                                                   requests.data(), MPI_STATUSES_IGNORE);
                                     }
                                   }) /
          calls);
    }
    return support::median(times);
  }

 private:
  MPI_Comm comm_;
  int peer_;
};

double copied_GBs() {
  const std::vector<char> from(std::size_t{64} << 20U, 'x');
  std::vector<char> to(from.size());
  double best = 1e300;
  for (int turn = 0; turn < 5; ++turn) {
    const double begin = MPI_Wtime();
    std::memcpy(to.data(), from.data(), to.size());
    best = std::min(best, MPI_Wtime() - begin);
  }
  return 2 * static_cast<double>(to.size()) / best / giga;
}

struct NothingKernel {
  KOKKOS_FUNCTION void operator()(int) const {}
};
double kernel_us() {
  const Kokkos::DefaultExecutionSpace space;
  std::vector<double> times;
  for (int turn = 0; turn < 101; ++turn) {
    const double begin = MPI_Wtime();
    Kokkos::parallel_for("nothing", Kokkos::RangePolicy<>(space, 0, 1), NothingKernel());
    space.fence("benchmark");
    times.push_back((MPI_Wtime() - begin) / micro);
  }
  return support::median(times);
}

}  // namespace

std::string measured_machine(MPI_Comm comm, int per_node) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const int nodes = ranks / per_node, node = rank / per_node, place = rank % per_node;
  // nodes in pairs; of an odd number the last one stands aside
  const bool has_other = (node ^ 1) < nodes, has_neighbour = (place ^ 1) < per_node;
  const int across = has_other ? (node ^ 1) * per_node + place : MPI_PROC_NULL;
  const int beside = has_neighbour ? node * per_node + (place ^ 1) : MPI_PROC_NULL;
  Pair far(comm, across), near(comm, beside),
      one_far(comm, node < 2 && place == 0 ? across : MPI_PROC_NULL);

  constexpr std::size_t word = 8, kilobyte = 1000, megabyte = 1000000;
  const double far_latency  = far.seconds(word, 1, 200, 9);
  const double near_latency = near.seconds(word, 1, 200, 9);
  const double message      = (far.seconds(word, 16, 50, 9) - far_latency) / 15;
  const double rate =
      3 * megabyte /
      (one_far.seconds(4 * megabyte, 1, 2, 5) - one_far.seconds(1 * megabyte, 1, 2, 5));
  // what passes at once after a pause
  constexpr double pause = 0.01;
  const double fast      = 32 * kilobyte /
                      (one_far.seconds(48 * kilobyte, 1, 1, 41, pause) -
                       one_far.seconds(16 * kilobyte, 1, 1, 41, pause));
  const double held  = one_far.seconds(1 * megabyte, 1, 1, 21, pause);
  const double burst = std::clamp(megabyte - (held - 3 * far_latency) * rate, 0.0, 1e6);
  const double near_rate =
      192 * kilobyte /
      (near.seconds(256 * kilobyte, 1, 10, 9) - near.seconds(64 * kilobyte, 1, 10, 9));
  const int cores = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / nodes);
  char text[1000];
  std::snprintf(text, sizeof(text),
                "# Measured by benchmarks/hosts on %d hosts of %d ranks.\n"
                "ranks_per_node = %d\ncores_per_node = %d\nfar_latency_us = %.1f\n"
                "near_latency_us = %.2f\nmessage_us = %.2f\nnode_GBs = %.4f\nfar_GBs = %.3f\n"
                "burst_kB = %.0f\nnear_GBs = %.2f\nmemory_GBs = %.1f\nkernel_us = %.2f\n"
                "# Open MPI's btl_tcp_eager_limit\neager_kB = 65\n",
                nodes, per_node, per_node, cores, far_latency / micro,
                per_node > 1 ? near_latency / micro : 1.0, std::max(0.0, message / micro),
                rate / giga, std::max(fast, rate) / giga, burst / kilobyte,
                per_node > 1 ? near_rate / giga : 1.0, copied_GBs(), kernel_us());
  return text;
}
