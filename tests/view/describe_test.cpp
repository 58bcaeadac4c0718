// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/describe.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/view/sharding_spec.hpp"
#include "support/support.hpp"

namespace {

struct Lat;
struct Lon;

using namespace shard;
using Extents = std::vector<index_t>;

std::string picture(const LogicalMesh& mesh, const PartitionSpec& spec, const Extents& extents,
                    index_t bytes = 0) {
  return describe(mesh.get_op_sharding(spec), extents, bytes);
}

TEST(Describe, OneDimensionUneven) {
  EXPECT_EQ(picture(shard::one_axis_mesh(4), {0}, {10}, 4),
            "10 on 4 devices, TILED\n"
            "dimension 0: ceil 10 over 4\n"
            "bytes: 4 to 12 a device, 40 in all\n"
            "with padding: 12 a device, 48 in all\n"
            "boxes: devices\n"
            "  0:3    3:6    6:9    9:10\n"
            "+------+------+------+------+\n"
            "|  0   |  1   |  2   |  3   |\n"
            "+------+------+------+------+\n");
}

TEST(Describe, TwoDimensions) {
  EXPECT_EQ(picture(LogicalMesh::of_shape({2, 2}), {0, 1}, {8, 7}),
            "8 x 7 on 4 devices, TILED\n"
            "dimension 0: ceil 8 over 2\n"
            "dimension 1: ceil 7 over 2\n"
            "cells: 12 to 16 a device, 56 in all\n"
            "with padding: 16 a device, 64 in all\n"
            "boxes: devices, dimension 0 downwards, dimension 1 to the right\n"
            "      0:4   4:7\n"
            "    +-----+-----+\n"
            "0:4 |  0  |  1  |\n"
            "    +-----+-----+\n"
            "4:8 |  2  |  3  |\n"
            "    +-----+-----+\n");
}

TEST(Describe, EmptyShardsAndReplicas) {
  EXPECT_EQ(picture(LogicalMesh::of_shape({4, 2}), {0, none}, {9, 5}),
            "9 x 5 on 8 devices, PARTIAL\n"
            "dimension 0: ceil 9 over 4\n"
            "dimension 1: whole\n"
            "cells: 0 to 15 a device, 90 in all\n"
            "with padding: 15 a device, 120 in all\n"
            "boxes: devices, dimension 0 downwards, dimension 1 to the right; replicas beside one "
            "another; in brackets: empty\n"
            "       0:5\n"
            "    +-------+\n"
            "0:3 |  0,1  |\n"
            "    +-------+\n"
            "3:6 |  2,3  |\n"
            "    +-------+\n"
            "6:9 |  4,5  |\n"
            "    +-------+\n"
            "9:9 | (6,7) |\n"
            "    +-------+\n");
}

TEST(Describe, Replicated) {
  EXPECT_EQ(picture(shard::one_axis_mesh(12), {none, none}, {3, 4}, 8),
            "3 x 4 on 12 devices, REPLICATED\n"
            "dimension 0: whole\n"
            "dimension 1: whole\n"
            "bytes: 96 a device, 1152 in all\n"
            "boxes: devices, dimension 0 downwards, dimension 1 to the right; replicas beside one "
            "another\n"
            "            0:4\n"
            "    +------------------+\n"
            "0:3 | 0,1,2,..,11 (12) |\n"
            "    +------------------+\n");
}

TEST(Describe, TuplesAndHiddenDimensions) {
  EXPECT_EQ(picture(LogicalMesh::of_shape({2, 2}), {none, {1, 0}}, {2, 8}),
            "2 x 8 on 4 devices, PARTIAL\n"
            "dimension 0: whole\n"
            "dimension 1: ceil 8 over 4\n"
            "cells: 4 a device, 16 in all\n"
            "boxes: devices, dimension 0 downwards, dimension 1 to the right\n"
            "      0:2   2:4   4:6   6:8\n"
            "    +-----+-----+-----+-----+\n"
            "0:2 |  0  |  2  |  1  |  3  |\n"
            "    +-----+-----+-----+-----+\n");
  EXPECT_EQ(picture(LogicalMesh::of_shape({2, 2, 2}), {0, none, 1, 2}, {4, 3, 4, 2}),
            "4 x 3 x 4 x 2 on 8 devices, PARTIAL\n"
            "dimension 0: ceil 4 over 2\n"
            "dimension 1: whole\n"
            "dimension 2: ceil 4 over 2\n"
            "dimension 3: ceil 2 over 2\n"
            "cells: 12 a device, 96 in all\n"
            "boxes: devices, dimension 0 downwards, dimension 2 to the right; '/' between the "
            "tiles of dimension 3\n"
            "       0:2     2:4\n"
            "    +-------+-------+\n"
            "0:2 | 0 / 1 | 2 / 3 |\n"
            "    +-------+-------+\n"
            "2:4 | 4 / 5 | 6 / 7 |\n"
            "    +-------+-------+\n");
}

TEST(Describe, NoDimensions) {
  EXPECT_EQ(picture(shard::one_axis_mesh(2), {}, {}),
            "one value on 2 devices, REPLICATED\n"
            "cells: 1 a device, 2 in all\n"
            "boxes: devices; replicas beside one another\n"
            "+-----+\n"
            "| 0,1 |\n"
            "+-----+\n");
}

TEST(Describe, ManyBoxesLeaveOutTheMiddle) {
  const std::string words = picture(LogicalMesh::of_shape({128, 64}), {0, 1}, {1280, 6400});
  EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 5 + 1 + 2 * 24 + 1);
  std::size_t longest = 0, begin = 0;
  for (std::size_t end; (end = words.find('\n', begin)) != std::string::npos; begin = end + 1)
    longest = std::max(longest, end - begin);
  EXPECT_LE(longest, 120U);
  for (const char* part : {"8191", "1270:1280", "6300:6400", "..."})
    EXPECT_NE(words.find(part), std::string::npos) << part << " in\n" << words;
}

TEST(Describe, MoreCellsThanCanBeCounted) {
  const index_t n         = index_t{1} << 40;
  const std::string words = picture(shard::one_axis_mesh(2), {0, none}, {n, n});
  EXPECT_NE(words.find("cells: more than 2^63 a device, more than 2^63 in all"), std::string::npos)
      << words;
}

/// Numbers in words, whatever stands between them.
std::vector<int> numbers_in(const std::string& words) {
  std::vector<int> found;
  bool inside = false;
  for (const char c : words) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !inside) found.push_back(0);
    if (digit) found.back() = 10 * found.back() + (c - '0');
    inside = digit;
  }
  return found;
}

TEST(Describe, RandomLayouts) {
  std::mt19937_64 random(shard::testing::seed());
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const LogicalMesh mesh = LogicalMesh::of_shape({pick(1, 4), pick(1, 2)});
    Extents extents(static_cast<std::size_t>(pick(1, 4)));
    for (index_t& n : extents) n = pick(0, 9);
    std::string spec_text;
    std::vector<std::string> entries(extents.size(), "None");
    for (int axis = 0; axis < 2; ++axis)
      if (pick(0, 2) > 0) {
        std::string& entry =
            entries[static_cast<std::size_t>(pick(0, static_cast<int>(extents.size()) - 1))];
        entry = entry == "None" ? std::to_string(axis) : "(" + entry + ", 1)";
      }
    for (const std::string& entry : entries) spec_text += entry + ", ";
    const shard::OpSharding sharding =
        mesh.get_op_sharding(PartitionSpec::from_text("(" + spec_text + ")"));
    const shard::ShardLayout layout(
        sharding, extents, pick(0, 1) == 0 ? shard::ShardRule::ceil : shard::ShardRule::balanced);
    const ShardPicture drawn = shard::shard_picture(layout, 1);
    ASSERT_EQ(drawn.holders.size(), drawn.rows.size() * drawn.columns.size());
    ASSERT_EQ(drawn.text(), describe(layout, 1));

    // each device in one box, the one with its indices; in brackets if they are none
    std::vector<int> seen(static_cast<std::size_t>(mesh.size()), 0);
    index_t least = 1000000, most = 0, sum = 0;
    for (std::size_t i = 0; i < drawn.rows.size(); ++i)
      for (std::size_t j = 0; j < drawn.columns.size(); ++j) {
        const std::string& words = drawn.holders[i * drawn.columns.size() + j];
        for (const int device : numbers_in(words)) {
          ++seen[static_cast<std::size_t>(device)];
          const shard::DeviceShard held = layout.shard(device);
          const auto matches            = [&](int d, const ShardPicture::Range& range) {
            const auto at = static_cast<std::size_t>(std::max(d, 0));
            return d < 0 || ShardPicture::Range(held.begin[at], held.end[at]) == range;
          };
          EXPECT_TRUE(matches(drawn.row_dim, drawn.rows[i])) << drawn.text();
          EXPECT_TRUE(matches(drawn.column_dim, drawn.columns[j])) << drawn.text();
          index_t cells = 1;
          for (const index_t n : held.extent()) cells *= n;
          least = std::min(least, cells);
          most  = std::max(most, cells);
          sum += cells;
          if (cells == 0) {
            EXPECT_NE(words.find('('), std::string::npos) << drawn.text();
          }
        }
      }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << drawn.text();
    const std::string each = least == most ? std::to_string(most)
                                           : std::to_string(least) + " to " + std::to_string(most);
    EXPECT_NE(
        drawn.text().find("bytes: " + each + " a device, " + std::to_string(sum) + " in all\n"),
        std::string::npos)
        << drawn.text() << "should say " << each << ", " << sum;
  }
}

TEST(Describe, AField) {
  const int n = shard::testing::ranks();
  const shard::Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {n, 1});
  using Field = shard::ShardedView<double***, Kokkos::LayoutRight,
                                   shard::ShardDim<1, Lat, shard::Halo<2, 1>, shard::Reflect>,
                                   shard::ShardDim<2, Lon, shard::Halo<1>, shard::Periodic>>;
  const Field field("t", mesh, {3, 4 * n + 1, 6});
  const std::string words = describe(field);
  const auto number       = [](int i) { return std::to_string(i); };
  const int rows          = 4 * n + 1;
  const std::vector<std::string> parts{
      "\"t\": 3 x " + number(rows) + " x 6 of 8 bytes on a mesh of " + number(n) + " x 1 ranks\n",
      "dimension 0: whole\n",
      "dimension 1: balanced " + number(rows) + " over " + number(n) +
          " ranks of mesh axis 0, halo 2 before and 1 after, reflect outside the domain\n",
      "dimension 2: balanced 6 over 1 ranks of mesh axis 1, halo 1 before and 1 after, "
      "periodic outside the domain\n",
      " a rank, " + number(rows * 18 * 8) + " in all\nwith halos: ",
      // each rank's rows and three more, two columns more
      " a rank, " + number((rows + 3 * n) * 3 * 8 * 8) + " in all\n"};
  for (const std::string& part : parts)
    EXPECT_NE(words.find(part), std::string::npos) << part << " should stand in\n" << words;
  const std::vector<std::string>& holders = shard::shard_picture(field).holders;
  if (n > 1) {
    ASSERT_EQ(holders.size(), static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) EXPECT_EQ(holders[static_cast<std::size_t>(r)], number(r));
  }
  EXPECT_THROW((void)describe(Field()), shard::ArgumentError);
}

TEST(Describe, AFieldOfReplicas) {
  const int n = shard::testing::ranks();
  if (n % 2 != 0) return;
  shard::MeshOptions turned;
  for (int r = n - 1; r >= 0; --r) turned.order.push_back(r);  // place 0 is the last rank
  const shard::Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {2, n / 2}, turned);
  using Rows = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>>;
  const ShardPicture drawn = shard::shard_picture(Rows("rows", mesh, {1, 3}));
  ASSERT_EQ(drawn.holders.size(), 2U);
  const std::vector<int> first = numbers_in(drawn.holders[0]), last = numbers_in(drawn.holders[1]);
  ASSERT_EQ(first.size(), static_cast<std::size_t>(n / 2));
  for (int r = 0; r < n / 2; ++r) {
    EXPECT_EQ(first[static_cast<std::size_t>(r)], n - 1 - r);
    EXPECT_EQ(last[static_cast<std::size_t>(r)], n / 2 - 1 - r);
  }
  EXPECT_EQ(drawn.holders[1].front(), '(');  // one row for two

  using Sums = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>,
                                  shard::Partial<Lon, shard::Sum>>;
  const std::string words = describe(Sums("sums", mesh, {2, 3}));
  EXPECT_NE(words.find("ranks of mesh axis 1 have contributions to the sum\n"), std::string::npos)
      << words;
  EXPECT_EQ(words.find("; contributions beside one another") == std::string::npos, n == 2) << words;
}

}  // namespace
