// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// link_times [MICROSECONDS MBIT_PER_S]: how long messages take from the first to the last rank.
// With arguments it fails unless the link is what they say, as tools/hosts was asked to make it.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int most = 1 << 21;  // bytes

/// The median of `repeat` one-way times of a message of n bytes, in microseconds.
double one_way(int n, int repeat, int rank, int peer) {
  std::vector<char> bytes(static_cast<std::size_t>(n));
  std::vector<double> times;
  for (int i = -2; i < repeat; ++i) {
    const double begin = MPI_Wtime();
    if (rank == 0) MPI_Send(bytes.data(), n, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
    MPI_Recv(bytes.data(), n, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0) MPI_Send(bytes.data(), n, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
    if (i >= 0) times.push_back(1e6 * (MPI_Wtime() - begin) / 2);  // the first two connect
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, status = EXIT_SUCCESS;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1 && (rank == 0 || rank == size - 1)) {
    const int peer = rank == 0 ? size - 1 : 0;
    double latency = 0, before = 0, time = 0;
    for (int n = 8; n <= most; n *= 8) {
      before = time;
      time   = one_way(n, n < 100000 ? 31 : 3, rank, peer);
      if (n == 8) latency = time;
      if (rank == 0) std::printf("%8d bytes: %9.1f us\n", n, time);
    }
    const double rate = 8.0 * (most - most / 8) / (time - before);
    if (rank == 0) {
      std::printf("latency %.1f us, rate %.1f Mbit/s\n", latency, rate);
      if (argc == 3) {
        // A busy machine adds to the latency. The rate is that of frames, headers and all.
        const double least = std::atof(argv[1]), nominal = std::atof(argv[2]);
        if (latency < least || latency > least + 2000) status = EXIT_FAILURE;
        if (rate < 0.7 * nominal || rate > nominal) status = EXIT_FAILURE;
      }
    }
  }
  MPI_Finalize();
  return status;
}
