// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that the ranks of a node share: pieces of it come and go, and may be refused.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "windows.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
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

/// A field in shared memory, right in the end: where it begins.
const void* place_of_a_field(const Mesh<Y>& mesh, double factor, index_t columns = 64) {
  const Rows t = shared_field<Rows>("t", mesh, {mesh.size(), columns});
  EXPECT_TRUE(is_shared(t));
  fill(t, factor);
  exchange(Space(), t);
  EXPECT_EQ(wrong_cells(t, factor), 0);
  return t.view().data();
}

TEST(Shared, TheNextMeshTakesTheWindowsOfOneThatIsGone) {
  auto first = std::make_unique<Mesh<Y>>(MPI_COMM_WORLD, Extents<1>{0});
  if (!windows_of_all(first->state())) GTEST_SKIP() << "no windows of all ranks here";
  first->release();
  const impl::SharedPool* pool = impl::SharedPool::of(*first->state()).get();
  place_of_a_field(*first, 1);
  // two that live at once have two
  auto second = std::make_unique<Mesh<Y>>(MPI_COMM_WORLD, Extents<1>{0});
  EXPECT_NE(impl::SharedPool::of(*second->state()).get(), pool);
  place_of_a_field(*second, 2);
  first.reset();
  const Mesh<Y> third(MPI_COMM_WORLD, {0});
  EXPECT_EQ(impl::SharedPool::of(*third.state()).get(), pool);
  place_of_a_field(third, 3);
  // a mesh that one rank still has keeps its own
  const impl::SharedPool* seconds = impl::SharedPool::of(*second->state()).get();
  auto copy = second->rank() == second->size() - 1 ? std::make_unique<Mesh<Y>>(*second) : nullptr;
  second.reset();
  const Mesh<Y> fourth(MPI_COMM_WORLD, {0});
  if (fourth.size() > 1) {
    EXPECT_NE(impl::SharedPool::of(*fourth.state()).get(), seconds);
  }
  copy.reset();
  const Mesh<Y> fifth(MPI_COMM_WORLD, {0});
  EXPECT_EQ(impl::SharedPool::of(*fifth.state()).get(), seconds);
  place_of_a_field(fourth, 4);
  place_of_a_field(fifth, 5);
}

TEST(Shared, IdleWindowsHaveABound) {
  if (shard::testing::ranks() > 2) GTEST_SKIP() << "takes memory";
  const auto mesh = [] { return std::make_unique<Mesh<Y>>(MPI_COMM_WORLD, Extents<1>{0}); };
  const auto last = mesh();
  if (!windows(last->state())) GTEST_SKIP() << "no windows here";
  place_of_a_field(*last, 1);
  {
    const auto one = mesh(), two = mesh(), three = mesh();
    constexpr auto columns = static_cast<index_t>(impl::SharedPool::most_idle * 2 / 5 / (3 * 8));
    for (const auto* m : {&one, &two, &three}) place_of_a_field(**m, 2, columns);
  }
  const auto waiting = [&] {
    const std::string words = describe(*last), before = "kept for later meshes: ";
    return std::stoull(words.substr(words.find(before) + before.size()));
  };
  EXPECT_GT(waiting(), impl::SharedPool::most_idle);
  place_of_a_field(*last, 3);  // allocates, which is collective
  EXPECT_LE(waiting(), impl::SharedPool::most_idle);
  EXPECT_GT(waiting(), 0U);
  last->release();
  EXPECT_EQ(waiting(), 0U);
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
  if (const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
      windows(mesh.state()) && !windows_of_all(mesh.state()))
    GTEST_SKIP() << "another machine has room";
  ::testing::internal::CaptureStderr();
  bool can = false;
  for (const std::size_t room : {std::size_t{1} << 20, std::size_t{0}}) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const auto pool = impl::SharedPool::of(*mesh.state());
    can             = windows(mesh.state());
    mesh.release();  // what it took over from the last one
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
                  "memory and messages are used instead\n"
                : "");
}

}  // namespace
