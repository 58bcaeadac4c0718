// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that the ranks of a node share: pieces of it come and go, and may be refused.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "shard/comm/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "windows.hpp"

namespace {

using namespace shard;
using shard::testing::fill;
using shard::testing::Rows;
using shard::testing::windows;
using shard::testing::wrong_cells;
using shard::testing::Y;
using Space = Kokkos::DefaultHostExecutionSpace;

TEST(Shared, PiecesComeBackInAnyOrder) {
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  if (!windows(mesh.state())) GTEST_SKIP() << "no windows here";
  const auto pool   = impl::SharedPool::of(*mesh.state());
  const void* first = nullptr;
  for (int round = 0; round < 20; ++round) {
    std::vector<Rows> fields;
    for (int f = 0; f < 6; ++f)
      fields.push_back(shared_field<Rows>("f", mesh, {mesh.size() + f, 64}));
    if (round == 0) first = fields[0].view().data();
    EXPECT_EQ(fields[0].view().data(), first) << "what was given back is used again";
    // each rank in an order of its own
    std::mt19937 dice(static_cast<unsigned>(7 * round + mesh.rank()));
    while (!fields.empty()) {
      std::swap(fields[dice() % fields.size()], fields.back());
      fields.pop_back();
    }
  }
  mesh.release();
  const Rows again = shared_field<Rows>("again", mesh, {mesh.size(), 64});
  fill(again, 1);
  exchange(Space(), again);
  EXPECT_EQ(wrong_cells(again, 1), 0);
}

/// Has a field that is too large for the pool, and says of each cell what it is to be.
void expect_an_ordinary_field(const Mesh<Y>& mesh, index_t columns) {
  const Rows t = shared_field<Rows>("t", mesh, {3 * mesh.size(), columns});
  EXPECT_FALSE(is_shared(t)) << columns << " columns";
  const Exchange halos(t);
  const Rows wished = halos.allocate<0>("wished");
  EXPECT_FALSE(is_shared(wished));
  for (const Rows& f : {t, wished}) {
    for (std::size_t i = 0; i < f.view().size(); ++i) ASSERT_EQ(f.view().data()[i], 0.0);
    fill(f, static_cast<int>(columns));
    halos(Space(), f);
    EXPECT_EQ(wrong_cells(f, static_cast<int>(columns)), 0);
  }
}

TEST(Shared, NoRoomGivesAnOrdinaryField) {
  ::testing::internal::CaptureStderr();
  bool can = false;
  for (const std::size_t room : {std::size_t{1} << 20, std::size_t{0}}) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const auto pool = impl::SharedPool::of(*mesh.state());
    can             = windows(mesh.state());
    // on one rank there is room for flags and messages, or for nothing
    if (mesh.rank() == mesh.size() - 1) pool->largest_window = room;
    for (const index_t columns : {100000, 120000, 140000}) expect_an_ordinary_field(mesh, columns);
    // more than any machine's /dev/shm, asked for by one rank
    const auto piece = pool->allocate(mesh.rank() == 0 ? std::size_t{1} << 45 : 64);
    EXPECT_EQ(piece.data(), nullptr);
    const Rows t = shared_field<Rows>("t", mesh, {mesh.size(), 64});
    EXPECT_EQ(is_shared(t), can && room > 0);
    fill(t, 2);
    exchange(Space(), t);
    EXPECT_EQ(wrong_cells(t, 2), 0);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            can && shard::testing::rank() == 0
                ? "shard: no room for more shared memory (is /dev/shm large enough?); ordinary "
                  "memory and messages serve instead\n"
                : "");
}

}  // namespace
