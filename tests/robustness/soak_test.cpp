// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing grows: neither with exchanges, nor with plans, fields, layers, models and meshes that
// come and go.
#include <Kokkos_Core.hpp>
#include <dirent.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/layers/attention/attention.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/window/pad.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/model/sequential.hpp"
#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
struct Z;
struct Time;
struct Member;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_what_is_freed = true;  // AddressSanitizer, for a while
#else
constexpr bool keeps_what_is_freed = false;
#endif

/// kB of this process in memory: private and shared pages.
long resident() {
  long pages = 0, all = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Expects that `function(count)` leaves no more memory in use after so many rounds than after the
/// first ones, but for `slack` kB: what an allocator keeps, and MPI's own lists.
template <class Function>
void expect_no_growth(const std::string& what, int warm, int rest, long slack,
                      const Function& function) {
  const long start = resident();
  function(warm);
  const long before = resident();
  function(rest);
  long growth = resident() - before, most = 0;
  MPI_Allreduce(&growth, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf("%s: %ld kB before, %ld kB after %d, at most %ld kB more after %d\n", what.c_str(),
                start, before, warm, most, warm + rest);
  if (keeps_what_is_freed) return;
  EXPECT_LE(most, slack) << what;
}

const char* name(TransportKind kind) {
  return kind == TransportKind::mpi ? "messages" : "automatic";
}

TEST(Memory, Exchanges) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows t       = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4});
  const bool windows = impl::SharedPool::of(*mesh.state())->usable();
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi}) {
    const bool fast = windows && kind == TransportKind::automatic && !keeps_what_is_freed;
    const int steps = shard::testing::million_or(keeps_what_is_freed ? 3000 : 12000, fast);
    const Exchange halos(Tuning{.transport = kind}, t);
    expect_no_growth(std::string("exchanges, ") + name(kind), 1000, steps - 1000, 512,
                     [&](int count) {
                       int wrong = 0;
                       for (int step = 0; step < count; ++step) {
                         t(0, 0) = t(1, 0) = step;
                         if (step % 8 == 7) {
                           halos.adjoint(Space());
                         } else {
                           halos(Space());
                           wrong += t(-1, 0) == step && t(2, 0) == step ? 0 : 1;
                         }
                       }
                       EXPECT_EQ(wrong, 0);
                     });
  }
}

TEST(Memory, PlansAndFieldsThatComeAndGo) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const Rows stays("stays", mesh, {2 * mesh.size(), 4});
  // MPIs fill their own lists for some hundred rounds
  const int warm = 600, rounds = thorough() ? 10000 : 300;
  for (const TransportKind kind : {TransportKind::automatic, TransportKind::mpi})
    // half of them thrown away with exchanges behind them
    expect_no_growth(
        std::string("plans and fields, ") + name(kind), warm, rounds, 512, [&](int count) {
          for (int round = 0; round < count; ++round) {
            const Rows t = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4 + round % 50});
            const Exchange halos(Tuning{.transport = kind}, t);
            if (round % 2 == 0) continue;
            halos(Space());
            const Exchange other(Tuning{.transport = kind}, stays, t);
            auto pending = other.start(Space());
            halos.adjoint(Space());
            pending.finish();
          }
        });
}

/// What the bound is of what a mesh keeps, unless it is told.
constexpr int kept = 64;

/// Expects that no more than a megabyte is in use after `rounds` rounds than after a fifth of them:
/// function(round).
template <class Function>
void expect_bounded(const char* what, int rounds, const Function& function) {
  if (thorough()) rounds *= 10;
  int round = 0;
  expect_no_growth(what, rounds / 5, rounds - rounds / 5, 1024, [&](int count) {
    for (const int end = round + count; round < end; ++round) function(round);
  });
}

using Square   = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Periodic>,
                           ShardDim<1, X, Halo<1>, Reflect>, Kokkos::HostSpace>;
using Columns  = ShardedView<double**, Kokkos::LayoutRight, ShardDim<1, Y>, Kokkos::HostSpace>;
using Pictures = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Y>, ShardDim<3, X>>;

/// What keeps something in the mesh, each time for other extents.
TEST(Soak, OtherExtentsEachTime) {
  if (ranks() > 2) GTEST_SKIP() << "for one and two ranks";
  const Kokkos::DefaultExecutionSpace space;
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  // 899 pairs, whose sum is much the same in any stretch of as many rounds as plans are kept
  const auto rows    = [](int round) { return index_t{16} + round % 31; };
  const auto columns = [](int round) { return index_t{16} + round % 29; };
  const auto extents = [&](int round) { return Extents<2>{rows(round), columns(round)}; };
  expect_bounded("exchange, fields of other extents", 20 * kept,
                 [&](int round) { exchange(Space(), Square("f", mesh, extents(round))); });
  expect_bounded("exchange, shared fields of other extents", 20 * kept, [&](int round) {
    exchange(Space(), shared_field<Square>("f", mesh, extents(round)));
  });
  expect_bounded("Exchange, fields of other extents", 20 * kept, [&](int round) {
    const Square f("f", mesh, extents(round));
    const Exchange halos(f);
    halos(Space());
    halos.adjoint(Space());
  });
  expect_bounded("redistribute, fields of other extents", 40 * kept, [&](int round) {
    redistribute(Space(), Columns("g", mesh, extents(round)), Square("f", mesh, extents(round)));
  });
  expect_bounded("all_reduce, Views of other extents", 20 * kept, [&](int round) {
    const Kokkos::View<double*, Kokkos::HostSpace> view("v",
                                                        static_cast<std::size_t>(16 + round % 199));
    all_reduce<Y>(Space(), view, view, mesh);
  });
  expect_bounded("Pad, fields of other extents", 20 * kept, [&](int round) {
    const Pad<Periodic, Clamp> pad{.low = {1, 1}, .high = {1, 2}};
    const Pictures x("x", mesh, {1, 2, rows(round), columns(round)});
    const Pictures y("y", mesh, pad.output_partitions(x.partitions()));
    pad.apply(space, y, x);
  });
  expect_bounded("a loss of fields cut otherwise, of other extents", 20 * kept, [&](int round) {
    const Pictures x("x", mesh, {1, 2, rows(round), columns(round)});
    const auto other =
        Partition::explicit_begins(mesh.size<Y>() == 1 ? std::vector<index_t>{0, rows(round)}
                                                       : std::vector<index_t>{0, 3, rows(round)});
    const Pictures y("y", mesh,
                     mesh.size<Y>() > 2 ? x.partitions()
                                        : std::array<Partition, 4>{x.partition(0), x.partition(1),
                                                                   other, x.partition(3)});
    MeanSquare loss(x, {});
    loss(space, x, y);
  });
  expect_bounded("attention, fields of other extents", 10 * kept, [&](int round) {
    const Pictures x("x", mesh, {1, 8, rows(round), columns(round)}), y = x.like("y");
    const WindowAttention<4, 4> attention{.heads = 2};
    auto state = attention.state(x);
    attention.apply(space, state, y, x, x, x);
  });
  expect_bounded("a model, run and dropped", 10 * kept, [&](int round) {
    using C3      = Conv<Kernel<3, 3>, Padding<1, 1>>;
    auto net      = domain_parallel<Y, X>(sequential<float>(C3{2, 4}, C3{4, 2}), mesh);
    const auto x  = net.input("x", {1, 2, rows(round), columns(round)});
    const auto& y = net(space, x);
    net.pullback(space, not_wanted, y, x);
  });
  const std::string words = describe(mesh);
  EXPECT_NE(words.find("exchange plans: 64 of at most 64"), std::string::npos) << words;
}

/// The same things again and again.
TEST(Soak, TheSameEachTime) {
  if (ranks() > 2) GTEST_SKIP() << "for one and two ranks";
  const Kokkos::DefaultExecutionSpace space;
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Square f("f", mesh, {64, 64});
  const Columns g("g", mesh, {64, 64});
  expect_bounded("a new field, exchanged", 5000, [&](int) {
    exchange(Space(), Square("f", mesh, {64, 64}));
  });
  expect_bounded("redistribute", 2000, [&](int) { redistribute(Space(), g, f); });
  expect_bounded("dot", 2000, [&](int) { dot(Space(), f, f); });
  using Halos = HaloExchange<ShardDim<0, Y, Halo<1>, Periodic>, ShardDim<1, X, Halo<1>, Reflect>>;
  expect_bounded("tape", 1000, [&](int) {
    const Square x("x", mesh, {64, 64});
    Tape tape{Space()};
    const auto y = tape.run(Halos(), x);
    const auto z = tape.run(Halos(), y);
    tape.pullback(z, z, x);
  });
}

/// What this process has open: files, mappings that others share, threads.
struct Open {
  int files = 0, shared = 0, threads = 0;

  static int entries(const char* folder) {
    int n = 0;
    if (DIR* dir = opendir(folder)) {
      while (readdir(dir) != nullptr) ++n;
      closedir(dir);
    }
    return n;
  }
  static Open now() {
    Open open{entries("/proc/self/fd"), 0, entries("/proc/self/task")};
    char line[4096];
    if (std::FILE* file = std::fopen("/proc/self/maps", "r")) {
      while (std::fgets(line, sizeof line, file) != nullptr)
        open.shared += std::strstr(line, " rw-s ") != nullptr ? 1 : 0;
      std::fclose(file);
    }
    return open;
  }
};

/// The files of shared memory that this process has mapped since this was made.
class SharedFiles {
 public:
  SharedFiles() { look(); }
  /// Adds those that are mapped now.
  void look() {
    const std::set<std::string> now = mapped();
    seen_.insert(now.begin(), now.end());
  }
  /// How many of them are mapped no longer and are still there.
  int left() const {
    const std::set<std::string> now = mapped();
    return static_cast<int>(std::count_if(seen_.begin(), seen_.end(), [&](const auto& file) {
      return now.count(file) == 0 && access(file.c_str(), F_OK) == 0;
    }));
  }

 private:
  static std::set<std::string> mapped() {
    std::set<std::string> files;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (const auto path = line.find('/'); path != std::string::npos &&
                                            line.find(" rw-s ") != std::string::npos &&
                                            line.find(" (deleted)") == std::string::npos)
        files.insert(line.substr(path));
    return files;
  }

  std::set<std::string> seen_;
};

/// A mesh with an exchange, a redistribution, a sum and a loss.
void use_a_mesh(int round) {
  const Kokkos::DefaultExecutionSpace space;
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Plane t = shared_field<Plane>("t", mesh, {8 * ranks(), 12});
  shard::testing::fill(t, round + 1);
  exchange(Space(), t);
  EXPECT_EQ(wrong_cells(t, round + 1), 0) << round;
  const Columns columns = redistribute<Columns>(Space(), t);
  EXPECT_EQ(sum<Determinism::ordered>(Space(), columns), sum<Determinism::ordered>(Space(), t));
  const Pictures x("x", mesh, {1, 1, 4 * ranks(), 8});
  MeanSquare loss(x, {});
  EXPECT_EQ(loss(space, x, x), 0.0);
}

/// With SHARD_THOROUGH=1 20,000 meshes that are used, and 100,000 that are not.
TEST(Soak, MeshesThatEnd) {
  if (ranks() > 2) GTEST_SKIP() << "for one and two ranks";
  int round         = 0;
  const auto use    = [&] { use_a_mesh(round++); };
  const Counts once = shard::testing::count(use, shard::testing::KokkosTools::off);
  // that of the ranks on the node stays for the next mesh
  EXPECT_LE(once.communicators - once.communicators_freed, 1) << once;
  for (int i = 0; i < 20; ++i) use();
  const Open before = Open::now();
  SharedFiles files;
  std::int64_t made = 0, freed = 0;
  const auto counted = [&](const auto& function) {
    const Counts counts = shard::testing::count(function, shard::testing::KokkosTools::off);
    made += counts.communicators;
    freed += counts.communicators_freed;
  };
  expect_bounded("meshes with exchange, redistribution, sum and loss", 2000, [&](int i) {
    counted(use);
    if (i % 100 == 0) files.look();
  });
  expect_bounded("meshes", 10000, [&](int) {
    counted([] { const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0}); });
  });
  const Open after = Open::now();
  if (rank() == 0)
    std::printf(
        "communicators: %lld made, %lld freed; files open: %d, then %d; shared mappings: "
        "%d, then %d; threads: %d, then %d\n",
        static_cast<long long>(made), static_cast<long long>(freed), before.files, after.files,
        before.shared, after.shared, before.threads, after.threads);
  EXPECT_GE(made, round);
  EXPECT_EQ(made, freed);
  EXPECT_LE(after.files, before.files);
  EXPECT_LE(after.shared, before.shared);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_EQ(files.left(), 0);
}

/// A mesh has one and one for each axis of more than one rank, whatever is done with it: at most
/// six. The ranks on a node have one for all their meshes.
TEST(Soak, CommunicatorsOfAMesh) {
  using Five = Mesh<Y, X, Z, Time, Member>;
  const Kokkos::DefaultExecutionSpace space;
  std::vector<Five> meshes;
  std::vector<Plane> fields;
  for (int m = 0; m < 2; ++m) {
    const Counts made = shard::testing::count(
        [&] {
          const Five& mesh = meshes.emplace_back(MPI_COMM_WORLD, std::array<int, 5>{0, 0, 0, 0, 0});
          const Plane& t   = fields.emplace_back(shared_field<Plane>("t", mesh, {8 * ranks(), 12}));
          exchange(Space(), t);
          redistribute<Columns>(Space(), t);
          const Pictures x("x", mesh, {2, 1, 4 * ranks(), 8});
          MeanSquare loss(x, {});
          loss(space, x, x);
          for (const unsigned dims : {1U, 2U, 4U, 8U, 12U, ~0U})
            impl::RankGroup::of(x.geometry(), dims);
        },
        shard::testing::KokkosTools::off);
    impl::MeshState& state = *meshes.back().state();
    int cut                = 0;
    for (int axis = 0; axis < state.axes(); ++axis) cut += state.extent(axis) > 1 ? 1 : 0;
    const bool windows =
        impl::SharedPool::of(state)->part_of(fields.back().view().data()).bytes > 0;
    const auto live = made.communicators - made.communicators_freed;
    // this mesh's, and the node's unless the first mesh has it
    EXPECT_LE(live, 1 + cut + (m > 0 && (windows || ranks() == 1) ? 0 : 1)) << m << made;
  }
}

TEST(Memory, MeshesThatComeAndGo) {
  const int rounds = thorough() ? 3000 : 60;
  SharedFiles files;
  expect_no_growth("meshes", 20, rounds, 400, [&](int count) {
    for (int round = 0; round < count; ++round) {
      const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
      {
        const Rows t = shared_field<Rows>("t", mesh, {2 * mesh.size(), 4});
        const Exchange halos(t);
        halos(Space());
        if (round % 10 == 0) files.look();
      }
      mesh.release();
    }
  });
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(files.left(), 0);
}

}  // namespace
