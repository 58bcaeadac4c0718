// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 64^3 and 128^3 with 1, 4 and 8 fields: faces in one piece, in short runs, and strided.
#include "subject.hpp"

namespace halo {

void add_cubes(std::vector<Case>& cases, int ranks) {
  for (const index_t n : {64, 128}) {
    const std::array<index_t, 3> cube{n, n, n};
    add_all<double, Right>(cases, ranks, cube, just_1, Numbers<1, 4, 8>{}, Numbers<0>{});
    add_all<double, Right>(cases, ranks, cube, up_to_5, just_1, Numbers<1, 2>{});
    add_all<double, Right>(cases, ranks, cube, just_1, Numbers<4, 8>{}, Numbers<1>{});
    add_all<double, Right>(cases, ranks, cube, just_1, Numbers<8>{}, Numbers<2>{});
    add_all<float, Right>(cases, ranks, cube, just_1, just_1, Numbers<1, 2>{});
    add_all<double, Left>(cases, ranks, cube, just_1, just_1, Numbers<0, 1>{});
    add<double, Right, 3, 1, 1>(cases, cube, Cut<1, 2>{}, {ranks, 1});
    add<double, Right, 3, 1, 1>(cases, cube, Cut<1, 2>{}, {1, ranks});
    add<float, Right, 3, 3, 4>(cases, cube, Cut<0>{}, {ranks});
    add<double, Right, 3, 5, 8>(cases, cube, Cut<1>{}, {ranks});
    if (ranks > 2 && ranks % 2 == 0) {
      add<double, Right, 3, 1, 1>(cases, cube, Cut<1, 2>{}, {2, ranks / 2});
      add<double, Right, 3, 1, 4>(cases, cube, Cut<0, 1>{}, {2, ranks / 2});
    }
  }
}

}  // namespace halo
