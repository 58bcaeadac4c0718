// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// image_of against a walk: from the edge cell outwards, one step at a time.
#include "shard/view/index_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace {

using namespace shard;

/// Somebody who walks along the dimension and does at the ends what the boundary says.
struct Walker {
  BoundaryKind kind;
  index_t n, cell;
  int direction;
  index_t crossed = 0;

  bool outside(index_t c) const { return c < 0 || c >= n; }

  void step() {
    const index_t next = cell + direction;
    if (!outside(next)) {
      cell = next;
      return;
    }
    switch (kind) {
      case BoundaryKind::periodic: cell = direction > 0 ? 0 : n - 1; return;
      case BoundaryKind::clamp:
      case BoundaryKind::constant: return;
      case BoundaryKind::fold_on_row:
      case BoundaryKind::reflect:
        ++crossed;
        direction = -direction;
        cell += direction;
        return;
      case BoundaryKind::fold_between_rows:
      case BoundaryKind::symmetric:
        ++crossed;
        direction = -direction;
        return;
      default: return;
    }
  }
};

TEST(IndexMap, AgreesWithAWalk) {
  for (const BoundaryKind kind :
       {BoundaryKind::constant, BoundaryKind::periodic, BoundaryKind::reflect,
        BoundaryKind::symmetric, BoundaryKind::clamp, BoundaryKind::fold_on_row,
        BoundaryKind::fold_between_rows}) {
    const bool needs_two = kind == BoundaryKind::reflect || kind == BoundaryKind::fold_on_row;
    for (index_t n = needs_two ? 2 : 1; n <= 6; ++n) {
      for (const int direction : {-1, 1}) {
        Walker walker{kind, n, direction < 0 ? 0 : n - 1, direction};
        index_t g = walker.cell;
        for (int steps = 0; steps < 50; ++steps, g += direction, walker.step()) {
          const Image image = shard::image_of(kind, g, n);
          const bool beyond = g < 0 || g >= n;
          ASSERT_EQ(image.constant, beyond && kind == BoundaryKind::constant);
          if (image.constant) continue;
          ASSERT_EQ(image.source, walker.cell)
              << "kind " << static_cast<int>(kind) << ", g " << g << ", n " << n;
          ASSERT_EQ(image.crossed, walker.crossed)
              << "kind " << static_cast<int>(kind) << ", g " << g << ", n " << n;
        }
      }
    }
  }
}

/// A statement of a model's code, from indices of a row that it fills to those that it reads:
/// column i takes from a - i (modulo the number of columns), row last + j from last + b - j, where
/// `last` is the last row of the field; from j = `first` on.
struct Statement {
  const char* model;
  shard::Pivot pivot;
  At at;
  int a, b, first;
};

/// Read in NEMO's lbc_nfd (T and F pivot, its columns without the two that overlap, its rows
/// without the last one, which is halo), in CICE's and POP's ice_boundary (u fold and T fold, i
/// from 1), and in Oceananigans' fold_north (faces to the west and south, i from 1); all with
/// columns and rows from 0.
constexpr Statement statements[] = {
    {"NEMO T", shard::Pivot::t_point, At::centre, 0, 0, 1},
    {"NEMO T", shard::Pivot::t_point, At::east, -1, 0, 1},
    {"NEMO T", shard::Pivot::t_point, At::north, 0, -1, 0},
    {"NEMO T", shard::Pivot::t_point, At::north_east, -1, -1, 0},
    {"NEMO F", shard::Pivot::f_point, At::centre, -1, 1, 1},
    {"NEMO F", shard::Pivot::f_point, At::east, -2, 1, 1},
    {"NEMO F", shard::Pivot::f_point, At::north, -1, 0, 1},
    {"NEMO F", shard::Pivot::f_point, At::north_east, -2, 0, 1},
    {"CICE tripoleT", shard::Pivot::t_point, At::centre, 2 - 2, 0, 1},
    {"CICE tripoleT", shard::Pivot::t_point, At::north_east, 1 - 2, -1, 0},
    {"CICE tripole", shard::Pivot::f_point, At::centre, 1 - 2, 1, 1},
    {"CICE tripole", shard::Pivot::f_point, At::north_east, 0 - 2, 0, 1},
    {"Oceananigans F", shard::Pivot::f_point, At::centre, 1 - 2, 1, 1},
    {"Oceananigans F", shard::Pivot::f_point, At::west, 2 - 2, 1, 1},
    {"Oceananigans F", shard::Pivot::f_point, At::south, 1 - 2, 0, 1},
    {"Oceananigans F", shard::Pivot::f_point, At::south_west, 2 - 2, 0, 1},
    {"Oceananigans U", shard::Pivot::u_point, At::centre, 1 - 2, 0, 1},
    {"Oceananigans U", shard::Pivot::u_point, At::west, 2 - 2, 0, 1},
    {"Oceananigans U", shard::Pivot::u_point, At::south, 1 - 2, 1, 1},
    {"Oceananigans U", shard::Pivot::u_point, At::south_west, 2 - 2, 1, 1},
};

template <shard::Pivot P, At Position>
shard::BoundarySide folded() {
  return shard::impl::BoundaryTraits<shard::NorthFold<1, P, Position>>::high;
}
template <shard::Pivot P>
shard::BoundarySide folded(At position) {
  switch (position) {
    case At::centre: return folded<P, At::centre>();
    case At::east: return folded<P, At::east>();
    case At::north: return folded<P, At::north>();
    case At::north_east: return folded<P, At::north_east>();
    case At::west: return folded<P, At::west>();
    case At::south: return folded<P, At::south>();
    case At::south_west: return folded<P, At::south_west>();
  }
  return {};
}

TEST(IndexMap, NorthFoldsAreThoseOfOceanModels) {
  for (const Statement& s : statements)
    for (const index_t columns : {9, 10})
      for (const index_t rows : {5, 8}) {
        const auto side    = s.pivot == shard::Pivot::t_point ? folded<shard::Pivot::t_point>(s.at)
                             : s.pivot == shard::Pivot::u_point ? folded<shard::Pivot::u_point>(s.at)
                                                                : folded<shard::Pivot::f_point>(s.at);
        const index_t last = rows - 1;
        for (index_t j = s.first; j < 4; ++j) {
          const Image image = shard::image_of(side.kind, last + j, rows);
          ASSERT_EQ(image.source, last + s.b - j) << s.model;
          ASSERT_EQ(image.crossed, 1) << s.model;
          for (index_t i = 0; i < columns; ++i)
            ASSERT_EQ(shard::longitude_across(side, i, columns), (s.a - i + 2 * columns) % columns)
                << s.model << ", column " << i;
        }
        // each point of a row on the fold is a copy or the source of one, or a pivot
        std::set<index_t> distinct;
        index_t pivots = 0, copies = 0;
        const auto in = shard::copied_longitudes(side, columns);
        for (index_t i = 0; i < columns; ++i) {
          const index_t other = shard::longitude_across(side, i, columns);
          const bool copy     = shard::is_copy(side, i, columns);
          ASSERT_EQ(shard::longitude_across(side, other, columns), i);
          ASSERT_EQ(copy,
                    (i >= in.begin[0] && i < in.end[0]) || (i >= in.begin[1] && i < in.end[1]));
          copies += copy ? 1 : 0;
          pivots += other == i ? 1 : 0;
          distinct.insert(std::min(i, other));
        }
        if (side.kind != BoundaryKind::north_on_row) continue;
        ASSERT_EQ(copies, (columns - pivots) / 2) << s.model;
        ASSERT_EQ(static_cast<index_t>(distinct.size()), columns - copies) << s.model;
      }
}

TEST(IndexMap, NorthFoldsAreTotal) {
  // up to the fold, back to row 0, which is repeated, and up again
  for (const auto& [kind, sum] :
       {std::pair{BoundaryKind::north_between_rows, 7}, std::pair{BoundaryKind::north_on_row, 6},
        std::pair{BoundaryKind::north_before_row, 5}}) {
    const index_t n = 4;
    std::vector<index_t> way;
    std::vector<index_t> crossed;
    for (index_t row = 0; 2 * row <= sum; ++row) way.push_back(row), crossed.push_back(0);
    for (index_t row = sum - static_cast<index_t>(way.size()); row >= 0; --row)
      way.push_back(row), crossed.push_back(1);
    for (index_t g = 0; g < 40; ++g) {
      const auto turn   = g / static_cast<index_t>(way.size()),
                 place  = g % static_cast<index_t>(way.size());
      const Image image = shard::image_of(kind, g, n);
      ASSERT_EQ(image.source, way[static_cast<std::size_t>(place)]) << g;
      ASSERT_EQ(image.crossed, 2 * turn + crossed[static_cast<std::size_t>(place)]) << g;
    }
  }
}

TEST(IndexMap, IndicesInsideAreTheirOwnImage) {
  for (index_t g = 0; g < 5; ++g) {
    const Image image = shard::image_of(BoundaryKind::fold_on_row, g, 5);
    EXPECT_EQ(image.source, g);
    EXPECT_EQ(image.crossed, 0);
    EXPECT_FALSE(image.constant);
  }
}

TEST(IndexMap, IsUsableInConstantExpressions) {
  static_assert(shard::image_of(BoundaryKind::reflect, -1, 4).source == 1);
  static_assert(shard::image_of(BoundaryKind::symmetric, 4, 4).source == 3);
  static_assert(shard::image_of(BoundaryKind::periodic, -1, 4).source == 3);
}

}  // namespace
