// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// image_of against a walk: from the edge cell outwards, one step at a time.
#include "shard/view/index_map.hpp"

#include <gtest/gtest.h>

namespace {

using shard::BoundaryKind;
using shard::Image;
using shard::index_t;

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
      case BoundaryKind::fold_on_row: ++crossed; [[fallthrough]];
      case BoundaryKind::reflect:
        direction = -direction;
        cell += direction;
        return;
      case BoundaryKind::fold_between_rows: ++crossed; [[fallthrough]];
      case BoundaryKind::symmetric: direction = -direction; return;
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
