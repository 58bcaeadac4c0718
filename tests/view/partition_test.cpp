// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "shard/base/error.hpp"
#include "support/counting.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using shard::index_t;
using shard::Partition;
using namespace shard::testing;

std::vector<index_t> counts(const Partition& p) {
  std::vector<index_t> all;
  for (int r = 0; r < p.parts(); ++r) all.push_back(p.count(r));
  return all;
}

std::vector<index_t> begins(const Partition& p) {
  std::vector<index_t> all;
  for (int r = 0; r <= p.parts(); ++r) all.push_back(p.begin(r));
  return all;
}

using List = std::vector<index_t>;

TEST(Partition, Tables) {
  EXPECT_EQ(counts(Partition::ceil(10, 4)), (List{3, 3, 3, 1}));
  EXPECT_EQ(counts(Partition::balanced(10, 4)), (List{3, 3, 2, 2}));
  EXPECT_EQ(counts(Partition::ceil(9, 4)), (List{3, 3, 3, 0}));
  EXPECT_EQ(counts(Partition::balanced(9, 4)), (List{3, 2, 2, 2}));
  EXPECT_EQ(counts(Partition::ceil(5, 4)), (List{2, 2, 1, 0}));
  EXPECT_EQ(counts(Partition::balanced(5, 4)), (List{2, 1, 1, 1}));
  EXPECT_EQ(counts(Partition::ceil(721, 4)), (List{181, 181, 181, 178}));
  EXPECT_EQ(counts(Partition::balanced(721, 4)), (List{181, 180, 180, 180}));
  EXPECT_EQ(counts(Partition::ceil(181, 4)), (List{46, 46, 46, 43}));
  EXPECT_EQ(counts(Partition::balanced(181, 4)), (List{46, 45, 45, 45}));
}

TEST(Partition, EmptyParts) {
  EXPECT_EQ(counts(Partition::balanced(2, 4)), (List{1, 1, 0, 0}));
  EXPECT_EQ(counts(Partition::ceil(2, 4)), (List{1, 1, 0, 0}));
  EXPECT_EQ(counts(Partition::balanced(0, 3)), (List{0, 0, 0}));
  EXPECT_EQ(counts(Partition::ceil(0, 3)), (List{0, 0, 0}));
  EXPECT_EQ(begins(Partition::explicit_begins({0, 0, 4, 4, 6, 6})), (List{0, 0, 4, 4, 6, 6}));
  EXPECT_TRUE(Partition().empty());
  EXPECT_FALSE(Partition::balanced(0, 1).empty());
}

/// What the derivations do to a list of begins, from their definitions.
List staggered(List b) {
  const index_t size = b.back();
  std::size_t last   = 0;
  for (std::size_t r = 0; r + 1 < b.size(); ++r)
    if (b[r + 1] > b[r]) last = r;
  for (std::size_t r = last + 1; r < b.size(); ++r) b[r] = size + 1;
  return b;
}
List coarsened(List b, index_t stride, index_t size) {
  for (std::size_t r = 1; r + 1 < b.size(); ++r) {
    index_t c = 0;
    while (c < size && c * stride < b[r]) ++c;
    b[r] = c;
  }
  b.back() = size;
  return b;
}
List refined(List b, index_t stride, index_t size) {
  for (std::size_t r = 1; r + 1 < b.size(); ++r) b[r] = std::min(size, b[r] * stride);
  b.back() = size;
  return b;
}

TEST(Partition, RandomOnesAgreeWithLists) {
  std::mt19937_64 random(shard::testing::seed());
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int trial = 0; trial < 500; ++trial) {
    const int parts = 1 + draw(7);
    List list{0};
    for (int r = 0; r < parts; ++r) list.push_back(list.back() + (draw(3) == 0 ? 0 : draw(6)));
    Partition p = Partition::explicit_begins(list);
    if (const int kind = draw(3); kind > 0) {
      p = kind == 1 ? Partition::balanced(list.back(), parts) : Partition::ceil(list.back(), parts);
      list = begins(p);
    }
    for (int level = draw(4); level > 0; --level) {
      const int stride = 1 + draw(4), more = draw(5);
      switch (draw(3)) {
        case 0:
          p    = p.staggered();
          list = staggered(list);
          break;
        case 1: {
          const index_t size = std::max<index_t>(0, (list.back() + stride - 1) / stride + more - 2);
          p                  = p.coarsened(stride, size);
          list               = coarsened(list, stride, size);
          break;
        }
        default: {
          const index_t size = std::max<index_t>(0, list.back() * stride + more - 2);
          p                  = p.refined(stride, size);
          list               = refined(list, stride, size);
        }
      }
    }
    ASSERT_EQ(begins(p), list) << p.describe();
    ASSERT_EQ(p.size(), list.back());
    ASSERT_EQ(p, Partition::explicit_begins(list)) << p.describe();
    for (index_t g = 0; g < p.size(); ++g) {
      const int owner = p.owner(g);
      ASSERT_TRUE(p.begin(owner) <= g && g < p.end(owner)) << p.describe() << ", index " << g;
    }
    for (index_t g = -3; g < p.size() + 3; ++g) {
      int first = 0;
      while (first < parts && list[static_cast<std::size_t>(first) + 1] <= g) ++first;
      ASSERT_EQ(p.first_ending_after(g), first) << p.describe() << ", index " << g;
    }
  }
}

TEST(Partition, DifferentOnesDiffer) {
  EXPECT_NE(Partition::balanced(9, 4), Partition::ceil(9, 4));
  EXPECT_NE(Partition::balanced(9, 4), Partition::balanced(9, 3));
  EXPECT_NE(Partition::balanced(9, 4), Partition::balanced(9, 4).staggered());
  EXPECT_EQ(Partition::balanced(8, 4), Partition::ceil(8, 4));
  EXPECT_NE(Partition::balanced(9, 4).hash(1), Partition::balanced(9, 4).coarsened(2, 9).hash(1));
}

TEST(Partition, ManyPartsStoreNoList) {
  const shard::testing::Counts counted = shard::testing::count([] {
    const Partition balanced = Partition::balanced(1'000'000'000'007, 100'000);
    const Partition ceil     = Partition::ceil(1'000'000'000'007, 100'000);
    EXPECT_EQ(balanced.owner(1'000'000'000'006), 99'999);
    EXPECT_EQ(balanced.begin(100'000), 1'000'000'000'007);
    EXPECT_EQ(ceil.count(0), 10'000'001);
  });
  EXPECT_EQ(counted.news, 0) << counted;
}

TEST(Partition, Errors) {
  using shard::ArgumentError;
  expect_parts(message_thrown_by<ArgumentError>([] { (void)Partition::balanced(-3, 2); }),
               {"-3", "2 parts"});
  expect_parts(message_thrown_by<ArgumentError>([] { (void)Partition::ceil(3, 0); }), {"0 parts"});
  expect_parts(message_thrown_by<ArgumentError>([] {
                 (void)Partition::explicit_begins({0, 4, 3});
               }),
               {"[0, 4, 3]"});
  message_thrown_by<ArgumentError>([] { (void)Partition::explicit_begins({1, 4}); });
  message_thrown_by<ArgumentError>([] { (void)Partition::explicit_begins({0}); });
  expect_parts(message_thrown_by<ArgumentError>([] {
                 (void)Partition::explicit_counts({2, -1});
               }),
               {"[2, -1]"});
  expect_parts(message_thrown_by<ArgumentError>([] { (void)Partition::balanced(5, 2).owner(5); }),
               {"5", "[0, 5)"});
  message_thrown_by<ArgumentError>([] { (void)Partition().staggered(); });
  message_thrown_by<ArgumentError>([] { (void)Partition::balanced(5, 2).coarsened(0, 3); });
}

}  // namespace
