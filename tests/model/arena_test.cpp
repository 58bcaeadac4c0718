// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory between a model's layers: one allocation for activations, one for adjoints and
// tangents, in which those share a place that aren't in use at the same time.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "model_support.hpp"
#include "shard/model/arena.hpp"
#include "support/counting.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

/// What a chain's pullback says of its adjoints.
impl::Lifetimes chain_of(const std::vector<index_t>& sizes) {
  impl::Lifetimes lives;
  for (const index_t bytes : sizes) lives.add(bytes);
  int reader = impl::Lifetimes::none;
  for (int i = static_cast<int>(sizes.size()) - 1; i >= 0; --i) {
    lives.begin(i);
    lives.end(reader);
    reader = i;
  }
  lives.end(reader);
  lives.place();
  return lives;
}

TEST(Arena, AChainTakesItsLargestPair) {
  std::mt19937_64 engine(seed());
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<index_t> sizes(1 + engine() % 30);
    for (index_t& s : sizes) s = static_cast<index_t>(64 * (engine() % 100));
    index_t pair = sizes.front();
    for (std::size_t i = 1; i < sizes.size(); ++i) pair = std::max(pair, sizes[i - 1] + sizes[i]);
    EXPECT_EQ(chain_of(sizes).bytes(), pair);
  }
  // pieces begin at multiples of 64
  const impl::Lifetimes odd = chain_of({8, 72, 1});
  EXPECT_EQ(odd.bytes(), 192);
  EXPECT_EQ(odd.apart(), 256);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(odd.offset(i) % 64, 0);
}

TEST(Arena, WhatIsInUseTogetherDoesNotOverlap) {
  std::mt19937_64 engine(seed() + 1);
  int as_small_as_possible = 0;
  for (int trial = 0; trial < 200; ++trial) {
    impl::Lifetimes lives;
    std::vector<index_t> bytes(20), alive;
    std::vector<std::vector<bool>> together(20, std::vector<bool>(20, false));
    std::vector<int> open;
    int begun = 0;
    for (index_t& b : bytes) {
      b = static_cast<index_t>(engine() % 1000);
      lives.add(b);
    }
    while (begun < 20 || !open.empty()) {
      if (begun < 20 && (open.empty() || engine() % 2 == 0)) {
        lives.begin(begun);
        for (const int other : open)
          together[static_cast<std::size_t>(begun)][static_cast<std::size_t>(other)] = true;
        open.push_back(begun++);
      } else {
        const auto at = open.begin() + static_cast<std::ptrdiff_t>(engine() % open.size());
        lives.hold(*at);
        lives.end(*at);
        lives.end(*at);
        open.erase(at);
      }
    }
    lives.place();
    for (int a = 0; a < 20; ++a)
      for (int b = 0; b < a; ++b) {
        const index_t at = lives.offset(a), bt = lives.offset(b),
                      as = bytes[static_cast<std::size_t>(a)],
                      bs = bytes[static_cast<std::size_t>(b)];
        if (together[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] && as * bs > 0) {
          EXPECT_TRUE(at + as <= bt || bt + bs <= at) << trial << ": " << a << ", " << b;
        }
        EXPECT_LE(at + as, lives.bytes());
      }
    EXPECT_GE(lives.bytes(), lives.most_alive());
    EXPECT_LE(lives.bytes(), lives.apart());
    if (lives.bytes() == lives.most_alive()) ++as_small_as_possible;
  }
  EXPECT_GT(as_small_as_possible, 100);
}

auto deep() {
  return sequential<double>(Conv3{2, 4}, Conv3{4, 4}, Conv3{4, 4}, Conv3{4, 4}, Conv3{4, 4},
                            Conv3{4, 4}, Conv3{4, 4}, Conv3{4, 2});
}
auto with_skips() {
  return sequential<double>(Conv3{2, 4}, SiLU{}, residual(Conv3{4, 4}, SiLU{}),
                            concat(Down{4, 8}, SiLU{}, Conv3{8, 8}, Up{8, 4}),
                            Conv<Kernel<1, 1>>{8, 2});
}

/// Bytes of a field of `channels` maps.
constexpr index_t bytes_of(index_t channels, index_t rows, index_t columns) {
  return channels * rows * columns * static_cast<index_t>(sizeof(double));
}

TEST(Arena, AModelsAdjointsTakeWhatLivesTogether) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  {
    const auto model = domain_parallel<Lat, Lon>(deep(), self);
    EXPECT_EQ(model.memory().activations, 0);
    const auto x = model.input("x", {1, 2, 16, 16});
    model.prepare(x);
    const index_t one        = bytes_of(4, 18, 18);  // each with the next layer's halo
    const ModelMemory memory = model.memory();
    EXPECT_EQ(memory.activations, 7 * one);
    EXPECT_EQ(memory.adjoints_apart, 7 * one);
    EXPECT_EQ(memory.adjoints, 2 * one);
  }
  const auto model = domain_parallel<Lat, Lon>(with_skips(), self);
  model.prepare(model.input("x", {1, 2, 16, 16}));
  const ModelMemory memory = model.memory();
  const index_t plain = bytes_of(4, 16, 16), haloed = bytes_of(4, 18, 18),
                joined = bytes_of(8, 16, 16), low = bytes_of(8, 8, 8),
                low_haloed = bytes_of(8, 10, 10);
  using UpHalo             = required_halo_t<Up, 0>;
  const index_t lows =
      low + low_haloed + bytes_of(8, 8 + UpHalo::lo + UpHalo::hi, 8 + UpHalo::lo + UpHalo::hi);
  // before SiLU, before and in the residual, before concat; in it; before the head
  const index_t between = plain + haloed + plain + haloed + lows + joined;
  EXPECT_EQ(memory.activations, between + plain);
  // the skipped one of concat, and what it adds to its input's
  EXPECT_EQ(memory.adjoints_apart, between + plain + haloed);
  // where tangents are joined: the skip's, with its halo, the skipped's, and both
  EXPECT_EQ(memory.adjoints, haloed + plain + joined);
}

std::int64_t bytes_under(const Counts& counts, const std::string& begin, int* pieces = nullptr) {
  std::int64_t sum = 0;
  for (const auto& [label, bytes] : counts.allocated)
    if (label.rfind(begin, 0) == 0) {
      sum += bytes;
      if (pieces != nullptr) ++*pieces;
    }
  return sum;
}

TEST(Arena, EachIsOneAllocationAndLaterStepsMakeNone) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model = domain_parallel<Lat, Lon>(with_skips(), mesh);
  const Space space;
  const auto x = model.input("x", {1, 2, 13, 11}), tx = x.like("tx"), dx = x.like("dx");
  const auto y = model.output(x), ty = y.like("ty"), dy = y.like("dy");
  fill(x, 0.1);
  fill(tx, 0.2);
  fill(dy, 0.3);
  EXPECT_NE(message_thrown_by<ArgumentError>([&] {
              model.pullback(space, dx, dy, x);
            }).find("there was none"),
            std::string::npos);
  const auto forward  = [&] { model.apply(space, y, x); };
  const auto backward = [&] { model.pullback(space, dx, dy, x); };
  const auto tangent  = [&] { model.pushforward(space, ty, tx, x); };

  int pieces         = 0;
  const Counts apply = count(forward);
  EXPECT_EQ(bytes_under(apply, "shard::activations", &pieces), model.memory().activations);
  EXPECT_EQ(pieces, 1);
  EXPECT_EQ(bytes_under(apply, "shard::skipped"), 0);
  EXPECT_EQ(bytes_under(apply, "shard::adjoint"), 0);
  pieces            = 0;
  const Counts pull = count(backward);
  EXPECT_EQ(bytes_under(pull, "shard::adjoint", &pieces), model.memory().adjoints);
  EXPECT_EQ(pieces, 1);
  const Counts push = count(tangent);  // in the same memory
  EXPECT_EQ(bytes_under(push, "shard::adjoint") + bytes_under(push, "shard::tangent"), 0);
  for (const auto& later : {count(forward), count(backward), count(tangent)}) {
    EXPECT_EQ(later.allocations, 0) << later;
    EXPECT_EQ(later.allocated_bytes, 0) << later;
  }
}

TEST(Arena, WhatAPlaceHeldBeforeChangesNothing) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model = domain_parallel<Lat, Lon>(with_skips(), mesh);
  const Space space;
  const auto x = model.input("x", {1, 2, 13, 11}), tx = x.like("tx"), dx = x.like("dx");
  const auto y = model.output(x), ty = y.like("ty"), dy = y.like("dy");
  fill(tx, 0.2);
  fill(dy, 0.3);
  std::vector<double> first[3], later[3];
  const auto all = [&](std::vector<double>* results) {
    fill(x, 0.1);
    model.apply(space, y, x);
    Kokkos::deep_copy(space, model.gradients().values(), 0.0);
    model.pullback(space, dx, dy, x);
    results[0] = world(dx);
    results[1] = summed(model.gradients().values(), mesh.communicator());
    model.pushforward(space, ty, tx, x);
    results[2] = world(ty);
  };
  all(first);  // of zeros
  all(later);  // of what the tangents left
  for (int r = 0; r < 3; ++r) EXPECT_EQ(first[r], later[r]) << r;
  // another partition, and back
  const auto small = model.input("small", {1, 2, 6, 6});
  model(space, small);
  all(later);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(first[r], later[r]) << r;
}

}  // namespace
