// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies between strided blocks, of all shapes for which the kernel goes another way.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "../../src/redistribute/join_kernel.hpp"
#include "support/support.hpp"

namespace block_copy_test {

using shard::index_t;
using shard::impl::BlockCopy;
using Space = Kokkos::DefaultHostExecutionSpace;

/// Strides of an array whose dimensions lie in memory in this order, the first the fastest, with
/// `gap` units between lines; and how many units it has.
std::pair<std::vector<index_t>, index_t> lay(const std::vector<index_t>& n,
                                             const std::vector<std::size_t>& order, index_t gap) {
  std::vector<index_t> stride(n.size());
  index_t units = 1;
  for (const std::size_t d : order) {
    stride[d] = units;
    units     = units * n[d] + gap;
  }
  return {stride, units};
}

/// Copies with the kernel and one value after the other.
template <class T>
void check(const std::vector<index_t>& n, const std::vector<std::size_t>& from_order,
           const std::vector<std::size_t>& to_order, index_t gap, bool packs, bool backwards,
           bool zeros) {
  const auto [from_stride, from_units] = lay(n, from_order, gap);
  const auto [to_stride, to_units]     = lay(n, to_order, gap);
  std::vector<T> from(static_cast<std::size_t>(from_units)), to(static_cast<std::size_t>(to_units)),
      wanted;
  std::iota(from.begin(), from.end(), T(1));
  wanted              = to;
  constexpr auto size = static_cast<index_t>(sizeof(T));
  BlockCopy copy;
  copy.unit              = static_cast<int>(size);
  copy.packs             = packs;
  const std::size_t last = from_order.back();  // may be walked backwards on one side
  const index_t turned   = backwards ? (n[last] - 1) * from_stride[last] : 0;
  for (std::size_t i = 0; i < n.size(); ++i) {
    const std::size_t d = to_order[i];
    copy.add(n[d], (backwards && d == last ? -1 : 1) * from_stride[d] * size, to_stride[d] * size);
  }
  copy.from = zeros ? nullptr : reinterpret_cast<std::byte*>(from.data() + turned);
  copy.to   = reinterpret_cast<std::byte*>(to.data());
  copy.close();
  if (zeros) std::fill(to.begin(), to.end(), T(9)), wanted = to;

  std::vector<index_t> i(n.size());
  for (bool more = true; more;) {
    index_t a = turned, b = 0;
    for (std::size_t d = 0; d < n.size(); ++d) {
      a += (backwards && d == last ? -1 : 1) * i[d] * from_stride[d];
      b += i[d] * to_stride[d];
    }
    wanted[static_cast<std::size_t>(b)] = zeros ? T(0) : from[static_cast<std::size_t>(a)];
    more                                = false;
    for (std::size_t d = 0; d < n.size() && !more; ++d) {
      more = ++i[d] < n[d];
      if (!more) i[d] = 0;
    }
  }
  shard::impl::run_block_copy("copy", Space(), copy);
  Space().fence();
  EXPECT_TRUE(to == wanted) << "extents " << ::testing::PrintToString(n) << ", orders "
                            << ::testing::PrintToString(from_order)
                            << ::testing::PrintToString(to_order) << ", gap " << gap << ", packs "
                            << packs << ", backwards " << backwards << ", zeros " << zeros;
}

TEST(block_copy, random_shapes) {
  std::mt19937_64 random(shard::testing::seed());
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr std::array<index_t, 10> extents{1, 2, 3, 5, 7, 8, 16, 17, 33, 130};
  for (int trial = 0; trial < 600; ++trial) {
    std::vector<index_t> n(1 + below(5));
    index_t all = 1;
    for (index_t& extent : n) {
      extent = extents[below(extents.size())];
      if (all * extent > 60000) extent = 2;
      all *= extent;
    }
    std::vector<std::size_t> from(n.size()), to;
    std::iota(from.begin(), from.end(), 0u);
    to = from;
    std::shuffle(from.begin(), from.end(), random);
    if (below(2) == 0) std::shuffle(to.begin(), to.end(), random);
    const auto gap   = static_cast<index_t>(below(2) * 3);
    const bool packs = below(2) == 0, backwards = below(3) == 0, zeros = below(8) == 0;
    switch (below(4)) {
      case 0: check<std::uint8_t>(n, from, to, gap, packs, backwards, zeros); break;
      case 1: check<std::uint16_t>(n, from, to, gap, packs, backwards, zeros); break;
      case 2: check<std::uint32_t>(n, from, to, gap, packs, backwards, zeros); break;
      default: check<std::uint64_t>(n, from, to, gap, packs, backwards, zeros);
    }
  }
}

// More than caches hold goes past them, lines of all lengths and places in a cache line.
TEST(block_copy, large_blocks) {
  const std::vector<std::size_t> natural{0, 1, 2}, other{0, 2, 1};
  for (const bool packs : {true, false}) {
    check<std::uint32_t>({64, 2, 70000}, natural, other, 0, packs, false, false);
    check<std::uint32_t>({37, 2, 120000}, natural, other, 0, packs, true, false);
    check<std::uint64_t>({1001, 3, 1500}, natural, other, 5, packs, false, false);
    check<std::uint32_t>({600000, 2, 8}, natural, other, 0, packs, false, false);
  }
}

/// A float of 16 bits, 8 of them significant. Hosts have none of Kokkos' own (half_t is float
/// there); the kernels take any type.
struct Sixteen {
  std::uint16_t bits = 0;

  Sixteen() = default;
  explicit Sixteen(float value) {
    std::uint32_t all = 0;
    std::memcpy(&all, &value, sizeof all);
    all += 0x7fffU + (all >> 16U & 1U);  // to nearest, ties to even
    bits = static_cast<std::uint16_t>(all >> 16U);
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    const std::uint32_t all = std::uint32_t{bits} << 16U;
    float value             = 0;
    std::memcpy(&value, &all, sizeof value);
    return value;
  }
};

/// 256 and six ones: in 16 bits none of the ones counts, in 32 they are 262.
std::vector<Sixteen> large_and_ones() {
  std::vector<Sixteen> parts(7, Sixteen(1.0F));
  parts[0] = Sixteen(256.0F);
  EXPECT_EQ(static_cast<float>(Sixteen(257.0F)), 256.0F);
  return parts;
}

TEST(short_floats, contributions_are_added_in_32_bits) {
  auto parts = large_and_ones();
  Sixteen out;
  std::vector<index_t> offsets;
  for (std::size_t p = 0; p < parts.size(); ++p)
    offsets.push_back(static_cast<index_t>(p * sizeof(Sixteen)));
  shard::impl::Join join;
  join.to      = reinterpret_cast<std::byte*>(&out);
  join.sent    = reinterpret_cast<const std::byte*>(parts.data());
  join.offsets = offsets.data();
  join.count   = static_cast<int>(offsets.size());
  for (const bool adds : {false, true}) {
    out       = Sixteen(2.0F);
    join.adds = adds;
    shard::impl::JoinLine{join, join.to, 0, 0, 0, 1}.operator()<Sixteen>();
    EXPECT_EQ(static_cast<float>(out), adds ? 264.0F : 262.0F);
  }
}

TEST(short_floats, pieces_of_a_collective_are_added_in_32_bits) {
  const auto parts = large_and_ones();
  Sixteen out;
  shard::impl::Combine combine;
  combine.parts_at = reinterpret_cast<const std::byte*>(parts.data());
  combine.out      = reinterpret_cast<std::byte*>(&out);
  combine.count    = 1;
  combine.parts    = static_cast<int>(parts.size());
  combine.scale    = 0.5;
  shard::impl::CombineRange{combine, 0, 1}.operator()<Sixteen>();
  EXPECT_EQ(static_cast<float>(out), 131.0F);
}

}  // namespace block_copy_test
