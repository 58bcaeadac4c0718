// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure.hpp"

#include <Kokkos_Core.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "support/asleep.hpp"
#include "support/turns.hpp"

namespace {

constexpr double micro = 1e-6, giga = 1e9;

/// Messages that follow one another.
struct Messages {
  std::size_t bytes = 8;
  int count         = 1;  ///< at once
  int calls         = 1;  ///< one after the other, in a turn
  int turns         = 9;
  double busy       = 0;      ///< seconds of computation before each call, not counted
  double asleep     = 0;      ///< seconds, before each turn
  bool least        = false;  ///< of the turns, not their median
};

/// A rank and the one that it exchanges messages with, or MPI_PROC_NULL.
class Pair {
 public:
  Pair(MPI_Comm comm, int peer, int ranks_per_core)
      : comm_(comm), peer_(peer), ranks_per_core_(ranks_per_core) {}

  /// Seconds in which both sides have sent, those of the slowest pair.
  double seconds(const Messages& m) {
    const std::vector<char> out(m.bytes, 'x');
    std::vector<char> in(m.bytes * static_cast<std::size_t>(m.count));
    std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(m.count));
    const auto exchange = [&] {
      for (const double begin = MPI_Wtime(); MPI_Wtime() < begin + m.busy;) {
      }
      for (std::size_t i = 0; i < requests.size() / 2; ++i) {
        const int bytes = static_cast<int>(m.bytes);
        MPI_Irecv(in.data() + i * m.bytes, bytes, MPI_BYTE, peer_, 1, comm_, &requests[2 * i]);
        MPI_Isend(out.data(), bytes, MPI_BYTE, peer_, 1, comm_, &requests[2 * i + 1]);
      }
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    };
    std::vector<double> times;
    for (int turn = 0; turn < m.turns; ++turn) {
      if (m.asleep > 0) {
        MPI_Barrier(comm_);
        usleep(static_cast<useconds_t>(m.asleep / micro));
      }
      times.push_back(support::slowest_seconds(comm_,
                                               [&] {
                                                 for (int call = 0; call < m.calls; ++call)
                                                   exchange();
                                               }) /
                      m.calls);
    }
    const double seconds =
        m.least ? *std::min_element(times.begin(), times.end()) : support::median(times);
    return seconds - m.busy * ranks_per_core_;
  }

 private:
  MPI_Comm comm_;
  int peer_, ranks_per_core_;
};

/// The way out of a node: bytes in a second, bytes, seconds.
struct Link {
  double rate = 0, fast = 0, burst = 0, quiet = 0;
};
/// Between two ranks on two nodes, while the others sleep.
Link measured_link(MPI_Comm two, double latency) {
  int rank = 0;
  MPI_Comm_rank(two, &rank);
  Pair pair(two, 1 - rank, 1);
  constexpr std::size_t kilobyte = 1000;
  Link link;
  // one message after the other
  link.rate             = 48 * kilobyte / pair.seconds({.bytes = 48 * kilobyte, .calls = 40});
  const auto long_after = [&](double pause) {
    return pair.seconds({.bytes = 250 * kilobyte, .calls = 20, .turns = 5, .busy = pause});
  };
  const double followed = long_after(0), rested_long = long_after(2e-3);
  link.quiet = 50e-6;
  while (link.quiet < 2e-3 && long_after(link.quiet) > 0.5 * (followed + rested_long))
    link.quiet *= 1.5;
  // what passes at once
  const auto rested = [&](std::size_t bytes, int count) {
    return pair.seconds(
        {.bytes = bytes, .count = count, .turns = 41, .asleep = 0.01, .least = true});
  };
  link.fast = 32 * kilobyte / (rested(48 * kilobyte, 1) - rested(16 * kilobyte, 1));
  if (link.fast < link.rate) link.fast = link.rate;
  link.burst = std::clamp(192e3 - (rested(48 * kilobyte, 4) - latency) * link.rate, 0.0, 192e3);
  return link;
}

double copied_GBs() {
  using Bytes = Kokkos::View<char*, Kokkos::HostSpace>;
  const Bytes from("from", std::size_t{64} << 20U), to("to", from.size());
  double best = 1e300;
  for (int turn = 0; turn < 5; ++turn) {
    const double begin = MPI_Wtime();
    Kokkos::deep_copy(to, from);
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
  const int cores  = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / nodes);
  const int turns  = (per_node + cores - 1) / cores;
  Pair far(comm, across, turns), near(comm, beside, turns);

  constexpr std::size_t kilobyte = 1000;
  // as after computation, which takes MPI's data out of the caches; ranks that share a core would
  // wait for one another's
  const double computation  = turns == 1 ? 50e-6 : 0;
  const double far_latency  = far.seconds({.calls = 200, .busy = computation});
  const double near_latency = near.seconds({.calls = 200, .busy = computation});
  const double message =
      (far.seconds({.count = 16, .calls = 50}) - far.seconds({.calls = 200})) / 15;
  const double near_rate = 192 * kilobyte /
                           (near.seconds({.bytes = 256 * kilobyte, .calls = 10}) -
                            near.seconds({.bytes = 64 * kilobyte, .calls = 10}));
  const double long_rate =
      250 * kilobyte * per_node / far.seconds({.bytes = 250 * kilobyte, .calls = 10});
  Link link;
  const bool is_one_of_two = node < 2 && place == 0;
  MPI_Comm two             = MPI_COMM_NULL;
  MPI_Comm_split(comm, is_one_of_two ? 0 : 1, rank, &two);
  if (is_one_of_two) link = measured_link(two, far_latency);
  MPI_Comm_free(&two);
  support::meet_asleep(comm);
  char text[1000];
  std::snprintf(
      text, sizeof(text),
      "# Measured by benchmarks/hosts on %d hosts of %d ranks.\n"
      "ranks_per_node = %d\ncores_per_node = %d\nfar_latency_us = %.1f\n"
      "near_latency_us = %.2f\nmessage_us = %.2f\nnode_GBs = %.4f\nfar_GBs = %.3f\n"
      "burst_kB = %.0f\nnear_GBs = %.2f\nmemory_GBs = %.1f\nkernel_us = %.2f\n"
      "# Open MPI's btl_tcp_eager_limit\neager_kB = 65\nlong_GBs = %.4f\nquiet_us = %.0f\n",
      nodes, per_node, per_node, cores, far_latency / micro,
      per_node > 1 ? near_latency / micro : 1.0, std::max(0.0, message / micro), link.rate / giga,
      link.fast / giga, link.burst / kilobyte, per_node > 1 ? near_rate / giga : 1.0, copied_GBs(),
      kernel_us(), std::min(long_rate, link.rate) / giga, link.quiet / micro);
  return text;
}
