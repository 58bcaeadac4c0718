// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same bits, whatever carries the values, in which messages, when they arrive and how many
// threads there are.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shard/shard.hpp"
#include "support/support.hpp"

struct X;
struct Y;

namespace {

using namespace shard;
using shard::testing::ScopedVariable;
using Space = Kokkos::DefaultHostExecutionSpace;
using Host  = Kokkos::HostSpace;

using Folded = ShardedView<double**, Kokkos::LayoutRight,
                           ShardDim<0, Y, Halo<3, 2>, PoleFold<1, Pole::on_row, Parity::odd>>,
                           ShardDim<1, X, Halo<2, 4>, Periodic>, Host>;
using Mirrored =
    ShardedView<float***, Kokkos::LayoutLeft, ShardDim<1, Y, Halo<2>, Sides<Symmetric, Reflect>>,
                ShardDim<2, X, Halo<1, 3>, Sides<Clamp, Constant<3>>>, Host>;
/// Where an odd fold meets zeros, and constants one another: corners have one right sign and value.
using Cornered =
    ShardedView<double***, Kokkos::LayoutRight,
                ShardDim<0, Unsharded, Halo<1>, Sides<Zero, Constant<5>>>,
                ShardDim<1, Y, Halo<2>, Sides<PoleFold<2, Pole::between_rows, Parity::odd>, Clamp>>,
                ShardDim<2, X, Halo<2>, Sides<Constant<7>, Reflect>>, Host>;
using Deep = ShardedView<Kokkos::complex<double>*, Kokkos::LayoutRight,
                         ShardDim<0, Axes<Y, X>, Halo<7, 9>, Periodic>, Host>;

constexpr std::size_t direct = 1, packed = std::numeric_limits<std::size_t>::max();

/// One of the ways in which a plan may move the same values.
struct Way {
  const char* words;
  Tuning tuning;
  bool shared;  // fields in shared memory
};

std::vector<Way> ways() {
  const auto mpi = [](MessageLayout messages) {
    return Tuning{.transport = TransportKind::mpi, .messages = messages};
  };
  return {
      {"MPI, a message for each peer", mpi(MessageLayout::one_per_peer), false},
      {"MPI, a message for each field", mpi(MessageLayout::one_per_field), false},
      {"MPI, dimension by dimension", mpi(MessageLayout::by_dimension), false},
      {"MPI, a message for each box", mpi(MessageLayout::one_per_box), false},
      {"MPI, messages by size", mpi(MessageLayout::by_size), false},
      {"packed from ordinary memory", {.direct_run = packed}, false},
      {"packed from shared memory", {.direct_run = packed}, true},
      {"read where it lies", {.direct_run = direct}, true},
      {"read where it lies within a node, a message for each box beyond",
       {.direct_run = direct, .messages = MessageLayout::one_per_box},
       true},
      {"packed from shared memory, dimension by dimension",
       {.direct_run = packed, .messages = MessageLayout::by_dimension},
       true},
      {"read where it lies, dimension by dimension",
       {.direct_run = direct, .messages = MessageLayout::by_dimension},
       true},
  };
}

/// Uneven parts, of which some are empty where there are several; the same on every rank.
Partition uneven(std::mt19937& dice, index_t n, int parts) {
  std::vector<index_t> begins{0};
  for (int r = 1; r < parts; ++r)
    begins.push_back(static_cast<index_t>(dice() % static_cast<unsigned>(n + 1)));
  begins.push_back(n);
  std::sort(begins.begin(), begins.end());
  return Partition::explicit_begins(begins);
}

/// Partitions of the four fields.
struct Places {
  std::array<Partition, 2> folded;
  std::array<Partition, 3> mirrored;
  std::array<Partition, 3> cornered;
  std::array<Partition, 1> deep;

  Places(std::mt19937& dice, int ny, int nx)
      : folded{uneven(dice, 9, ny), uneven(dice, 14, nx)},
        mirrored{Partition::balanced(3, 1), uneven(dice, 8, ny), uneven(dice, 7, nx)},
        cornered{Partition::balanced(2, 1), uneven(dice, 6, ny), uneven(dice, 8, nx)},
        deep{uneven(dice, 12, ny * nx)} {}
};

/// Four fields of random reals, and their bits.
struct Fields {
  Folded folded;
  Mirrored mirrored;
  Cornered cornered;
  Deep deep;

  Fields(const Mesh<Y, X>& mesh, const Places& places, bool shared)
      : folded(make<Folded>("folded", mesh, places.folded, shared)),
        mirrored(make<Mirrored>("mirrored", mesh, places.mirrored, shared)),
        cornered(make<Cornered>("cornered", mesh, places.cornered, shared)),
        deep(make<Deep>("deep", mesh, places.deep, shared)) {}

  /// All cells, the halos' too. Of sizes far apart, so that sums in another order have other bits.
  void fill(unsigned salt) const {
    std::mt19937_64 dice(salt);
    std::uniform_real_distribution<double> digits(-1, 1);
    const auto real = [&] { return std::ldexp(digits(dice), static_cast<int>(dice() % 24) - 12); };
    for (std::size_t i = 0; i < folded.view().span(); ++i) folded.view().data()[i] = real();
    for (std::size_t i = 0; i < mirrored.view().span(); ++i)
      mirrored.view().data()[i] = static_cast<float>(real());
    for (std::size_t i = 0; i < cornered.view().span(); ++i) cornered.view().data()[i] = real();
    for (std::size_t i = 0; i < deep.view().span(); ++i)
      deep.view().data()[i] = Kokkos::complex<double>{real(), real()};
  }
  std::vector<std::byte> bits() const {
    std::vector<std::byte> all;
    const auto add = [&](const auto& view) {
      const auto* first = reinterpret_cast<const std::byte*>(view.data());
      all.insert(all.end(), first, first + view.span() * sizeof(*view.data()));
    };
    add(folded.view());
    add(mirrored.view());
    add(cornered.view());
    add(deep.view());
    return all;
  }

 private:
  template <class Field, std::size_t Rank>
  static Field make(const char* label, const Mesh<Y, X>& mesh,
                    const std::array<Partition, Rank>& partitions, bool shared) {
    return shared ? shard::shared_field<Field>(label, mesh, partitions)
                  : Field(label, mesh, partitions);
  }
};

/// Calls function(space) for an instance of all threads, and for one of a single thread.
template <class Function>
void for_instances(const Function& function) {
  function(Space());
  if (Space().concurrency() == 1) return;
#ifdef KOKKOS_ENABLE_OPENMP
  // by its size: without nested parallelism each of partition_space's instances has all threads
  const Kokkos::OpenMP alone(1);
  ASSERT_EQ(alone.concurrency(), 1);
  function(alone);
#endif
}

/// Sleeps now and then, on each rank at other times.
class Delays {
 public:
  Delays(std::uint64_t seed, int rank) : dice_(seed * 1009 + static_cast<std::uint64_t>(rank)) {}
  void operator()() {
    if (dice_() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice_() % 1500));
  }

 private:
  std::mt19937_64 dice_;
};

/// Runs the same forward exchange and the same transpose in every way, on nodes of all ranks and of
/// two, and compares the bits of all fields on this rank with those of the first way.
void compare_bits(int world, int* compared) {
  std::mt19937 dice(static_cast<unsigned>(shard::testing::seed()) +
                    31 * static_cast<unsigned>(world));
  std::optional<Places> places;
  std::array<std::vector<std::byte>, 2> expected;  // forward, transposed
  for (const char* ranks_per_node : {"0", "2"}) {
    const ScopedVariable nodes("SHARD_RANKS_PER_NODE", ranks_per_node),
        unchecked("SHARD_CHECK", "0");
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    if (!places) places.emplace(dice, mesh.size<Y>(), mesh.size<X>());
    Delays delay(shard::testing::seed() + static_cast<std::uint64_t>(world), mesh.rank());
    for (const Way& way : ways()) {
      const Fields fields(mesh, *places, way.shared);
      const Exchange halos(way.tuning, fields.folded, fields.mirrored, fields.cornered,
                           fields.deep);
      EXPECT_EQ(halos.tuning().messages, way.tuning.messages);
      for_instances([&](const Space& space) {
        for (const int direction : {0, 1, 0, 1}) {
          fields.fill(static_cast<unsigned>(1000 * world + mesh.rank()));
          delay();
          auto pending = direction == 0 ? halos.start(space) : halos.start_adjoint(space);
          delay();
          pending.finish();
          const auto got = fields.bits();
          auto& wanted   = expected[static_cast<std::size_t>(direction)];
          if (wanted.empty()) wanted = got;
          EXPECT_TRUE(got == wanted)
              << (direction == 0 ? "forward" : "transposed") << ", world " << world
              << ", ranks per node " << ranks_per_node << ", " << way.words << ", "
              << space.concurrency() << " threads, SHARD_SEED=" << shard::testing::seed();
          ++*compared;
        }
      });
    }
    mesh.release();
  }
}

TEST(Bitwise, transpose_is_bitwise_equal) {
#ifdef KOKKOS_ENABLE_OPENMP
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    ASSERT_EQ(Space().concurrency(), std::atoi(threads));
  }
#endif
  int compared = 0;
  for (int world = 0; world < (shard::testing::thorough() ? 40 : 4); ++world)
    compare_bits(world, &compared);
  if (shard::testing::rank() == 0)
    std::printf(
        "%d exchanges in %zu ways, on nodes of all ranks and of two, with 1 and %d threads\n",
        compared, ways().size(), Space().concurrency());
}

}  // namespace
