// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether the messages of a host's ranks to another host are better joined in one. Each rank of two
// hosts exchanges a message with its counterpart on the other: by itself, or through memory that
// the host's ranks share and one message of a leader. Plain MPI. Prints a line for each size: bytes
// of a rank's message, microseconds by itself, by the leader, and their ratio.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Node {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 0;
  std::byte* memory       = nullptr;  // of all ranks: sent, then received
  std::atomic<int>* flags = nullptr;  // of each rank: packed; the last: arrived
};

/// Through the leader; step counts from 1.
void by_leader(const Node& node, int other, std::size_t bytes, std::byte* out, std::byte* in,
               int step) {
  const std::size_t all = bytes * static_cast<std::size_t>(node.size);
  std::memcpy(node.memory + bytes * static_cast<std::size_t>(node.rank), out, bytes);
  node.flags[node.rank].store(step, std::memory_order_release);
  if (node.rank == 0) {
    MPI_Request requests[2];
    // who has packed has read what came before
    for (int r = 0; r < node.size; ++r)
      while (node.flags[r].load(std::memory_order_acquire) < step) sched_yield();
    MPI_Irecv(node.memory + all, static_cast<int>(all), MPI_BYTE, other, 1, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Isend(node.memory, static_cast<int>(all), MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    node.flags[node.size].store(step, std::memory_order_release);
  } else {
    while (node.flags[node.size].load(std::memory_order_acquire) < step) sched_yield();
  }
  std::memcpy(in, node.memory + all + bytes * static_cast<std::size_t>(node.rank), bytes);
}

void by_itself(int other, std::size_t bytes, std::byte* out, std::byte* in) {
  MPI_Request requests[2];
  MPI_Irecv(in, static_cast<int>(bytes), MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, static_cast<int>(bytes), MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Node node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node.comm);
  MPI_Comm_rank(node.comm, &node.rank);
  MPI_Comm_size(node.comm, &node.size);
  if (2 * node.size != size) {
    if (rank == 0) std::fprintf(stderr, "leader: two hosts with as many ranks each\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  constexpr std::size_t most = 65536;
  const auto ranks           = static_cast<std::size_t>(node.size);
  MPI_Win window             = MPI_WIN_NULL;
  void* base                 = nullptr;
  MPI_Win_allocate_shared(node.rank == 0 ? static_cast<MPI_Aint>(2 * most * ranks + 4096) : 0, 1,
                          MPI_INFO_NULL, node.comm, &base, &window);
  MPI_Aint length = 0;
  int unit        = 0;
  MPI_Win_shared_query(window, 0, &length, &unit, &base);
  node.flags  = static_cast<std::atomic<int>*>(base);
  node.memory = static_cast<std::byte*>(base) + 4096;
  if (node.rank == 0) std::memset(base, 0, 4096);
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<std::byte> out(most), in(most);
  const int other = (rank + node.size) % size, leader = rank < node.size ? node.size : 0;
  int step = 0;
  for (const std::size_t bytes : {64, 512, 2048, 8192, 32768, 65536}) {
    std::vector<double> times[2];
    for (int turn = -3; turn < 30; ++turn)
      for (int way = 0; way < 2; ++way) {
        constexpr int steps = 10;
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (int s = 0; s < steps; ++s)
          if (way == 0)
            by_itself(other, bytes, out.data(), in.data());
          else
            by_leader(node, leader, bytes, out.data(), in.data(), ++step);
        double mine = (MPI_Wtime() - begin) / steps * 1e6, slowest = 0;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (turn >= 0) times[way].push_back(slowest);
      }
    if (rank == 0)
      std::printf("%6zu bytes a rank: by itself %8.1f us, by the leader %8.1f us, ratio %.2f\n",
                  bytes, median(times[0]), median(times[1]), median(times[0]) / median(times[1]));
  }
  MPI_Win_free(&window);
  MPI_Finalize();
}
