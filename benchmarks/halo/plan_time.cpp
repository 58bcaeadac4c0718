// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plan costs one rank of many to make, in time and memory. Three dimensions, all cut,
// corners, 26 neighbours. Prints Google Benchmark's JSON.
#include <Kokkos_Core.hpp>
#include <malloc.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/exchange/exchange.hpp"
#include "support/arguments.hpp"
#include "support/imagined_ranks.hpp"

namespace {

struct X;
struct Y;
struct Z;
using Field =
    shard::ShardedView<double***, Kokkos::LayoutRight,
                       shard::ShardDim<0, X, shard::Halo<1>, shard::Periodic>,
                       shard::ShardDim<1, Y, shard::Halo<1>, shard::Periodic>,
                       shard::ShardDim<2, Z, shard::Halo<1>, shard::Periodic>, Kokkos::HostSpace>;

double now() {  // nanoseconds
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

long long alive = 0;  // bytes from operator new

void* allocate(std::size_t size, std::size_t alignment) {
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  alive += static_cast<long long>(malloc_usable_size(memory));
  return memory;
}
void release(void* memory) {
  alive -= static_cast<long long>(malloc_usable_size(memory));
  std::free(memory);
}

constexpr int rounds = 10, plans_a_round = 30;

struct Cost {
  std::vector<double> nanoseconds;
  double bytes_per_neighbour = 0;
  int neighbours             = 0;

  double microseconds() const {
    std::vector<double> times = nanoseconds;
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] * 1e-3;
  }
};

/// A round of plans on a mesh of so many ranks.
void add_round(Cost& c, int x, int y, int z) {
  imagined::begin(x * y * z, ((x / 2) * y + y / 2) * z + z / 2);
  {
    shard::Mesh<X, Y, Z> mesh(MPI_COMM_SELF, {x, y, z});
    const Field t("t", mesh, {64 * x, 64 * y, 64 * z});
    for (int i = 0; i < plans_a_round; ++i) {
      imagined::time_in_mpi();
      const long long other = alive;
      const double begin    = now();
      const shard::Exchange halos(t);
      c.nanoseconds.push_back(now() - begin - imagined::time_in_mpi());
      c.neighbours = halos.sends();
      // messages are the exchange's, not the plan's
      c.bytes_per_neighbour =
          (static_cast<double>(alive - other) - 2.0 * static_cast<double>(halos.bytes_sent())) /
          c.neighbours;
    }
  }
  imagined::end();
}

}  // namespace

void* operator new(std::size_t n) { return allocate(n, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new[](std::size_t n) { return operator new(n); }
void* operator new(std::size_t n, std::align_val_t a) {
  return allocate(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) { return operator new(n, a); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return operator new(n); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return operator new(n, a);
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (!support::Arguments(argc, argv, "").understood()) return 2;
  Cost few, many;
  for (int round = 0; round < rounds; ++round) {  // in turns, for the machine's pace changes
    add_round(few, 4, 4, 4);
    add_round(many, 50, 50, 40);
  }
  std::printf("{\"benchmarks\": [\n");
  const auto print = [](const char* name, const Cost& c, const char* end) {
    std::printf(
        "  {\"name\": \"plan_time/%s\", \"run_type\": \"iteration\", \"iterations\": %zu, "
        "\"real_time\": %.3f, \"cpu_time\": %.3f, \"time_unit\": \"us\", \"neighbours\": %d, "
        "\"bytes_per_neighbour\": %.1f}%s\n",
        name, c.nanoseconds.size(), c.microseconds(), c.microseconds(), c.neighbours,
        c.bytes_per_neighbour, end);
  };
  print("ranks:64", few, ",");
  print("ranks:100000", many, "");
  std::printf("]}\n");
}
